"""Made-up labeled sources: drawings, sentences and rows of numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from laplacianshot.inference.affinity import knn_affinity
from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, ExpectedAccuracy, LabelResult, Skipped, Stage
from laplacianshot.labeling.sources import open_source

CLASSES = ("auk", "bittern", "coot")
# Names that would be more than text if they could.
HOSTILE = (
    '"><script>alert(1)</script>',
    "</script><script>alert(2)</script>",
    "\u202egnp.evil",
    "<!--",
    "&amp;",
    "new\nline",
    "🦆 عربي",
)


def result(n: int = 60, classes: tuple[str, ...] = CLASSES, *, seed: int = 0, with_vectors: bool = True) -> LabelResult:
    """A result like any other: every third of the first rows given, two disputed, three rejected, five suggested."""
    rng = np.random.default_rng(seed)
    n_classes = len(classes)
    truth = np.arange(n) % n_classes
    probabilities = rng.dirichlet(np.ones(n_classes), n) * 0.5
    probabilities[np.arange(n), truth] += 0.5
    probabilities = probabilities.astype(np.float32)
    origins = np.full(n, PREDICTED, dtype=object)
    origins[: 4 * n_classes] = GIVEN
    origins[-3:] = REJECTED
    codes = np.where(origins == REJECTED, -1, truth)
    disputes, suggestions = np.full(n, -1), np.zeros(n, dtype=np.int64)
    disputes[:2] = (truth[:2] + 1) % n_classes
    suggestions[rng.permutation(np.arange(4 * n_classes, n - 3))[:5]] = np.arange(1, 6)
    confidence = probabilities[np.arange(n), truth].astype(np.float64)
    confidence[(origins == GIVEN) & (disputes < 0)] = 1
    X = (3 * np.eye(n_classes, 6)[truth] + rng.standard_normal((n, 6))).astype(np.float32)
    return LabelResult(
        ids=tuple(str(i) for i in range(n)),
        classes=classes,
        codes=codes,
        origins=tuple(origins.tolist()),
        probabilities=probabilities,
        confidence=confidence,
        suggestions=suggestions,
        disputes=disputes,
        novelty=rng.random(n),
        skipped=(Skipped("broken <b>.png", "the file is empty"),),
        objective=np.array([9.0, 4.0, 3.5, 3.4]),
        stages=(Stage("Reading", 0.25), Stage("Labels", 1.5)),
        settings={"source": "birds & co", "encoder": "efficientnet-lite0", "suggest": 5},
        vectors=X if with_vectors else None,
        affinity=knn_affinity(X, 5) if with_vectors else None,
        expected_accuracy=ExpectedAccuracy.of_labels(confidence[origins == PREDICTED], (0.4, 0.4), "It is made up."),
    )


def unlabeled(n: int = 30) -> LabelResult:
    """What there is before the first label: suggestions only."""
    found = result(n)
    return replace(
        found,
        classes=(),
        codes=np.full(n, -1),
        origins=("",) * n,
        probabilities=np.zeros((n, 0), dtype=np.float32),
        confidence=np.zeros(n),
        disputes=np.full(n, -1),
        novelty=np.zeros(n),
        objective=np.zeros(0),
        affinity=None,
        expected_accuracy=None,
    )


def of_pictures(folder: Path, n: int = 60, names: tuple[str, ...] = (), size: int = 60) -> LabelResult:
    """A result whose items are colored squares; the first ones are called by ``names``."""
    rng = np.random.default_rng(1)
    for i in range(n):
        pixels = np.kron(rng.integers(0, 255, (3, 2, 3)), np.ones((size // 3, size // 3, 1)))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{names[i] if i < len(names) else f'{i:03d}'}.png")
    source = open_source(folder)
    return replace(result(n), source=source, ids=source.ids, rows=np.arange(n))


def of_texts(folder: Path, n: int = 60, texts: tuple[str, ...] = ()) -> LabelResult:
    """A result whose items are sentences; the first ones are ``texts``."""
    lines = [texts[i] if i < len(texts) else f"sentence {i} of this source" for i in range(n)]
    path = folder / "sentences.csv"
    quoted = "\n".join('"' + text.replace('"', '""') + '"' for text in lines)
    path.write_text(f"text\n{quoted}\n", encoding="utf-8")
    source = open_source(path, text_column="text")
    return replace(result(n), source=source, rows=np.arange(n))
