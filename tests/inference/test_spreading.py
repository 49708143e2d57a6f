"""Labels spread along the graph: the equation, lengths of edges, and what is between two classes."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform

from laplacianshot.baselines import tree_bandwidth
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.inference.spreading import MAX_PATHS, Paths, spread_labels, squared_distances_to
from laplacianshot.neighbors.knn import knn


def test_labels_spread_as_the_equation_says():
    rng = np.random.default_rng(1)
    W = normalize(knn_affinity(rng.standard_normal((60, 3)), 4)).astype(np.float64)
    labels = np.array([0, 1, 2, 1])
    seeds = np.zeros((60, 3))
    seeds[np.arange(4), labels] = 1
    exact = np.linalg.solve(np.eye(60) - 0.9 * W.toarray(), seeds)[4:]
    found = spread_labels(W, labels, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    reached = exact.sum(axis=1) > 1e-3
    assert reached.any()
    np.testing.assert_allclose(found[reached], (exact / exact.sum(axis=1, keepdims=True))[reached], atol=1e-3)


def test_a_part_of_the_graph_without_labels_stays_undecided():
    W = sp.block_diag([np.array([[0, 1.0], [1.0, 0]])] * 3, format="csr")[[0, 2, 1, 3, 4, 5]][:, [0, 2, 1, 3, 4, 5]]
    found = spread_labels(sp.csr_array(W), np.array([0, 1]), 2)
    np.testing.assert_allclose(found, [[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]], atol=1e-6)


# --- short edges first ------------------------------------------------------------------------------------------------


def paths_of(X, k=None):
    """Those of the k nearest neighbors, of all rows without k."""
    k = len(X) - 1 if k is None else k
    return Paths.between(normalize(knn_affinity(X, k)), X)


@pytest.mark.parametrize("width", [1, 3, 300_000])
def test_lengths_are_squared_distances(width):
    X = np.random.default_rng(0).standard_normal((12, width))
    paths = paths_of(X, 3)
    exact = squareform(pdist(X, "sqeuclidean"))
    rows, columns = paths.lengths.tocoo().coords
    np.testing.assert_allclose(paths.lengths.data, exact[rows, columns], rtol=1e-5)
    np.fill_diagonal(exact, np.inf)
    assert paths.typical == pytest.approx(np.median(exact.min(axis=1)))


def test_the_first_edge_between_two_classes_by_hand():
    # Two chains of steps 1 and 2, with 5 between them.
    X = np.array([0.0, 1, 2, 3, 8, 10, 12])[:, None]
    classes = np.full(7, -1)
    classes[[0, 6]] = 0, 1
    paths = paths_of(X)
    assert paths.crossing(classes) == pytest.approx(25)
    assert paths.gap(classes) == pytest.approx(25 / 1 - 1)
    classes[3] = 1
    assert paths.crossing(classes) == pytest.approx(1)
    # One class only: the last edge that joins anything.
    assert paths.crossing(np.array([0, -1, -1, -1, -1, -1, 0])) == pytest.approx(25)


@pytest.mark.parametrize("seed", range(8))
def test_on_all_pairs_it_is_the_rule_of_zhu_and_ghahramani(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 2))
    classes = np.full(60, -1)
    classes[rng.choice(60, 6, replace=False)] = np.arange(6) % 3
    assert 9 / paths_of(X).crossing(classes) == pytest.approx(tree_bandwidth(X, classes), rel=1e-5)
    lengths = np.sort(paths_of(X).tree[2])
    np.testing.assert_allclose(lengths, linkage(X, "single")[:, 2] ** 2, rtol=1e-5)


def test_labels_take_short_edges_first():
    # A dense chain reaches as far as a label that is nearer, but beyond a gap.
    X = np.concatenate([np.arange(0, 10, 0.5), np.arange(13, 15, 0.5)])[:, None]
    classes = np.full(len(X), -1)
    classes[[0, 20]] = 0, 1
    found = paths_of(X, 4).spread(classes, 2)
    np.testing.assert_array_equal(found.argmax(axis=1), X[:, 0] > 11)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)


def test_shares_follow_the_equation_of_the_weighed_graph():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 3))
    classes = np.full(50, -1)
    classes[[0, 1, 2, 3]] = 0, 1, 2, 1
    paths = paths_of(X, 6)
    rate = min(9 / paths.crossing(classes), 2 / paths.typical)
    weighed = (knn_affinity(X, 6).toarray() > 0) * np.exp(-rate * squareform(pdist(X, "sqeuclidean")))
    scale = 1 / np.sqrt(weighed.sum(axis=1))
    seeds = np.zeros((50, 3))
    seeds[np.arange(4), classes[:4]] = 1
    exact = np.linalg.solve(np.eye(50) - 0.97 * scale[:, None] * weighed * scale, seeds)
    reached = exact.sum(axis=1) > 0.01
    assert reached.sum() > 40
    shares = exact / exact.sum(axis=1, keepdims=True)
    shares[:4] = seeds[:4]
    np.testing.assert_allclose(paths.spread(classes, 3)[reached], shares[reached], atol=1e-4)


def test_with_scales_of_their_own_rows_follow_the_equation_and_classes_are_equally_strong():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 3))
    classes = np.full(50, -1)
    classes[[0, 1, 2, 3]] = 0, 1, 2, 1
    near = knn(X, 6)
    lengths = squareform(pdist(X, "sqeuclidean"))
    joined = knn_affinity(X, 6).toarray() > 0
    # A row's last edge, of the ten shortest: here of all, as lists are shorter than ten.
    reach = [np.sort(row[edges])[:10][-1] for row, edges in zip(lengths, joined, strict=True)]
    own = np.exp(-4 * lengths / np.array(reach)[:, None])
    weighed = joined * (own + own.T) / 2
    degrees = weighed.sum(axis=1)
    seeds = np.zeros((50, 3))
    seeds[np.arange(4), classes[:4]] = 1
    exact = np.linalg.solve(np.eye(50) - 0.97 * weighed / np.sqrt(np.outer(degrees, degrees)), seeds)
    exact /= (np.sqrt(degrees) @ seeds) / seeds.sum(axis=0)
    shares = exact / exact.sum(axis=1, keepdims=True)
    shares[:4] = seeds[:4]
    found = Paths.to_neighbors(near.indices, near.distances).spread(classes, 3, local=True)
    np.testing.assert_allclose(found, shares, atol=1e-4)


def test_labels_reach_the_far_end_of_a_long_chain():
    X = np.concatenate([np.arange(0, 300.0), np.arange(310, 320.0)])[:, None]
    classes = np.full(len(X), -1)
    classes[[0, -1]] = 0, 1
    found = paths_of(X, 2).spread(classes, 2)
    np.testing.assert_array_equal(found.argmax(axis=1), X[:, 0] > 305)
    assert found[:300, 0].min() > 0.99


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_unit_of_length_does_not_matter(scale):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 4))
    classes = np.where(np.arange(80) < 6, np.arange(80) % 3, -1)
    np.testing.assert_allclose(paths_of(scale * X, 5).spread(classes, 3), paths_of(X, 5).spread(classes, 3), atol=1e-4)


def test_equal_rows_and_rows_far_from_all_others_are_reached():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.standard_normal((40, 2)), 10 + rng.standard_normal((40, 2))])
    X = np.concatenate([X, X[:30], [[1e4, 1e4]]])
    classes = np.full(len(X), -1)
    classes[[0, 40]] = 0, 1
    found = paths_of(X, 6).spread(classes, 2)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:110].argmax(axis=1), np.r_[np.zeros(40), np.ones(40), np.zeros(30)])
    alike = paths_of(np.zeros((6, 2)), 3)
    assert (alike.typical, alike.gap(np.array([0, 1, -1, -1, -1, -1]))) == (0, 0)
    assert np.isfinite(alike.spread(np.array([0, 1, -1, -1, -1, -1]), 2)).all()


def test_a_graph_without_edges_leaves_rows_undecided():
    empty = Paths.between(sp.csr_array((4, 4)), np.zeros((4, 2)))
    found = empty.spread(np.array([0, 1, -1, -1]), 2)
    np.testing.assert_allclose(found, [[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]], atol=1e-6)
    assert empty.crossing(np.array([0, 1, -1, -1])) == 0


@pytest.mark.parametrize("k", [5, 40])
def test_a_few_near_rows_are_enough_and_neighbor_lists_give_the_same(k):
    X = np.random.default_rng(5).standard_normal((120, 3))
    near = knn(X, k, method="exact")
    of_graph, of_lists = paths_of(X, k), Paths.to_neighbors(near.indices, near.distances)
    np.testing.assert_allclose(of_graph.lengths.toarray(), of_lists.lengths.toarray(), rtol=1e-5)
    np.testing.assert_allclose(squared_distances_to(X, near.indices), near.distances, rtol=1e-5)
    counts = np.diff(of_lists.lengths.indptr)
    assert counts.min() >= min(k, MAX_PATHS)
    exact = np.sort(squareform(pdist(X, "sqeuclidean")), axis=1)[:, 1 : 1 + min(k, MAX_PATHS)]
    for i in range(len(X)):
        row = of_lists.lengths.data[of_lists.lengths.indptr[i] : of_lists.lengths.indptr[i + 1]]
        np.testing.assert_allclose(np.sort(row)[: exact.shape[1]], exact[i], rtol=1e-5)


def test_a_search_may_find_fewer_neighbors():
    near = np.array([[1, -1], [0, 2], [-1, -1], [2, 4], [3, -1]])
    paths = Paths.to_neighbors(near, squared_distances_to(np.arange(5.0)[:, None], near))
    np.testing.assert_array_equal(paths.lengths.toarray(), np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1))


@pytest.mark.parametrize("times", [2, 3])
def test_rows_that_are_there_several_times_count_once(times):
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.standard_normal((60, 2)), 5 + rng.standard_normal((60, 2))])
    classes = np.full(120, -1)
    classes[[0, 60]] = 0, 1
    once, often = (paths_of(np.tile(X, (t, 1)), 25 * t) for t in (1, times))
    more = np.concatenate([classes, np.full((times - 1) * 120, -1)])
    assert often.typical == pytest.approx(once.typical)
    assert often.crossing(more) == pytest.approx(once.crossing(classes))
    found = often.spread(more, 2).argmax(axis=1)
    np.testing.assert_array_equal(found, np.tile(np.arange(120) >= 60, times))
