"""Neighbors, graph and rounds over shards against the same on one machine, all in this process."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from laplacianshot.engine.graph import node_graph
from laplacianshot.engine.round_kernels import Edges
from laplacianshot.engine.rounds import open_rounds
from laplacianshot.estimator import LaplacianShot, constants_for
from laplacianshot.inference.joint import NO_CLUES, Prior, descend
from laplacianshot.neighbors.knn import knn
from laplacianshot.neighbors.rows import Rows
from laplacianshot.ray import graph as shard_graph
from laplacianshot.ray.graph import load_graph, neighbor_lists
from laplacianshot.ray.job import ordered_job
from laplacianshot.ray.result import RayFit, shard_codes
from laplacianshot.ray.shards import Shard
from laplacianshot.runtime.threads import Workers

pytest.importorskip("fsspec", reason="needs the extra ray")


def whole(job):
    """All transformed rows."""
    return Rows.transformed(np.concatenate([shard.read() for shard in job.shards]), job.transform, job.center)


def lists(job):
    return np.concatenate([neighbor_lists(job, number) for number in range(len(job.shards))])


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_exact_neighbors_are_those_of_one_search_over_all_rows(job, linked, shards):
    parted = job(shards)
    report = linked(parted)
    assert (report.method, report.recall) == ("exact", 1)
    np.testing.assert_array_equal(lists(parted), knn(whole(parted)[:], 5).indices)


def test_cells_of_shards_reach_the_recall(job, linked):
    parted = job(3)
    report = linked(parted, method="cells")
    assert report.method == "cells"
    true = knn(whole(parted)[:], 5).indices
    found = np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(lists(parted), true, strict=True)])
    assert found > 0.93
    assert abs(found - report.recall) < 0.03
    assert all(row not in own for row, own in enumerate(lists(parted)))


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("held", [1, 2**26])
def test_all_cells_of_all_shards_hold_the_true_neighbors(job, monkeypatch, shards, held):
    monkeypatch.setattr(shard_graph, "_HELD_PROBES", held)
    monkeypatch.setattr(shard_graph, "QUERY_ROWS", 50)
    parted = job(shards)
    for number in range(shards):
        shard_graph.index_shard(parted, number, 0)
    for number in range(shards):
        shard_graph.search_shard(parted, number, 5, 10_000, np.arange(parted.n))
    true = knn(whole(parted)[:], 5)
    distances = np.concatenate([parted.load("neighbors", number)["sampled"] for number in range(shards)])
    np.testing.assert_allclose(distances, true.distances, atol=1e-5)
    assert np.mean(lists(parted) == true.indices) > 0.99  # equal distances may change places


def test_the_rank_of_a_cell_counts_those_of_all_shards(job):
    parted = job(3)
    for number in range(3):
        shard_graph.index_shard(parted, number, 0)
    rows = whole(parted)
    centroids = np.concatenate([shard_graph._index(parted, number).centroids for number in range(3)])
    first = sum(len(shard_graph._index(parted, number).centroids) for number in range(2))
    asked = np.array([450, 599, 450])
    of_query = np.array([69, 3, 0])
    ranks = shard_graph.cell_ranks(parted, 2, rows[:70], of_query, asked)
    for row, query, rank in zip(asked, of_query, ranks, strict=True):
        gaps = np.square(centroids - rows[query : query + 1]).sum(axis=1)
        # The cell of a row is the one of its shard whose centroid is nearest to it.
        own = first + np.square(centroids[first:] - rows[row : row + 1]).sum(axis=1).argmin()
        assert rank == np.sum(gaps < gaps[own])


@pytest.mark.parametrize("shards", [1, 4])
def test_the_edges_of_all_shards_are_those_of_the_graph(job, linked, shards):
    parted = job(shards)
    linked(parted)
    graph = node_graph(np.arange(parted.n), lists(parted).copy()).affinity.toarray()
    found = np.zeros_like(graph)
    for number, shard in enumerate(parted.shards):
        edges = load_graph(parted, number)[0]
        rows = np.repeat(np.arange(len(shard)) + shard.first, np.diff(edges.indptr))
        found[rows, edges.nodes[edges.indices]] = edges.weights
    np.testing.assert_allclose(found, graph, rtol=1e-6)


def one_machine(job, tau, entries):
    """The same rounds on one graph."""
    n_query = job.n - len(job.support)
    graph = node_graph(np.arange(job.n), lists(job).copy())
    constants = constants_for(LaplacianShot(), len(job.support), n_query, job.n_classes)
    rows = whole(job)
    prior = Prior.of_support(rows[job.support], job.labels, np.zeros(rows.shape[1]), job.n_classes, constants)
    fixed = job.classes(graph.nodes).astype(np.int32)
    edges = Edges(graph.indptr, graph.indices, graph.weights, fixed)
    with Workers(0) as workers:
        rounds = open_rounds(workers, rows, edges, job.n_classes, tau, NO_CLUES, constants.e, entries=entries)
        rounds.start(prior.means.astype(np.float32))
        descent = descend(rounds, prior, constants, n_query, tau, np.dtype(np.float32))
        held = rounds.assignments()
    found = held.argmax(axis=1) if entries is None else held.classes[:, 0]
    return descent, found


@pytest.mark.parametrize("entries", [None, 4])
@pytest.mark.parametrize("shards", [1, 4])
def test_rounds_over_shards_are_those_of_one_machine(job, linked, solved, shards, entries):
    parted = job(shards)
    linked(parted)
    descent = solved(parted, entries=entries)
    wanted, labels = one_machine(parted, 5.0, entries)
    np.testing.assert_allclose(descent.objective, wanted.objective, rtol=1e-5)
    np.testing.assert_allclose(descent.prototypes, wanted.prototypes, atol=1e-4)
    found = np.concatenate([shard_codes(parted, number)[0] for number in range(shards)])
    np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("entries", [None, 4])
def test_shards_taken_up_from_their_files_go_on_as_if_nothing_had_happened(job, linked, solved, entries):
    parted = job(3)
    linked(parted)
    wanted, descent = solved(parted, entries=entries), solved(parted, entries=entries, restart=7)
    np.testing.assert_array_equal(descent.objective, wanted.objective)
    np.testing.assert_array_equal(descent.prototypes, wanted.prototypes)


def test_a_shard_may_have_nothing_but_labels(job, linked, solved):
    # A shard a row, and most of the first rows are labeled.
    parted = job(12, rows=70)
    parted = replace(parted, shards=one_each(parted.shards[0].path, [*range(10), 70]))
    linked(parted)
    assert any(len(parted.queries(number)) == 0 for number in range(len(parted.shards)))
    descent = solved(parted)
    np.testing.assert_allclose(descent.objective, one_machine(parted, 5.0, None)[0].objective, rtol=1e-5)


def indexes_read(job, monkeypatch):
    """How often a search in four cells of each row opens the cells of a shard."""
    opened = []
    index = shard_graph._index
    with monkeypatch.context() as patch:
        patch.setattr(shard_graph, "_index", lambda job, number: (opened.append(number), index(job, number))[1])
        for number in range(len(job.shards)):
            shard_graph.index_shard(job, number, 0)
        for number in range(len(job.shards)):
            shard_graph.search_shard(job, number, 5, 4, np.arange(0))
    return len(opened)


class TestOrder:
    @pytest.fixture
    def ordered(self, job, here):
        return ordered_job(here, job(4), 0)

    def test_every_row_is_in_one_shard_as_it_was(self, job, ordered):
        rows = np.concatenate([ordered.originals(number) for number in range(len(ordered.shards))])
        np.testing.assert_array_equal(np.sort(rows), np.arange(600))
        given = job(4)
        everything = np.concatenate([shard.read() for shard in given.shards])
        np.testing.assert_array_equal(np.concatenate([shard.read() for shard in ordered.shards]), everything[rows])
        # Labels came along.
        labels = dict(zip(given.support.tolist(), given.labels.tolist(), strict=True))
        assert {
            int(rows[new]): int(label) for new, label in zip(ordered.support, ordered.labels, strict=True)
        } == labels

    def test_fewer_rows_are_needed_by_other_shards(self, job, ordered, linked):
        linked(ordered)
        near = sum(load_graph(ordered, number)[1][-1].stop for number in range(4))
        given = replace(job(4), folder=ordered.folder.below("given"))
        linked(given)
        assert near < 0.8 * sum(load_graph(given, number)[1][-1].stop for number in range(4))

    def test_rows_may_have_no_near_cell_in_a_shard_that_others_need(self, ordered, monkeypatch):
        monkeypatch.setattr(shard_graph, "QUERY_ROWS", 10)
        indexes_read(ordered, monkeypatch)
        assert np.mean(lists(ordered) >= 0) > 0.9  # four small cells may hold fewer than five others

    def test_shards_without_a_near_cell_are_not_read(self, job, ordered, monkeypatch):
        given = replace(job(4), folder=ordered.folder.below("given"))
        # Its own cells twice, as queries and as points, and those of three others.
        assert indexes_read(given, monkeypatch) == 4 * 5
        assert indexes_read(ordered, monkeypatch) < 4 * 5

    def test_labels_come_out_in_the_order_of_the_rows(self, job, ordered, linked, solved):
        linked(ordered)
        descent = solved(ordered)
        fit = RayFit(ordered, *_of(descent))
        given = replace(job(4), folder=ordered.folder.below("given"))
        linked(given)
        wanted, labels = one_machine(given, 5.0, None)
        np.testing.assert_allclose(descent.objective, wanted.objective, rtol=1e-5)
        np.testing.assert_array_equal(fit.codes(), labels)
        np.testing.assert_array_equal(fit.distributions().argmax(axis=1), labels)
        np.testing.assert_array_equal(fit.neighbors(), lists(given))


def _of(descent):
    return descent.prototypes, descent.objective, True, 1.0, 5.0, descent.bias, 5, None, 0.0, ()


def one_each(path, bounds):
    """Shards of a file between these rows."""
    return tuple(Shard(path, a, b, a, 64) for a, b in pairwise(bounds))


@pytest.mark.parametrize("entries", [None, 4])
def test_the_result_puts_the_shards_together(job, linked, solved, entries):
    parted = job(3)
    linked(parted)
    descent = solved(parted, entries=entries)
    fit = RayFit(parted, *_of(descent))
    found = fit.distributions()
    dense = found if entries is None else found.toarray()
    np.testing.assert_allclose(dense.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(dense.argmax(axis=1), fit.codes())
    np.testing.assert_array_equal(fit.codes()[parted.support], parted.labels)
    np.testing.assert_array_equal(fit.neighbors(), lists(parted))
