"""The normalized graph by shards: each holds the edges of its own rows, and names the rows of others that it needs.

A shard numbers nodes in an order of its own: its own rows as they come, then the *halo* (unlabeled rows of other shards
that its edges lead to, by shard and row), then labeled rows of other shards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.engine.graph import NodeGraph, inverse_roots, union_edges
from laplacianshot.ray.job import Job
from laplacianshot.ray.neighbors import neighbor_lists
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True, repr=False)
class ShardGraph:
    """The edges of one shard.

    Attributes
    ----------
    edges : NodeGraph
        Of the shard's own rows, to nodes by the shard's own numbers; ``nodes`` are rows of the whole set.
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
    own = np.arange(len(lists)) + job.shards[number].first
    sources = incoming["sources"]
    known = np.unique(np.concatenate([lists[lists >= 0], sources]))
    others = known[(known < own[0]) | (known > own[-1])]
    given = job.is_support(others)
    nodes = np.concatenate([own, others[~given], others[given]])
    by_row = np.argsort(nodes, kind="stable")
    scale = np.empty(len(nodes), dtype=np.float32)
    scale[by_row] = inverse_roots(_degrees(job, nodes[by_row]))

    def node_of(rows: Ints) -> Ints:
        return by_row[np.searchsorted(nodes[by_row], rows)].astype(np.int32)

    first = np.concatenate([[0], np.cumsum(incoming["counts"])])
    lists = np.where(lists < 0, np.int32(-1), node_of(lists))
    sources = node_of(sources)
    # By row, then by node: ascending as the union expects it.
    sources = sources[np.lexsort((sources, np.repeat(np.arange(len(own)), incoming["counts"])))]
    with Workers(lists.size) as workers:
        indptr, indices, weights = union_edges(workers, lists, first, sources, scale)
    halo = others[~given]
    wanted = {str(other): halo[part] - job.shards[other].first for other, part in enumerate(job.split(halo))}
    job.folder.put_arrays(f"halo-{number:05}.npz", wanted)
    arrays = {"nodes": nodes, "indptr": indptr, "indices": indices, "weights": weights}
    job.folder.put_arrays(f"graph-{number:05}.npz", arrays | {"degrees": incoming["degrees"]})
    return len(halo)


def is_built(job: Job, number: int) -> bool:
    """Whether the graph of a shard is there."""
    return job.folder.has(f"graph-{number:05}.npz")


def load_graph(job: Job, number: int) -> ShardGraph:
    """What :func:`build_graph` made."""
    kept = job.folder.arrays(f"graph-{number:05}.npz")
    edges = NodeGraph(*(kept[name] for name in ("nodes", "indptr", "indices", "weights", "degrees")))
    others = edges.nodes[len(job.shards[number]) :]
    return ShardGraph(edges, job.split(others[~job.is_support(others)]))


def wanted_rows(job: Job, number: int, other: int) -> Ints:
    """Rows of shard ``number`` that shard ``other`` has in its halo."""
    wanted: Ints = job.folder.arrays(f"halo-{other:05}.npz")[str(number)]
    return wanted


def _degrees(job: Job, rows: Ints) -> Floats:
    """Degrees of ascending rows of the whole set."""
    found = np.zeros(len(rows))
    for number, part in enumerate(job.split(rows)):
        if part.stop > part.start:
            degrees = job.folder.arrays(f"incoming-{number:05}.npz")["degrees"]
            found[part] = degrees[rows[part] - job.shards[number].first]
    return found
