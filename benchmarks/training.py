"""Training throughput: ``train`` against a bare torch loop on the same pictures, already tensors in memory.

In one run, on the same network, batch size, threads and pictures: the bare loop does nothing but forward, loss,
backward and step on batches that were made before the clock started; ``train`` decodes, crops, flips and jitters the
pictures, counts loss and accuracy, and writes its checkpoints and log. Rounds follow one another, so that a busy
machine slows both; figures are medians of the rounds, and what is to be trusted is their ratio. The first round, in
which pictures are decoded rather than taken from memory, is shown apart. The time of the processor, over all threads,
tells what the rest costs where both cores are busy with other things.

    python benchmarks/training.py
    python benchmarks/training.py --network resnet18 --pictures 128 --batch 32 --rounds 3
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from laplacianshot.datasets.pictures import Pictures, open_pictures
from laplacianshot.embedding import build_network
from laplacianshot.embedding.pictures import batches
from laplacianshot.episodes.evaluation import validation_score
from laplacianshot.runtime.threads import available_threads
from laplacianshot.training import TrainConfig, train
from laplacianshot.training.plan import train_view
from laplacianshot.training.trainer import smoothed_cross_entropy

CLASSES = 20


def make_pictures(path: Path, n: int, size: int) -> Pictures:
    """A bundle of JPEG files with ellipses on noise, a color for each class."""
    rng = np.random.default_rng(0)
    colors = rng.integers(0, 255, (CLASSES, 3))
    labels = np.arange(n) % CLASSES
    files = []
    for label in labels:
        picture = Image.fromarray(rng.integers(0, 255, (size // 4, size // 4, 3), dtype=np.uint8)).resize((size, size))
        left, top = rng.integers(0, size // 2, 2).tolist()
        box = (left, top, left + size // 2, top + size // 3)
        ImageDraw.Draw(picture).ellipse(box, fill=tuple(colors[label].tolist()))
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=90)
        files.append(np.frombuffer(file.getvalue(), dtype=np.uint8))
    offsets = np.cumsum([0, *map(len, files)])
    names = np.array([f"class {c}" for c in range(CLASSES)])
    np.savez(
        path, jpeg_bytes=np.concatenate(files), offsets=offsets, labels=labels, class_names=names,
        split=np.full(n, "base"),
    )  # fmt: skip
    return open_pictures("cub84", path)


def bare_epoch(config: TrainConfig, ready: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[float, float]:
    """Seconds of one epoch of the loop that everybody writes, by the clock and of the processor."""
    torch.manual_seed(0)
    network = build_network(config.network, CLASSES, in_channels=config.channels, image_size=config.image_size)
    network.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(
        network.parameters(), lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )
    start, spent = time.perf_counter(), time.process_time()
    for images, labels in ready:
        optimizer.zero_grad()
        _, logits = network(images)
        loss = smoothed_cross_entropy(logits, labels, config.label_smoothing) / len(labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return time.perf_counter() - start, time.process_time() - spent


def measure(config: TrainConfig, pictures: Pictures, rounds: int, folder: Path) -> dict[str, Any]:
    """Images a second of both, and of ``train`` with everything around its epoch."""
    ready = [
        (batch.images, batch.labels)
        for batch in batches(pictures, pictures.rows("base"), train_view(config), config.batch_size)
    ]
    # For the first round of train to decode as a new process would.
    pictures = open_pictures("cub84", folder / "cub84.npz")
    n = sum(len(labels) for _, labels in ready)
    bare, ours, whole, work = [], [], [], []
    bare_epoch(config, ready[:2])
    for number in range(rounds + 1):
        before = bare_epoch(config, ready)
        start, spent = time.perf_counter(), time.process_time()
        result = train(config, pictures, folder / f"round {number}", score=validation_score)
        spent = time.process_time() - spent
        whole.append(n / (time.perf_counter() - start))
        ours.append(result.history[0].images_per_second)
        after = bare_epoch(config, ready)
        # The bare loop before and after: what slows the machine for a while slows both.
        bare.append(2 * n / (before[0] + after[0]))
        work.append(2 * spent / (before[1] + after[1]))
    ratios = np.array(ours) / np.array(bare)
    return {
        "network": config.network,
        "image size": config.image_size,
        "batch": config.batch_size,
        "pictures": n,
        "threads": config.threads,
        "bare, images/s": float(np.median(bare[1:])),
        "train, images/s": float(np.median(ours[1:])),
        "train with start and end, images/s": float(np.median(whole[1:])),
        "train / bare": float(np.median(ratios[1:])),
        "all ratios": [round(float(ratio), 3) for ratio in ratios[1:]],
        "train / bare, decoding": float(ratios[0]),
        "work of train / bare, all included": float(np.median(work[1:])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="conv4")
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=TrainConfig().workers)
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    config = TrainConfig(
        dataset="cub84",
        network=options.network,
        image_size=options.size,
        resize=options.size,
        batch_size=options.batch,
        epochs=1,
        learning_rate=0.01,
        validation_split="",
        threads=options.threads,
        workers=options.workers,
        device="cpu",
    )
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        pictures = make_pictures(Path(name) / "cub84.npz", options.pictures, options.size)
        found = measure(config, pictures, options.rounds, Path(name))
    for key, value in found.items():
        print(f"{key:36} {value:,.3f}" if isinstance(value, float) else f"{key:36} {value}")
    print(f"train runs at {100 * found['train / bare']:.1f}% of the bare loop; wanted: at least 90%.")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
