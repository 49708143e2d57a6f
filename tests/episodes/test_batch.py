"""A batch finds what the estimator finds on the same rows, to float32 rounding."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from laplacianshot import LaplacianShot
from laplacianshot.baselines import NearestPrototype
from laplacianshot.episodes._gram_kernels import Ties, center_gram, gather_grams, gram_neighbors
from laplacianshot.episodes.batched import Buffers, GramSource, Placement
from laplacianshot.episodes.runners import RunnableRecipe
from laplacianshot.episodes.tuning import LAMS
from laplacianshot.inference.transforms import base_mean as roots_mean
from laplacianshot.neighbors.knn import knn
from tests.episodes.oracle import MOST_WORK, Tasks, random_tasks

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TRANSFORMS = {"UN": "none", "L2N": "l2", "CL2N": "cl2"}

reference, paper = LaplacianShot.reference, LaplacianShot.paper

# Every option that changes what a recipe computes. "base mean": the center comes from outside.
OPTIONS = {
    "default, base mean": LaplacianShot(),
    "default, blended center": LaplacianShot(),
    "default, balanced, base mean": LaplacianShot(balanced=True),
    "default, balanced, pooled": LaplacianShot(balanced=True),
    "default, support center": LaplacianShot(base_mean="support"),
    "default, pooled center": LaplacianShot(base_mean="pooled"),
    "default, none": LaplacianShot(transform="none"),
    "default, l2": LaplacianShot(transform="l2"),
    "default, power, blended center": LaplacianShot(transform="power"),
    "default, power, balanced": LaplacianShot(transform="power", balanced=True),
    "default, power, support center": LaplacianShot(transform="power", base_mean="support"),
    "default, power, center of roots": LaplacianShot(transform="power"),
    "default, no graph": LaplacianShot(lam=0.0),
    "default, strong graph, base mean": LaplacianShot(lam=5.0),
    "default, all neighbors": LaplacianShot(n_neighbors=200),
    "default, one neighbor, base mean": LaplacianShot(n_neighbors=1),
    "reference, base mean": reference(),
    "reference, pooled": reference(),
    "reference, support center": reference(base_mean="support"),
    "reference, not rectified": reference(rectify=False),
    "reference, none": reference(transform="none"),
    "reference, none, not rectified": reference(transform="none", rectify=False),
    "reference, l2": reference(transform="l2"),
    "reference, power": reference(transform="power"),
    "reference, no graph, base mean": reference(lam=0.0),
    "reference, no neighbor": reference(n_neighbors=1),
    "reference, ten neighbors, base mean": reference(1.5, 10),
    "reference, all neighbors": reference(0.1, 200),
    "paper, base mean": paper(),
    "paper, pooled": paper(),
    "paper, not rectified": paper(rectify=False),
    "paper, none": paper(transform="none"),
    "paper, none, not rectified": paper(transform="none", rectify=False),
    "paper, l2": paper(transform="l2"),
    "paper, power, center of roots": paper(transform="power"),
    "paper, no graph": paper(lam=0.0),
    "paper, five neighbors, base mean": paper(1.0, 5),
    "paper, all neighbors": paper(0.1, 200),
    "paper, strong graph, base mean": paper(3.0),
    "paper, strong graph, none, not rectified": paper(3.0, transform="none", rectify=False),
}
KINDS = {
    "float32": {},
    "float16": {"dtype": np.float16},
    "float64": {"dtype": np.float64},
    "duplicates": {"duplicates": 4},
    "zero rows": {"zeros": 4},
    "duplicates and zero rows in float64": {"duplicates": 3, "zeros": 3, "dtype": np.float64},
    "far from the origin": {"offset": 30.0},
}
FIXED = {"tol": 0.0, "max_iter": 8}


def draw(option: str, kind: str) -> tuple[LaplacianShot, Tasks, np.ndarray | None]:
    """A recipe, tasks that depend on both names, and a base mean or None."""
    rng = np.random.default_rng(zlib.crc32(f"{option}; {kind}".encode()))
    estimator = clone(OPTIONS[option])
    given = dict(KINDS[kind])
    if "l2" in option:
        # A zero row is equally far from all rows of length one: its neighbors are anybody's guess.
        given.pop("zeros", None)
    looks_at_angles = (
        estimator.recipe != "default"
        and estimator.rectify
        and estimator.get_params()["transform"] not in ("cl2", "power")
    )
    if looks_at_angles and "offset" in given:
        # Farther away it is fitted on its features: see test_evaluation.
        given["offset"] = 3.0
    tasks = random_tasks(rng, **given)
    if "center of roots" in option:
        estimator.set_params(base_mean=0.9 * roots_mean(tasks.features, "power"))
    middle = tasks.features.mean(axis=0, dtype=np.float64)
    base_mean = middle + 0.3 * rng.standard_normal(len(middle)) if "base mean" in option else None
    return estimator, tasks, base_mean


def gap(one, other) -> float:
    return float(np.abs(np.asarray(one, dtype=np.float64) - other).max())


def other_precision(tasks: Tasks):
    return np.float32 if tasks.features.dtype == np.float64 else np.float64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", OPTIONS)
def test_after_as_many_updates_a_batch_holds_the_estimators_assignments(option, kind):
    estimator, tasks, base_mean = draw(option, kind)
    estimator.set_params(**FIXED)
    found = tasks.solve(estimator, base_mean)
    for t in range(len(tasks.rows)):
        fitted = tasks.fit(estimator, base_mean, t)
        # How much rounding matters to this task: what it changes in the estimator itself.
        other = tasks.fit(estimator, base_mean, t, other_precision(tasks))
        wanted = fitted.label_distributions_[tasks.n_support :]
        rounding = gap(wanted, other.label_distributions_[tasks.n_support :])
        assert gap(found.assignments[t], wanted) < 1e-4 + 10 * rounding
        np.testing.assert_array_equal(found.found[t, 0], found.assignments[t].argmax(axis=1))

        # Without a tolerance only updates that change nothing at all end early.
        updates = min(found.iterations[t, 0], fitted.n_iter_, other.n_iter_)
        objective = found.objective[t, 0, :updates]
        scale = max(np.abs(fitted.objective_).max(), tasks.n_query)
        rounding = gap(fitted.objective_[:updates], other.objective_[:updates])
        assert gap(objective, fitted.objective_[:updates]) < 1e-4 * scale + 10 * rounding
        assert np.isnan(found.objective[t, 0, found.iterations[t, 0] :]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", [option for option in OPTIONS if "strong" not in option])
def test_a_batch_stops_where_the_estimator_stops_and_finds_its_labels(option, kind):
    estimator, tasks, base_mean = draw(option, kind)
    found = tasks.solve(estimator, base_mean)
    for t in range(len(tasks.rows)):
        fitted = tasks.fit(estimator, base_mean, t)
        other = tasks.fit(estimator, base_mean, t, other_precision(tasks))
        least, most = sorted([fitted.n_iter_, other.n_iter_])
        assert least - 2 <= found.iterations[t, 0] <= most + 2
        wanted = fitted.label_distributions_[tasks.n_support :]
        ordered = np.sort(wanted, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 1e-2
        clear &= fitted.transduction_[tasks.n_support :] == other.transduction_[tasks.n_support :]
        np.testing.assert_array_equal(found.found[t, 0][clear], fitted.transduction_[tasks.n_support :][clear])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", [option for option in OPTIONS if option.startswith("default")])
def test_where_classes_are_absent_a_batch_finds_what_the_estimator_finds(option, kind):
    rng = np.random.default_rng(zlib.crc32(f"absent classes; {option}; {kind}".encode()))
    estimator = clone(OPTIONS[option]).set_params(**FIXED)
    given = {name: value for name, value in KINDS[kind].items() if name != "zeros" or "l2" not in option}
    tasks = random_tasks(rng, n_classes=10, present=2, least_shots=3, n_query=50, dim=40, n_tasks=3, **given)
    base_mean = tasks.features.mean(axis=0, dtype=np.float64) if "base mean" in option else None
    found = tasks.solve(estimator, base_mean)
    for t in range(len(tasks.rows)):
        fitted = tasks.fit(estimator, base_mean, t)
        solution = fitted.solution_
        assert (solution.constants.eta == 0) == ("balanced" in option)
        if "balanced" not in option:
            assert solution.constants.eta > 0.1
            assert np.ptp(solution.clues.bias) > 0.1
        other = tasks.fit(estimator, base_mean, t, other_precision(tasks))
        wanted = fitted.label_distributions_[tasks.n_support :]
        rounding = gap(wanted, other.label_distributions_[tasks.n_support :])
        assert gap(found.assignments[t], wanted) < 1e-4 + 10 * rounding
        np.testing.assert_array_equal(found.found[t, 0], fitted.transduction_[tasks.n_support :])
        updates = min(found.iterations[t, 0], fitted.n_iter_)
        scale = max(np.abs(fitted.objective_).max(), tasks.n_query)
        assert gap(found.objective[t, 0, :updates], fitted.objective_[:updates]) < 1e-4 * scale


def test_classes_are_found_absent_from_eight_labels_on():
    rng = np.random.default_rng(11)
    for n_classes, expected in ((7, False), (8, True)):
        tasks = random_tasks(rng, n_classes=n_classes, present=1, n_query=40, dim=30, n_tasks=1)
        first = np.array([np.flatnonzero(tasks.labels[0] == c)[0] for c in range(n_classes)])
        rows = np.concatenate([tasks.rows[:, first], tasks.rows[:, tasks.n_support :]], axis=1)
        tasks = replace(tasks, rows=rows, labels=np.ascontiguousarray(tasks.labels[:, first]))
        found, fitted = tasks.solve(LaplacianShot(**FIXED)), tasks.fit(LaplacianShot(**FIXED), None, 0)
        assert (fitted.solution_.constants.eta > 0) == expected
        assert gap(found.assignments[0], fitted.label_distributions_[n_classes:]) < 1e-4


def test_tasks_of_many_queries_and_standard_columns_are_not_for_batches():
    def placed(estimator, *shape):
        return RunnableRecipe("recipe", estimator, None, 4).placement(*shape) is not None

    for estimator in (LaplacianShot(), LaplacianShot(balanced=True), LaplacianShot(lam=1.0)):
        assert placed(estimator, 5, 99, 5)
        assert not placed(estimator, 5, 100, 5)
        assert not placed(estimator, 60, 1025, 60)
    for estimator in (paper(), reference()):
        assert placed(estimator, 5, 100, 5)
        assert not placed(estimator, 5, 2000, 5)
    for make in (LaplacianShot, paper, reference):
        assert not placed(make(transform="standard"), 5, 20, 5)


def test_rounding_matters_to_few_of_the_tasks_above():
    loose = []
    for number, option in enumerate(OPTIONS):
        estimator, tasks, base_mean = draw(option, list(KINDS)[number % len(KINDS)])
        estimator.set_params(**FIXED)
        one, other = (tasks.fit(estimator, base_mean, 0, dtype) for dtype in (None, other_precision(tasks)))
        loose.append(gap(one.label_distributions_, other.label_distributions_) > 1e-5)
    assert np.mean(loose) < 0.1


@pytest.mark.parametrize("name", ["task_04", "task_05", "task_19", "task_27"])
def test_reference_in_a_batch_matches_the_authors_code(name):
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as stored:
        golden = {key: stored[key] for key in stored.files}
    transform = TRANSFORMS[str(golden["norm"])]
    estimator = reference(
        lam=float(golden["lmd"]),
        n_neighbors=int(golden["knn"]),
        transform=transform,
        base_mean=golden["base_mean"] if transform == "cl2" else None,
        rectify=bool(golden["proto_rect"]),
    )
    features = np.concatenate([golden["support"], golden["query"]])
    names, codes = np.unique(golden["support_labels"], return_inverse=True)
    tasks = Tasks(features, np.arange(len(features))[None], codes[None].astype(np.int32), len(names))
    found = tasks.solve(estimator)

    order = list(dict.fromkeys(golden["support_labels"].tolist()))
    order = order if str(golden["mode"]) == "train_lshot" else sorted(order)
    columns = [int(np.flatnonzero(names == label)[0]) for label in order]
    updates = int(golden["n_iter"])
    assert found.iterations[0, 0] == updates
    np.testing.assert_allclose(found.objective[0, 0, :updates], golden["energies"], rtol=1e-4)
    np.testing.assert_allclose(found.assignments[0][:, columns], golden["Y_final"], atol=1e-3)
    sure = golden["label_margin"] > 1e-4
    np.testing.assert_array_equal(names[found.found[0, 0]][sure], golden["pred_labels"][sure])


def exact_neighbors(X, k):
    """The k nearest other rows by exact distance, then by number, in ascending order, (n, k)."""
    X = X.astype(np.float64)
    distances = np.square(X[:, None] - X[None]).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.sort(np.argsort(distances, axis=1, kind="stable")[:, :k], axis=1)


def batch_neighbors(X, k, first=0, *, gram=None, exact=True):
    ids = np.empty((len(X) - first, k), dtype=np.int64)
    scratch = np.empty(len(X), dtype=np.float32)
    ties = Ties(np.arange(len(X))[None], X, exact)
    gram_neighbors(X @ X.T if gram is None else gram, first, 0, ties, scratch, ids)
    return np.sort(ids, axis=1)


@pytest.mark.parametrize("k", [1, 2, 5, 20])
@pytest.mark.parametrize("dim", [1, 2, 3, 7])
def test_ties_between_neighbors_on_a_lattice_go_to_the_smaller_number(dim, k):
    rng = np.random.default_rng(dim)
    for size in (21, 40):
        X = rng.integers(-2, 3, size=(size, dim)).astype(np.float32)
        np.testing.assert_array_equal(batch_neighbors(X, k), exact_neighbors(X, k))
        np.testing.assert_array_equal(batch_neighbors(X, min(k, 10), first=10), exact_neighbors(X[10:], min(k, 10)))


def test_neighbors_are_those_of_the_estimator_where_rows_are_duplicated():
    rng = np.random.default_rng(0)
    for dim in (2, 8, 64):
        X = rng.standard_normal((60, dim)).astype(np.float32)
        X[rng.permutation(60)[:20]] = X[rng.permutation(60)[:20]]
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        for k in (1, 3, 10):
            expected = np.sort(knn(X, k).indices, axis=1)
            np.testing.assert_array_equal(batch_neighbors(X, k), expected)


def test_equal_rows_are_equally_far_though_only_their_equality_is_known():
    rng = np.random.default_rng(1)
    for _ in range(20):
        X = rng.standard_normal((50, 6)).astype(np.float32)
        X[rng.permutation(50)[:30]] = X[rng.integers(5)]
        noise = rng.uniform(-1e-7, 1e-7, size=(50, 50)).astype(np.float32)
        gram = (X @ X.T) * (1 + noise + noise.T)
        np.testing.assert_array_equal(batch_neighbors(X, 4, gram=gram, exact=False), exact_neighbors(X, 4))


@pytest.mark.parametrize(
    ("transform", "dtype", "offset"), [("none", np.float32, 100), ("none", np.float64, 100), ("l2", np.float32, 0)]
)
@pytest.mark.parametrize("make", [LaplacianShot, reference, paper])
def test_tied_rows_of_a_lattice_are_labeled_as_by_the_estimator(make, transform, dtype, offset):
    rng = np.random.default_rng(2)
    # Unrectified: the query shift would break ties by its rounding.
    options = {} if make is LaplacianShot else {"rectify": False}
    estimator = make(transform=transform, **options, **FIXED)
    for _ in range(10):
        tasks = random_tasks(rng, n_classes=3, n_query=20, dim=3, n_tasks=1)
        tasks = replace(tasks, features=np.round(4 * tasks.features).astype(dtype) + dtype(offset))
        fitted = tasks.fit(estimator, None, 0)
        found = tasks.solve(estimator)
        assert gap(found.assignments[0], fitted.label_distributions_[tasks.n_support :]) < 1e-4


PLACEMENTS = {
    "none": Placement.about("none", None),
    "none, moved": Placement.about("none", None, movable=True),
    "l2": Placement.about("l2", None),
    "roots": Placement.about("roots", None),
    "base mean": Placement.about("cl2", np.full(160, 0.1)),
    "pooled": Placement.about("cl2", "pooled"),
    "support": Placement.about("cl2", "support"),
    "blended": Placement.about("cl2", "blended"),
    "power, base mean": Placement.about("power", np.full(160, 0.01)),
    "power, blended": Placement.about("power", "blended"),
}


@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS)
def test_inner_products_by_task_and_of_the_whole_set_agree(placement):
    tasks = random_tasks(np.random.default_rng(3), n_tasks=4, dim=160, n_query=40)
    found = []
    for work in (0, MOST_WORK):
        source = GramSource(tasks.features, placement, work)
        assert (source._whole is not None) == (work > 0)
        found.append(source.batch(tasks.rows, tasks.labels, tasks.n_classes, Buffers()).gram)
    scale = np.abs(found[0]).max()
    np.testing.assert_allclose(found[0], found[1], atol=2e-6 * scale)
    if not placement.by_task and not placement.movable:
        rows = source.rows[tasks.rows].astype(np.float64)
        np.testing.assert_allclose(found[0], rows @ np.swapaxes(rows, 1, 2), atol=2e-6 * scale)


@pytest.mark.parametrize("option", [option for option in OPTIONS if "neighbor" not in option])
def test_either_way_of_forming_inner_products_gives_the_same_labels(option):
    rng = np.random.default_rng(zlib.crc32(option.encode()))
    tasks = random_tasks(rng, dim=140, n_classes=8, n_query=50, n_tasks=3)
    base_mean = np.full(140, 0.2) if "base mean" in option else None
    estimator = clone(OPTIONS[option]).set_params(**FIXED)
    by_task, whole = (tasks.solve(estimator, base_mean, whole=whole) for whole in (False, True))
    np.testing.assert_allclose(by_task.assignments, whole.assignments, atol=1e-4)
    np.testing.assert_array_equal(by_task.found, whole.found)


def test_inner_products_of_a_whole_set_are_used_only_where_they_save_work():
    features = np.random.default_rng(0).standard_normal((50, 300)).astype(np.float32)
    placement = Placement("none")
    assert GramSource(features, placement, 10_000)._whole is not None
    assert GramSource(features, placement, 100)._whole is None
    assert GramSource(features[:, :100], placement, MOST_WORK)._whole is None


def test_inner_products_of_a_large_set_are_symmetric_across_its_blocks():
    rows = np.random.default_rng(0).standard_normal((2100, 129)).astype(np.float32)
    whole = GramSource(rows, Placement("none"), MOST_WORK)._whole
    np.testing.assert_allclose(whole, rows @ rows.T, atol=1e-3)
    picked = np.array([[2099, 0, 1500, 1024]])
    grams = np.empty((1, 4, 4), dtype=np.float32)
    gather_grams(whole, picked, grams)
    np.testing.assert_array_equal(grams[0], whole[np.ix_(picked[0], picked[0])])


def test_a_row_at_the_center_has_no_direction():
    X = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]], dtype=np.float32) + 3
    out = np.empty((5, 5), dtype=np.float32)
    center_gram(X @ X.T, np.full(5, 0.2, dtype=np.float32), np.empty(5, dtype=np.float32), out)
    centered = X - 3
    np.testing.assert_allclose(out, centered @ centered.T, atol=1e-5)
    assert (out[4] == 0).all()
    assert (out[:, 4] == 0).all()


def test_one_corrupt_row_spoils_only_the_tasks_that_it_is_in():
    tasks = random_tasks(np.random.default_rng(4), n_classes=5, n_query=30, dim=20)
    outside = np.setdiff1d(np.arange(len(tasks.features)), tasks.rows)
    features = tasks.features.copy()
    features[outside[0]] *= 1e7
    spoilt = replace(tasks, features=features)
    for make in (LaplacianShot, reference):
        expected, found = tasks.solve(make(**FIXED)), spoilt.solve(make(**FIXED))
        np.testing.assert_allclose(found.assignments, expected.assignments, atol=1e-4)


RECIPES = {"default": LaplacianShot(), "reference": reference(), "paper": paper()}


@pytest.fixture(params=RECIPES)
def recipe(request):
    return clone(RECIPES[request.param]).set_params(**FIXED)


@pytest.fixture(params=[None, "base mean"])
def centered(request):
    """Tasks, and a base mean or None."""
    tasks = random_tasks(np.random.default_rng(6), n_classes=6, n_query=40, dim=20, n_tasks=3)
    return tasks, None if request.param is None else np.full(20, 0.1)


def test_permuting_the_queries_permutes_their_labels(recipe, centered):
    tasks, base_mean = centered
    order = np.random.default_rng(0).permutation(tasks.n_query)
    rows = np.concatenate([tasks.rows[:, : tasks.n_support], tasks.rows[:, tasks.n_support :][:, order]], axis=1)
    plain, permuted = tasks.solve(recipe, base_mean), replace(tasks, rows=rows).solve(recipe, base_mean)
    np.testing.assert_array_equal(permuted.found, plain.found[:, :, order])
    np.testing.assert_allclose(permuted.assignments, plain.assignments[:, order], atol=1e-4)


def test_permuting_the_support_changes_nothing(recipe, centered):
    tasks, base_mean = centered
    order = np.random.default_rng(1).permutation(tasks.n_support)
    rows = np.concatenate([tasks.rows[:, : tasks.n_support][:, order], tasks.rows[:, tasks.n_support :]], axis=1)
    permuted = replace(tasks, rows=rows, labels=np.ascontiguousarray(tasks.labels[:, order]))
    plain, found = tasks.solve(recipe, base_mean), permuted.solve(recipe, base_mean)
    np.testing.assert_allclose(found.assignments, plain.assignments, atol=1e-4)


def test_renaming_the_classes_permutes_the_columns(recipe, centered):
    tasks, base_mean = centered
    names = np.random.default_rng(2).permutation(tasks.n_classes).astype(np.int32)
    plain, renamed = tasks.solve(recipe, base_mean), replace(tasks, labels=names[tasks.labels]).solve(recipe, base_mean)
    np.testing.assert_allclose(renamed.assignments[:, :, names], plain.assignments, atol=1e-4)
    np.testing.assert_array_equal(renamed.found, names[plain.found])


def test_a_duplicated_task_has_the_same_result_bit_for_bit(recipe, centered):
    tasks, base_mean = centered
    plain = tasks.solve(recipe, base_mean)
    chosen = [2, 0, 2, 1, 2]
    found = replace(tasks, rows=tasks.rows[chosen], labels=tasks.labels[chosen]).solve(recipe, base_mean)
    for name in ("found", "assignments", "iterations", "objective"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name)[chosen])


def test_without_graph_and_rectification_a_recipe_is_the_nearest_prototype(centered):
    tasks, base_mean = centered
    placement = Placement.about("cl2", "pooled" if base_mean is None else base_mean)
    source = GramSource(tasks.features, placement, 0)
    scores = NearestPrototype().scores(source.batch(tasks.rows, tasks.labels, tasks.n_classes, Buffers()))
    for make in (reference, paper):
        found = tasks.solve(make(lam=0.0, rectify=False), base_mean)
        np.testing.assert_array_equal(found.found[:, 0], scores.argmax(axis=2))
        expected = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        np.testing.assert_allclose(found.assignments, expected, atol=1e-5)


@pytest.mark.parametrize("lams", [LAMS, (0.0, 0.4), tuple(np.linspace(0, 2, 17))], ids=["eight", "two", "seventeen"])
def test_a_grid_of_lambdas_gives_each_what_it_has_alone(recipe, centered, lams):
    tasks, base_mean = centered
    together = tasks.solve(recipe, base_mean, lams=np.array(lams))
    assert together.found.shape == (3, len(lams), tasks.n_query)
    for number, lam in enumerate(lams):
        alone = tasks.solve(clone(recipe).set_params(lam=float(lam)), base_mean)
        ordered = np.sort(alone.assignments, axis=2)
        clear = ordered[:, :, -1] - ordered[:, :, -2] > 1e-3
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(together.found[:, number][clear], alone.found[:, 0][clear])


def test_more_updates_go_on_from_where_fewer_ended(recipe, centered):
    tasks, base_mean = centered
    short, long = (tasks.solve(clone(recipe).set_params(max_iter=count), base_mean) for count in (3, 8))
    np.testing.assert_array_equal(short.iterations, 3)
    np.testing.assert_allclose(short.objective[:, 0], long.objective[:, 0, :3], rtol=1e-6)
    assert not short.converged.any()


def test_a_task_of_one_query_has_no_graph_and_is_labeled_all_the_same():
    rng = np.random.default_rng(8)
    for make in (LaplacianShot, reference, paper):
        tasks = random_tasks(rng, n_query=1, n_classes=4)
        found = tasks.solve(make())
        fitted = [tasks.fit(make(), None, t).transduction_[-1] for t in range(2)]
        np.testing.assert_array_equal(found.found[:, 0, 0], fitted)


@pytest.mark.parametrize("rows", [np.zeros((12, 3)), np.ones((12, 3)), np.tile(np.eye(3), (4, 1))])
@pytest.mark.parametrize("transform", ["none", "l2", "cl2", "power"])
def test_degenerate_rows_give_finite_assignments(recipe, transform, rows):
    tasks = Tasks(rows.astype(np.float32), np.arange(12)[None], np.array([[0, 1, 2]], dtype=np.int32), 3)
    found = tasks.solve(recipe.set_params(transform=transform))
    np.testing.assert_allclose(found.assignments.sum(axis=2), 1, atol=1e-5)
    assert np.isfinite(found.objective[~np.isnan(found.objective)]).all()
    assert (found.iterations > 0).all()


def test_parameters_are_checked_before_any_task_is_run():
    for bad, message in (
        (reference(lam=np.nan), "lam"),
        (LaplacianShot(max_iter=0), "max_iter"),
        (LaplacianShot(rectify=True), "rectify"),
        (paper(base_mean=np.ones(3)), r"base_mean has shape \(3,\), expected \(4,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            RunnableRecipe("recipe", bad, None, 4)


def test_only_methods_that_see_distances_alone_may_have_their_rows_moved():
    def moved(estimator):
        return RunnableRecipe("recipe", estimator, None, 4).placement(5, 5, 5).movable

    assert moved(LaplacianShot(transform="none"))
    assert moved(LaplacianShot(transform="l2"))
    assert moved(paper(transform="none", rectify=False))
    assert not moved(paper(transform="none"))
    assert not moved(reference(transform="l2"))
    assert not moved(LaplacianShot())
