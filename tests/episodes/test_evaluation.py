"""Methods over many tasks: what evaluate finds is what fitting by hand finds, whatever it is asked beside."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading

from laplacianshot import FeatureSet, LaplacianShot, evaluate
from laplacianshot.baselines import NearestPrototype
from laplacianshot.episodes.centers import center_for
from laplacianshot.episodes.methods import METHODS, make_method
from laplacianshot.episodes.results import Evaluations
from laplacianshot.episodes.runners import TaskRunner, over_threads, runnables
from laplacianshot.episodes.tasks import TaskGroup, draw_tasks
from laplacianshot.inference.transforms import unit_roots
from tests.episodes.oracle import clustered_set, fit_by_hand, fitted_by_hand

RECIPES = ("laplacianshot", "laplacianshot-balanced", "laplacianshot-paper", "laplacianshot-reference")
TASK = {"way": 4, "shot": 2, "query": 6, "tasks": 40}


@pytest.fixture(scope="module")
def digits() -> FeatureSet:
    return FeatureSet(*load_digits(return_X_y=True))


@pytest.fixture(scope="module")
def hard() -> FeatureSet:
    """Overlapping classes in three splits."""
    return clustered_set(spread=1.6, splits=True)


def recount(feature_set, estimator, tasks):
    """Accuracies (T,) and class accuracies (C,) of an estimator fitted task by task."""
    accuracies, right, asked = [], np.zeros(feature_set.n_classes), np.zeros(feature_set.n_classes)
    for task in tasks:
        found = fit_by_hand(feature_set, estimator, task)
        inside = task.query_labels >= 0
        hits = (found == task.query_labels)[inside]
        accuracies.append(hits.mean())
        np.add.at(right, task.classes[task.query_labels[inside]], hits)
        np.add.at(asked, task.classes[task.query_labels[inside]], 1)
    with np.errstate(invalid="ignore"):
        return np.array(accuracies), right / asked


@pytest.mark.parametrize("protocol", ["balanced", "dirichlet", "unequal", "open-set"])
@pytest.mark.parametrize("name", [*RECIPES, "simpleshot-cl2", "bd-cspn"])
def test_accuracies_are_those_of_fitting_every_task_by_hand(name, protocol, hard):
    found = evaluate(hard, name, protocol=protocol, base_mean="task", seed=3, **TASK)
    tasks = draw_tasks(hard, protocol, seed=3, **TASK)
    accuracies, by_class = recount(hard, make_method(name), tasks)
    np.testing.assert_allclose(found.accuracies, accuracies)
    np.testing.assert_allclose(found.class_accuracies, by_class)
    assert found.class_names == hard.class_names
    assert (found.n_tasks, found.setting.protocol, found.setting.center) == (40, protocol, "task")


@pytest.mark.parametrize("name", [*RECIPES, "simpleshot-cl2", "bd-cspn"])
def test_accuracies_with_few_classes_present_are_those_of_fitting_every_task_by_hand(name, hard):
    few = TASK | {"present": 2, "total_queries": 17}
    found = evaluate(hard, name, protocol="present", base_mean="task", seed=3, **few)
    accuracies, by_class = recount(hard, make_method(name), draw_tasks(hard, "present", seed=3, **few))
    np.testing.assert_allclose(found.accuracies, accuracies)
    np.testing.assert_allclose(found.class_accuracies, by_class)
    assert (found.setting.present, found.setting.total_queries) == (2, 17)


def test_accuracies_are_those_of_fitting_by_hand_where_most_classes_are_found_absent():
    rows = clustered_set(spread=1.1)
    few = {"way": 10, "shot": 2, "present": 3, "total_queries": 60, "tasks": 40}
    tasks = draw_tasks(rows, "present", **few)
    fitted = [fitted_by_hand(rows, LaplacianShot(), task) for task in tasks]
    assert np.mean([one.solution_.constants.eta > 0 for one in fitted]) > 0.8
    found = evaluate(rows, "laplacianshot", protocol="present", **few)
    right = [(one.transduction_[20:] == task.query_labels).mean() for one, task in zip(fitted, tasks, strict=True)]
    np.testing.assert_allclose(found.accuracies, right)
    # A recipe that expects equal shares gives queries to absent classes.
    assert found.mean > evaluate(rows, "laplacianshot-balanced", protocol="present", **few).mean + 0.1


@pytest.mark.parametrize("method", [LaplacianShot(), LaplacianShot(balanced=True), LaplacianShot(transform="l2")])
def test_tasks_of_many_queries_are_fitted_one_by_one(method, hard):
    many = {"way": 2, "shot": 2, "query": 20, "tasks": 6}
    found = evaluate(hard, [method, "simpleshot-cl2"], base_mean="task", **many)
    for result, estimator in zip(found, (method, NearestPrototype()), strict=True):
        np.testing.assert_allclose(result.accuracies, recount(hard, estimator, draw_tasks(hard, **many))[0])


@pytest.mark.parametrize("name", [*RECIPES, "simpleshot-cl2"])
def test_tasks_with_a_corrupt_row_are_those_of_fitting_by_hand(name, hard):
    features = hard.features.copy()
    features[::60] *= 1e6
    corrupt = FeatureSet(features, hard.labels)
    tasks = draw_tasks(corrupt, **TASK)
    met = [np.isin(np.arange(0, 360, 60), np.concatenate([task.support, task.query])).any() for task in tasks]
    assert 0.1 < np.mean(met) < 0.9
    found = evaluate(corrupt, name, **TASK)
    np.testing.assert_allclose(found.accuracies, recount(corrupt, make_method(name), tasks)[0])


@pytest.mark.parametrize("make", [LaplacianShot, LaplacianShot.paper, LaplacianShot.reference])
def test_standard_columns_are_those_of_each_task(make, hard):
    method = make(transform="standard")
    found = evaluate(hard, method, **TASK)
    np.testing.assert_allclose(found.accuracies, recount(hard, method, draw_tasks(hard, **TASK))[0])


def test_tasks_of_several_sizes_for_lack_of_rows_are_scored_over_the_queries_that_they_have(hard):
    # Rows of a class differ in number: so do the queries of a task whose present classes give all.
    few = TASK | {"protocol": "present", "present": 1, "total_queries": 10**6}
    kept = np.arange(hard.n_rows) % 7 > hard.codes % 3
    uneven = FeatureSet(hard.features[kept], hard.codes[kept])
    tasks = draw_tasks(uneven, "present", **{key: value for key, value in few.items() if key != "protocol"})
    assert len(tasks.shapes()) > 1
    found = evaluate(uneven, "simpleshot-cl2", base_mean="task", **few)
    np.testing.assert_allclose(found.accuracies, recount(uneven, make_method("simpleshot-cl2"), tasks)[0])


@pytest.mark.parametrize("name", RECIPES)
def test_accuracies_on_digits_are_those_of_fitting_every_task_by_hand(name, digits):
    found = evaluate(digits, name, shot=5, tasks=40)
    accuracies, _ = recount(digits, make_method(name), draw_tasks(digits, shot=5, tasks=40))
    # One query in 3,000 may lie on the fence.
    assert np.abs(found.accuracies - accuracies).sum() <= 1 / 75 + 1e-9
    assert found.mean > 0.9


def test_the_mean_of_the_base_split_is_the_center_unless_told_otherwise(hard):
    base = hard.features[hard.rows("base")].mean(axis=0, dtype=np.float64)
    tasks = draw_tasks(hard, split="novel", **TASK)
    own = evaluate(hard, "laplacianshot-reference", split="novel", **TASK)
    assert own.setting.center == "base mean"
    assert own.setting.split == "novel"
    np.testing.assert_allclose(own.accuracies, recount(hard, LaplacianShot.reference(base_mean=base), tasks)[0])
    for center in (base, base.tolist(), hard, hard.select("base"), FeatureSet(np.stack([base, base]), [0, 1])):
        same = evaluate(hard, "laplacianshot-reference", split="novel", base_mean=center, **TASK)
        np.testing.assert_array_equal(same.accuracies, own.accuracies)


def test_a_base_mean_from_another_domain_is_the_mean_of_its_base_classes_or_of_all_rows(hard):
    with_base = clustered_set(seed=9, splits=True, offset=2.0)
    without = clustered_set(seed=9, offset=2.0)
    np.testing.assert_allclose(center_for(hard, with_base), with_base.base_mean())
    np.testing.assert_allclose(center_for(hard, without), without.features.mean(axis=0, dtype=np.float64))
    found = evaluate(hard, ["laplacianshot", "simpleshot-cl2"], base_mean=without, **TASK)
    mean = center_for(hard, without)
    tasks = draw_tasks(hard, **TASK)
    for result, estimator in zip(found, (LaplacianShot(base_mean=mean), NearestPrototype(center=mean)), strict=True):
        np.testing.assert_allclose(result.accuracies, recount(hard, estimator, tasks)[0])


@pytest.mark.parametrize("name", ["laplacianshot", "simpleshot-cl2"])
def test_the_word_task_leaves_every_task_to_itself(name, hard):
    without_splits = FeatureSet(hard.features, hard.labels)
    alone = evaluate(hard, name, base_mean="task", **TASK)
    np.testing.assert_array_equal(alone.accuracies, evaluate(without_splits, name, **TASK).accuracies)
    assert alone.setting.center == "task"
    assert (alone.accuracies != evaluate(hard, name, **TASK).accuracies).any()


@pytest.fixture(scope="module")
def relu() -> FeatureSet:
    """Overlapping classes of 60 features, none of them negative, in three splits."""
    rows = clustered_set(spread=4.0, dim=60, splits=True)
    return FeatureSet(np.maximum(rows.features, 0), rows.labels, split=rows.split)


@pytest.mark.parametrize("balanced", [False, True])
def test_features_without_negative_entries_are_evaluated_in_power_about_the_mean_of_the_base_roots(balanced, relu):
    tasks, method = draw_tasks(relu, split="novel", **TASK), LaplacianShot(balanced=balanced)
    found = evaluate(relu, method, split="novel", **TASK)
    assert found.setting.center == "base mean"
    base = relu.base_mean(transform="power")
    rows = unit_roots(relu.features[relu.rows("base")])
    np.testing.assert_allclose(base, rows.mean(axis=0, dtype=np.float64), rtol=1e-6)
    by_hand = LaplacianShot(transform="power", base_mean=base, balanced=balanced)
    np.testing.assert_allclose(found.accuracies, recount(relu, by_hand, tasks)[0])
    for center in (relu, relu.select("base")):
        again = evaluate(relu, method, split="novel", base_mean=center, **TASK)
        np.testing.assert_array_equal(again.accuracies, found.accuracies)


def test_a_task_of_features_without_negative_entries_is_what_the_estimator_makes_of_it(relu):
    tasks = draw_tasks(relu, **TASK)
    found = evaluate(relu, "laplacianshot", base_mean="task", **TASK)
    fitted = [LaplacianShot().fit(*labeled_rows(relu, task)) for task in tasks]
    assert {one.transform_ for one in fitted} == {"power"}
    right = [(one.transduction_[8:] == task.query_labels).mean() for one, task in zip(fitted, tasks, strict=True)]
    np.testing.assert_allclose(found.accuracies, right)


def labeled_rows(feature_set, task):
    X = feature_set.features[np.concatenate([task.support, task.query])]
    return X, np.concatenate([task.support_labels, np.full(len(task.query), -1)])


@pytest.mark.parametrize("name", ["laplacianshot-reference", "simpleshot-cl2", "pt-map"])
def test_other_methods_keep_their_spaces_where_no_feature_is_negative(name, relu):
    found = evaluate(relu, name, base_mean="task", **TASK)
    np.testing.assert_allclose(found.accuracies, recount(relu, make_method(name), draw_tasks(relu, **TASK))[0])


def test_a_vector_as_base_mean_keeps_cl2(relu):
    base = relu.base_mean()
    found = evaluate(relu, "laplacianshot", base_mean=base, **TASK)
    by_hand = LaplacianShot(transform="cl2", base_mean=base)
    np.testing.assert_allclose(found.accuracies, recount(relu, by_hand, draw_tasks(relu, **TASK))[0])
    assert (found.accuracies != evaluate(relu, "laplacianshot", **TASK).accuracies).any()


def test_a_baseline_in_power_has_the_mean_of_the_base_roots(relu):
    found = evaluate(relu, NearestPrototype(space="power"), **TASK)
    by_hand = NearestPrototype(space="power", center=relu.base_mean(transform="power"))
    np.testing.assert_allclose(found.accuracies, recount(relu, by_hand, draw_tasks(relu, **TASK))[0])


@pytest.mark.parametrize("center", ["pooled", "support"])
def test_a_method_with_a_center_of_its_own_keeps_it(center, hard):
    tasks = draw_tasks(hard, **TASK)
    recipe = LaplacianShot.reference(base_mean=center)
    np.testing.assert_allclose(evaluate(hard, recipe, **TASK).accuracies, recount(hard, recipe, tasks)[0])
    vector = np.full(hard.dim, 0.5)
    for method in (LaplacianShot(base_mean=vector), NearestPrototype(center=vector)):
        np.testing.assert_allclose(evaluate(hard, method, **TASK).accuracies, recount(hard, method, tasks)[0])


def test_a_center_chosen_for_a_recipe_holds_for_large_tasks_too():
    large = clustered_set(4, 400, spread=1.6, splits=True)
    sizes = {"way": 2, "shot": 2, "query": 397, "tasks": 1}
    chosen = evaluate(large, LaplacianShot.reference(base_mean="pooled"), **sizes)
    with_way = {**sizes, "way": 4}
    beyond = evaluate(large, LaplacianShot.reference(base_mean="pooled"), **with_way)
    for found, task in ((chosen, sizes), (beyond, with_way)):
        by_hand, _ = recount(large, LaplacianShot.reference(base_mean="pooled"), draw_tasks(large, **task))
        np.testing.assert_allclose(found.accuracies, by_hand)


def test_without_graph_and_rectification_reference_is_simpleshot(hard):
    plain = LaplacianShot.reference(lam=0.0, rectify=False)
    for base_mean in (None, "task"):
        found = evaluate(hard, [plain, "simpleshot-cl2"], base_mean=base_mean, tasks=500)
        np.testing.assert_array_equal(found[0].accuracies, found[1].accuracies)
        np.testing.assert_array_equal(found[0].class_accuracies, found[1].class_accuracies)
    for transform, name in (("none", "simpleshot-un"), ("l2", "simpleshot-l2")):
        plain = LaplacianShot.reference(lam=0.0, rectify=False, transform=transform)
        found = evaluate(hard, [plain, name], tasks=500)
        np.testing.assert_array_equal(found[0].accuracies, found[1].accuracies)


def test_without_graph_reference_is_bd_cspn(hard):
    found = evaluate(hard, [LaplacianShot.reference(lam=0.0), "bd-cspn"], tasks=500)
    np.testing.assert_array_equal(found[0].accuracies, found[1].accuracies)


@pytest.mark.parametrize("protocol", ["balanced", "unequal"])
def test_results_do_not_depend_on_the_number_of_threads(protocol, hard):
    methods = [*RECIPES, "simpleshot-cl2", "label-propagation"]
    one, two, three = (
        evaluate(hard, methods, protocol=protocol, query=8, shot=2, tasks=200, threads=threads) for threads in (1, 2, 3)
    )
    for other in (two, three):
        for expected, found in zip(one, other, strict=True):
            np.testing.assert_array_equal(found.accuracies, expected.accuracies)
            np.testing.assert_array_equal(found.class_accuracies, expected.class_accuracies)
            np.testing.assert_array_equal(found.iterations, expected.iterations)


def test_the_same_seed_gives_the_same_result_and_another_seed_another(hard):
    one, same, other = (evaluate(hard, "laplacianshot", seed=seed, **TASK) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.accuracies, same.accuracies)
    assert (one.accuracies != other.accuracies).any()


@pytest.mark.parametrize("protocol", ["balanced", "dirichlet", "unequal", "open-set"])
def test_fewer_tasks_are_the_first_of_more(protocol, hard):
    few, many = (evaluate(hard, list(RECIPES), protocol=protocol, query=6, tasks=tasks) for tasks in (50, 200))
    for short, long in zip(few, many, strict=True):
        np.testing.assert_array_equal(short.accuracies, long.accuracies[:50])


def test_a_list_gives_what_single_calls_give(hard):
    methods = ["laplacianshot", "simpleshot-l2", LaplacianShot.paper(1.0), NearestLabel(), "ridge"]
    together = evaluate(hard, methods, **TASK)
    assert isinstance(together, Evaluations)
    for method, found in zip(methods, together, strict=True):
        alone = evaluate(hard, method, **TASK)
        np.testing.assert_array_equal(found.accuracies, alone.accuracies)
        assert (found.setting, found.method) == (alone.setting, alone.method)
    assert isinstance(evaluate(hard, ("ridge",), **TASK), Evaluations)


def test_intervals_and_paired_differences_are_those_of_scipy(hard):
    found = evaluate(hard, ["laplacianshot", "simpleshot-cl2"], tasks=300)
    one, two = (result.accuracies for result in found)
    for result in found:
        assert result.mean == pytest.approx(result.accuracies.mean())
        assert result.ci95 == pytest.approx(1.96 * stats.sem(result.accuracies))
    gap = found.difference("laplacianshot", "simpleshot-cl2")
    assert gap.mean == pytest.approx((one - two).mean())
    assert gap.ci95 == pytest.approx(1.96 * stats.sem(one - two))
    assert gap.n == 300
    # Tasks are shared, so the difference is sharper than its two sides.
    assert gap.ci95 < np.hypot(found[0].ci95, found[1].ci95)


def test_names_come_from_the_registry_the_recipe_or_the_class(hard):
    methods = [
        "ridge",
        LaplacianShot(),
        LaplacianShot(balanced=True),
        LaplacianShot.paper(),
        LaplacianShot.reference(),
        LaplacianShot.reference(lam=0.1),
        NearestPrototype(),
    ]
    assert evaluate(hard, methods, **TASK).names == (
        "ridge",
        "laplacianshot",
        "laplacianshot-balanced",
        "laplacianshot-paper",
        "laplacianshot-reference",
        "laplacianshot-reference (2)",
        "NearestPrototype",
    )
    named = evaluate(hard, {"ours": "laplacianshot", "theirs": LaplacianShot.reference()}, **TASK)
    assert named.names == ("ours", "theirs")
    assert named["theirs"].method == "theirs"


class NearestLabel:
    """No scikit-learn estimator: every row gets the label of the nearest labeled row."""

    def __init__(self):
        self.calls = 0

    def fit(self, X, y):
        assert self.calls == 0  # a new copy for every task
        self.calls += 1
        labeled = np.flatnonzero(y >= 0)
        X = np.asarray(X, dtype=np.float64)
        nearest = np.square(X[:, None] - X[labeled]).sum(axis=2).argmin(axis=1)
        self.transduction_ = y[labeled][nearest]


class SlowPrototype(BaseEstimator):
    """A scikit-learn estimator that counts its updates in an array, as some do."""

    slow = True

    def __init__(self, count=7):
        self.count = count

    def fit(self, X, y):
        self.transduction_ = NearestPrototype("l2").fit(X, y).transduction_
        self.n_iter_ = self.count
        return self


def test_anything_with_fit_and_transduction_can_be_evaluated(hard):
    tasks = draw_tasks(hard, **TASK)
    method = NearestLabel()
    found = evaluate(hard, method, **TASK)
    np.testing.assert_allclose(found.accuracies, recount(hard, NearestLabel(), tasks)[0])
    assert found.iterations is None
    assert method.calls == 0

    spreading = LabelSpreading(kernel="knn", n_neighbors=5)
    found = evaluate(hard, spreading, **TASK)
    np.testing.assert_allclose(found.accuracies, recount(hard, spreading, tasks)[0])
    assert (found.iterations > 0).all()


class Wrong(NearestPrototype):
    """Nearest prototype, spoilt."""

    def __init__(self, spoil=None, *, space="cl2", center="pooled"):
        super().__init__(space, center=center)
        self.spoil = spoil

    def scores(self, batch):
        return self.spoil(super().scores(batch))


def some_nan(scores):
    scores[:, 3, 1] = np.nan
    return scores


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda scores: np.full_like(scores, np.nan),
            r"NaN for 960 of 960 queries; it must return numbers of shape \(40, 24, 4\)",
        ),
        (some_nan, r"NaN for 40 of 960 queries; it must return numbers of shape \(40, 24, 4\)"),
        (
            lambda scores: scores[:, 1:],
            r"an array of shape \(40, 23, 4\) and dtype float32; it must return numbers of shape \(40, 24, 4\)",
        ),
        (
            lambda scores: scores.argmax(axis=2),
            r"an array of shape \(40, 24\) and dtype int64; it must return numbers of shape",
        ),
        (
            lambda scores: scores[..., :1],
            r"an array of shape \(40, 24, 1\) and dtype float32; it must return numbers of shape",
        ),
        (
            lambda scores: scores.astype(str),
            r"an array of shape \(40, 24, 4\) and dtype <U\d+; it must return numbers of shape",
        ),
        (lambda scores: None, r"an array of shape \(\) and dtype object; it must return numbers of shape"),
    ],
)
def test_scores_that_are_none_are_refused_in_the_name_of_the_method(spoil, message, hard):
    wanted = r".*\(tasks, queries, classes\)"
    with pytest.raises(ValueError, match=f"^Wrong: scores gave {message}{wanted}"):
        evaluate(hard, ["ridge", Wrong(spoil)], **TASK)
    with pytest.raises(ValueError, match=r"^mine: scores gave"):
        evaluate(hard, {"mine": Wrong(spoil)}, **TASK)


def test_scores_of_whole_numbers_and_infinite_ones_decide_as_well(hard):
    plain = evaluate(hard, NearestPrototype(), **TASK).accuracies

    def ranks(scores):
        return scores.argsort(axis=2).argsort(axis=2)

    def certain(scores):
        return np.where(scores == scores.max(axis=2, keepdims=True), np.inf, -np.inf)

    for spoil in (ranks, certain):
        np.testing.assert_array_equal(evaluate(hard, Wrong(spoil), **TASK).accuracies, plain)


class WrongLabels(NearestLabel):
    """A method fitted on features, spoilt."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def fit(self, X, y):
        super().fit(X, y)
        self.transduction_ = self.spoil(self.transduction_)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda found: found[:-1], r"shape \(31,\) and dtype int64"),
        (lambda found: found[:9], r"shape \(9,\) and dtype int64"),
        (lambda found: np.eye(4)[found], r"shape \(32, 4\) and dtype float64"),
        (lambda found: np.full(len(found), np.nan), r"shape \(32,\) and dtype float64, such as \[nan nan nan\]"),
        (lambda found: found.astype(str), r"shape \(32,\) and dtype <U\d+"),
    ],
)
def test_labels_that_are_none_are_refused_in_the_name_of_the_method(spoil, message, hard):
    wanted = r".*; must be a label of y for each row, shape \(32,\)"
    with pytest.raises(ValueError, match=f"^WrongLabels: transduction_ has {message}{wanted}"):
        evaluate(hard, WrongLabels(spoil), **TASK)


def test_labels_that_are_whole_but_of_a_float_type_count(hard):
    plain = evaluate(hard, NearestLabel(), **TASK).accuracies
    found = evaluate(hard, WrongLabels(lambda labels: labels.astype(np.float64)), **TASK)
    np.testing.assert_array_equal(found.accuracies, plain)


def test_updates_are_counted_where_they_are_a_number(hard):
    np.testing.assert_array_equal(evaluate(hard, SlowPrototype(), **TASK).iterations, 7)
    assert evaluate(hard, SlowPrototype(np.array([1, 2])), **TASK).iterations is None
    assert evaluate(hard, "ridge", **TASK).iterations is None
    for name in RECIPES:
        assert (evaluate(hard, name, **TASK).iterations >= 1).all()
    assert (evaluate(hard, LaplacianShot.reference(max_iter=4, tol=0.0), **TASK).iterations == 4).all()


@pytest.mark.parametrize("protocol", ["balanced", "unequal"])
def test_slow_methods_run_the_first_tasks_only(protocol, hard):
    options = {"protocol": protocol, "tasks": 200}
    methods = {"slow": SlowPrototype(), "fast": "simpleshot-l2"}
    found = evaluate(hard, methods, slow_tasks=90, **options)
    assert (found["slow"].n_tasks, found["fast"].n_tasks) == (90, 200)
    np.testing.assert_array_equal(found["slow"].accuracies, found["fast"].accuracies[:90])
    few = evaluate(hard, "simpleshot-l2", **{**options, "tasks": 90})
    np.testing.assert_array_equal(found["slow"].class_accuracies, few.class_accuracies)
    assert found.difference("slow", "fast").mean == 0
    assert found.difference("fast", "slow").n == 90
    assert evaluate(hard, methods, slow_tasks=500, **options)["slow"].n_tasks == 200
    assert METHODS["label-spreading-knn"].slow
    assert evaluate(hard, "label-spreading-knn", slow_tasks=2, tasks=3).n_tasks == 2


def test_queries_of_classes_outside_the_task_are_not_counted(hard):
    tasks = draw_tasks(hard, "open-set", **TASK)
    found = evaluate(hard, "simpleshot-cl2", protocol="open-set", base_mean="task", **TASK)
    assert all((task.query_labels < 0).sum() == (task.query_labels >= 0).sum() == 24 for task in tasks)
    # Accuracies are shares of the 24 queries of the task's own classes.
    np.testing.assert_allclose(found.accuracies * 24, np.round(found.accuracies * 24))
    counts = np.zeros(hard.n_classes)
    for task in tasks:
        counts[task.classes] += 6
    assert (found.class_accuracies * counts).sum() == pytest.approx(found.accuracies.sum() * 24)


def test_unequal_tasks_of_many_shapes_come_back_in_their_order(hard):
    tasks = draw_tasks(hard, "unequal", shot=3, tasks=60, way=5)
    assert len(tasks.shapes()) > 5
    found = evaluate(hard, "laplacianshot", protocol="unequal", shot=3, tasks=60, base_mean="task")
    np.testing.assert_allclose(found.accuracies, recount(hard, LaplacianShot(), tasks)[0])


def test_the_inat_task_holds_all_classes_at_once(hard):
    found = evaluate(hard, ["laplacianshot", "laplacianshot-reference"], protocol="inat", base_mean="task")
    task = draw_tasks(hard, "inat")[0]
    for result, estimator in zip(found, (LaplacianShot(), LaplacianShot.reference()), strict=True):
        labels = fit_by_hand(hard, estimator, task)
        assert result.accuracies == pytest.approx([(labels == task.query_labels).mean()])
        by_class = [(labels == c)[task.query_labels == c].mean() for c in range(12)]
        np.testing.assert_allclose(result.class_accuracies, by_class)
        assert result.mean_class_accuracy == pytest.approx(np.mean(by_class))
        assert (result.setting.way, result.setting.tasks, result.n_tasks) == (12, 1, 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_graph_made_of_the_query_labels_flatters_the_method(dtype):
    hard = clustered_set(spread=1.6, dtype=dtype)
    recipes = [LaplacianShot.paper(1.5, 5), LaplacianShot.reference(1.5), LaplacianShot("reference", lam=1.5)]
    fair = evaluate(hard, recipes, protocol="inat")
    leaking = evaluate(hard, recipes, protocol="inat-leaking-labels")
    for honest, flattered in zip(fair, leaking, strict=True):
        assert flattered.mean > honest.mean + 0.1
        assert flattered.setting.protocol == "inat-leaking-labels"
    # The constructor's own neighbors are those of the class method.
    np.testing.assert_array_equal(leaking[1].accuracies, leaking[2].accuracies)


def test_the_leaking_graph_joins_neighbors_in_the_space_of_the_recipe():
    # In this set lengths are noise: neighbors of raw rows are not those of directions.
    rng = np.random.default_rng(0)
    plain = clustered_set(spread=1.5)
    stretched = FeatureSet(plain.features * rng.uniform(1, 100, size=(plain.n_rows, 1)), plain.labels)
    options = {"protocol": "inat-leaking-labels"}
    estimator = LaplacianShot.reference(transform="l2")
    np.testing.assert_array_equal(
        evaluate(stretched, estimator, **options).class_accuracies,
        evaluate(plain, estimator, **options).class_accuracies,
    )


@pytest.mark.parametrize("method", ["laplacianshot", "simpleshot-cl2", LaplacianShot()])
def test_only_recipes_with_a_graph_of_their_own_can_leak(method, hard):
    with pytest.raises(ValueError, match=r"'inat-leaking-labels' is for LaplacianShot\.paper and \.reference, not"):
        evaluate(hard, method, protocol="inat-leaking-labels")


@pytest.mark.parametrize("offset", [100.0, 1e4])
@pytest.mark.parametrize(
    "estimator",
    [
        LaplacianShot(transform="none"),
        LaplacianShot(transform="l2"),
        LaplacianShot(),
        LaplacianShot.reference(transform="none"),
        LaplacianShot.paper(transform="none"),
        LaplacianShot.paper(transform="none", rectify=False),
        LaplacianShot.reference(),
        NearestPrototype("none"),
    ],
)
def test_rows_far_from_the_origin_are_labeled_as_by_hand(estimator, offset):
    far = clustered_set(spread=1.2, dtype=np.float64, offset=offset)
    found = evaluate(far, estimator, **TASK)
    by_hand, _ = recount(far, estimator, draw_tasks(far, **TASK))
    np.testing.assert_allclose(found.accuracies, by_hand, atol=1 / 24 + 1e-9)
    assert np.mean(found.accuracies == pytest.approx(by_hand)) > 0.9


def test_seconds_are_measured(hard):
    found = evaluate(hard, ["laplacianshot", NearestLabel()], **TASK)
    assert all(0 < result.seconds < 60 for result in found)


def test_progress_counts_the_tasks_of_all_methods(hard):
    seen = []
    evaluate(
        hard, {"slow": SlowPrototype(), "fast": "ridge"}, tasks=200, slow_tasks=70, progress=lambda *at: seen.append(at)
    )
    assert seen[-1] == (270, 270)
    assert [total for _, total in seen] == [270] * len(seen)
    done = [count for count, _ in seen]
    assert done == sorted(done)
    assert len(done) > 2


class Interrupt:
    """Ctrl-C after so many batches."""

    def __init__(self, after: int):
        self.left = after

    def __call__(self, done: int, total: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("protocol", ["balanced", "unequal"])
def test_an_interrupted_run_gives_what_was_run_and_says_so(protocol, threads, hard):
    options = {"protocol": protocol, "shot": 2, "tasks": 400, "threads": threads}
    methods = ["laplacianshot", "simpleshot-cl2"]
    whole = evaluate(hard, methods, **options)
    before = set(threading.enumerate())
    part = evaluate(hard, methods, progress=Interrupt(3), partial=True, **options)
    assert set(threading.enumerate()) == before
    assert part.interrupted
    assert not whole.interrupted
    for full, found in zip(whole, part, strict=True):
        assert found.interrupted
        assert 0 < found.n_tasks < 400
        assert len(found.numbers) == found.n_tasks
        np.testing.assert_array_equal(found.accuracies, full.accuracies[found.numbers])
        np.testing.assert_array_equal(
            found.iterations, None if full.iterations is None else full.iterations[found.numbers]
        )
        assert found.setting == full.setting
        # Pairs are pairs of the same tasks, though another run has more of them.
        assert found.difference(full).mean == 0
        assert full.difference(found).n == found.n_tasks
    if protocol == "balanced":
        np.testing.assert_array_equal(part[0].numbers, np.arange(3 * 64))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_is_passed_on_unless_a_partial_result_is_wanted(threads, hard):
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        evaluate(hard, "laplacianshot", tasks=400, threads=threads, progress=Interrupt(2))
    assert set(threading.enumerate()) == before


def test_an_interrupt_before_the_first_result_is_passed_on(hard):
    def interrupt(X, y):
        raise KeyboardInterrupt

    class Interrupted:
        fit = staticmethod(interrupt)

    with pytest.raises(KeyboardInterrupt):
        evaluate(hard, Interrupted(), tasks=3, threads=1, partial=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_method_that_fails_says_how_and_leaves_no_thread(threads, hard):
    class Failing:
        def fit(self, X, y):
            raise RuntimeError("out of order")

    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="out of order"):
        evaluate(hard, Failing(), tasks=200, threads=threads)
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_of_chunks_come_in_order(threads):
    chunks = [TaskGroup(1, 1, np.array([number])) for number in range(23)]
    with over_threads(lambda chunk: int(chunk.numbers[0]), chunks, threads) as results:
        found = list(results)
    assert found == list(range(23))


def test_a_runner_sent_to_another_process_places_the_rows_there(hard):
    methods = runnables(["laplacianshot", "simpleshot-l2"], None, hard.dim)
    runner = TaskRunner(hard, draw_tasks(hard, tasks=5), methods).prepare()
    sent = pickle.loads(pickle.dumps(runner)).prepare()
    for chunk in runner.chunks:
        for here, there in zip(runner.answers(chunk), sent.answers(chunk), strict=True):
            np.testing.assert_array_equal(here.found, there.found)


def test_unknown_methods_are_refused_with_the_names_there_are(hard):
    with pytest.raises(ValueError, match=r"there is no method 'plain'; there are simpleshot-un, .*reference"):
        evaluate(hard, "plain")
    with pytest.raises(TypeError, match=r"method must be a name \(simpleshot-un, .*\) or an estimator"):
        evaluate(hard, LaplacianShot)
    for nothing in (3, None, object()):
        with pytest.raises(TypeError, match="an estimator with fit and transduction_"):
            evaluate(hard, nothing)
    for empty in ([], (), {}):
        with pytest.raises(ValueError, match="at least one method"):
            evaluate(hard, empty)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"way": 13}, r"way=13 needs 13 classes .*: lower way, shot or query"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"slow_tasks": 0}, "slow_tasks must be at least 1, got 0"),
        ({"tasks": 0}, "tasks must be an integer of at least 1"),
        ({"protocol": "odd"}, "protocol='odd' is unknown"),
        ({"split": "test"}, "split='test' is not in the set; its splits are"),
        ({"base_mean": np.zeros(3)}, r"base_mean has shape \(3,\), expected \(16,\)"),
        ({"base_mean": clustered_set(dim=5)}, r"base_mean has shape \(5,\), expected \(16,\)"),
        ({"base_mean": np.full(16, np.nan)}, "NaN"),
        ({"base_mean": "base"}, "base_mean must be a vector, a FeatureSet, 'task' or None, got 'base'"),
    ],
)
def test_bad_settings_are_refused(options, message, hard):
    with pytest.raises(ValueError, match=message):
        evaluate(hard, "simpleshot-cl2", **options)


@pytest.mark.parametrize("estimator", [LaplacianShot(lam=np.nan), LaplacianShot(lam=-1.0), LaplacianShot.paper(1.0, 0)])
def test_bad_parameters_of_a_recipe_are_refused(estimator, hard):
    with pytest.raises(ValueError, match=r"The 'lam'|The 'n_neighbors'"):
        evaluate(hard, estimator)


def test_numbers_of_numpy_are_welcome(hard):
    options = {
        "way": np.int64(4),
        "shot": np.int32(2),
        "query": np.int64(6),
        "tasks": np.int64(40),
        "seed": np.uint8(0),
    }
    found = evaluate(hard, "simpleshot-cl2", **options)
    plain = evaluate(hard, "simpleshot-cl2", **TASK)
    assert found.setting == plain.setting
    assert str(found.setting) == "4-way 2-shot, balanced"
    np.testing.assert_array_equal(found.accuracies, plain.accuracies)
    pair = evaluate(hard, "simpleshot-cl2", shot=[1, 3], tasks=5)
    assert str(pair.setting) == "5-way 1-3-shot, balanced"


def test_known_shares_count_in_every_task_as_in_a_fit():
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(4), 60)
    X = rng.standard_normal((4, 8))[truth] + 1.5 * rng.standard_normal((240, 8))
    features = FeatureSet((X - X.mean(axis=0)).astype(np.float32), truth)
    shares = [0.4, 0.3, 0.2, 0.1]
    tasks = draw_tasks(features, way=4, shot=2, query=6, tasks=5, seed=0)
    model = LaplacianShot(class_shares=shares, transform="none")
    found = evaluate(features, model, way=4, shot=2, query=6, tasks=5, seed=0)
    free = evaluate(features, LaplacianShot(transform="none"), way=4, shot=2, query=6, tasks=5, seed=0)
    expected = []
    for number in range(5):
        task = tasks[number]
        rows = np.concatenate([task.support, task.query])
        y = np.concatenate([task.support_labels, np.full(len(task.query), -1)])
        fitted = LaplacianShot(class_shares=shares, transform="none").fit(features.features[rows], y)
        expected.append(np.mean(fitted.transduction_[len(task.support) :] == task.query_labels))
    np.testing.assert_allclose(found.accuracies, expected)
    assert not np.array_equal(found.accuracies, free.accuracies)
    with pytest.raises(ValueError, match="class_shares has shape"):
        evaluate(features, model, way=3, shot=2, query=6, tasks=2)
