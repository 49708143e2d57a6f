"""Before and during the first pass over the shards: check labels, sizes and rows, and fetch what the driver needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.engine.large import moments
from laplacianshot.engine.plan import LargePlan
from laplacianshot.inference.transforms import base_mean
from laplacianshot.ray.cluster import Needs
from laplacianshot.ray.job import Job
from laplacianshot.ray.shards import Shard
from laplacianshot.runtime.arrays import checked_rows
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Increase by one whenever files of a run change their meaning.
CODE_VERSION = 2
_BLOCK_ROWS = 16384


@dataclass(frozen=True, repr=False)
class Survey:
    """What one shard holds.

    Attributes
    ----------
    digest : str
        Of its rows.
    total : array of shape (D,)
        Their sum.
    """

    digest: str
    total: Floats


def survey(shard: Shard) -> Survey:
    """Read a shard once. InputError names it where its rows are not finite numbers."""
    rows = shard.read()
    try:
        checked_rows(rows, None)
    except ValueError as error:
        raise InputError(f"{shard.path}, rows {shard.start} to {shard.stop}: {error}") from None
    digest = hashlib.blake2b(f"{rows.dtype}{rows.shape}".encode(), digest_size=16)
    for start, stop in row_blocks(len(rows), _BLOCK_ROWS):
        digest.update(np.ascontiguousarray(rows[start:stop]).view(np.uint8).data)
    return Survey(digest.hexdigest(), base_mean(rows) * len(rows))


def run_key(found: list[Survey], support: Ints, labels: Ints, settings: Mapping[str, Any]) -> str:
    """Names a run by the content of its rows and labels and by everything that its result depends on."""
    digest = hashlib.blake2b(json.dumps([CODE_VERSION, dict(settings)], sort_keys=True).encode(), digest_size=12)
    for one in found:
        digest.update(one.digest.encode())
    digest.update(np.ascontiguousarray(support, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(labels, dtype=np.int64).tobytes())
    return digest.hexdigest()


def given_rows(shard: Shard, positions: Ints) -> Floats:
    """Rows of a shard as they are given, by their positions in it."""
    rows = shard.read()
    picked: Floats = rows[positions] if len(positions) else np.empty((0, shard.width), rows.dtype)
    return picked


def formed_rows(job: Job, number: int, positions: Ints) -> Floats:
    """Transformed rows of a shard by their positions in it."""
    return job.rows(number).take(positions)


def query_moments(job: Job, number: int) -> tuple[Floats, float]:
    """Sum and squared norms of the queries of a shard."""
    return moments(job.rows(number).ordered(job.queries(number)))


def needs(job: Job, k: int, plan: LargePlan) -> Needs:
    """What a run takes at least, over all nodes: edges, assignments, and what travels in one stage."""
    n, n_query, count = job.n, job.n - len(job.support), len(job.shards)
    away = 1 - 1 / count
    entries = job.n_classes if plan.dense else min(job.n_classes, plan.max_entries)
    memory = 16.0 * n * k + 12.0 * n_query * entries
    return Needs(memory, away * max(12.0 * n * k, 4.0 * n_query * min(entries, 8)))


def checked_labels(codes: Any, shards: tuple[Shard, ...]) -> tuple[Ints, Ints]:
    """Rows that have a label, ascending, and their classes; InputError where they do not fit the rows."""
    n = shards[-1].first + len(shards[-1])
    if isinstance(codes, tuple):
        rows, labels = (np.asarray(part) for part in codes)
        if rows.shape != labels.shape or rows.ndim != 1:
            raise InputError(f"codes are {rows.shape} rows and {labels.shape} classes; give a class for each row.")
        order = np.argsort(rows, kind="stable")
        rows, labels = rows[order], labels[order]
        if len(np.unique(rows)) < len(rows) or (len(rows) and not (rows[0] >= 0 and rows[-1] < n)):
            raise InputError(f"codes: rows must be different numbers from 0 to {n - 1}.")
    else:
        every = np.asarray(codes)
        if every.shape != (n,):
            raise InputError(f"codes have shape {every.shape} and the shards hold {n} rows; give a class for each.")
        rows = np.flatnonzero(every >= 0)
        labels = every[rows]
    classes = np.unique(labels)
    if len(classes) < 2:
        raise InputError("codes have labels of fewer than two classes; label at least one row of a second class.")
    if classes[0] != 0 or classes[-1] != len(classes) - 1:
        raise InputError(
            f"codes must be 0 to C - 1, each at least once; {len(classes)} classes go up to {classes[-1]}."
        )
    if n - len(rows) < 2:
        raise InputError("fewer than two rows have no label; there is nothing to do on a cluster.")
    return rows.astype(np.int64), labels.astype(np.int64)
