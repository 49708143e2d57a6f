import multiprocessing
import pickle
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from laplacianshot import LaplacianShot
from laplacianshot.inference.affinity import knn_affinity
from laplacianshot.inference.prototypes import class_means, squared_distances
from laplacianshot.inference.transforms import blended_center, transform_features, unit_roots

RECIPES = {"default": LaplacianShot, "paper": LaplacianShot.paper, "reference": LaplacianShot.reference}
every_recipe = pytest.mark.parametrize("make", RECIPES.values(), ids=RECIPES)

# What scikit-learn checks that cannot hold for a classifier of the semi-supervised convention.
CANNOT_HOLD = {
    "check_classifiers_classes": "it fits labels in {-1, 1}; -1 means unlabeled here, as in sklearn.semi_supervised",
}


@every_recipe
def test_scikit_learn_checks_pass(make):
    results = check_estimator(make(), expected_failed_checks=CANNOT_HOLD, on_fail="raise", on_skip=None)
    status = {result["check_name"]: result["status"] for result in results}
    assert [name for name, found in status.items() if found == "xfail"] == list(CANNOT_HOLD)
    assert sum(found == "passed" for found in status.values()) > 40


@every_recipe
def test_labeled_rows_keep_their_labels_and_the_rest_get_one(make, clusters):
    X, truth, y = clusters(4, 25, 3, spread=0.3)
    clf = make().fit(X, y)
    np.testing.assert_array_equal(clf.transduction_[y >= 0], y[y >= 0])
    assert np.mean(clf.transduction_ == truth) > 0.95
    np.testing.assert_allclose(clf.label_distributions_.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(clf.label_distributions_[y >= 0].max(axis=1), 1)
    assert clf.n_iter_ == len(clf.objective_)
    assert clf.classes_.tolist() == [0, 1, 2, 3]
    assert isinstance(clf.converged_, bool)


def test_the_three_recipes_are_told_apart_by_name():
    assert LaplacianShot().recipe == "default"
    assert LaplacianShot.paper().recipe == "paper"
    assert LaplacianShot.reference(lam=0.3, n_neighbors=5).get_params()["n_neighbors"] == 5
    assert "recipe='paper'" in repr(LaplacianShot.paper())


def test_lambda_zero_without_rectification_is_the_nearest_prototype(clusters):
    X, _, y = clusters(spread=1.0)
    clf = LaplacianShot.paper(lam=0, rectify=False, base_mean=X.mean(axis=0)).fit(X, y)
    Z = transform_features(X, "cl2", X.mean(axis=0))
    M = class_means(Z[y >= 0], y[y >= 0], 3)
    np.testing.assert_array_equal(clf.transduction_[y < 0], squared_distances(Z[y < 0], M).argmin(axis=1))


@pytest.mark.parametrize("make", [LaplacianShot, LaplacianShot.paper], ids=["default", "paper"])
@pytest.mark.parametrize("seed", range(8))
def test_the_objective_never_rises(make, clusters, seed):
    X, _, y = clusters(4, 30, 2, spread=1.0, seed=seed)
    objective = make().fit(X, y).objective_
    assert np.all(np.diff(objective) <= 1e-11 * np.abs(objective).max())


def test_the_paper_graph_is_symmetric_without_self_loops_and_r_is_of_that_graph(clusters):
    X, _, y = clusters()
    clf = LaplacianShot.paper(lam=0.9, rectify=False, base_mean="pooled").fit(X, y)
    W = clf.affinity_.toarray()
    Z = transform_features(X, "cl2", X.mean(axis=0))[y < 0]
    np.testing.assert_array_equal(W, knn_affinity(Z, 3).toarray())
    assert np.all(np.diag(W) == 0)
    Y = clf.label_distributions_[y < 0]
    R = (Y * (np.log(Y) + clf.unary_)).sum() - 0.9 / 2 * (Y * (W @ Y)).sum()
    np.testing.assert_allclose(clf.objective_[-1], R, rtol=1e-12)


@pytest.mark.parametrize("lam", [0.7, 3.0, 30.0])
def test_the_paper_objective_never_rises_on_a_graph_of_ones_own(clusters, lam):
    # Each row is joined to rows of the other half only: no graph has an eigenvalue further below zero.
    X, _, y = clusters(3, 20, 2, spread=1.0)
    half = np.arange(len(X)) % 2
    W = sp.csr_array((half[:, None] != half[None, :]).astype(float))
    clf = LaplacianShot.paper(lam=lam, graph=W, tol=0.0, max_iter=50).fit(X, y)
    assert np.all(np.diff(clf.objective_) <= 1e-12 * np.abs(clf.objective_).max())
    assert np.all(clf.objective_ <= clf.bound_ + 1e-12 * np.abs(clf.bound_).max())


def test_the_default_graph_is_over_the_rows_of_x_in_their_order(clusters):
    X, _, y = clusters()
    clf = LaplacianShot(n_neighbors=3, base_mean="pooled").fit(X, y)
    Z = transform_features(X, "cl2", X.mean(axis=0))
    expected = knn_affinity(Z, 3)
    np.testing.assert_array_equal(clf.affinity_.toarray() > 0, expected.toarray() > 0)


# --- new rows ---------------------------------------------------------------------------------------------------------


def nearest_prototype_agreement(clf, X):
    Z = transform_features(X, clf.get_params()["transform"], clf.center_)
    return np.mean(clf.classes_[squared_distances(Z, clf.prototypes_).argmin(axis=1)] == clf.transduction_)


@every_recipe
@pytest.mark.parametrize("name", ["digits", "blobs", "moons"])
def test_predict_agrees_with_transduction_at_least_as_often_as_a_nearest_prototype_classifier(make, name):
    X, truth = {
        "digits": lambda: load_digits(return_X_y=True),
        "blobs": lambda: make_blobs(600, 10, centers=6, cluster_std=4.0, random_state=0),
        "moons": lambda: make_moons(400, noise=0.1, random_state=0),
    }[name]()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = np.full(len(truth), -1)
        for c in np.unique(truth):
            y[rng.choice(np.flatnonzero(truth == c), 3, replace=False)] = c
        clf = make().fit(X, y)
        agreement = np.mean(clf.predict(X) == clf.transduction_)
        assert agreement >= nearest_prototype_agreement(clf, X)
        assert agreement > 0.95


@every_recipe
def test_predict_is_right_on_new_rows_and_does_not_refit(make, clusters):
    X, truth, y = clusters(4, 60, 3, spread=0.3)
    fitted = (np.arange(len(X)) % 2 == 0) | (y >= 0)
    clf = make().fit(X[fitted], y[fitted])
    before = clf.transduction_.copy()
    assert np.mean(clf.predict(X[~fitted]) == truth[~fitted]) > 0.95
    np.testing.assert_array_equal(clf.transduction_, before)


@every_recipe
def test_probabilities_do_not_depend_on_the_rows_beside(make, clusters):
    X, _, y = clusters()
    clf = make().fit(X, y)
    whole = clf.predict_proba(X)
    np.testing.assert_allclose(
        np.concatenate([clf.predict_proba(X[i : i + 1]) for i in range(len(X))]), whole, atol=1e-9
    )
    np.testing.assert_allclose(whole.sum(axis=1), 1, rtol=1e-9)
    assert whole.shape == (len(X), 3)


# --- a scikit-learn citizen -------------------------------------------------------------------------------------------


def test_works_at_the_end_of_a_pipeline(clusters):
    X, truth, y = clusters(spread=0.3)
    pipeline = make_pipeline(StandardScaler(), LaplacianShot()).fit(X, y)
    assert np.mean(pipeline.predict(X) == truth) > 0.95


def test_works_in_grid_search(clusters):
    X, truth, _ = clusters(3, 30, spread=0.8)
    search = GridSearchCV(LaplacianShot.paper(rectify=False), {"lam": [0.0, 0.5], "transform": ["l2", "cl2"]}, cv=3)
    search.fit(X, truth)
    assert search.best_score_ > 0.8
    assert set(search.best_params_) == {"lam", "transform"}


@every_recipe
def test_clone_keeps_every_parameter(make):
    original = make(base_mean=[1.0, 2.0], transform="cl2")
    copy = clone(original)
    assert copy.get_params() == original.get_params()
    assert copy.set_params(transform="l2", base_mean=None).get_params()["transform"] == "l2"


def test_the_parameter_transform_does_not_make_it_a_transformer():
    assert not hasattr(LaplacianShot(), "transform")
    assert LaplacianShot(transform="l2").get_params()["transform"] == "l2"


def test_works_in_parallel_processes_and_threads(clusters):
    X, _, y = clusters(4, 100, 2, spread=1.0)
    alone = LaplacianShot().fit(X, y).transduction_
    fits = [joblib.delayed(LaplacianShot().fit)(X, y) for _ in range(4)]
    for backend in ("loky", "threading"):
        for clf in joblib.Parallel(n_jobs=2, backend=backend)(fits):
            np.testing.assert_array_equal(clf.transduction_, alone)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_child_forked_in_the_middle_of_a_fit_can_fit(clusters):
    X, _, y = clusters(4, 500, 2, spread=1.0)
    alone = LaplacianShot().fit(X, y).transduction_
    busy = threading.Thread(target=lambda: [LaplacianShot().fit(X, y) for _ in range(10)])
    busy.start()
    context = multiprocessing.get_context("fork")
    found = context.SimpleQueue()
    child = context.Process(target=lambda: found.put(LaplacianShot().fit(X, y).transduction_))
    child.start()
    child.join(300)
    busy.join()
    assert child.exitcode == 0
    np.testing.assert_array_equal(found.get(), alone)


def test_overlapping_fits_leave_blas_as_it_was(clusters):
    from threadpoolctl import threadpool_info

    def blas_threads():
        return sorted(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    X, _, y = clusters(4, 300, 2)
    before = blas_threads()
    threads = [threading.Thread(target=lambda: LaplacianShot().fit(X, y)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == before


@every_recipe
def test_a_fitted_estimator_survives_a_trip_through_a_file(make, clusters, tmp_path):
    X, _, y = clusters()
    clf = make().fit(X, y)
    joblib.dump(clf, tmp_path / "clf.joblib")
    again = joblib.load(tmp_path / "clf.joblib")  # written by this very test
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(clusters):
    X, _, y = clusters()
    clf = LaplacianShot().fit(X, y)
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match="graph has shape"):
        clf.set_params(graph=sp.eye_array(3)).fit(X[:, :3] + 5, y)
    with pytest.raises(ValueError, match="no labeled row"):
        clf.fit(X[:, :3], np.full_like(y, -1))
    np.testing.assert_array_equal(clf.predict_proba(X), before)


def test_predict_uses_the_parameters_of_the_fit_and_not_later_ones(clusters):
    X, _, y = clusters()
    clf = LaplacianShot().fit(X, y)
    before = clf.predict_proba(X)
    np.testing.assert_array_equal(clf.set_params(transform="none").predict_proba(X), before)


def test_predicting_does_not_make_the_pickle_grow(clusters):
    X, _, y = clusters()
    clf = LaplacianShot().fit(X, y)
    before = len(pickle.dumps(clf))
    clf.predict(X)
    assert len(pickle.dumps(clf)) == before


def test_a_refit_with_another_recipe_leaves_nothing_of_the_last(clusters):
    X, _, y = clusters()
    clf = LaplacianShot.paper().fit(X, y)
    assert hasattr(clf, "bound_")
    clf.set_params(recipe="default", rectify=None).fit(X, y)
    assert not hasattr(clf, "bound_")
    assert not hasattr(clf, "unary_")


# --- kinds of input that work -----------------------------------------------------------------------------------------


@every_recipe
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_dtypes_agree_with_float64(make, dtype, clusters):
    X, _, y = clusters(spread=0.4)
    rounded = (X * 20).astype(dtype)
    labels = make().fit(rounded.astype(np.float64), y).transduction_
    np.testing.assert_array_equal(make().fit(rounded, y).transduction_, labels)


@every_recipe
@pytest.mark.parametrize("container", ["fortran", "read-only", "memory-mapped", "strided", "list", "pandas"])
def test_containers_make_no_difference(make, container, clusters, tmp_path):
    X, _, y = clusters()
    expected = make().fit(X, y)
    given = {
        "fortran": lambda: np.asfortranarray(X),
        "read-only": lambda: _read_only(X),
        "memory-mapped": lambda: _mapped(X, tmp_path),
        "strided": lambda: np.repeat(X, 2, axis=0)[::2],
        "list": X.tolist,
        "pandas": lambda: pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]),
    }[container]()
    found = make().fit(given, y)
    np.testing.assert_array_equal(found.transduction_, expected.transduction_)
    np.testing.assert_allclose(found.predict_proba(given), expected.predict_proba(X), atol=1e-12)


def _read_only(X):
    copy = X.copy()
    copy.setflags(write=False)
    return copy


def _mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@every_recipe
@pytest.mark.parametrize(
    "names",
    [["ant", "bee", "cat"], [10, -7, 3], [b"a", b"b", b"c"], [True, False, True]],
    ids=["strings", "unsorted and negative", "bytes", "bools"],
)
def test_any_kind_of_label_gives_the_same_partition(make, names, clusters):
    X, _, y = clusters(2 if names[0] is True else 3, spread=0.4)
    expected = make().fit(X, y).transduction_
    named = np.empty(len(y), dtype=object)
    named[:] = [names[c] if c >= 0 else None for c in y]
    if isinstance(names[0], bytes):
        with pytest.raises(TypeError, match="mixes labels"):
            make().fit(X, named)
        return
    found = make().fit(X, named).transduction_
    assert found.tolist() == [names[c] for c in expected]


@every_recipe
def test_unlabeled_strings_may_be_none_nan_or_empty(make, clusters):
    X, _, y = clusters(spread=0.4)
    results = []
    for blank in (None, np.nan, ""):
        named = np.array([f"class {c}" if c >= 0 else blank for c in y], dtype=object)
        results.append(make().fit(X, named).transduction_.tolist())
    assert results[0] == results[1] == results[2]


@every_recipe
def test_unequal_shots(make, clusters):
    X, truth, y = clusters(3, 30, 1, spread=0.3)
    extra = np.flatnonzero(truth == 1)[:12]
    y[extra] = 1
    assert np.mean(make().fit(X, y).transduction_ == truth) > 0.95


@every_recipe
def test_zero_rows_and_duplicated_rows_give_no_nan(make, clusters):
    X, _, y = clusters()
    X[5:9] = 0
    X[20:40] = X[20]
    for transform in ("none", "l2", "cl2", "power"):
        clf = make(transform=transform).fit(X, y)
        assert np.all(np.isfinite(clf.label_distributions_))
        assert np.all(np.isfinite(clf.objective_))
        assert np.all(np.isfinite(clf.predict_proba(X)))


@pytest.fixture
def activations(clusters):
    """Rows of 120 features without a negative one, their classes, and the given ones."""
    X, truth, y = clusters(4, 60, 3, dim=120, spread=2.8)
    return np.maximum(X, 0), truth, y


def test_rows_without_negative_entries_are_taken_in_power(activations):
    X, _, y = activations
    clf = LaplacianShot().fit(X, y)
    assert clf.transform_ == "power"
    assert clf.report_.startswith(
        "Transform power: square roots of the entries, rows centered and brought to length 1 "
        "(the rows look like vectors of an encoder without negative entries)."
    )
    np.testing.assert_array_equal(clf.center_, blended_center(X, y, 4, transform="power"))
    # What is centered in the end is the unit roots: CL2 of them is the same.
    same = LaplacianShot(transform="cl2", base_mean=blended_center(unit_roots(X), y, 4)).fit(unit_roots(X), y)
    np.testing.assert_allclose(clf.label_distributions_, same.label_distributions_, atol=1e-10)
    new = X[::3] - 0.1  # some are negative
    np.testing.assert_allclose(clf.predict_proba(new), same.predict_proba(unit_roots(new)), atol=1e-10)
    # One negative entry, a base mean or another recipe: as before.
    assert LaplacianShot().fit(np.vstack([X, -X[:1]]), np.append(y, -1)).transform_ == "cl2"
    for other in (LaplacianShot(base_mean=X.mean(axis=0)), LaplacianShot(base_mean="pooled"), LaplacianShot.paper()):
        assert other.fit(X, y).transform_ == "cl2"


@pytest.mark.parametrize("base_mean", ["pooled", "support", "set", "vector"])
def test_a_base_mean_of_power_is_a_mean_of_unit_roots(activations, base_mean):
    X, _, y = activations
    rows = unit_roots(X)
    means = {"pooled": rows.mean(axis=0), "support": rows[y >= 0].mean(axis=0), "set": rows[:50].mean(axis=0)}
    means["vector"] = means["set"]
    given = {"set": X[:50], "vector": means["set"]}.get(base_mean, base_mean)
    clf = LaplacianShot(transform="power", base_mean=given).fit(X, y)
    np.testing.assert_allclose(clf.center_, means[base_mean], rtol=1e-12)


def test_one_huge_row_changes_no_other_label_in_power(activations):
    X, _, y = activations
    plain = LaplacianShot().fit(X, y)
    scaled = X.copy()
    scaled[100] *= 1e9
    np.testing.assert_array_equal(LaplacianShot(transform="power").fit(scaled, y).transduction_, plain.transduction_)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_memory_map_is_taken_in_power_by_either_way(activations, tmp_path, dtype):
    X, _, y = activations
    np.save(tmp_path / "X.npy", X.astype(dtype))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    small, large = LaplacianShot().fit(mapped, y), LaplacianShot(graph="cells").fit(mapped, y)
    assert small.transform_ == large.transform_ == "power"
    np.testing.assert_allclose(large.center_, small.center_, rtol=1e-12)
    assert np.mean(large.transduction_ == small.transduction_) > 0.99
    assert np.mean(large.predict(X) == small.predict(X)) > 0.99


@every_recipe
def test_rows_that_are_all_equal_have_a_defined_result(make):
    X = np.ones((12, 3))
    y = np.array([0, 1] + [-1] * 10)
    clf = make().fit(X, y)
    assert np.all(np.isfinite(clf.label_distributions_))
    assert len(set(clf.transduction_[2:])) == 1


@every_recipe
def test_one_query(make, clusters):
    X, truth, _ = clusters(spread=0.2)
    y = truth.copy()
    y[7] = -1
    # Rectification would move a lone query onto the mean of the support.
    plain = {} if make().recipe == "default" else {"rectify": False}
    assert make(**plain).fit(X, y).transduction_[7] == truth[7]
    assert np.all(np.isfinite(make().fit(X, y).label_distributions_))


@every_recipe
def test_no_query_fits_the_prototypes_alone(make, clusters):
    X, truth, _ = clusters(spread=0.2)
    clf = make().fit(X, truth)
    np.testing.assert_array_equal(clf.transduction_, truth)
    assert np.mean(clf.predict(X) == truth) > 0.95
    assert clf.converged_


@every_recipe
def test_more_neighbors_than_queries_means_all_of_them(make, clusters):
    X, _, y = clusters(3, 5, 1)
    clf = make(n_neighbors=500, lam=0.1).fit(X, y)
    assert np.all(np.isfinite(clf.label_distributions_))
    assert np.all(np.isfinite(clf.predict_proba(X)))


@every_recipe
def test_a_single_feature(make):
    X = np.array([[0.0], [10.0], [0.1], [9.9], [0.2], [9.8]])
    clf = make(transform="none").fit(X, [0, 1, -1, -1, -1, -1])
    assert clf.transduction_.tolist() == [0, 1, 0, 1, 0, 1]


def test_balanced_evens_out_the_classes(clusters):
    X, _, y = clusters(2, 60, 1, dim=2, spread=1.5, seed=3)
    shares = [
        np.bincount(LaplacianShot(balanced=balanced, base_mean="pooled").fit(X, y).transduction_, minlength=2).min()
        for balanced in (False, True)
    ]
    assert shares[1] >= shares[0]


# --- the center -------------------------------------------------------------------------------------------------------


def test_a_base_set_stands_for_its_mean(clusters):
    X, _, y = clusters()
    base = np.random.default_rng(0).standard_normal((100, X.shape[1])) + 1
    by_set, by_mean = LaplacianShot(base_mean=base).fit(X, y), LaplacianShot(base_mean=base.mean(axis=0)).fit(X, y)
    np.testing.assert_allclose(by_set.label_distributions_, by_mean.label_distributions_, atol=1e-10)


def test_the_center_can_be_named(clusters):
    X, _, y = clusters()
    np.testing.assert_allclose(LaplacianShot(base_mean="pooled").fit(X, y).center_, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(LaplacianShot(base_mean="support").fit(X, y).center_, X[y >= 0].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(LaplacianShot.paper().fit(X, y).center_, X.mean(axis=0), rtol=1e-12)
    assert LaplacianShot(transform="l2").fit(X, y).center_ is None


def test_the_default_center_is_that_of_all_rows_when_classes_are_known_to_be_balanced(clusters):
    X, _, y = clusters()
    np.testing.assert_allclose(LaplacianShot(balanced=True).fit(X, y).center_, X.mean(axis=0), rtol=1e-12)


def test_the_default_center_moves_to_the_support_when_few_classes_are_present(clusters):
    X, truth, y = clusters(4, 40, 2, spread=0.3)
    means = np.mean([X[y == c].mean(axis=0) for c in range(4)], axis=0)

    def share_of_support(rows):
        center = LaplacianShot(transform="cl2").fit(X[rows], y[rows]).center_
        pooled = X[rows].mean(axis=0)
        return np.dot(center - pooled, means - pooled) / np.dot(means - pooled, means - pooled)

    balanced, skewed = np.ones(len(X), bool), (y >= 0) | (truth == 1)
    assert share_of_support(balanced) < 0.3
    assert share_of_support(skewed) > 0.9


# --- a graph of the user's own ----------------------------------------------------------------------------------------


@every_recipe
def test_a_graph_of_ones_own_in_any_sparse_format(make, clusters):
    X, truth, y = clusters(3, 15, 1, spread=3.0)
    same = sp.coo_array((truth[:, None] == truth[None, :]).astype(float))
    lam = {"default": None, "paper": 5.0, "reference": 5.0}[make().recipe]
    found = [make(graph=same.asformat(f), lam=lam).fit(X, y).transduction_ for f in ("csr", "csc", "coo", "lil")]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_the_default_follows_a_graph_that_knows_the_classes(clusters):
    X, truth, y = clusters(3, 15, 1, spread=3.0)
    same = sp.csr_array((truth[:, None] == truth[None, :]).astype(float))
    with_graph = np.mean(LaplacianShot(graph=same, lam=20.0).fit(X, y).transduction_ == truth)
    assert with_graph > np.mean(LaplacianShot().fit(X, y).transduction_ == truth)


@pytest.mark.parametrize("make", [LaplacianShot, LaplacianShot.paper], ids=["default", "paper"])
def test_an_asymmetric_graph_is_used_by_its_symmetric_part(make, clusters):
    X, _, y = clusters()
    rng = np.random.default_rng(0)
    directed = sp.csr_array(rng.random((60, 60)) * (rng.random((60, 60)) < 0.1))
    one = make(graph=directed).fit(X, y)
    other = make(graph=(directed + directed.T) / 2).fit(X, y)
    np.testing.assert_allclose(one.label_distributions_, other.label_distributions_, atol=1e-10)


@every_recipe
def test_isolated_nodes_fall_back_on_their_prototypes(make, clusters):
    X, _, y = clusters()
    clf = make(graph=sp.csr_array((60, 60))).fit(X, y)
    assert np.all(np.isfinite(clf.label_distributions_))
    assert np.all(np.isfinite(clf.predict_proba(X)))


# --- bad input: one line that names the argument ----------------------------------------------------------------------


def check_refused(X, y, match, error=ValueError, make=LaplacianShot, **parameters):
    with pytest.raises(error, match=match) as caught:
        make(**parameters).fit(X, y)
    assert "\n" not in str(caught.value)


@every_recipe
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_in_the_vectors_are_refused(make, value, clusters):
    X, _, y = clusters()
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        make().fit(X, y)
    clf = make().fit(np.nan_to_num(X, posinf=0, neginf=0), y)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        clf.predict(X)


def test_entries_whose_squares_overflow_are_refused(clusters):
    X, _, y = clusters()
    check_refused(X * 1e200, y, "X has entries as large as .*divide X by a constant")


def test_a_sparse_matrix_of_vectors_is_refused(clusters):
    X, _, y = clusters()
    check_refused(sp.csr_array(X), y, "[Ss]parse", error=TypeError)


def test_one_class_is_refused(clusters):
    X, _, y = clusters()
    check_refused(X, np.where(y == 0, 0, -1), r"one class only \(0\); label at least one row of a second class")


def test_no_label_is_refused(clusters):
    X, _, y = clusters()
    check_refused(X, np.full_like(y, -1), "y has no labeled row among 60")


def test_labels_of_another_length_are_refused(clusters):
    X, _, y = clusters()
    check_refused(X, y[:-1], "X has .* rows and y has .* labels")


def test_no_y_is_refused(clusters):
    X, _, _ = clusters()
    check_refused(X, None, "requires y to be passed")


def test_mixed_labels_are_refused(clusters):
    X, _, y = clusters()
    check_refused(X, ["a" if c == 0 else 1 if c == 1 else None for c in y], "y mixes labels", error=TypeError)


@pytest.mark.parametrize("base_mean", [np.zeros(3), np.zeros((5, 3)), np.zeros((2, 2, 2))])
def test_a_base_mean_of_another_dimension_is_refused(base_mean, clusters):
    X, _, y = clusters()
    check_refused(X, y, r"base_mean has shape .* expected \(8,\)", base_mean=base_mean)


def test_a_base_mean_that_is_no_number_is_refused(clusters):
    X, _, y = clusters()
    check_refused(X, y, "base_mean must be an array of shape", base_mean=[[1.0, 2.0], [3.0]])
    check_refused(X, y, r"base_mean has shape \(0, 8\)", base_mean=np.zeros((0, 8)))
    check_refused(X, y, "base_mean has NaN", base_mean=np.full(8, np.nan))
    check_refused(X, y, "base_mean must hold numbers", error=TypeError, base_mean=["a"] * 8)


@every_recipe
@pytest.mark.parametrize("lam", [-0.5, np.nan, np.inf, 1e9, "big"])
def test_a_lambda_out_of_range_is_refused(make, lam, clusters):
    X, _, y = clusters()
    check_refused(X, y, "'lam' parameter of LaplacianShot must be", make=make, lam=lam)


@every_recipe
def test_a_huge_lambda_within_range_gives_numbers(make, clusters):
    X, _, y = clusters()
    for dtype in (np.float32, np.float64):
        clf = make(lam=1e6).fit(X.astype(dtype), y)
        assert np.all(np.isfinite(clf.label_distributions_))
        assert np.all(np.isfinite(clf.objective_))


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"recipe": "papers"}, "'recipe' parameter"),
        ({"transform": "zscore"}, "'transform' parameter"),
        ({"n_neighbors": 0}, "'n_neighbors' parameter"),
        ({"n_neighbors": 2.5}, "'n_neighbors' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"tol": -1}, "'tol' parameter"),
        ({"base_mean": "median"}, "'base_mean' parameter"),
        ({"graph": "fancy"}, "'graph' parameter"),
        ({"rectify": True}, "rectify=True belongs to recipe='paper' and 'reference'"),
        ({"recipe": "paper", "balanced": True}, "balanced=True belongs to recipe='default'"),
        ({"transform": "l2", "base_mean": np.zeros(8)}, "base_mean belongs to transform='cl2' and 'power'"),
        ({"transform": "power", "base_mean": np.ones(8)}, "base_mean has length 2.83; with transform='power'"),
    ],
    ids=str,
)
def test_parameters_out_of_range_or_of_another_recipe_are_refused(parameters, match, clusters):
    X, _, y = clusters()
    check_refused(X, y, match, **parameters)


@every_recipe
@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (sp.eye_array(59), r"graph has shape \(59, 59\), expected \(60, 60\)"),
        (-sp.eye_array(60), "graph has negative weights"),
        (sp.diags_array(np.full(60, np.nan)), "graph has NaN or infinite weights"),
    ],
    ids=["shape", "negative", "nan"],
)
def test_a_graph_that_cannot_be_used_is_refused(make, graph, match, clusters):
    X, _, y = clusters()
    check_refused(X, y, match, make=make, graph=graph)


def test_predict_before_fit_and_with_other_features_is_refused(clusters):
    X, _, y = clusters()
    with pytest.raises(ValueError, match="not fitted"):
        LaplacianShot().predict(X)
    with pytest.raises(ValueError, match="7 features, but LaplacianShot is expecting 8"):
        LaplacianShot().fit(X, y).predict(X[:, :7])
