"""Lambda and k chosen on paired tasks: a grid gives each value what it has alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from laplacianshot import FeatureSet, LaplacianShot, evaluate, tune
from laplacianshot.episodes.results import mean_interval
from laplacianshot.episodes.tuning import LAMS, NEIGHBORS
from tests.episodes.oracle import clustered_set

TASK = {"way": 3, "query": 8, "tasks": 60}
WHOLE = {"split": None, "neighbor_split": None}


@pytest.fixture(scope="module")
def hard() -> FeatureSet:
    return clustered_set(15, spread=1.6, splits=True)


@pytest.mark.parametrize(
    "estimator",
    [
        LaplacianShot.reference(),
        LaplacianShot.paper(),
        LaplacianShot.reference(rectify=False, transform="l2"),
        LaplacianShot(),
        LaplacianShot(transform="none"),
    ],
)
@pytest.mark.parametrize("protocol", ["balanced", "unequal", "dirichlet"])
def test_each_lambda_of_a_grid_has_the_accuracies_that_it_has_alone(estimator, protocol, hard):
    lams = (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 1.0, 1.2, 1.5)
    found = tune(hard, estimator, lams=lams, neighbors=(4,), protocol=protocol, **TASK)
    assert found.lam_accuracies.shape == (9, 60)
    alone = []
    for lam in lams:
        method = clone(estimator).set_params(lam=lam, n_neighbors=4)
        alone.append(evaluate(hard, method, protocol=protocol, split="val", **TASK).accuracies)
    # Labels on the fence may fall to the other side by rounding: one query of the 13,000.
    assert np.abs(found.lam_accuracies - alone).sum() < 1.5 / 24
    assert found.lam == lams[int(np.argmax(found.lam_accuracies.mean(axis=1)))]
    assert found.setting.split == found.lam_split == "val"


def test_each_lambda_has_its_own_accuracies_where_classes_are_absent():
    rows, lams = clustered_set(), (0.0, 0.5, 1.0, 3.0)
    task = {"protocol": "present", "way": 10, "shot": 2, "present": 2, "total_queries": 50, "tasks": 30}
    found = tune(rows, LaplacianShot(), lams=lams, neighbors=(4,), split=None, **task)
    for lam, accuracies in zip(lams, found.lam_accuracies, strict=True):
        alone = evaluate(rows, LaplacianShot(lam=lam, n_neighbors=4), **task)
        np.testing.assert_allclose(accuracies, alone.accuracies, atol=1e-9)


def test_tasks_of_many_queries_are_fitted_for_each_lambda(hard):
    lams, task = (0.0, 1.0, 3.0), {"way": 2, "shot": 2, "query": 20, "tasks": 5}
    found = tune(hard, LaplacianShot(), lams=lams, neighbors=(4,), **task)
    for lam, accuracies in zip(lams, found.lam_accuracies, strict=True):
        alone = evaluate(hard, LaplacianShot(lam=lam, n_neighbors=4), split="val", **task)
        np.testing.assert_allclose(accuracies, alone.accuracies, atol=1e-9)


def test_k_is_chosen_on_its_own_split_each_at_its_best_lambda(hard):
    lams, neighbors = (0.2, 1.0), (2, 3, 8)
    found = tune(hard, lams=lams, neighbors=neighbors, seed=2, **TASK)
    assert found.neighbor_accuracies.shape == (3, 2, 60)
    for number, k in enumerate(neighbors):
        for other, lam in enumerate(lams):
            method = LaplacianShot.reference(lam, k)
            alone = evaluate(hard, method, split="base", seed=2, **TASK)
            np.testing.assert_allclose(found.neighbor_accuracies[number, other], alone.accuracies, atol=1e-9)
    best = found.neighbor_accuracies.mean(axis=2).max(axis=1)
    assert found.n_neighbors == neighbors[int(best.argmax())]
    assert (found.lam_split, found.neighbor_split) == ("val", "base")
    np.testing.assert_array_equal(found.neighbors, neighbors)
    # Lambda, then, on the other split, at that k.
    for number, lam in enumerate(lams):
        alone = evaluate(hard, LaplacianShot.reference(lam, found.n_neighbors), split="val", seed=2, **TASK)
        np.testing.assert_allclose(found.lam_accuracies[number], alone.accuracies, atol=1e-9)
    for point, values in zip(found.neighbor_curve, found.neighbor_accuracies, strict=True):
        assert point == mean_interval(values[values.mean(axis=1).argmax()])
    for point, values in zip(found.lam_curve, found.lam_accuracies, strict=True):
        assert point == mean_interval(values)


def test_a_single_k_leaves_nothing_to_choose(hard):
    found = tune(hard, neighbors=[5], neighbor_split="no such split", **TASK)
    assert found.n_neighbors == 5
    assert found.neighbor_split == "val"
    np.testing.assert_array_equal(found.neighbor_accuracies, found.lam_accuracies[None])
    assert len(found.neighbor_curve) == 1


def test_the_first_of_several_equally_good_values_is_taken():
    easy = clustered_set(6, spread=0.05)
    found = tune(easy, lams=(0.3, 0.2, 0.1), neighbors=(5, 3), **WHOLE, **TASK)
    assert (found.lam_accuracies == 1).all()
    assert (found.lam, found.n_neighbors) == (0.3, 5)


def test_the_papers_grids_are_the_default_ones():
    digits = FeatureSet(*load_digits(return_X_y=True))
    found = tune(digits, tasks=20, **WHOLE)
    assert tuple(found.lams) == LAMS == (0.1, 0.3, 0.5, 0.7, 0.8, 1.0, 1.2, 1.5)
    assert tuple(found.neighbors) == NEIGHBORS == (3, 5, 10)
    assert found.lam in LAMS
    assert found.n_neighbors in NEIGHBORS
    assert (found.lam_split, found.neighbor_split, found.setting.center) == (None, None, "task")
    assert found.seconds > 0


def test_recipes_are_tuned_by_name_too(hard):
    for name in ("laplacianshot", "laplacianshot-paper", "laplacianshot-reference"):
        found = tune(hard, name, lams=(0.5, 1.0), neighbors=(3,), **TASK)
        alone = evaluate(hard, name, split="val", **TASK)
        assert found.setting == alone.setting


def test_results_do_not_depend_on_the_number_of_threads(hard):
    one, two, three = (tune(hard, tasks=150, threads=threads) for threads in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(other.lam_accuracies, one.lam_accuracies)
        np.testing.assert_array_equal(other.neighbor_accuracies, one.neighbor_accuracies)


def test_a_base_mean_is_taken_as_by_evaluate(hard):
    found = tune(hard, lams=(0.5,), neighbors=(3,), base_mean="task", **TASK)
    alone = evaluate(hard, LaplacianShot.reference(0.5), split="val", base_mean="task", **TASK)
    np.testing.assert_allclose(found.lam_accuracies[0], alone.accuracies)
    assert found.setting == alone.setting


def test_queries_of_outside_classes_are_not_counted(hard):
    found = tune(hard, lams=(0.5,), neighbors=(3,), protocol="open-set", way=2, query=6, tasks=40)
    alone = evaluate(hard, LaplacianShot.reference(0.5), split="val", protocol="open-set", way=2, query=6, tasks=40)
    np.testing.assert_allclose(found.lam_accuracies[0], alone.accuracies)


def test_the_inat_task_is_one_of_all_classes(hard):
    found = tune(hard, lams=(0.1, 1.0), neighbors=(3, 5), protocol="inat")
    assert found.lam_accuracies.shape == (2, 1)
    assert (found.setting.way, found.setting.tasks) == (5, 1)


def test_progress_counts_the_tasks_of_every_k(hard):
    seen = []
    tune(hard, lams=(0.1, 1.0), neighbors=(3, 5), progress=lambda *at: seen.append(at), **TASK)
    assert seen[-1] == (180, 180)
    seen = []
    tune(hard, neighbors=(3, 5), protocol="inat", progress=lambda *at: seen.append(at))
    assert seen[-1] == (3, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lams": ()}, "lams and neighbors must each have at least one value"),
        ({"neighbors": ()}, "lams and neighbors must each have at least one value"),
        ({"lams": (0.5, -0.1)}, "lam must be a number from 0 to 1e.06, got -0.1"),
        ({"lams": (np.nan,)}, "lam must be a number from 0 to 1e.06, got nan"),
        ({"neighbors": (3, 0)}, r"neighbors must be integers of at least 1, got \[3, 0\]"),
        ({"neighbors": (2.5,)}, r"neighbors must be integers of at least 1, got \[2.5\]"),
        ({"split": "test"}, "^split='test' is not in the set; its splits are"),
        ({"neighbor_split": "test"}, "^neighbor_split='test' is not in the set; its splits are"),
        ({"way": 20}, "way=20 needs 20 classes"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"protocol": "inat-leaking-labels"}, "'inat-leaking-labels' is for evaluate alone"),
        ({"base_mean": np.zeros(2)}, r"base_mean has shape \(2,\)"),
        ({"method": "laplacian"}, "did you mean laplacianshot"),
        ({"method": LaplacianShot.paper(tol=-1.0)}, "The 'tol' parameter"),
    ],
)
def test_bad_input_is_refused(options, message, hard):
    with pytest.raises(ValueError, match=message):
        tune(hard, **options)


def test_without_splits_all_rows_choose_and_a_warning_says_so():
    bare = clustered_set(15, spread=1.6)
    grid = {"lams": (0.2, 1.0), "neighbors": (2, 5)}
    with pytest.warns(UserWarning, match="the set has no splits: all rows choose"):
        found = tune(bare, **grid, **TASK)
    told = tune(bare, **grid, **WHOLE, **TASK)
    assert (found.lam_split, found.neighbor_split, found.setting.split) == (None, None, None)
    np.testing.assert_array_equal(found.neighbor_accuracies, told.neighbor_accuracies)
    np.testing.assert_array_equal(found.lam_accuracies, told.lam_accuracies)


def test_all_rows_that_were_asked_for_need_no_warning():
    bare = clustered_set(15, spread=1.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tune(bare, split=None, lams=(0.2, 1.0), neighbors=(2, 5), **TASK)
    assert (found.lam_split, found.neighbor_split) == (None, None)


def test_without_base_classes_the_neighbors_are_chosen_where_lambda_is(hard):
    renamed = hard.with_split(np.where(hard.split == "base", "train", hard.split))
    found = tune(renamed, lams=(0.2, 1.0), neighbors=(2, 5), **TASK)
    assert (found.lam_split, found.neighbor_split) == ("val", "val")


def test_a_set_with_splits_but_no_val_must_be_told_which_one_chooses(hard):
    renamed = hard.with_split(np.where(hard.split == "val", "valid", hard.split))
    with pytest.raises(ValueError, match=r"split was not given and the set has no split 'val'; name one of .*valid"):
        tune(renamed, **TASK)


@pytest.mark.parametrize("argument", ["split", "neighbor_split"])
def test_a_split_given_for_a_set_without_splits_is_named_by_its_argument(argument):
    bare = clustered_set(15, spread=1.6)
    with pytest.raises(ValueError, match=f"^{argument}='val': the set has no splits; leave {argument} out"):
        tune(bare, **({"split": None} | {argument: "val"}), **TASK)


def test_a_split_that_cannot_be_drawn_from_is_refused_before_anything_is_run(hard):
    seen = []
    with pytest.raises(ValueError, match="split='test'"):
        tune(hard, split="test", progress=lambda *at: seen.append(at))
    assert not seen


@pytest.mark.parametrize("method", ["simpleshot-cl2", LaplacianShot, 3])
def test_only_recipes_have_a_lambda_to_tune(method, hard):
    with pytest.raises(TypeError, match=r"method must be a (LaplacianShot with graph='auto'|name)"):
        tune(hard, method)


def test_features_too_far_away_for_their_angles_are_refused():
    far = clustered_set(offset=1e4, dtype=np.float64)
    with pytest.raises(ValueError, match="subtract their mean"):
        tune(far, LaplacianShot.reference(transform="none"), **WHOLE, **TASK)
