"""The normalized graph by shards: each holds the edges of its own rows, and names the rows of others that it needs.

A shard numbers what its edges lead to in an order of its own: its queries, then the *halo* (queries of other shards,
by shard and row), then labeled rows of any shard. Its edges are those of its queries, then of its labeled rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine.graph import NodeGraph
from laplacianshot.ray.job import Job
from laplacianshot.ray.neighbors import neighbor_lists
from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True, repr=False)
class ShardGraph:
    """The edges of one shard.

    Attributes
    ----------
    edges : NodeGraph
        Over the shard's own numbers; ``nodes`` are rows of the whole set, ``n_query`` counts queries and halo.
    halo : list of slice
        Where the rows of each other shard lie in the halo.
    """

    edges: NodeGraph
    halo: list[slice]

    @property
    def n_halo(self) -> int:
        """Rows of other shards."""
        return int(self.halo[-1].stop)


def split_edges(job: Job, number: int) -> list[tuple[Ints, Ints]]:
    """The directed edges of a shard by the shard that they lead to: row there, and row of the whole set they are of."""
    lists = neighbor_lists(job, number)
    targets = lists.ravel()
    sources = np.repeat(np.arange(len(lists), dtype=lists.dtype) + job.shards[number].first, lists.shape[1])
    held = targets >= 0
    targets, sources = targets[held], sources[held]
    order = np.argsort(targets, kind="stable")
    targets, sources = targets[order], sources[order]
    return [
        (targets[part] - shard.first, sources[part]) for shard, part in zip(job.shards, job.split(targets), strict=True)
    ]


def join_edges(job: Job, number: int, *parts: tuple[Ints, Ints]) -> None:
    """Who has each row of a shard among its neighbors, and degrees ``(k_out + k_in) / 2``, into ``incoming-*.npz``."""
    targets = np.concatenate([part[0] for part in parts])
    sources = np.concatenate([part[1] for part in parts])
    order = np.argsort(targets, kind="stable")
    counts = np.bincount(targets, minlength=len(job.shards[number]))
    degrees = ((neighbor_lists(job, number) >= 0).sum(axis=1) + counts) / 2
    arrays = {"counts": counts, "sources": sources[order], "degrees": degrees}
    job.folder.put_arrays(f"incoming-{number:05}.npz", arrays)


def is_joined(job: Job, number: int) -> bool:
    """Whether what :func:`join_edges` makes is there."""
    return job.folder.has(f"incoming-{number:05}.npz")


def build_graph(job: Job, number: int) -> int:
    """Rows of ``D^-1/2 ((A + A^T)/2) D^-1/2`` of a shard into ``graph-*.npz``, halo into ``halo-*.npz``: its size."""
    lists, incoming = neighbor_lists(job, number), job.folder.arrays(f"incoming-{number:05}.npz")
    first, n = job.shards[number].first, len(job.shards[number])
    own = np.concatenate([job.queries(number), job.given(number)[0]])
    row_of = np.argsort(own, kind="stable")
    held = lists >= 0
    rows = np.concatenate([np.repeat(np.arange(n), held.sum(axis=1)), np.repeat(np.arange(n), incoming["counts"])])
    ends = np.concatenate([lists[held], incoming["sources"]]).astype(np.int64)
    known = np.unique(ends)
    given = job.is_support(known)
    elsewhere = known[~given & ((known < first) | (known >= first + n))]
    nodes = np.concatenate([job.queries(number) + first, elsewhere, known[given]])
    by_row = np.argsort(nodes, kind="stable")
    columns = by_row[np.searchsorted(nodes[by_row], ends)]
    halves = np.full(len(ends), 0.5, dtype=np.float32)
    edges = sp.csr_array(sp.coo_array((halves, (row_of[rows], columns)), shape=(n, len(nodes))))
    edges.sum_duplicates()
    scale = np.empty(len(nodes), dtype=np.float32)
    scale[by_row] = _scales(job, nodes[by_row])
    own_scale = _scales(job, np.arange(first, first + n))[own]
    edges.data *= np.repeat(own_scale, np.diff(edges.indptr))
    edges.data *= scale[edges.indices]
    parts = job.split(elsewhere)
    wanted = {str(other): job.query_numbers(other, elsewhere[part]) for other, part in enumerate(parts)}
    job.folder.put_arrays(f"halo-{number:05}.npz", wanted)
    arrays = {"nodes": nodes, "indptr": edges.indptr, "indices": edges.indices, "weights": edges.data}
    sizes = {"n_query": len(nodes) - int(given.sum()), "degrees": incoming["degrees"]}
    job.folder.put_arrays(f"graph-{number:05}.npz", arrays | sizes)
    return len(elsewhere)


def is_built(job: Job, number: int) -> bool:
    """Whether the graph of a shard is there."""
    return job.folder.has(f"graph-{number:05}.npz")


def load_graph(job: Job, number: int) -> ShardGraph:
    """What :func:`build_graph` made."""
    kept = job.folder.arrays(f"graph-{number:05}.npz")
    names = ("indptr", "indices", "weights", "degrees")
    indptr, indices, weights, degrees = (kept[name] for name in names)
    edges = NodeGraph(kept["nodes"], int(kept["n_query"]), indptr, indices, weights, degrees)
    return ShardGraph(edges, job.split(edges.nodes[len(job.queries(number)) : edges.n_query]))


def wanted_rows(job: Job, number: int, other: int) -> Ints:
    """Queries of shard ``number``, by their numbers among them, that shard ``other`` has in its halo."""
    wanted: Ints = job.folder.arrays(f"halo-{other:05}.npz")[str(number)]
    return wanted


def _scales(job: Job, rows: Ints) -> Floats:
    """``1 / sqrt(degree)`` of ascending rows of the whole set, 0 where there is none."""
    found = np.zeros(len(rows))
    for number, part in enumerate(job.split(rows)):
        if part.stop > part.start:
            degrees = job.folder.arrays(f"incoming-{number:05}.npz")["degrees"]
            found[part] = degrees[rows[part] - job.shards[number].first]
    scales: Floats = np.divide(1.0, np.sqrt(found), out=np.zeros(len(found)), where=found > 0).astype(np.float32)
    return scales
