"""Pictures of the studio for the documentation: a real studio, a real browser, labels given as a person gives them.

The digits demo (light and dark), a folder of pictures (light and dark) and a short animation of the digits, all on data
that scikit-learn brings: its digits, and pieces cut from its two photographs. Needs chromium and the extra ``test``.

    python benchmarks/studio/screenshots.py --output docs/assets
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page
from sklearn.datasets import load_digits, load_sample_images
from studio.browsing import chromium, opened, settled, until
from studio.serving import Studio, studio

DIGITS = load_digits().target
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WINDOW, SMALL = (1440, 900), (1280, 800)
FILM = (960, 600)
# Milliseconds of a frame of the animation, and of the last one.
FRAME, LAST = 110, 2500
PIECE = 72

Truth = Callable[[str], str]


def cut_pictures(folder: Path, each: int = 27, seed: int = 0) -> dict[str, str]:
    """Pieces of scikit-learn's two photographs as files; gives what each shows."""
    rng = np.random.default_rng(seed)
    china, flower = load_sample_images().images
    # Where in the photograph a piece begins: rows from, to and columns from, to.
    regions = {
        "sky": (china, 0, 60, 250, 560),
        "temple": (china, 150, 230, 60, 260),
        "lawn": (china, 330, 355, 0, 560),
        "petals": (flower, 90, 240, 180, 330),
        "leaves": (flower, 0, 330, 480, 560),
    }
    truth = {}
    numbers = iter(rng.choice(10**6, each * len(regions), replace=False))
    for name, (photograph, top, bottom, left, right) in regions.items():
        for _ in range(each):
            y, x = int(rng.integers(top, bottom)), int(rng.integers(left, right))
            piece = photograph[y : y + PIECE, x : x + PIECE]
            piece = piece[:, ::-1] if rng.random() < 0.5 else piece
            bright = np.clip(piece * rng.uniform(0.8, 1.15), 0, 255).astype(np.uint8)
            truth[f"IMG_{next(numbers):06d}.jpg"] = name
            Image.fromarray(bright).save(folder / next(reversed(truth)), quality=92)
    return truth


def asked(page: Page, old: str = "") -> str:
    """Name of the item that is asked about, once it is another."""
    until(page, "(old) => ![undefined, '', old].includes(document.querySelector('#verdict .id')?.textContent)", old)
    return page.locator("#verdict .id").text_content() or ""


def label(page: Page, truth: Truth, n: int, after: Callable[[], None] = lambda: None) -> None:
    """Label what the queue asks for, by name the first time and by key from then on."""
    name = ""
    for _ in range(n):
        name = asked(page, name)
        wanted = truth(name)
        known = page.locator(".class-row bdi").all_text_contents()
        if wanted in known:
            place = known.index(wanted)
            if place < 9:
                page.keyboard.press(str(place + 1))
            else:
                page.locator(".choice", has_text=wanted).click()
        else:
            page.locator("#name-it").fill(wanted)
            after()
            page.locator("#name-it").press("Enter")
            until(
                page,
                "(name) => [...document.querySelectorAll('.class-row bdi')].some((node) => node.textContent === name)",
                wanted,
            )
            page.locator("#name-it").press("Escape")
        after()
        settled(page)


def keep(page: Page, path: Path) -> None:
    page.mouse.move(0, 0)
    page.wait_for_timeout(6500)  # until messages are gone
    until(page, "() => [...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    # Photographs need a format that may lose something; text and flat panels do not.
    shot.save(path, **({"quality": 88, "method": 6} if path.suffix == ".webp" else {"optimize": True}))
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def picture_both(browser: Browser, server: Studio, prepare: Callable[[Page], None], where: str) -> None:
    for shade in ("light", "dark"):
        page = opened(browser, server, WINDOW, dark=shade == "dark")
        settled(page)
        prepare(page)
        keep(page, Path(where.format(shade)))
        page.context.close()


def animate(browser: Browser, server: Studio, truth: Truth, path: Path) -> None:
    """The first labels of the digits: each colors the map at once."""
    page = opened(browser, server, SMALL, still=False)
    settled(page)
    frames: list[Any] = []

    def film(n: int = 1) -> None:
        frames.extend(Image.open(io.BytesIO(page.screenshot())).convert("RGB") for _ in range(n))

    film(4)
    label(page, truth, 12, after=lambda: film(5))
    label(page, truth, 14, after=lambda: film(2))
    film(3)
    page.get_by_role("tab", name="Gallery").click()
    page.wait_for_timeout(500)
    film(6)
    for _ in range(6):
        page.locator("#gallery").evaluate("node => node.scrollBy(0, 130)")
        film()
    page.get_by_role("tab", name="Map").click()
    page.wait_for_timeout(300)
    film(2)
    small = [frame.resize(FILM, Image.Resampling.LANCZOS) for frame in frames]
    times = [FRAME] * (len(small) - 1) + [LAST]
    small[0].save(path, save_all=True, append_images=small[1:], duration=times, loop=0, quality=68, method=4)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB, {len(small)} frames")
    page.context.close()


def digit(name: str) -> str:
    return WORDS[int(DIGITS[int(name.removeprefix("digit-"))])]


def picture_digits(browser: Browser, folder: Path, output: Path) -> None:
    with studio(["--demo"], folder / "digits") as server:
        page = opened(browser, server, WINDOW)
        settled(page)
        label(page, digit, 24)
        page.context.close()
        picture_both(browser, server, lambda page: None, f"{output}/studio-{{}}.png")


def animate_digits(browser: Browser, folder: Path, output: Path) -> None:
    with studio(["--demo"], folder / "animation") as server:
        animate(browser, server, digit, output / "studio.webp")


def picture_folder(browser: Browser, folder: Path, output: Path) -> None:
    pictures = folder / "photographs"
    pictures.mkdir()
    shown = cut_pictures(pictures)
    with studio([str(pictures)], folder / "pictures") as server:
        page = opened(browser, server, WINDOW)
        settled(page)
        label(page, shown.__getitem__, 12)
        page.context.close()

        def gallery(page: Page) -> None:
            page.get_by_role("tab", name="Gallery").click()
            page.get_by_label("Size of the items").fill("64")

        picture_both(browser, server, gallery, f"{output}/studio-folder-{{}}.webp")


PARTS = {"digits": picture_digits, "animation": animate_digits, "folder": picture_folder}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/assets"))
    parser.add_argument("--only", choices=PARTS, help="One of the parts alone.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, chromium() as browser:
        for name, make in PARTS.items():
            if options.only in (None, name):
                make(browser, Path(made), options.output)


if __name__ == "__main__":
    main()
