import numpy as np
import pytest
import scipy.sparse as sp

from laplacianshot import LaplacianShot
from laplacianshot.engine.large import LargeTask, solve_large
from laplacianshot.engine.plan import ENTRIES, MAX_LOST, LargePlan
from laplacianshot.inference.transforms import transform_features


def whole(distributions):
    return distributions.toarray() if sp.issparse(distributions) else distributions


def solved(X, y, *, dense=True, max_entries=ENTRIES[-1], transform="cl2", tol=1e-6, **choices):
    """The large way on the exact graph, and the estimator that took the small one."""
    small = LaplacianShot(transform=transform, tol=tol, **choices).fit(X, y)
    n_classes = len(small.classes_)
    constants = small.solution_.constants
    plan = LargePlan(dense=dense, max_entries=max_entries)
    task = LargeTask(X, y, n_classes, transform, small.center_, constants, plan)
    return solve_large(task, tol=tol), small


@pytest.mark.parametrize("transform", ["cl2", "l2", "power"])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("choices", [{}, {"lam": 1.5}, {"balanced": True}, {"max_iter": 3}])
def test_on_the_same_graph_it_is_the_small_way(digits, transform, dense, choices):
    X, _, y = digits
    large, small = solved(X, y, dense=dense, transform=transform, **choices)
    if dense and len(large.objective) != small.n_iter_:
        # In float32 a change of F is known to a tenth of the tolerance: one so near to it may be the last or not, and
        # only then. Both are compared after as many rounds.
        rounds = min(len(large.objective), small.n_iter_)
        for objective in (large.objective, small.objective_):
            before, after = objective[rounds - 2 : rounds]
            np.testing.assert_allclose(abs(after - before) / abs(before), 1e-6, rtol=0.12)
        large, small = solved(X, y, dense=dense, transform=transform, tol=1e-300, **choices, max_iter=rounds)
    np.testing.assert_array_equal(large.labels, small.label_distributions_.argmax(axis=1))
    # What is not kept forgets how it came there, which a fit that ends before it converges can see.
    np.testing.assert_allclose(whole(large.assignments), small.label_distributions_, atol=5e-5 if dense else 1e-2)
    rounds = min(len(large.objective), small.n_iter_)
    assert max(len(large.objective), small.n_iter_) <= rounds + (0 if dense else 1)
    np.testing.assert_allclose(large.objective[:rounds], small.objective_[:rounds], rtol=2e-5)
    np.testing.assert_allclose(large.prototypes, small.prototypes_, atol=1e-5 if dense else 1e-4)
    assert large.converged == small.converged_
    assert large.lam == small.lam_


def test_rows_far_from_zero_are_solved_as_well_as_near_ones(digits):
    X, _, y = digits
    noise = 1e-3 * np.random.default_rng(0).standard_normal(X.shape)  # no two distances are equal
    X = X.astype(np.float64) + noise + 1000
    large, small = solved(X, y, transform="none")
    np.testing.assert_allclose(large.assignments, small.label_distributions_, atol=5e-3)
    np.testing.assert_allclose(large.prototypes, small.prototypes_, rtol=1e-5)
    assert np.mean(large.labels == small.label_distributions_.argmax(axis=1)) > 0.999


@pytest.mark.parametrize("transform", ["cl2", "power"])
@pytest.mark.parametrize("dense", [True, False])
def test_new_rows_are_classified_as_by_the_small_way(digits, dense, transform):
    X, _, y = digits
    large, small = solved(X, y, dense=dense, transform=transform)
    new = X[::7] + np.random.default_rng(0).standard_normal(X[::7].shape).astype(np.float32)
    found = large.rule(transform_features(new, transform, small.center_))
    apart = np.abs(found - small.predict_proba(new)).max(axis=1)
    # Edges that are equally long but for rounding count as one here and as two there: a few rows have another reach.
    assert np.mean(apart > (5e-5 if dense else 5e-4)) < 0.06
    assert apart.max() < 5e-3
    given = transform_features(X[y >= 0], transform, small.center_)
    np.testing.assert_allclose(large.rule.points[: len(given)], given, atol=1e-6)


@pytest.mark.parametrize("dense", [True, False])
def test_the_objective_never_rises(digits, dense):
    X, _, y = digits
    large, _ = solved(X, y, dense=dense, tol=0.0)
    rises = np.diff(large.objective) / np.abs(large.objective[:-1])
    assert rises.max() < 1e-6


def many_classes(n_classes=60, per_class=30, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((n_classes, 12))
    truth = np.repeat(np.arange(n_classes), per_class)
    X = (centers[truth] + 0.6 * rng.standard_normal((len(truth), 12))).astype(np.float32)
    return X, truth, np.where(np.arange(len(truth)) % per_class < 2, truth, -1)


@pytest.mark.parametrize("least", [-1, np.inf], ids=["asked", "not asked"])
def test_neighbors_of_one_class_are_read_by_it_alone(monkeypatch, least):
    monkeypatch.setattr("laplacianshot.engine.rounds._WORTH_ASKING", least)
    rng = np.random.default_rng(0)
    X, _, y = many_classes(n_classes=12, per_class=80)
    X[::5] = rng.standard_normal(X[::5].shape)  # some that stay in doubt
    large, small = solved(X, y, lam=40.0, tol=1e-7)
    certain = large.assignments[y < 0].max(axis=1) == 1
    assert 0.2 < certain.mean() < 0.9
    np.testing.assert_allclose(large.assignments, small.label_distributions_, atol=1e-4)
    np.testing.assert_allclose(large.objective, small.objective_, rtol=1e-5)
    np.testing.assert_allclose(large.prototypes, small.prototypes_, atol=1e-5)


def test_the_largest_entries_stand_for_all_of_them():
    X, _, y = many_classes()
    top, small = solved(X, y, dense=False)
    assert sp.issparse(top.assignments)
    assert np.diff(top.assignments.indptr).max() <= max(ENTRIES)
    np.testing.assert_allclose(top.assignments.sum(axis=1), 1, rtol=1e-5)
    assert 0 < top.dropped_mass < 0.05
    assert np.mean(top.labels == small.label_distributions_.argmax(axis=1)) > 0.99
    assert np.abs(top.assignments - small.label_distributions_).sum(axis=1).mean() < 0.02


def test_fewer_entries_lose_more_and_say_so():
    X, _, y = many_classes()
    lost = []
    for entries in (2, 8):
        with pytest.warns(UserWarning, match=f"the {entries} largest entries.*more memory would keep more"):
            lost.append(solved(X, y, dense=False, max_entries=entries)[0].dropped_mass)
    lost.append(solved(X, y, dense=False)[0].dropped_mass)
    assert lost[0] > lost[1] > lost[2]
    assert lost[2] < MAX_LOST


def test_as_many_entries_are_kept_as_the_first_assignments_need():
    sure = np.eye(200, dtype=np.float32)[np.arange(50)]
    broad = np.full((50, 200), 1 / 200, dtype=np.float32)
    assert LargePlan().entries(sure) == ENTRIES[0]
    assert LargePlan().entries(broad) == 200
    mixed = 0.9 * np.eye(200, dtype=np.float32)[np.arange(50)]
    mixed[:, 100:120] += 0.1 / 20
    chosen = LargePlan().entries(mixed)
    assert chosen == 32
    kept = np.sort(mixed, axis=1)[:, -chosen:].sum(axis=1)
    assert 1 - kept.mean() <= MAX_LOST
    assert LargePlan().entries(sure[:, :4]) == 4
    with pytest.warns(UserWarning, match="the 32 largest entries .* leave out 84.0%"):
        assert LargePlan(max_entries=32).entries(broad) == 32


@pytest.mark.parametrize("dense", [True, False])
def test_threads_do_not_change_the_solution(digits, monkeypatch, dense):
    X, _, y = digits
    X, y = np.tile(X, (3, 1)) + np.random.default_rng(0).random((3 * len(X), 64), dtype=np.float32), np.tile(y, 3)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(solved(X, y, dense=dense)[0])
    np.testing.assert_array_equal(found[0].labels, found[1].labels)
    np.testing.assert_array_equal(found[0].objective, found[1].objective)
    assert abs(found[0].assignments - found[1].assignments).max() == 0
