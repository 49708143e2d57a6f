import numpy as np
import pytest
import scipy.sparse as sp

from laplacianshot.engine.graph import node_graph
from laplacianshot.inference.affinity import neighbor_affinity, normalize, symmetrize
from laplacianshot.neighbors.knn import knn


@pytest.mark.parametrize("seed", [0, 1])
def test_the_graph_is_the_normalized_symmetric_part_of_the_lists(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((700, 6)).astype(np.float32)
    neighbors = knn(X, 9)
    order = rng.permutation(700)
    place = np.argsort(order)
    graph = node_graph(order, place[neighbors.indices[order]].astype(np.int32))

    expected = normalize(neighbor_affinity(neighbors))
    np.testing.assert_allclose(graph.affinity.toarray(), expected.toarray(), atol=1e-7)
    np.testing.assert_allclose(graph.degrees, neighbor_affinity(neighbors).sum(axis=1)[graph.nodes])
    # Nodes keep the order they came in, so that near ones stay near.
    np.testing.assert_array_equal(graph.nodes, order)
    rows = np.split(graph.indices, graph.indptr[1:-1])
    assert all(np.all(np.diff(row) > 0) for row in rows)


def test_lists_that_are_not_full_leave_edges_out():
    lists = np.array([[1, 2], [0, -1], [-1, -1], [0, 1]], dtype=np.int32)
    A = np.zeros((4, 4), dtype=np.float32)
    for i, row in enumerate(lists):
        A[i, row[row >= 0]] = 1
    expected = normalize(symmetrize(sp.csr_array(A)))
    graph = node_graph(np.arange(4), lists.copy())
    np.testing.assert_allclose(graph.affinity.toarray(), expected.toarray(), atol=1e-7)


def test_threads_do_not_change_the_graph(monkeypatch):
    X = np.random.default_rng(0).standard_normal((20_000, 4)).astype(np.float32)
    lists = np.random.default_rng(1).integers(0, len(X), (len(X), 12)).astype(np.int32)
    graphs = []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        graphs.append(node_graph(np.arange(len(X)), lists.copy()))
    np.testing.assert_array_equal(graphs[0].indices, graphs[1].indices)
    np.testing.assert_array_equal(graphs[0].weights, graphs[1].weights)
