"""Kill ``laplacianshot label`` at random moments and see that every run still ends with the same files.

Pictures are drawn (scikit-learn's digits as PNG files), labeled once without a kill for reference. Then, ``--kills``
times: a fresh cache and no output; the command is started and killed with SIGKILL after a random share of the time that
the reference took, until it has been killed once; what lies at the output must be nothing or the whole reference; then
the command runs to its end and must give the reference, byte for byte.

    python benchmarks/labeling/kills.py --kills 50
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from rich.progress import track
from sklearn.datasets import load_digits


def draw_pictures(folder: Path, count: int) -> Path:
    """``count`` digits as files, and labels of two of each class."""
    pixels, digits = load_digits(return_X_y=True)
    (folder / "pictures").mkdir()
    given: list[tuple[str, str]] = []
    for i in range(count):
        picture = Image.fromarray((pixels[i].reshape(8, 8) * 15.9).astype(np.uint8)).resize((96, 96))
        picture.save(folder / "pictures" / f"{i:04}.png")
        if sum(name == f"digit {digits[i]}" for _, name in given) < 2:
            given.append((f"{i:04}.png", f"digit {digits[i]}"))
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "label"), *given])
    return folder / "pictures"


def start(folder: Path, cache: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "laplacianshot", "label", str(folder / "pictures"), "--labels"]
    command += [str(folder / "labels.csv"), "-o", str(out), "--suggest", "5", "--export", "label-studio"]
    environment = {**os.environ, "LAPLACIANSHOT_CACHE": str(cache)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(run: subprocess.Popen[bytes]) -> None:
    _, errors = run.communicate(timeout=600)
    if run.returncode != 0:
        raise SystemExit(f"the command failed: {errors.decode()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw_pictures(folder, args.pictures)
        # Once to make the encoder, which is kept and copied to every cache; once for the time and the reference.
        made, warm = folder / "made", folder / "warm"
        finish(start(folder, made, folder / "first.csv"))
        shutil.rmtree(made / "vectors")
        shutil.copytree(made, warm)
        begun = time.perf_counter()
        finish(start(folder, warm, folder / "reference.csv"))
        whole = time.perf_counter() - begun
        endings = (".csv", ".label-studio.json")
        reference = [(folder / f"reference{ending}").read_bytes() for ending in endings]
        stages = {"before any output": 0, "after the output": 0}
        for number in track(range(args.kills), "Kills"):
            cache, out = folder / f"cache-{number}", folder / f"out-{number}.csv"
            # Every fifth run has to make the encoder too.
            if number % 5:
                shutil.copytree(made, cache)
            run = start(folder, cache, out)
            time.sleep(dice.random() * whole * (1.0 if number % 5 else 1.5))
            run.kill()
            run.communicate()
            for ending, expected in zip(endings, reference, strict=True):
                there = out.with_suffix("").with_name(out.stem + ending)
                if there.exists() and there.read_bytes() != expected:
                    raise SystemExit(f"kill {number}: {there.name} is there and not whole")
            stages["after the output" if out.exists() else "before any output"] += 1
            finish(start(folder, cache, out))
            for ending, expected in zip(endings, reference, strict=True):
                if out.with_name(out.stem + ending).read_bytes() != expected:
                    raise SystemExit(f"kill {number}: the run that followed gave another {ending}")
            shutil.rmtree(cache)
        print(f"{args.kills} kills, a run takes {whole:.1f} s: {stages}; every run ended with the same files.")


if __name__ == "__main__":
    main()
