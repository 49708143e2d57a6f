"""Small stand-ins for the data that the pages speak of."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from tests.labeling.drawings import draw_folder, first_of_each, write_labels

MESSAGES = {
    "card": ("I lost my card", "my card was stolen", "please block my card", "the card is gone"),
    "transfer": ("the transfer is late", "where is my transfer?", "money sent, not arrived", "cancel the transfer"),
}


def vectors(n: int = 400, dim: int = 16, n_classes: int = 20, seed: int = 0) -> tuple[Any, Any]:
    """Rows about class centers, and their classes."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % n_classes
    rows = rng.standard_normal((n_classes, dim))[classes] + 0.4 * rng.standard_normal((n, dim))
    return rows.astype(np.float32), classes


def make_files(folder: Path) -> None:
    """Write every file that a page names into ``folder``."""
    rows, classes = vectors()
    split = np.array(["base", "val", "novel"])[np.digitize(classes, [8, 14])]
    for name in ("cub", "features"):
        np.savez(folder / f"{name}.npz", features=rows, labels=classes, split=split)
    np.save(folder / "vectors.npy", rows)
    write_labels(folder / "vector-labels.csv", {str(i): f"class {classes[i]}" for i in range(60)})
    truth = draw_folder(folder / "photos", per_class=4)
    given = first_of_each(truth, 2)
    write_labels(folder / "labels.csv", given)
    write_labels(folder / "truth.csv", truth)
    with (folder / "tickets.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["message", "label"])
        for name, texts in MESSAGES.items():
            table.writerows([text, name if i < 2 else ""] for i, text in enumerate(texts))


def names() -> dict[str, Any]:
    """What the code of a page may use without defining it."""
    rows, classes = vectors(n_classes=4)
    y = np.where(np.arange(len(rows)) < 20, classes, -1)
    return {"X": rows, "y": y, "X_new": vectors(12, n_classes=4, seed=0)[0], "truth": classes}
