import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from laplacianshot import LaplacianShot
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.labeling import novelty
from laplacianshot.labeling.novelty import novelty_scores, rejected


def path(n):
    """Items in a line, each an edge to the next."""
    ones = np.ones(n - 1)
    return sp.csr_array(sp.diags([ones, ones], [-1, 1], shape=(n, n)))


@pytest.fixture(autouse=True, params=["numpy", "compiled"])
def conductances(request, monkeypatch):
    """Every test holds for the numpy definition, which small sets run, and for the kernels."""
    if request.param == "compiled":
        monkeypatch.setattr(novelty, "SMALL_ROWS", 0)


def test_items_of_clusters_without_a_label_are_strangest(clusters):
    X, truth, y = clusters(6, 30, 2, dim=16, spread=0.2)
    y[truth >= 4] = -1
    model = LaplacianShot().fit(X, y)
    strange = novelty_scores(model.label_distributions_, y, model.affinity_)
    assert strange[truth >= 4].min() > strange[truth < 4].max()


def test_labeled_items_are_the_least_strange_of_their_cluster(clusters):
    X, truth, y = clusters(3, 30, 1, dim=16, spread=0.2)
    model = LaplacianShot().fit(X, y)
    strange = novelty_scores(model.label_distributions_, y, model.affinity_)
    for c in range(3):
        of_class = np.flatnonzero(truth == c)
        assert y[of_class[strange[of_class].argmin()]] == c


def test_strangeness_grows_with_the_way_to_the_nearest_label():
    codes = np.full(9, -1)
    codes[0] = 0
    strange = novelty_scores(np.ones((9, 1)), codes, path(9))
    assert np.all(np.diff(strange) > 0)


def test_mass_is_the_closed_form_of_the_spreading_once_it_has_converged(monkeypatch):
    monkeypatch.setattr(novelty, "STEPS", 400)
    rng = np.random.default_rng(0)
    rows, P = rng.standard_normal((40, 3)), rng.dirichlet([0.5] * 4, size=40)
    codes = np.full(40, -1)
    codes[[3, 8]] = 0, 1
    W = knn_affinity(rows, 4)
    A = W.toarray() * (novelty.LEAK + P @ P.T)
    V = A / np.sqrt(np.outer(A.sum(axis=1), A.sum(axis=1)))
    a = novelty.SPREAD
    mass = (1 - a) * np.linalg.solve(np.eye(40) - a * V, (codes >= 0).astype(float))
    np.testing.assert_allclose(np.exp(-novelty_scores(P, codes, W)), mass, rtol=1e-10)


def test_the_default_steps_are_near_the_closed_form_of_the_order():
    rng = np.random.default_rng(0)
    assert novelty.SPREAD ** (novelty.STEPS + 1) < 0.11
    rows, P = rng.standard_normal((200, 3)), np.ones((200, 1))
    codes = np.full(200, -1)
    codes[:5] = 0
    W = normalize(knn_affinity(rows, 6))
    converged = np.linalg.solve(np.eye(200) - novelty.SPREAD * W.toarray(), (codes >= 0).astype(float))
    order = np.corrcoef(np.argsort(np.argsort(novelty_scores(P, codes, W))), np.argsort(np.argsort(-converged)))[0, 1]
    assert order > 0.98


def test_an_edge_between_different_classes_conducts_little():
    W = sp.csr_array(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=float))
    P = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    strange = novelty_scores(P, np.array([0, -1, -1]), W)
    assert strange[2] > strange[1]


def test_the_scale_of_the_graph_and_the_order_of_items_do_not_matter(clusters):
    X, _, y = clusters(4, 15, 1)
    model = LaplacianShot().fit(X, y)
    P, W = model.label_distributions_, model.affinity_
    strange = novelty_scores(P, y, W)
    np.testing.assert_allclose(novelty_scores(P, y, W * 7.0), strange, rtol=1e-6)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(novelty_scores(P[order], y[order], W[order][:, order]), strange[order], rtol=1e-6)


def test_items_that_no_label_reaches_are_strangest_and_finite():
    W = sp.csr_array((5, 5))
    strange = novelty_scores(np.full((5, 2), 0.5), np.array([0, 1, -1, -1, -1]), W)
    assert np.all(np.isfinite(strange))
    assert strange[2] == strange[3] == strange[4] > strange[:2].max()


@pytest.mark.parametrize("rows", [np.zeros((20, 3)), np.ones((20, 3))], ids=["zero rows", "equal rows"])
def test_rows_all_alike_give_finite_scores(rows):
    codes = np.full(20, -1)
    codes[:2] = 0, 1
    model = LaplacianShot().fit(rows, codes)
    assert np.all(np.isfinite(novelty_scores(model.label_distributions_, codes, model.affinity_)))


def test_sparse_probabilities_give_the_same_answer(clusters):
    X, _, y = clusters(4, 15, 1)
    model = LaplacianShot().fit(X, y)
    P = np.where(model.label_distributions_ > 0.01, model.label_distributions_, 0)
    np.testing.assert_allclose(
        novelty_scores(sp.csr_array(P), y, model.affinity_), novelty_scores(P, y, model.affinity_)
    )


def test_an_edge_to_oneself_conducts_nothing():
    W = path(5)
    loops = sp.csr_array(W + sp.diags_array(np.full(5, 3.0)))
    codes = np.array([0, -1, -1, -1, -1])
    np.testing.assert_allclose(novelty_scores(np.ones((5, 1)), codes, loops), novelty_scores(np.ones((5, 1)), codes, W))


def test_blocks_of_rows_do_not_change_the_answer(clusters, monkeypatch):
    X, _, y = clusters(4, 15, 1)
    model = LaplacianShot().fit(X, y)
    whole = novelty_scores(model.label_distributions_, y, model.affinity_)
    monkeypatch.setattr(novelty, "_BLOCK_ROWS", 7)
    np.testing.assert_array_equal(novelty_scores(model.label_distributions_, y, model.affinity_), whole)


@pytest.mark.parametrize(("rate", "count"), [(0, 0), (0.04, 0), (0.05, 1), (0.25, 3), (0.5, 5), (1, 10)])
def test_a_share_of_the_unlabeled_items_is_rejected(rate, count):
    codes = np.array([0, -1] * 10)
    strange = np.random.default_rng(0).permutation(20).astype(float)
    out = rejected(strange, codes, rate)
    assert len(out) == count
    assert np.all(codes[out] == -1)
    kept = np.setdiff1d(np.flatnonzero(codes < 0), out)
    assert strange[out].min(initial=np.inf) > strange[kept].max(initial=-np.inf)
    assert np.all(np.diff(out) > 0)


def test_of_equally_strange_items_the_first_are_rejected():
    assert rejected(np.ones(6), np.full(6, -1), 0.5).tolist() == [0, 1, 2]


def test_nothing_unlabeled_leaves_nothing_to_reject():
    assert rejected(np.ones(3), np.arange(3), 0.5).tolist() == []


def test_items_of_foreign_classes_are_found_better_than_by_probability(shared):
    with np.load(shared("data/cub/cub_efficientnet_lite0.npz"), allow_pickle=False) as arrays:
        rows = arrays["labels"] % 4 == 3
        rows &= arrays["labels"] < 100
        X, labels = arrays["features"][rows].astype(np.float32), arrays["labels"][rows]
    truth = np.unique(labels, return_inverse=True)[1]
    foreign = truth >= 20
    codes = np.full(len(X), -1)
    for c in range(20):
        codes[np.flatnonzero(truth == c)[:2]] = c
    model = LaplacianShot().fit(X, codes)
    free = codes < 0
    P = model.label_distributions_
    ours = roc_auc_score(foreign[free], novelty_scores(P, codes, model.affinity_)[free])
    by_probability = roc_auc_score(foreign[free], 1 - P.max(axis=1)[free])
    assert ours > 0.8
    assert ours > by_probability + 0.1
