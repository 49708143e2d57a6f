"""What a saved model is worth: accuracy on rows that it has never seen, size, latency and throughput.

Part *accuracy*, per set and draw: 70% of the rows are fitted, with 5 labels per class, and 30% come later. Refitting
has these among its unlabeled rows; the estimator's rule with all rows, prototypes alone, and the compact form with
cores of several sizes do not. The sizes were chosen on CUB, BANKING77 and GoEmotions; the other sets only check them.

Part *speed*, side by side in one process: one picture and one sentence through a saved model, and through the bare ONNX
Runtime session of its encoder; many items in batches, both ways.

    python benchmarks/model.py --data data --draws 3 --output docs/results/model.md

The page is written after each set.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images
from sklearn.metrics import roc_auc_score

from laplacianshot import FeatureSet, LabelModel, LaplacianShot, label, label_source
from laplacianshot.labeling.classifier import CORE_DIRECTIONS, CORE_ROWS, Classifier
from laplacianshot.runtime.types import Floats, Ints

SETS = {
    "CUB": ("cub/cub_efficientnet_lite0.npz", "chosen"),
    "BANKING77": ("banking77/minilm_int8.npz", "chosen"),
    "GoEmotions": ("goemotions/minilm.npz", "chosen"),
    "CIFAR-FS": ("cifar_fs/cifarfs_efficientnet_lite0_128px.npz", "other"),
    "Snips": ("snips/minilm.npz", "other"),
    "PlantDoc": ("plantdoc/efficientnet_lite0.npz", "other"),
}
LABELS, LATER = 5, 0.3
CORES = (1000, 2000, 4000, CORE_ROWS)
# Classes that nobody labels, of which some rows come later, in the part on novelty.
UNKNOWN = 0.2
SENTENCE = "I still have not received my new card, when will it arrive?"


def load(name: str, data: Path) -> tuple[Floats, Ints]:
    """Rows (n, D) and classes (n,); of CIFAR-FS the novel classes, which have 600 rows each."""
    found = FeatureSet.load(data / SETS[name][0])
    keep = found.split == "test" if name == "CIFAR-FS" and found.split is not None else np.ones(len(found.labels), bool)
    classes = np.unique(found.labels[keep], return_inverse=True)[1]
    return np.ascontiguousarray(found.features[keep], np.float32), classes


def parts(y: Ints, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Positions of the fitted rows, of those that come later, and the labels of the former, -1 for most."""
    order = rng.permutation(len(y))
    later, fitted = order[: int(LATER * len(y))], order[int(LATER * len(y)) :]
    given = np.full(len(fitted), -1)
    for c in np.unique(y):
        given[np.flatnonzero(y[fitted] == c)[:LABELS]] = c
    return fitted, later, given


def calibration_error(probabilities: Floats, right: Any, bins: int = 15) -> float:
    """Expected calibration error of the largest probability, in bins with equally many rows."""
    sure = probabilities.max(axis=1)
    groups = np.array_split(np.argsort(sure), bins)
    return float(sum(abs(sure[g].mean() - right[g].mean()) * len(g) for g in groups) / len(sure))


def accuracy_of(X: Floats, y: Ints, seed: int) -> dict[str, float]:
    """Accuracies in percent, calibration errors and bytes of one draw."""
    fitted, later, given = parts(y, np.random.default_rng(seed))
    truth, new = y[later], X[later]
    found: dict[str, float] = {}
    everything = np.full(len(y), -1)
    everything[fitted] = given
    again = LaplacianShot().fit(X, everything)
    found["refit"] = 100 * float(np.mean(again.transduction_[later] == truth))
    model = label(X[fitted], given).model
    assert model is not None
    classes, full = np.array(model.classes), model.classifier

    def measure(name: str, classifier: Classifier) -> None:
        P = classifier.probabilities(new)
        right = classes[P.argmax(axis=1)] == truth
        found[name] = 100 * float(right.mean())
        found[f"{name} ECE"] = calibration_error(P, right)

    measure("all rows", full)
    measure("prototypes alone", replace(full, rule=replace(full.rule, lam=0.0)))
    for size in CORES:
        measure(f"core {size}", full.compact(size))
    with tempfile.TemporaryDirectory() as folder:
        for rows in ("core", "all"):
            path = Path(folder) / f"{rows}.lshot"
            model.save(path, rows=rows)
            found[f"bytes {rows}"] = path.stat().st_size
        back = LabelModel.load(Path(folder) / "core.lshot")
        assert np.array_equal(back.predict_proba(new[:100]), model.compact().predict_proba(new[:100]))
    return found


def novelty_of(X: Floats, y: Ints, seed: int) -> dict[str, float]:
    """How well novelty finds later rows of classes that nobody labeled (AUROC): absent from the fit, or among it."""
    rng = np.random.default_rng(seed)
    n_classes = int(y.max()) + 1
    unknown = rng.permutation(n_classes)[: max(1, round(UNKNOWN * n_classes))]
    fitted, later, given = parts(y, rng)
    odd = np.isin(y, unknown)
    found = {}
    for name, kept in (("absent", ~odd[fitted]), ("present", np.ones(len(fitted), bool))):
        labels = np.where(odd[fitted], -1, given)[kept]
        model = label(X[fitted[kept]], labels).model
        assert model is not None
        found[f"novelty, {name}"] = float(roc_auc_score(odd[later], model.compact().novelty(X[later])))
    return found


def in_turn(functions: dict[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each call, one function after the other, over and over."""
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            taken[name].append(1000 * (time.perf_counter() - start))
    return taken


def photographs(folder: Path, count: int) -> list[Path]:
    """Crops of scikit-learn's two photographs as JPEG files."""
    rng = np.random.default_rng(0)
    pictures = load_sample_images().images
    paths = []
    for i in range(count):
        x, y = rng.integers(0, 200), rng.integers(0, 100)
        path = folder / f"{i:03}.jpg"
        Image.fromarray(pictures[i % 2][y : y + 300, x : x + 400]).save(path, quality=90)
        paths.append(path)
    return paths


def speed(seconds: float) -> list[str]:
    """Lines of the tables on latency and throughput."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pictures = photographs(folder, 64)
        of_pictures = label_source(folder, {p.name: str(i % 2) for i, p in enumerate(pictures[:10])}, cache=False)
        table = folder / "texts.csv"
        sentences = [f"{SENTENCE} {i}" for i in range(256)]
        rows = (f'"{text}",{"ab"[i % 2] if i < 10 else ""}\n' for i, text in enumerate(sentences))
        table.write_text("text,label\n" + "".join(rows))
        of_texts = label_source(table, cache=False)
        lines = ["| one item | p50 | p95 | bare session p50 | p95 |", "|---|---|---|---|---|"]
        batches = ["| many items | model | bare session | share |", "|---|---|---|---|"]
        items: dict[str, tuple[Any, list[Any]]] = {
            "picture, JPEG of 400 x 300 pixels": (of_pictures, [path.read_bytes() for path in pictures]),
            "sentence of 13 words": (of_texts, sentences),
        }
        for name, (result, many) in items.items():
            path = folder / "m.lshot"
            result.model.save(path)
            model = LabelModel.load(path, threads=2)
            encoder = model.opened
            prepared = [encoder.prepare(_read(item)) for item in many]
            one = in_turn(
                {"model": partial(predicted, model, many[:1]), "bare": partial(encoder.encode, prepared[:1])}, seconds
            )
            cells = [f"{np.percentile(one[key], q):.1f} ms" for key in ("model", "bare") for q in (50, 95)]
            lines.append(f"| {name} | {' | '.join(cells)} |")
            # Two calls at once on both sides, as the model's encoder computes on two threads.
            size = -(-len(prepared) // 8)
            chunks = [prepared[i : i + size] for i in range(0, len(prepared), size)]
            with ThreadPoolExecutor(2) as pool:
                bare = partial(lambda *given: list(pool.map(*given)), encoder.encode, chunks)
                both = in_turn({"model": partial(predicted, model, many), "bare": bare}, seconds)
            model_rate, bare_rate = (1000 * len(many) / statistics.median(both[key]) for key in ("model", "bare"))
            share = f"{model_rate / bare_rate:.0%}"
            batches.append(f"| {len(many)} of them | {model_rate:.0f} a second | {bare_rate:.0f} a second | {share} |")
    return [*lines, "", *batches]


def predicted(model: LabelModel, items: list[Any]) -> object:
    """Everything that a server would answer."""
    return model.predictions(model.vectors(items))


def _read(item: Any) -> Any:
    return Image.open(io.BytesIO(item)) if isinstance(item, bytes) else item


def page(
    results: dict[str, dict[str, list[float]]], novelty: dict[str, dict[str, float]], timing: list[str], command: str
) -> str:
    """The page of results."""

    def mean(name: str, key: str) -> float:
        return float(np.mean(results[name][key]))

    forms = ["refit", "all rows", *(f"core {size}" for size in reversed(CORES)), "prototypes alone"]
    heads = ["refit with them", "all rows", *(f"core of {size:,}" for size in reversed(CORES)), "prototypes alone"]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    lines += [f"| {name} | {' | '.join(f'{mean(name, key):.1f}' for key in forms)} |" for name in results]
    means = [np.mean([mean(name, key) for name in results]) for key in forms]
    lines.append(f"| **mean** | {' | '.join(f'{value:.1f}' for value in means)} |")
    sizes = ["| | compact file | all rows | ECE compact | ECE all rows |", "|---|---|---|---|---|"]
    for name in results:
        megabytes = [f"{mean(name, f'bytes {rows}') / 1e6:.1f} MB" for rows in ("core", "all")]
        errors = [f"{mean(name, f'{form} ECE'):.3f}" for form in (f"core {CORE_ROWS}", "all rows")]
        sizes.append(f"| {name} | {' | '.join(megabytes + errors)} |")
    odd = ["| | absent from the fit | among its unlabeled rows |", "|---|---|---|"]
    odd += [f"| {name} | {' | '.join(f'{value:.2f}' for value in found.values())} |" for name, found in novelty.items()]
    chosen = ", ".join(name for name in results if SETS[name][1] == "chosen")
    others = ", ".join(name for name in results if SETS[name][1] == "other")
    draws = len(next(iter(results.values()))["refit"])
    blocks = [
        "# Saved models",
        "What does a [saved model](../guide/production.md) lose against fitting again, and how fast is it?",
        f"```console\n$ {command}\n```",
        "## Accuracy on rows never seen",
        f"70% of the rows are fitted with {LABELS} labels per class; accuracy in percent on the other 30%, mean of "
        f"{draws} draws. *Refit* has these among its unlabeled rows, so it is what a new fit would give. Files keep a "
        f"core of {CORE_ROWS:,} rows in {CORE_DIRECTIONS} directions, a byte each.",
        "\n".join(lines),
        f"Sets that the form and its size were chosen on: {chosen}; others: {others}.",
        "## Size and calibration",
        "The expected calibration error (ECE) of the confidence, on the rows never seen.",
        "\n".join(sizes),
        "## Novelty",
        "A fifth of the classes has no label. How well novelty tells later rows of these from others (area under "
        "the ROC curve, one draw), where the fit had no such row, and where it had some among the unlabeled ones.",
        "\n".join(odd),
        "## Speed",
        "A saved model from bytes or text to label, confidence and novelty, against the ONNX Runtime session of its "
        "encoder fed ready arrays: both in one process in turn, on two threads. Other work on the machine slows both: "
        "trust the ratios.",
        "\n".join(timing),
    ]
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    """Measure, and write or print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seconds", type=float, default=20.0, help="of each part of the speed")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {}
    novelty: dict[str, dict[str, float]] = {}
    timing = speed(given.seconds)
    print("\n".join(timing), flush=True)
    for name in given.sets.split(","):
        X, y = load(name, given.data)
        results[name] = {}
        for seed in range(given.draws):
            for key, value in accuracy_of(X, y, seed).items():
                results[name].setdefault(key, []).append(value)
        novelty[name] = novelty_of(X, y, 0)
        print(
            name,
            {key: round(float(np.mean(values)), 3) for key, values in results[name].items()},
            novelty[name],
            flush=True,
        )
        if given.output is not None:
            # After each set, so that a run that is stopped leaves what it has.
            chosen = f"--data data --sets {','.join(results)} --draws {given.draws} --seconds {given.seconds:g}"
            text = page(results, novelty, timing, f"python benchmarks/model.py {chosen}")
            given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
