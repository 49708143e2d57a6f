"""The objective of a recipe, update by update: the estimator's, and how it falls."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from laplacianshot import FeatureSet, LaplacianShot
from laplacianshot.episodes.evaluation import evaluate, trace_convergence
from laplacianshot.episodes.results import Convergence
from laplacianshot.episodes.tasks import draw_tasks
from tests.episodes.oracle import clustered_set, fitted_by_hand

RECIPES = {
    "default": LaplacianShot(),
    "balanced": LaplacianShot(balanced=True),
    "paper": LaplacianShot.paper(),
    "reference": LaplacianShot.reference(),
    "default, none": LaplacianShot(transform="none"),
    "paper, l2, not rectified": LaplacianShot.paper(transform="l2", rectify=False),
}


@pytest.fixture(scope="module")
def hard() -> FeatureSet:
    return clustered_set(spread=1.4)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("protocol", ["balanced", "unequal"])
def test_the_objective_is_that_of_the_estimator(name, protocol, hard):
    estimator = clone(RECIPES[name]).set_params(max_iter=9, tol=0.0)
    found = trace_convergence(hard, estimator, protocol=protocol, shot=2, tasks=20)
    for values, task in zip(found.objective, draw_tasks(hard, protocol, shot=2, tasks=20), strict=True):
        fitted = fitted_by_hand(hard, estimator, task)
        # Bound updates that change nothing more are the last, and rounding decides when that is.
        updates = min(fitted.n_iter_, np.isfinite(values).sum())
        assert updates >= 3
        np.testing.assert_allclose(values[:updates], fitted.objective_[:updates], rtol=1e-4)


@pytest.mark.parametrize("name", RECIPES)
def test_updates_and_convergence_are_those_of_the_estimator(name, hard):
    found = trace_convergence(hard, RECIPES[name], tasks=30)
    for updates, ended, task in zip(found.iterations, found.converged, draw_tasks(hard, tasks=30), strict=True):
        fitted = fitted_by_hand(hard, RECIPES[name], task)
        assert abs(int(updates) - fitted.n_iter_) <= 2
        if abs(int(updates) - fitted.n_iter_) == 0:
            assert ended == fitted.converged_
    np.testing.assert_array_equal(found.iterations, evaluate(hard, RECIPES[name], tasks=30).iterations)


@pytest.mark.parametrize("tol", [3e-3, 1e-2, 3e-2])
def test_the_bound_that_ends_the_updates_is_that_of_the_estimator(tol, hard):
    # A loose tolerance: the bound changes by much at the end, and rounding decides nothing.
    estimator = LaplacianShot.paper(3.0, tol=tol)
    found = trace_convergence(hard, estimator, tasks=60)
    wanted = [fitted_by_hand(hard, estimator, task).n_iter_ for task in draw_tasks(hard, tasks=60)]
    np.testing.assert_array_equal(found.iterations, wanted)


@pytest.mark.parametrize("name", ["default", "balanced", "paper", "default, none", "paper, l2, not rectified"])
@pytest.mark.parametrize("protocol", ["balanced", "dirichlet"])
def test_the_objective_never_rises_where_that_is_proven(name, protocol, hard):
    estimator = clone(RECIPES[name]).set_params(tol=0.0, max_iter=30)
    found = trace_convergence(hard, estimator, tasks=150, protocol=protocol, query=10, seed=1)
    assert not found.rises.any()
    assert found.objective.shape[0] == 150
    # And it does fall.
    assert (found.filled[:, -1] < found.objective[:, 0]).mean() > 0.9


# Two of ten classes have queries.
ABSENT = {"protocol": "present", "way": 10, "shot": 2, "present": 2, "total_queries": 50}


@pytest.mark.parametrize("name", ["default", "balanced", "default, none"])
def test_where_classes_are_absent_the_objective_is_that_of_the_estimator(name):
    clear = clustered_set()
    estimator = clone(RECIPES[name]).set_params(max_iter=9, tol=0.0)
    found = trace_convergence(clear, estimator, tasks=20, **ABSENT)
    pushed = []
    for values, task in zip(found.objective, draw_tasks(clear, tasks=20, **ABSENT), strict=True):
        fitted = fitted_by_hand(clear, estimator, task)
        np.testing.assert_allclose(values, fitted.objective_, rtol=1e-4)
        pushed.append(fitted.solution_.constants.eta > 0)
    assert np.mean(pushed) == (0 if name == "balanced" else 1)


@pytest.mark.parametrize("name", ["default", "default, none"])
@pytest.mark.parametrize("lam", [None, 0.0, 6.0])
@pytest.mark.parametrize("spread", [0.7, 1.1])
def test_where_classes_are_absent_the_objective_never_rises(name, lam, spread):
    rows = clustered_set(spread=spread)
    estimator = clone(RECIPES[name]).set_params(tol=0.0, max_iter=30, lam=lam)
    found = trace_convergence(rows, estimator, tasks=100, seed=1, **ABSENT)
    assert not found.rises.any()
    # Of clear classes the trial rounds have found nearly everything.
    assert (found.filled[:, -1] < found.objective[:, 0]).mean() > (0.5 if spread < 1 else 0.8)
    some = [fitted_by_hand(rows, estimator, task) for task in draw_tasks(rows, tasks=10, seed=1, **ABSENT)]
    assert np.mean([fitted.solution_.constants.eta > 0 for fitted in some]) > 0.5


@pytest.mark.parametrize("name", ["default", "balanced", "default, none"])
def test_the_trace_of_tasks_with_many_queries_is_that_of_the_estimator(name, hard):
    many = {"way": 3, "shot": 2, "query": 20, "tasks": 4}
    found = trace_convergence(hard, RECIPES[name], **many)
    for values, ended, task in zip(found.objective, found.converged, draw_tasks(hard, **many), strict=True):
        fitted = fitted_by_hand(hard, RECIPES[name], task)
        assert fitted.solution_.answers.spread
        np.testing.assert_allclose(values[: fitted.n_iter_], fitted.objective_, rtol=1e-6)
        assert np.isnan(values[fitted.n_iter_ :]).all()
        assert ended == fitted.converged_


def test_tasks_with_a_corrupt_row_have_the_trace_of_the_estimator(hard):
    features = hard.features.copy()
    features[::60] *= 1e6
    corrupt = FeatureSet(features, hard.labels)
    found = trace_convergence(corrupt, LaplacianShot(), tasks=10)
    for values, task in zip(found.objective, draw_tasks(corrupt, tasks=10), strict=True):
        fitted = fitted_by_hand(corrupt, LaplacianShot(), task)
        updates = min(fitted.n_iter_, np.isfinite(values).sum())
        np.testing.assert_allclose(values[:updates], fitted.objective_[:updates], rtol=1e-4)


def test_the_objective_never_rises_on_digits_either():
    digits = FeatureSet(*load_digits(return_X_y=True))
    for estimator in (LaplacianShot(), LaplacianShot.paper(), LaplacianShot(lam=6.0)):
        assert not trace_convergence(digits, estimator, tasks=60, shot=2).rises.any()


def test_a_directed_graph_lets_the_objective_rise(hard):
    found = trace_convergence(hard, LaplacianShot.reference(lam=3.0), tasks=100)
    assert found.rises.mean() > 0.5
    assert found.iterations.max() == 20
    assert not found.converged[found.iterations == 20].all()


def test_tasks_that_end_early_are_padded_with_nan(hard):
    found = trace_convergence(hard, "laplacianshot", tasks=100)
    assert isinstance(found, Convergence)
    assert len(set(found.iterations.tolist())) > 1
    assert found.objective.shape == (100, found.iterations.max())
    for values, updates in zip(found.objective, found.iterations, strict=True):
        assert np.isfinite(values[:updates]).all()
        assert np.isnan(values[updates:]).all()
    for values, filled, updates in zip(found.objective, found.filled, found.iterations, strict=True):
        np.testing.assert_array_equal(filled[:updates], values[:updates])
        assert (filled[updates:] == values[updates - 1]).all()


def test_results_do_not_depend_on_the_number_of_threads_bit_for_bit(hard):
    for estimator in (LaplacianShot(), LaplacianShot.paper(), LaplacianShot.reference()):
        one, two, three = (
            trace_convergence(hard, estimator, tasks=140, protocol="unequal", query=6, threads=threads)
            for threads in (1, 2, 3)
        )
        for other in (two, three):
            np.testing.assert_array_equal(other.objective, one.objective)
            np.testing.assert_array_equal(other.converged, one.converged)


def test_the_setting_and_the_name_say_what_was_run(hard):
    seen = []
    found = trace_convergence(
        hard, LaplacianShot.paper(), way=3, shot=(1, 2), query=4, tasks=20, seed=7, progress=lambda *at: seen.append(at)
    )
    assert found.method == "laplacianshot-paper"
    assert str(found.setting) == "3-way 1-2-shot, balanced"
    assert (found.setting.tasks, found.setting.seed, found.setting.center) == (20, 7, "task")
    assert seen[-1] == (20, 20)
    assert "20 tasks" in repr(found)
    assert trace_convergence(hard, base_mean=np.zeros(16), tasks=2).setting.center == "base mean"


def test_a_start_at_less_weight_is_outside_the_objective(hard):
    # A strong graph has six starting rounds, and max_iter counts those after them.
    found = trace_convergence(hard, LaplacianShot(lam=4.0, tol=0.0, max_iter=5), tasks=10)
    np.testing.assert_array_equal(found.iterations, 5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "simpleshot-cl2"}, TypeError, "method must be a LaplacianShot with graph='auto'"),
        ({"method": LaplacianShot}, TypeError, "method must be a name"),
        ({"method": "laplacian"}, ValueError, "did you mean laplacianshot"),
        ({"method": LaplacianShot(lam=np.nan)}, ValueError, "The 'lam' parameter"),
        ({"protocol": "inat-leaking-labels"}, ValueError, "'inat-leaking-labels' is for evaluate alone"),
        ({"way": 50}, ValueError, "way=50 needs 50 classes"),
        ({"threads": 0}, ValueError, "threads must be at least 1, got 0"),
        ({"base_mean": np.zeros(2)}, ValueError, r"base_mean has shape \(2,\)"),
    ],
)
def test_bad_input_is_refused(options, error, message, hard):
    with pytest.raises(error, match=message):
        trace_convergence(hard, **options)
