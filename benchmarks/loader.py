"""What loading pictures costs: the loader alone, and in Conv4's training beside a bare loop on ready tensors.

In each round, one after another on the same pictures: the loader alone with nothing, one and two threads; the bare
training loop (forward, backward, SGD step) on tensors that are there already; the same loop fed by the loader. The
decoded pictures are in memory from the second epoch on, as they are in training; the first epoch, which decodes them,
is timed apart. Other work on the machine slows all of a round, so what is to be trusted is a ratio within rounds;
figures are medians. CPU time of the whole process is given too: on few cores the loader takes it from the network.

    python benchmarks/loader.py                                   # made-up JPEG files of 84 pixels
    python benchmarks/loader.py --dataset cub84 --data DIR --output docs/assets/loader.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from laplacianshot.datasets.pictures import Pictures, open_pictures
from laplacianshot.embedding import build_network
from laplacianshot.embedding.pictures import TrainView, batches
from laplacianshot.embedding.pictures.views import epoch_order

SIZE, CLASSES = 84, 16


def made_up(folder: Path, count: int, width: int, height: int) -> Pictures:
    """JPEG files of smooth noise, which compress as photographs do."""
    rng = np.random.default_rng(0)
    for i in range(count):
        path = folder / f"{i % CLASSES:02d}" / f"{i:05d}.jpg"
        path.parent.mkdir(exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8))
        coarse.resize((width, height), Image.Resampling.BICUBIC).save(path, quality=90)
    return open_pictures("folder", folder)


class Clock:
    """Milliseconds a picture, of the wall and of the CPU, for each kind of run."""

    def __init__(self, pictures: int) -> None:
        self._pictures = pictures
        self.wall: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def time(self, name: str, run: Callable[[], None]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        self.wall.setdefault(name, []).append(1e3 * (time.perf_counter() - wall) / self._pictures)
        self.cpu.setdefault(name, []).append(1e3 * (time.process_time() - cpu) / self._pictures)

    def summary(self, bare: str) -> dict[str, Any]:
        def over_bare(times: dict[str, list[float]], name: str) -> float:
            return statistics.median(a / b for a, b in zip(times[name], times[bare], strict=False))

        return {
            name: {
                "wall_ms": statistics.median(wall),
                "cpu_ms": statistics.median(self.cpu[name]),
                "wall_over_bare": over_bare(self.wall, name),
                "cpu_over_bare": over_bare(self.cpu, name),
            }
            for name, wall in self.wall.items()
        }


def trainer(n_classes: int) -> Callable[[Iterable[tuple[torch.Tensor, torch.Tensor]]], None]:
    """A bare training loop of Conv4."""
    torch.manual_seed(0)
    network = build_network("conv4", n_classes)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def train(loader: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss_of(network(images)[1], labels).backward()
            optimizer.step()

    return train


def measure(pictures: Pictures, batch: int, rounds: int, workers: list[int]) -> dict[str, Any]:
    view = TrainView(size=SIZE)
    rows = np.arange(len(pictures))

    def load(epoch: int, threads: int) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        order = rows[epoch_order(0, epoch, len(rows))]
        made = batches(pictures, order, view, batch, epoch=epoch, workers=threads)
        return ((part.images, part.labels) for part in made)

    def drain(epoch: int, threads: int) -> None:
        for _ in load(epoch, threads):
            pass

    # Kernels are compiled outside the clock.
    view(pictures, rows[:1])
    train = trainer(pictures.n_classes)
    clock = Clock(len(pictures))
    first = Clock(len(pictures))
    first.time("first epoch, which decodes", lambda: drain(0, 0))
    ready = list(load(0, 0))
    train(ready[:1])
    for number in range(rounds):
        epoch = number + 1
        for threads in workers:
            clock.time(f"loader alone, {threads} threads", lambda t=threads, e=epoch: drain(e, t))  # type: ignore[misc]
        clock.time("bare loop", lambda: train(ready))
        for threads in workers:
            clock.time(f"loop with {threads} threads", lambda t=threads, e=epoch: train(load(e, t)))  # type: ignore[misc]
    result = clock.summary("bare loop")
    result["first epoch, which decodes"] = {
        "wall_ms": first.wall["first epoch, which decodes"][0],
        "cpu_ms": first.cpu["first epoch, which decodes"][0],
    }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cub84", help="with --data: a data set that the package reads")
    parser.add_argument("--data", type=Path, help="folder of the data set; made-up pictures without it")
    parser.add_argument("--pictures", type=int, default=512, help="how many are used")
    parser.add_argument("--width", type=int, default=84, help="of made-up pictures")
    parser.add_argument("--height", type=int, default=84, help="of made-up pictures")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        if options.data is None:
            pictures = made_up(Path(folder), options.pictures, options.width, options.height)
        else:
            whole = open_pictures(options.dataset, options.data).select("base")
            chosen = np.linspace(0, len(whole) - 1, min(options.pictures, len(whole))).astype(np.int64)
            part = np.full(len(whole), "left out")
            part[chosen] = "used"
            pictures = whole.with_split(part).select("used")
        results = measure(pictures, options.batch, options.rounds, options.workers)
    print(f"{len(pictures)} pictures, batches of {options.batch}, torch with {options.threads} threads, medians of")
    print(f"{options.rounds} rounds; milliseconds a picture, and ratios to the bare loop of the same round\n")
    print(f"{'':28s} {'wall ms':>9s} {'CPU ms':>9s} {'wall ratio':>11s} {'CPU ratio':>10s}")
    for name, row in results.items():
        line = f"{name:28s} {row['wall_ms']:9.3f} {row['cpu_ms']:9.3f}"
        if "wall_over_bare" in row:
            line += f" {row['wall_over_bare']:11.3f} {row['cpu_over_bare']:10.3f}"
        print(line)
    if options.output is not None:
        settings = {key: str(value) for key, value in vars(options).items() if key not in ("output", "data")}
        options.output.write_text(json.dumps({"settings": settings, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
