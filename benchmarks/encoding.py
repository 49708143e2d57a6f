"""What reading and keeping cost beside the network: items a second of encode_items and of bare ONNX Runtime sessions.

In each round, one after another on the same items: a bare session fed ready arrays, as one call on all threads and as
one call a thread, in batches and in the runs that our encoder makes of them; encode_items from files (or texts) into an
empty cache, and again from it.
Other work on the machine slows all of a round, so what is to be trusted is a ratio within rounds; figures are medians.
The CPU time of the process is given too.

    python benchmarks/encoding.py                                      # photographs of scikit-learn, 500 x 375
    python benchmarks/encoding.py --bundle cub84.npz                   # JPEG files of 84 pixels, unpacked
    python benchmarks/encoding.py --texts train.csv                    # the column text
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image
from sklearn.datasets import load_sample_images

from laplacianshot.datasets.decoding import decode
from laplacianshot.embedding.encoders import Encoder, open_encoder
from laplacianshot.embedding.encoders.preparing import runs_of_equal_length
from laplacianshot.embedding.encoding import encode_items
from laplacianshot.runtime.threads import available_threads


class Folder:
    """Pictures in the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._paths = sorted(folder.iterdir())

    def __len__(self) -> int:
        return len(self._paths)

    def file(self, i: int) -> Path | None:
        return self._paths[i]

    def content_hash(self, i: int) -> bytes:
        return hashlib.blake2b(self._paths[i].read_bytes(), digest_size=16).digest()

    def load(self, i: int) -> Any:
        return decode(self._paths[i], self._paths[i].name)


class Texts:
    """Texts in memory."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def file(self, i: int) -> Path | None:
        return None

    def content_hash(self, i: int) -> bytes:
        return hashlib.blake2b(self._texts[i].encode(), digest_size=16).digest()

    def load(self, i: int) -> Any:
        return self._texts[i]


def photographs(folder: Path, count: int, width: int, height: int) -> None:
    """JPEG files cut from scikit-learn's two photographs, each at another place."""
    rng = np.random.default_rng(0)
    wholes = [Image.fromarray(image) for image in load_sample_images().images]
    for i in range(count):
        whole = wholes[i % 2]
        share = rng.uniform(0.6, 1)
        w, h = share * whole.width, share * whole.width * height / width
        if h > whole.height:
            w, h = w * whole.height / h, whole.height
        left, top = rng.uniform(0, whole.width - w), rng.uniform(0, whole.height - h)
        cut = whole.resize((width, height), Image.Resampling.BICUBIC, box=(left, top, left + w, top + h))
        cut.save(folder / f"{i:05d}.jpg", quality=90)


def unpack(bundle: Path, folder: Path, count: int) -> None:
    """The first JPEG files of a bundle."""
    with np.load(bundle, allow_pickle=False) as arrays:
        content, offsets = arrays["jpeg_bytes"], arrays["offsets"]
    for i in np.linspace(0, len(offsets) - 2, count).astype(int):
        (folder / f"{i:05d}.jpg").write_bytes(content[offsets[i] : offsets[i + 1]].tobytes())


def bare_session(encoder: Any, threads: int) -> Callable[[Any], Any]:
    """A session without anything around it, on so many threads a call."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(encoder.file), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: session.run(None, {name: batch})[0]


def ready_runs(encoder: Encoder, items: Any, batch: int) -> list[Any]:
    """What the network reads, all of it in memory: at most ``batch`` pictures, or texts of equal length, a run."""
    prepared = [encoder.prepare(items.load(i)) for i in range(len(items))]
    if encoder.kind == "pictures":
        return [np.stack(prepared[start : start + batch]) for start in range(0, len(prepared), batch)]
    parts = [prepared[start : start + encoder.batch_size] for start in range(0, len(prepared), encoder.batch_size)]
    return [np.stack([part[place] for place in places]) for part in parts for places in runs_of_equal_length(part)]


class Clock:
    """Items a second, and CPU milliseconds an item, for each kind of run."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.rates: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def time(self, name: str, run: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        self.rates.setdefault(name, []).append(self._count / (time.perf_counter() - wall))
        self.cpu.setdefault(name, []).append(1e3 * (time.process_time() - cpu) / self._count)

    def summary(self) -> dict[str, dict[str, float]]:
        bare = [rates for name, rates in self.rates.items() if name.startswith("bare")]
        best = [max(rates) for rates in zip(*bare, strict=True)]
        return {
            name: {
                "rate": statistics.median(rates),
                "cpu_ms": statistics.median(self.cpu[name]),
                "over_first": statistics.median(a / b for a, b in zip(rates, bare[0], strict=True)),
                "over_best": statistics.median(a / b for a, b in zip(rates, best, strict=True)),
            }
            for name, rates in self.rates.items()
        }


def measure(encoder: Any, items: Any, rounds: int, threads: int) -> dict[str, dict[str, float]]:
    one_call, calls = bare_session(encoder, threads), bare_session(encoder, 1)
    clock = Clock(len(items))

    def in_turn(runs: list[Any]) -> None:
        for run in runs:
            one_call(run)

    def at_once(runs: list[Any]) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(calls, runs))

    sizes = (encoder.batch_size, 1) if encoder.kind == "pictures" else (0,)
    bare: list[tuple[str, Callable[[], object]]] = []
    for size in sizes:
        runs = ready_runs(encoder, items, size)
        what = f", batches of {size}" if size else ""
        bare.append((f"bare, one call on {threads} threads{what}", partial(in_turn, runs)))
        bare.append((f"bare, {threads} calls at once{what}", partial(at_once, runs)))
        in_turn(runs[:2])
        at_once(runs[:2])
    encoder.encode([encoder.prepare(items.load(0))])
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            order: list[tuple[str, Callable[[], object]]]
            order = [*bare, ("encode_items", partial(encode_items, items, encoder, cache))]
            # Another one first each time: nobody always follows the same.
            turn = number % len(order)
            for name, run in [*order[turn:], *order[:turn]]:
                clock.time(name, run)
            clock.time("encode_items, cached", partial(encode_items, items, encoder, cache))
    order_of_rows = [*(name for name, _ in bare), "encode_items", "encode_items, cached"]
    clock.rates = {name: clock.rates[name] for name in order_of_rows}
    return clock.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help=".npz with jpeg_bytes and offsets")
    parser.add_argument("--folder", type=Path, help="pictures of your own, not nested")
    parser.add_argument("--texts", type=Path, help=".csv with a column text")
    parser.add_argument("--items", type=int, default=512, help="how many are used")
    parser.add_argument("--width", type=int, default=500, help="of photographs")
    parser.add_argument("--height", type=int, default=375, help="of photographs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    encoder = open_encoder(None, "texts" if options.texts else "pictures", threads=options.threads)
    with tempfile.TemporaryDirectory() as name:
        items: Any
        if options.texts:
            rows = csv.DictReader(io.StringIO(options.texts.read_text(encoding="utf-8"), newline=""))
            items = Texts([row["text"] for row in rows][: options.items])
        else:
            folder = options.folder or Path(name)
            if options.bundle:
                unpack(options.bundle, folder, options.items)
            elif not options.folder:
                photographs(folder, options.items, options.width, options.height)
            items = Folder(folder)
        results = measure(encoder, items, options.rounds, options.threads)
    print(f"{encoder.name}: {len(items)} items, {options.threads} threads, medians of {options.rounds} rounds;")
    print("items a second, CPU milliseconds an item, and ratios of rates within rounds to bare sessions\n")
    print(f"{'':42s} {'items/s':>9s} {'CPU ms':>8s} {'to first':>9s} {'to best':>8s}")
    for name, row in results.items():
        line = f"{name:42s} {row['rate']:9.1f} {row['cpu_ms']:8.2f}"
        print(line if "cached" in name else f"{line} {row['over_first']:9.3f} {row['over_best']:8.3f}")
    if options.output is not None:
        options.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
