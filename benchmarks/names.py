"""Labels from the names of classes, from another model's scores and with known shares. The page docs/results/names.md.

WHU-RS19 as vectors of five vision-language encoders, and three sets of sentences whose names are encoded by the default
encoder of texts. The constants were chosen on these sets: the page shows what they give, not what to expect elsewhere.

    python benchmarks/names.py --data data --draws 10 --output docs/results/names.md
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from laplacianshot import LaplacianShot
from laplacianshot.embedding.encoders import open_encoder
from laplacianshot.runtime.types import Floats, Ints

# Published TransCLIP without labels, from the README of elkhouryk/RS-TransCLIP.
TRANSCLIP = {
    "clip_rn50": 95.92,
    "clip_vit-b-32": 90.35,
    "georsclip_vit-b-32": 98.71,
    "remoteclip_vit-l-14": 97.21,
    "skyclip50_vit-l-14": 99.20,
}
SENTENCES = {"banking77": "minilm_int8.npz", "snips": "minilm.npz", "goemotions": "minilm.npz"}
ROWS = {"banking77": 3000, "goemotions": 2000}
PRESENT = (1, 2, 3, 5)
# Words that have nothing to do with any class; two of them make a name.
# fmt: off
WORDS = (
    "lamp", "river", "seven", "carpet", "monkey", "orange", "window", "purple", "bread", "stone", "guitar", "planet",
    "cloud", "shoe", "pepper", "engine", "candle", "forest", "ladder", "pillow", "dragon", "button", "salad", "mirror",
)
# fmt: on
# SetFit's own template for examples of classes without data, and how many of each it makes.
TEMPLATE, SYNTHETIC = "This sentence is {}", 8


@dataclass(frozen=True)
class NamedSet:
    """Unit rows (n, D), classes (n,), unit vectors of the names (C, D), of random names, and of the template."""

    name: str
    X: Floats
    y: Ints
    names: Floats
    random: Floats
    template: Floats | None = None

    @property
    def n_classes(self) -> int:
        return len(self.names)


def unit(rows: Any) -> Floats:
    rows = np.asarray(rows, np.float32)
    found: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def pictures(data: Path, name: str, *, one_prompt: bool = False) -> NamedSet:
    kept = np.load(data / "whu_rs19" / f"{name}.npz", allow_pickle=True)
    names = unit(kept["names_one_prompt" if one_prompt else "names"])
    noise = np.random.default_rng(5).standard_normal(names.shape)
    noise *= np.linalg.norm(names - names.mean(axis=0), axis=1).mean() / np.sqrt(names.shape[1])
    return NamedSet(name, unit(kept["features"]), kept["labels"].astype(int), names, unit(names.mean(axis=0) + noise))


def sentences(data: Path, name: str) -> NamedSet:
    kept = np.load(data / name / SENTENCES[name], allow_pickle=True)
    encoder = open_encoder(None, "texts")

    def encoded(texts: list[str]) -> Floats:
        return unit(encoder.encode([encoder.prepare(text) for text in texts]))

    words = [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(n)).replace("_", " ").lower() for n in kept["class_names"]]
    other = [f"{WORDS[i % len(WORDS)]} {WORDS[(7 * i + i // len(WORDS) + 3) % len(WORDS)]}" for i in range(len(words))]
    template = encoded([TEMPLATE.format(word) for word in words])
    X, y = unit(kept["features"]), kept["labels"].astype(int)
    return NamedSet(name, X, y, encoded(words), encoded(other), template)


def draw(given: NamedSet, rng: np.random.Generator, n: int, shots: int, present: int | None = None) -> tuple[Any, Any]:
    """Rows of a task, the labeled ones first, and their labels, -1 for none."""
    C = given.n_classes
    classes = np.arange(C) if present is None else rng.choice(C, present, replace=False)
    labeled = [rng.permutation(np.flatnonzero(given.y == c))[:shots] for c in range(C)]
    support = np.concatenate(labeled) if shots else np.zeros(0, int)
    rest = np.setdiff1d(np.flatnonzero(np.isin(given.y, classes)), support)
    rows = np.concatenate([support, rng.choice(rest, min(n, len(rest)), replace=False)])
    codes = np.full(len(rows), -1)
    codes[: len(support)] = given.y[support]
    return rows, codes


def accuracy(given: NamedSet, rows: Ints, codes: Ints, shares: Any = None, **known: Any) -> float:
    """In %, of the rows without a label."""
    if known:
        known["classes"] = np.arange(given.n_classes)
    clf = LaplacianShot(class_shares=shares).fit(given.X[rows], codes, **known)
    return 100 * float(np.mean((clf.transduction_ == given.y[rows])[codes < 0]))


def nearest(given: NamedSet, rows: Ints, codes: Ints) -> float:
    found = (given.X[rows] @ given.names.T).argmax(axis=1)
    return 100 * float(np.mean((found == given.y[rows])[codes < 0]))


def table(header: list[str], rows: list[list[Any]]) -> str:
    def line(cells: list[Any]) -> str:
        return "| " + " | ".join(f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"

    return "\n".join([line(header), "|" + "---|" * len(header), *(line(row) for row in rows)])


def whole(data: Path) -> str:
    rows = []
    for name, published in TRANSCLIP.items():
        many, one = pictures(data, name), pictures(data, name, one_prompt=True)
        every = np.arange(len(many.X)), np.full(len(many.X), -1)
        cells = [f(s, *every) for s in (many, one) for f in (nearest, lambda *a: accuracy(*a, names=a[0].names))]
        rows.append([name, *cells[:2], published, *cells[2:]])
    rows.append(["mean", *(float(np.mean([row[i] for row in rows])) for i in range(1, 6))])
    head = ["encoder", "nearest name", "LaplacianShot", "TransCLIP (published)", "nearest, one prompt", "LaplacianShot"]
    return table(head, rows)


def few_present(sets: list[NamedSet], draws: int) -> tuple[str, str]:
    rows, gaps = [], []
    for n in (64, 200, 1000):
        for present in (*PRESENT, "half", "all"):
            cells = []
            for given in sets:
                count = {"half": given.n_classes // 2, "all": None}.get(str(present), present)
                if isinstance(count, int) and count > given.n_classes:
                    continue
                found = []
                for number in range(draws):
                    rng = np.random.default_rng([number, n, PRESENT.index(present) if present in PRESENT else 9])
                    task = draw(given, rng, n, 0, count)  # type: ignore[arg-type]
                    found.append((nearest(given, *task), accuracy(given, *task, names=given.names)))
                pair = np.array(found)
                gap = pair[:, 1] - pair[:, 0]
                half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
                gaps.append((float(gap.mean()), float(half), f"{given.name}, {present} present, {n} rows"))
                cells.append(pair.mean(axis=0))
            rows.append([f"{n:,}", present, *(float(v) for v in np.mean(cells, axis=0))])
    below = [f"{what} {gap:+.1f} ± {half:.1f}" for gap, half, what in sorted(gaps) if gap < -0.05]
    beyond = sum(gap + half < 0 for gap, half, _ in gaps)
    said = f"Below the names alone in {len(below)} of {len(gaps)} cells, in {beyond} beyond the interval"
    said += f": {'; '.join(below)}." if below else "."
    return table(["rows", "classes present", "nearest name", "LaplacianShot"], rows), said


def synthetic(given: NamedSet, rows: Ints, codes: Ints) -> float:
    """Logistic regression on SetFit's synthetic examples, and on the labels where there are any."""
    if given.template is None:
        return float("nan")
    own = np.flatnonzero(codes >= 0)
    X = np.concatenate([np.repeat(given.template, SYNTHETIC, axis=0), given.X[rows[own]]])
    y = np.concatenate([np.repeat(np.arange(given.n_classes), SYNTHETIC), codes[own]])
    found = LogisticRegression(C=10, max_iter=200).fit(X, y).predict(given.X[rows])
    return 100 * float(np.mean((found == given.y[rows])[codes < 0]))


def with_labels(sets: list[NamedSet], draws: int) -> str:
    rows = []
    for given in sets:
        for shots in (0, 1, 2, 5):
            found: list[list[float]] = []
            for number in range(draws):
                rng = np.random.default_rng([number, shots])
                task = draw(given, rng, ROWS.get(given.name, 1000), shots)
                shuffled = given.names[rng.permutation(given.n_classes)]
                cells = [nearest(given, *task), synthetic(given, *task)]
                cells.append(accuracy(given, *task) if shots else float("nan"))
                cells.append(accuracy(given, *task, names=given.names))
                misled = (shuffled, given.random)
                cells += [accuracy(given, *task, names=names) if shots else float("nan") for names in misled]
                found.append(cells)
            means = np.mean(found, axis=0)
            rows.append([given.name, shots, *("" if np.isnan(v) else float(v) for v in means)])
    head = ["set", "labels per class", "nearest name", "synthetic examples", "labels alone", "names and labels"]
    return table([*head, "shuffled names", "random words"], rows)


def priors(given: NamedSet, rng: np.random.Generator, rows: Ints) -> Iterator[tuple[str, Floats]]:
    """Scores of logistic regression on three other rows per class, of a noisy labeler, and of rules that abstain."""
    C, y = given.n_classes, given.y[rows]
    others = np.setdiff1d(np.arange(len(given.y)), rows)
    some = np.concatenate([rng.permutation(others[given.y[others] == c])[:3] for c in range(C)])
    model = LogisticRegression(C=10, max_iter=100).fit(given.X[some], given.y[some])
    P = np.zeros((len(rows), C))
    P[:, model.classes_] = model.predict_proba(given.X[rows])
    yield "logistic regression", P

    def wrong(share: float) -> Floats:
        said: Floats = np.eye(C)[np.where(rng.random(len(y)) < share, rng.integers(0, C, len(y)), y)]
        return said

    yield "labeler, 30% at random", wrong(0.3)
    rules = wrong(0.2)
    rules[rng.random(len(rules)) < 0.5] = np.nan
    yield "rules, half abstain", rules


def with_prior(sets: list[NamedSet], draws: int) -> str:
    rows = []
    for given in sets:
        for shots in (0, 1, 5):
            found: dict[str, list[list[float]]] = {}
            for number in range(draws):
                rng = np.random.default_rng([number, shots])
                # A part of the rows is left for logistic regression.
                task, codes = draw(given, rng, min(ROWS.get(given.name, 1000), len(given.y) * 2 // 3), shots)
                alone = accuracy(given, task, codes) if shots else float("nan")
                for what, P in priors(given, rng, task):
                    there = np.isfinite(P[:, 0]) & (codes < 0)
                    by_prior = 100 * float(np.mean(P[there].argmax(axis=1) == given.y[task][there]))
                    clf = LaplacianShot().fit(given.X[task], codes, prior=P, classes=np.arange(given.n_classes))
                    right = clf.transduction_ == given.y[task]
                    found.setdefault(what, []).append(
                        [by_prior, 100 * float(right[there].mean()), alone, 100 * float(right[codes < 0].mean())]
                    )
            for what, cells in found.items():
                means = np.mean(cells, axis=0)
                rows.append([given.name, what, shots, *("" if np.isnan(v) else float(v) for v in means)])
    head = ["set", "prior", "labels per class", "prior alone, where it is", "LaplacianShot there", "labels alone"]
    return table([*head, "LaplacianShot, all rows"], rows)


def with_shares(sets: list[NamedSet], draws: int) -> str:
    rows = []
    for given in sets:
        for tail in (False, True):
            for shots in (1, 5):
                found = []
                for number in range(draws):
                    rng = np.random.default_rng([number, shots])
                    C = given.n_classes
                    p = rng.permutation(np.exp(-3 * np.arange(C) / C)) if tail else np.ones(C)
                    rows_all, codes_all = draw(given, rng, len(given.y), shots)
                    free = rows_all[codes_all < 0]
                    most = np.bincount(given.y[free], minlength=C)
                    count = np.maximum(1, (min(20.0, most.min()) if not tail else 40.0) * p / p.max()).astype(int)
                    queries = np.concatenate([free[given.y[free] == c][: count[c]] for c in range(C)])
                    task = np.concatenate([rows_all[codes_all >= 0], queries])
                    codes = np.concatenate([codes_all[codes_all >= 0], np.full(len(queries), -1)])
                    right = np.bincount(given.y[queries], minlength=C) + 0.5
                    found.append(
                        [accuracy(given, task, codes, shares=u)
                         for u in (None, right, right * rng.choice([0.5, 1.0, 2.0], C))]
                    )  # fmt: skip
                means = [float(v) for v in np.mean(found, axis=0)]
                rows.append([given.name, "long tail" if tail else "equal", shots, *means])
    return table(["set", "sizes", "labels per class", "not given", "right", "wrong by up to a factor of two"], rows)


def speed(given: NamedSet) -> str:
    rng = np.random.default_rng(0)
    rows, codes = draw(given, rng, 5000, 5)

    def seconds(**names: Any) -> float:
        """Of the processor: others may use the machine."""
        start = time.process_time()
        LaplacianShot().fit(given.X[rows], codes, **names)
        return time.process_time() - start

    # One after the other, after a first fit of each that compiles.
    pairs = [(seconds(), seconds(names=given.names)) for _ in range(11)][1:]
    plain, named = np.min(pairs, axis=0)
    what = f"A fit of 5,000 rows of {given.name} with 5 labels per class"
    return f"{what} takes {named / plain:.2f} times the processor time with names."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument("--draws", type=int, default=10, help="draws per cell (default: 10)")
    parser.add_argument("--output", type=Path, required=True, help="the page to write")
    options = parser.parse_args()
    seen = [pictures(options.data, name) for name in TRANSCLIP]
    read = [sentences(options.data, name) for name in SENTENCES]
    mixed = [replace(seen[0]), replace(seen[2]), *read]
    few, some = max(2, options.draws // 3), max(2, options.draws // 2)
    of_pictures, said_pictures = few_present(seen, options.draws)
    of_texts, said_texts = few_present(read, options.draws)
    page = PAGE.format(
        draws=options.draws, whole=whole(options.data), pictures=of_pictures, said_pictures=said_pictures,
        texts=of_texts, said_texts=said_texts, labels=with_labels(mixed, options.draws),
        prior=with_prior(mixed, few), shares=with_shares(mixed, some), few=few, some=some,
        speed=speed(read[1]),
    )  # fmt: skip
    options.output.write_text(page, encoding="utf-8")
    print(page)


PAGE = """# Labels from names

What do the names of the classes give, alone and with labels? Made by one command:

```console
$ python benchmarks/names.py --data data --draws {draws} --output docs/results/names.md
```

Accuracy on unlabeled rows in %. *Nearest name* takes the class whose name has the largest cosine. Names of sentence
sets are encoded as they are written, by the encoder that made the vectors (BANKING77: by its float version). The
constants of the method were chosen on these sets, so the figures confirm nothing; no other set with names was at hand.

## No labels: WHU-RS19

All 1,005 pictures, 106 prompts per class or one. TransCLIP is published, with 106 prompts, in the README of
elkhouryk/RS-TransCLIP.

{whole}

## No labels, and most classes absent

Only some classes occur; nobody says which. {draws} draws per set and row; means over sets.

Pictures (WHU-RS19, five encoders):

{pictures}

{said_pictures}

Sentences (BANKING77, SNIPS, GoEmotions):

{texts}

{said_texts}

## Names and labels

1,000 rows (BANKING77 3,000, GoEmotions 2,000), {draws} draws. *Synthetic examples* are those of SetFit, eight times
"This sentence is NAME" per class, with logistic regression on them and on the labels. Shuffled names are those of other
classes, at random, so that some are right by chance; random words are two words such as "lamp carpet".

{labels}

## Scores of another model

Logistic regression learned from three other rows per class; a labeler who gives 30% of the rows a class at random;
rules that do so for 20% and abstain in every second row. {few} draws.

{prior}

## Known class shares

About 20 rows per class, or a long tail with the largest class 20 times as large as the smallest. {some} draws.

{shares}

## Speed

{speed}
"""


if __name__ == "__main__":
    main()
