"""Feature sets, transforms and samplers of tasks for the scripts of this folder.

Nothing here depends on the package. Every set is a :class:`FeatureSet`; ``load`` reads one from the folder given by
``--data``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Ints = NDArray[np.int64]

#: explore half, held-out half of each set
EXPLORE = ("cub-val", "cifar-val", "bank-even", "omni-back")
HELD_OUT = ("cub-novel", "cifar-test", "bank-odd", "omni-eval")


@dataclass
class FeatureSet:
    """Rows of raw features with class labels 0..n-1, and the mean of a disjoint base set if there is one."""

    name: str
    x: NDArray[np.float32]
    y: Ints
    base_mean: NDArray[np.float32] | None

    def __post_init__(self) -> None:
        self.by_class = [np.flatnonzero(self.y == c) for c in range(int(self.y.max()) + 1)]


def _pick(name: str, x: Array, y: Array, rows: NDArray[np.bool_], base: NDArray[np.bool_] | None) -> FeatureSet:
    mean = None if base is None else x[base].astype(np.float64).mean(0).astype(np.float32)
    _, lab = np.unique(y[rows], return_inverse=True)
    return FeatureSet(name, np.ascontiguousarray(x[rows], dtype=np.float32), lab.astype(np.int64), mean)


def load(name: str, data: Path) -> FeatureSet:
    """Read one set: cub-*, cifar-*, bank (all, even or odd intents), omni-back/eval, digits."""
    kind, _, part = name.partition("-")
    if kind == "cub":
        z = np.load(data / "cub" / "cub_efficientnet_lite0.npz")
        return _pick(name, z["features"], z["labels"], z["split"] == part, z["split"] == "base")
    if kind == "cifar":
        z = np.load(data / "cifar_fs" / "cifarfs_efficientnet_lite0_128px.npz")
        return _pick(name, z["features"], z["labels"], z["split"] == part, z["split"] == "base")
    if kind == "bank":
        z = np.load(data / "banking77" / "minilm_int8.npz")
        y = z["labels"].astype(np.int64)
        rows = {"": y >= 0, "even": y % 2 == 0, "odd": y % 2 == 1}
        if part in rows:
            return _pick(name, z["features"], y, rows[part], None if part == "" else ~rows[part])
        tr = ~z["is_test"] if part == "train" else z["is_test"]
        return _pick(name, z["features"], y, tr, ~tr)
    if kind == "omni":
        z = np.load(data / "omniglot" / "omniglot28.npz")
        x = z["images"].reshape(len(z["labels"]), -1).astype(np.float32) / 255
        ev = z["evaluation"]
        return _pick(name, x, z["labels"], ev if part == "eval" else ~ev, ~ev if part == "eval" else ev)
    if kind == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        return _pick(name, x, y, y >= 0, None)
    raise ValueError(f"unknown set {name!r}")


def l2(x: Array) -> Array:
    """Rows scaled to unit length; zero rows stay zero."""
    n = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(n > 0, n, 1)


def centered(x: Array, n_s: int, center: str, base_mean: Array | None) -> Array:
    """CL2 of raw rows (..., V, D), support first, about a center named by ``center``.

    base: the given mean. support, pooled, query: the mean of those rows of the task. none: L2 only.
    """
    if center == "none":
        return l2(x)
    if center == "base":
        assert base_mean is not None
        return l2(x - base_mean.astype(x.dtype))
    sl = {"support": slice(0, n_s), "pooled": slice(None), "query": slice(n_s, None)}[center]
    return l2(x - x[..., sl, :].mean(-2, keepdims=True))


def episodes(
    fs: FeatureSet, ways: int, shots: int, n_tasks: int, seed: int, dirichlet: float | None = None, per_class: int = 15
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Seeded tasks: row indices (support class by class, then queries), support labels, query labels.

    Balanced: ``per_class`` queries per class. Dirichlet: ``per_class * ways`` queries in all, proportions from
    Dirichlet(a), rounded by largest remainder; a class never gives more rows than it has (the others give the rest).
    """
    rng = np.random.default_rng(seed)
    size = np.array([len(r) for r in fs.by_class])
    lab = np.arange(ways)
    need = shots + (1 if dirichlet else per_class)
    ok = np.flatnonzero(size >= need)
    for _ in range(n_tasks):
        cls = rng.choice(ok, ways, replace=False)
        if dirichlet is None:
            cnt = np.full(ways, per_class)
        else:
            cap = size[cls] - shots
            total = min(per_class * ways, int(cap.sum()))
            p = rng.dirichlet(np.full(ways, dirichlet))
            cnt = np.minimum(_round(p * total, total), cap)
            while cnt.sum() < total:
                free = np.flatnonzero(cnt < cap)
                w = p[free] + 1e-9
                extra = rng.multinomial(total - cnt.sum(), w / w.sum())
                cnt[free] = np.minimum(cnt[free] + extra, cap[free])
        sup, qry = [], []
        for c, n in zip(cls, cnt, strict=True):
            r = rng.permutation(fs.by_class[c])
            sup.append(r[:shots])
            qry.append(r[shots : shots + n])
        yield np.concatenate(sup + qry), np.repeat(lab, shots), np.repeat(lab, cnt)


def _round(w: Array, total: int) -> Ints:
    n = np.floor(w).astype(np.int64)
    n[np.argsort(n - w)[: total - n.sum()]] += 1
    return n


def batches(tasks: Iterator[tuple[Ints, Ints, Ints]], size: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Stack tasks of equal shape."""
    buf: list[tuple[Ints, Ints, Ints]] = []
    for t in tasks:
        buf.append(t)
        if len(buf) == size:
            yield tuple(np.stack(z) for z in zip(*buf, strict=True))  # type: ignore[misc]
            buf = []
    if buf:
        yield tuple(np.stack(z) for z in zip(*buf, strict=True))  # type: ignore[misc]


def large_task(
    fs: FeatureSet, labels_a_class: int, seed: int, tail: bool = False, most: int | None = None
) -> tuple[Ints, Ints, Ints]:
    """All of a set unlabeled but ``labels_a_class``: rows (support first), support labels, query labels.

    ``tail``: class sizes fall geometrically, in random order, from the full size to a twentieth, at least 3 queries.
    ``most``: at most this many rows per class.
    """
    rng = np.random.default_rng(seed)
    n_c = len(fs.by_class)
    frac = np.ones(n_c) if not tail else 20.0 ** (-rng.permutation(n_c) / max(n_c - 1, 1))
    sup, qry, ys, yq = [], [], [], []
    for c, r in enumerate(fs.by_class):
        r = rng.permutation(r)[:most]
        q = r[labels_a_class:]
        n = len(q) if not tail else max(min(3, len(q)), round(frac[c] * len(q)))
        sup.append(r[:labels_a_class])
        qry.append(q[:n])
        ys.append(np.full(labels_a_class, c))
        yq.append(np.full(n, c))
    return np.concatenate(sup + qry), np.concatenate(ys), np.concatenate(yq)


def interval(d: Array) -> tuple[float, float]:
    """Mean and 95% half width."""
    d = np.asarray(d, float)
    return float(d.mean()), float(1.96 * d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan")
