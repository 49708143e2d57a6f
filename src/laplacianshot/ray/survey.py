"""The first pass over the shards: are they sound, what do they hold, and the few rows that the driver needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.engine.large import moments
from laplacianshot.inference.transforms import base_mean
from laplacianshot.ray.job import Job
from laplacianshot.ray.shards import Shard
from laplacianshot.runtime.arrays import checked_rows
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Raised by one whenever files of a run would mean something else than before.
CODE_VERSION = 1
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
    """Read a shard once; ValueError, naming it, where its rows are no finite numbers."""
    rows = shard.read()
    try:
        checked_rows(rows, None)
    except ValueError as error:
        raise ValueError(f"{shard.path}, rows {shard.start} to {shard.stop}: {error}") from None
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
