"""What is looked at before any work: the labels, and what a cluster must hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.engine.plan import LargePlan
from laplacianshot.ray.cluster import Needs
from laplacianshot.ray.job import Job
from laplacianshot.ray.shards import Shard
from laplacianshot.runtime.types import Ints


def needs(job: Job, k: int, plan: LargePlan) -> Needs:
    """What a run takes at least, over all nodes: edges, assignments, and what travels in one stage."""
    n, n_query, count = job.n, job.n - len(job.support), len(job.shards)
    away = 1 - 1 / count
    entries = job.n_classes if plan.dense else min(job.n_classes, plan.most_entries)
    memory = 16.0 * n * k + 12.0 * n_query * entries
    return Needs(memory, away * max(12.0 * n * k, 4.0 * n_query * min(entries, 8)))


def checked_labels(codes: Any, shards: tuple[Shard, ...]) -> tuple[Ints, Ints]:
    """Rows that have a label, ascending, and their classes; ValueError where they do not fit the rows."""
    n = shards[-1].first + len(shards[-1])
    if isinstance(codes, tuple):
        rows, labels = (np.asarray(part) for part in codes)
        if rows.shape != labels.shape or rows.ndim != 1:
            raise ValueError(f"codes are {rows.shape} rows and {labels.shape} classes; give a class for each row.")
        order = np.argsort(rows, kind="stable")
        rows, labels = rows[order], labels[order]
        if len(np.unique(rows)) < len(rows) or (len(rows) and not (rows[0] >= 0 and rows[-1] < n)):
            raise ValueError(f"codes: rows must be different numbers from 0 to {n - 1}.")
    else:
        every = np.asarray(codes)
        if every.shape != (n,):
            raise ValueError(f"codes have shape {every.shape} and the shards hold {n} rows; give a class for each.")
        rows = np.flatnonzero(every >= 0)
        labels = every[rows]
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError("codes have labels of fewer than two classes; label at least one row of a second class.")
    if classes[0] != 0 or classes[-1] != len(classes) - 1:
        raise ValueError(
            f"codes must be 0 to C - 1, each at least once; {len(classes)} classes go up to {classes[-1]}."
        )
    if n - len(rows) < 2:
        raise ValueError("fewer than two rows have no label; there is nothing to do on a cluster.")
    return rows.astype(np.int64), labels.astype(np.int64)
