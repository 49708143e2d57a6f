"""The estimator and the baselines under random input: a clear error that names what is wrong, or a sound result."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.exceptions import NotFittedError

from laplacianshot import LaplacianShot
from laplacianshot.episodes.methods import METHODS, make_method
from tests.attack.conftest import blocks, in_time

PER_BLOCK = 50
# Probabilities that differ by less may change places when sums are taken in another order.
TIE = 1e-2


def random_case(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Rows, labels and parameters, most of them odd in one way or another."""
    n, dim, n_classes = int(rng.integers(2, 60)), int(rng.integers(1, 12)), int(rng.integers(1, 6))
    truth = rng.integers(0, n_classes, n)
    X = rng.standard_normal((n_classes, dim))[truth] * rng.choice([0, 0.3, 3]) + rng.standard_normal((n, dim))
    labeled = rng.random(n) < rng.choice([0.1, 0.3, 0.9, 1.0])
    y = np.where(labeled, truth, -1)
    return _odd_rows(X, rng), _odd_labels(y, rng), _odd_parameters(n, dim, rng)


def _odd_rows(X: Any, rng: np.random.Generator) -> Any:
    n, dim = X.shape
    row, column = int(rng.integers(n)), int(rng.integers(dim))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match rng.choice(48):
            case 0:
                X[row, column] = rng.choice([np.nan, np.inf, -np.inf])
            case 1:
                X *= 10.0 ** rng.integers(-300, 300)
            case 2:
                X[row] *= 10.0 ** rng.integers(3, 12)
            case 3:
                X[:] = X[0]
            case 4:
                X[:, column] = rng.choice([0, 1e9])
            case 5:
                X += 10.0 ** rng.integers(3, 10)
            case 6:
                X = X[:0]
            case 7:
                X = X[:, :0]
            case 8:
                X = X[0]
            case 9:
                X = X[None]
            case 10:
                return sp.csr_array(X)
            case 11:
                return pd.DataFrame(X, columns=[f"c{i}" for i in range(dim)])
            case 12:
                return np.ma.masked_array(X, mask=rng.random(X.shape) < 0.1)
            case 13:
                return X.tolist()
            case 14:
                return X.astype(str)
            case 15:
                return X.astype(object)
            case 16:
                return np.asfortranarray(X)[::-1]
            case 17:
                X.flags.writeable = False
            case 18:
                return X > 0
            case 19:
                return X.astype(complex)
            case 20:
                X[np.abs(X) < 1] = 0
            case 21:
                return X.astype(np.float64).byteswap().view(X.dtype.newbyteorder())
        return X.astype(rng.choice([np.float64] * 5 + [np.float32, np.float16, np.int64, np.int8, np.uint16]))


def _odd_labels(y: Any, rng: np.random.Generator) -> Any:
    names = np.array(["cat", "dog", "<b>", "é", "\ud800", "-"])
    match rng.choice(44):
        case 0:
            return np.full_like(y, -1)
        case 1:
            return y.astype(float)
        case 2:
            return np.where(y < 0, np.nan, y)
        case 3:
            return np.where(y < 0, "", names[y])
        case 4:
            return np.where(y < 0, None, names[y]).tolist()
        case 5:
            return pd.Series(np.where(y < 0, None, np.array(["a", "b", "c"])[y % 3]), dtype="category")
        case 6:
            return y[:-1]
        case 7:
            return y[:, None]
        case 8:
            return np.stack([y, y], axis=1)
        case 9:
            return [2**70 + value if value >= 0 else -1 for value in y.tolist()]
        case 10:
            return [Fraction(value, 3) if value >= 0 else None for value in y.tolist()]
        case 11:
            return np.where(y < 0, None, y).tolist()
        case 12:
            return [value if value % 2 else names[value] for value in y.tolist()]
        case 13:
            return (y > 0).tolist()
        case 14:
            return y + rng.random(len(y))
        case 15:
            return None
        case 16:
            return np.ma.masked_array(y, mask=y < 0)
        case 17:
            return np.where(y < 0, -1, y.astype(np.int64) * 10**15 - 7)
        case 18:
            return np.array(["nan", "None", "a", "b", "c", "d"])[y]
        case 19:
            return np.where(y < 0, np.inf, y)
        case 20:
            return pd.array([None if value < 0 else value for value in y.tolist()], dtype="Int64")
    return y


def _odd_parameters(n: int, dim: int, rng: np.random.Generator) -> dict[str, Any]:
    odd: dict[str, list[Any]] = {
        "recipe": ["default", "paper", "reference", "papers", None],
        "transform": ["auto", "none", "l2", "cl2", "standard", "", 3],
        "base_mean": [None, "pooled", "support", np.zeros(dim), np.zeros(dim + 1), np.full(dim, np.nan), "mean"],
        "lam": [None, 0, 0.7, 1e3, -1, np.nan, np.inf, "1", True],
        "n_neighbors": [None, 1, 3, 10**6, 0, -1, 2.5, True, np.int64(3)],
        "rectify": [None, True, False, 1],
        "balanced": [True, False, 1, None],
        "graph": ["auto", "exact", "cells", "hnsw", _graph(n, rng), _graph(n, rng), _graph(n + 1, rng), np.eye(n)],
        "max_iter": [None, 1, 50, 0, -3, 1.5],
        "tol": [0, 1e-3, -1, np.nan, "0"],
        "memory": [None, "8GB", 10**10, 1, "lots", -5, np.nan],
        "target_recall": [0.9, 1.0, 0, 2, np.nan],
        "random_state": [0, 7, -1, None, 1.5],
    }
    chosen = rng.choice(list(odd), size=int(rng.integers(0, 3)), replace=False).tolist()
    return {name: odd[name][int(rng.integers(len(odd[name])))] for name in chosen}


def _graph(n: int, rng: np.random.Generator) -> Any:
    upper = sp.random_array((n, n), density=0.2, format="csr", rng=rng)
    W = sp.csr_array(upper + upper.T)
    if W.nnz:
        at = int(rng.integers(W.nnz))
        match rng.choice(8):
            case 0:
                W.data[at] = rng.choice([np.nan, -1.0, np.inf])
            case 1:
                W.indices[at] = rng.choice([-1, n, 10**6])
            case 2:
                W.indptr[int(rng.integers(1, n + 1))] = rng.choice([-1, 10**6])
            case 3:
                W = sp.csr_array((n, n))
            case 4:
                return W.tocoo()
            case 5:
                return W.tolil()
    return W


def check_error(error: Exception, arguments: Iterable[str], case: object) -> None:
    """A clear error: of a kind that users expect, in one line that names one of the arguments."""
    text = str(error)
    assert isinstance(error, ValueError | TypeError | MemoryError), f"{case}: {error!r}"
    assert "\n" not in text, f"{case}: {text}"
    assert len(text) < 600, f"{case}: {text}"
    assert any(re.search(rf"\b{name}\b", text) for name in arguments), f"{case}: {text!r} names no argument"


def given_of(y: Any) -> list[Any]:
    """Labels of the rows that have one, by row."""
    values = y.tolist() if hasattr(y, "tolist") else list(y)
    flat = [value[0] if isinstance(value, list) else value for value in values]
    return [
        (row, value)
        for row, value in enumerate(flat)
        if value is not None
        and not (isinstance(value, float) and np.isnan(value))
        and value is not pd.NA
        and not (isinstance(value, str) and value == "")
        and not (not isinstance(value, str | bool) and value == -1)
    ]


def check_result(model: LaplacianShot, X: Any, y: Any, case: object) -> None:
    """Finite, rows sum to one, given labels kept."""
    Y = model.label_distributions_
    assert np.isfinite(Y).all(), case
    assert Y.min() >= 0, case
    np.testing.assert_allclose(Y.sum(axis=1), 1, atol=1e-4, err_msg=str(case))
    assert np.isfinite(model.objective_).all(), case
    assert len(model.transduction_) == len(Y) == len(np.asarray(X)), case
    kept = [(row, model.transduction_[row]) for row, _ in given_of(y)]
    assert all(label == found for (_, label), (_, found) in zip(given_of(y), kept, strict=True)), case


def check_permuted(model: LaplacianShot, X: Any, y: Any, parameters: dict[str, Any], rng: Any, case: object) -> None:
    """The same labels for permuted rows. Of rows at equal distances the first are neighbors: those are left out."""
    graph = parameters.get("graph")
    if not isinstance(X, np.ndarray) or not isinstance(y, np.ndarray) or sp.issparse(graph) or graph == "cells":
        return
    if X.shape[1] < 3 or len(np.unique(pdist(X.astype(np.float64)))) < len(X) * (len(X) - 1) / 2:
        return
    order = rng.permutation(len(X))
    again = LaplacianShot(**parameters).fit(X[order], y[order])
    largest = np.sort(model.label_distributions_, axis=1)[:, ::-1]
    clear = largest[:, 0] - largest[:, 1] > TIE
    moved = np.empty(len(X), dtype=again.transduction_.dtype)
    moved[order] = again.transduction_
    assert (moved == model.transduction_)[clear].all(), f"{case}: labels depend on the order of rows"


@pytest.mark.parametrize("seed", blocks(500, PER_BLOCK))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_is_refused_clearly_or_sound(seed):
    solved = 0
    for number in range(PER_BLOCK):
        rng = np.random.default_rng([seed, number])
        X, y, parameters = random_case(rng)
        case = f"seed {seed}, case {number}, {parameters}"
        with in_time(case):
            try:
                model = LaplacianShot(**parameters).fit(X, y)
            except Exception as error:
                check_error(error, ["X", "y", *parameters], case)
                continue
            solved += 1
            check_result(model, X, y, case)
            check_permuted(model, X, y, parameters, rng, case)
            probabilities = model.predict_proba(X)
            assert np.isfinite(probabilities).all(), case
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-4, err_msg=case)
    assert solved, "every case was refused: the attack is too coarse"


@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("laplacianshot")])
@pytest.mark.filterwarnings("ignore")
def test_a_baseline_is_refused_clearly_or_keeps_its_labels(name):
    for number in range(12):
        rng = np.random.default_rng([7, number])
        X, y, _ = random_case(rng)
        case = f"{name}, case {number}"
        with in_time(case):
            try:
                found = make_method(name).fit(X, y).transduction_
            except Exception as error:
                check_error(error, ["X", "y"], case)
                continue
            assert all(found[row] == label for row, label in given_of(y)), case


def test_rows_near_1e30_are_refused_or_labeled_right_by_every_method():
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    X = (np.eye(3, 8)[truth] * 3 + 0.3 * rng.standard_normal((60, 8))) * 1e30
    y = np.where(np.arange(60) < 15, truth, -1)
    for name in METHODS:
        with pytest.raises(ValueError, match="squares overflow"):
            make_method(name).fit(X.astype(np.float32), y)
        assert (make_method(name).fit(X, y).transduction_ == truth).mean() > 0.9, name


@pytest.mark.parametrize("model", [LaplacianShot.paper(), LaplacianShot.reference(), LaplacianShot(transform="none")])
def test_recipes_that_one_far_row_can_mislead_say_so(model):
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    X = np.eye(3, 8)[truth] * 3 + 0.3 * rng.standard_normal((60, 8))
    X[20] *= 10_000
    with pytest.warns(UserWarning, match="row 20 of X is .* times as long as a typical row"):
        model.fit(X, np.where(np.arange(60) < 15, truth, -1))


def test_the_default_recipe_is_not_misled_by_one_far_row():
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 3
    X = np.eye(3, 8)[truth] * 3 + 0.3 * rng.standard_normal((300, 8))
    X[20] *= 10_000
    assert (LaplacianShot().fit(X, np.where(np.arange(300) < 15, truth, -1)).transduction_ == truth).mean() == 1


def test_a_mask_is_never_ignored():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 4)), np.r_[0, 1, np.full(18, -1)]
    masked = np.ma.masked_array(X, mask=rng.random(X.shape) < 0.1)
    for fit in (LaplacianShot().fit, make_method("simpleshot-cl2").fit):
        with pytest.raises(ValueError, match="X is a masked array"):
            fit(masked, y)
    with pytest.raises(ValueError, match="X is a masked array"):
        LaplacianShot().fit(X, y).predict(masked)


def test_nothing_is_predicted_before_a_fit():
    with pytest.raises(NotFittedError):
        LaplacianShot().predict(np.zeros((2, 2)))
