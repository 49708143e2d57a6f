"""Whether the gallery scrolls smoothly: times between frames while it is scrolled, and of a new order.

A real studio on made-up vectors with a few labels of each class, and on the digits, whose pictures are fetched while
they come into sight. Each frame scrolls on by up to a quarter of the window; at 60 frames a second one takes 16.7 ms.
*work* is the processor time of the page's own thread, which a busy machine disturbs least; *tiles* the largest number
of items that were in the page at once; *arrange* the time until the gallery stands in another order; *map* the time
until all items of the map are drawn anew.

    python benchmarks/studio/scrolling.py --items 100000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from playwright.sync_api import Browser, CDPSession
from sklearn.datasets import load_digits
from studio.browsing import chromium, opened, settled
from studio.serving import Studio, made_up, percentiles, studio

WINDOW = (1440, 900)
CLASSES, SHOTS, FRAMES = 20, 3, 300

SCROLL = """async (frames) => {
  const box = document.querySelector("#gallery");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  let tiles = 0;
  const step = Math.min(box.clientHeight / 4, (box.scrollHeight - box.clientHeight) / frames);
  let last = await frame();
  for (let k = 0; k < frames; k++) {
    box.scrollTop += step;
    const now = await frame();
    times.push((now - last) / 1000);
    last = now;
    tiles = Math.max(tiles, box.querySelectorAll(".tile").length);
  }
  return { times, tiles, height: box.scrollHeight };
}"""
ARRANGE = """async (sort) => {
  const { store } = await import("/page/js/store.js");
  const start = performance.now();
  store.show({ sort });
  await Promise.resolve();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return (performance.now() - start) / 1000;
}"""
MAP = """async () => {
  const { store } = await import("/page/js/store.js");
  const start = performance.now();
  store.changed("theme");
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return (performance.now() - start) / 1000;
}"""


def label_some(server: Studio, truth: Any, n_classes: int) -> None:
    with server.client() as client:
        for c in range(n_classes):
            items = np.flatnonzero(truth == c)[:SHOTS].tolist()
            client.post("/api/label", json={"items": items, "name": f"class {c}"}).raise_for_status()


def busy(tools: CDPSession) -> float:
    """Seconds of processor time that the page's main thread has taken for all its tasks."""
    metrics = tools.send("Performance.getMetrics")["metrics"]
    return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


def measure(browser: Browser, server: Studio, name: str, wait: bool) -> None:
    page = opened(browser, server, WINDOW)
    page.get_by_role("tab", name="Gallery").click()
    page.locator(".tile").first.wait_for()
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = busy(tools)
    found = page.evaluate(SCROLL, FRAMES)
    work = (busy(tools) - before) / FRAMES
    print(f"{name}: {found['height']:,} pixels high, at most {found['tiles']} tiles")
    print(f"  frame    {percentiles(found['times'])}")
    print(f"  work     mean   {1e3 * work:7.1f} ms of processor time a frame", flush=True)
    print(
        f"  arrange  {percentiles([page.evaluate(ARRANGE, sort) for sort in ('unsure', 'source', 'sure') * 3])}",
        flush=True,
    )
    # Of many vectors the graph and the map take longer than all else, and the gallery does not wait for them.
    if wait:
        settled(page)
    page.get_by_role("tab", name="Map").click()
    page.wait_for_timeout(500)
    if page.evaluate("async () => (await import('/page/js/store.js')).store.places !== null"):
        print(f"  map      {percentiles([page.evaluate(MAP) for _ in range(9)])}", flush=True)
    page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=32)
    parser.add_argument("--wait", action="store_true", help="For the graph and the map of the vectors, too.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, chromium() as browser:
        folder = Path(made)
        with studio(["--demo"], folder / "digits") as server:
            label_some(server, load_digits().target, 10)
            measure(browser, server, "1,797 pictures", True)
        X, truth = made_up(options.items, options.dimensions, CLASSES)
        np.save(folder / "vectors.npy", X)
        with studio([str(folder / "vectors.npy")], folder / "vectors") as server:
            label_some(server, truth, CLASSES)
            measure(browser, server, f"{options.items:,} vectors", options.wait)


if __name__ == "__main__":
    main()
