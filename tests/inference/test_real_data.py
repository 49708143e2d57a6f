"""The check points of the specification on real features: gains over the nearest prototype, and monotone objectives.

A few dozen tasks of each kind run here; ``benchmarks/check_points.py`` runs as many as one likes.
"""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from laplacianshot import LaplacianShot


def nearest_prototype(**parameters):
    return LaplacianShot.paper(lam=0, rectify=False, **parameters)


@pytest.fixture(scope="module")
def cub(shared):
    with np.load(shared("data/cub/cub_efficientnet_lite0.npz"), allow_pickle=False) as z:
        X, labels, split = z["features"].astype(np.float64), z["labels"], z["split"]
    novel = split == "novel"
    return X[novel], labels[novel], X[split == "base"].mean(axis=0)


@pytest.fixture(scope="module")
def banking(shared):
    with np.load(shared("data/banking77/minilm_int8.npz"), allow_pickle=False) as z:
        X, labels = z["features"].astype(np.float64), z["labels"]
    return X, labels, X.mean(axis=0)


def episode(X, labels, shot, seed, *, dirichlet=None, way=5, query=15):
    """Rows and labels of one task, y with -1 for the queries, and the truth."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(np.unique(labels), way, replace=False)
    counts = np.full(way, query)
    if dirichlet is not None:
        counts = rng.multinomial(way * query, rng.dirichlet(np.full(way, dirichlet)))
    rows, y, truth = [], [], []
    for c, count in zip(classes, counts, strict=True):
        members = rng.permutation(np.flatnonzero(labels == c))[: shot + count]
        rows.append(members)
        y += [int(c)] * shot + [-1] * (len(members) - shot)
        truth += [int(c)] * len(members)
    return X[np.concatenate(rows)], np.array(y), np.array(truth)


def accuracy(clf, X, y, truth):
    clf.fit(X, y)
    return 100 * np.mean((clf.transduction_ == truth)[y == -1])


def never_rises(clf):
    return np.all(np.diff(clf.objective_) <= 1e-12 * np.abs(clf.objective_).max())


# Nearest prototype and default of SPEC section 6; 150 tasks have an interval of about 1.2 points.
@pytest.mark.parametrize(
    ("shot", "dirichlet", "prototype", "default"),
    [(1, None, 85.5, 94.9), (5, None, 95.2, 96.9), (1, 2, 84.8, 91.9), (5, 2, 95.2, 96.5)],
)
def test_cub_check_points(cub, shot, dirichlet, prototype, default):
    X, labels, base_mean = cub
    found = np.zeros((150, 2))
    for seed in range(len(found)):
        task = episode(X, labels, shot, seed, dirichlet=dirichlet)
        clf, paper = LaplacianShot(base_mean=base_mean), LaplacianShot.paper(base_mean=base_mean)
        found[seed] = accuracy(nearest_prototype(base_mean=base_mean), *task), accuracy(clf, *task)
        paper.fit(*task[:2])
        assert never_rises(clf)
        assert never_rises(paper)
    means = found.mean(axis=0)
    np.testing.assert_allclose(means, [prototype, default], atol=3 if shot == 1 else 1.5)
    assert means[1] - means[0] == pytest.approx(default - prototype, abs=2)


def test_banking_check_point(banking):
    X, labels, mean = banking
    found = np.zeros((150, 2))
    for seed in range(len(found)):
        task = episode(X, labels, 1, seed)
        clf, paper = LaplacianShot(base_mean=mean), LaplacianShot.paper(base_mean=mean)
        found[seed] = accuracy(nearest_prototype(base_mean=mean), *task), accuracy(clf, *task)
        paper.fit(*task[:2])
        assert never_rises(clf)
        assert never_rises(paper)
    np.testing.assert_allclose(found.mean(axis=0), [87.7, 94.1], atol=3)


def whole_set(labels, shot, seed):
    rng = np.random.default_rng(seed)
    y = np.full(len(labels), -1)
    for c in np.unique(labels):
        y[rng.choice(np.flatnonzero(labels == c), shot, replace=False)] = c
    return y


def test_digits_check_point():
    X, digits = load_digits(return_X_y=True)
    found = np.zeros((20, 2))
    for seed in range(len(found)):
        y = whole_set(digits, 5, seed)
        clf = LaplacianShot()
        found[seed] = accuracy(nearest_prototype(), X, y, digits), accuracy(clf, X, y, digits)
        assert never_rises(clf)
    np.testing.assert_allclose(found.mean(axis=0), [84.5, 95.3], atol=1.5)


def test_banking_as_one_large_task(banking):
    X, labels, _ = banking
    y = whole_set(labels, 5, 0)
    clf = LaplacianShot()
    gain = accuracy(clf, X, y, labels) - accuracy(nearest_prototype(), X, y, labels)
    assert never_rises(clf)
    assert gain > 2.5
