"""What a run on Ray found: files for each shard, and small results in memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine.large import sparse_rows
from laplacianshot.engine.plan import LargePlan
from laplacianshot.neighbors.types import GraphReport
from laplacianshot.ray.cluster import Usage
from laplacianshot.ray.graph import neighbor_lists
from laplacianshot.ray.job import Job
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.runtime.types import Floats, Ints, Labels


@dataclass(frozen=True, repr=False)
class RayFit:
    """The default recipe's answer for n rows in shards."""

    job: Job
    prototypes: Floats  # (C, D), in transformed space
    objective: Floats  # (n_iter,): F after each round at the full weight of the graph
    converged: bool
    lam: float
    tau: float
    bias: Floats  # (C,)
    n_neighbors: int
    graph: GraphReport
    dropped: float  # largest mean mass, over the updates, that a row lost to entries not kept
    sent: tuple[int, ...]  # bytes that shards had for one another, after the first assignments and after each round
    prototypes_held: bool = False  # whether classes fell together, and prototypes were held where the labels are
    plan: LargePlan = field(default_factory=LargePlan)
    recoveries: int = 0  # how often workers were lost in the updates
    seconds: Mapping[str, float] = field(default_factory=dict)  # by stage; finished ones took none
    usage: Mapping[str, Usage] = field(default_factory=dict)  # what each function took on the workers

    def __repr__(self) -> str:
        state = "converged" if self.converged else "stopped"
        return (
            f"RayFit({self.job.n} rows x {self.job.n_classes} classes in {len(self.job.shards)} shards, {state} after "
            f"{len(self.objective)} rounds)"
        )

    def codes(self) -> Ints:
        """A class for every row, (n,): labeled rows keep theirs."""
        found: Ints = self._as_given([shard_codes(self.job, number)[0] for number in self.job.numbers])
        return found

    def distributions(self) -> Any:
        """Assignments of all rows, (n, C), one-hot for labeled rows; sparse if only the largest entries were kept."""
        return self._as_given([_distributions(self.job, number) for number in self.job.numbers])

    def neighbors(self) -> Ints:
        """Directed neighbor lists (n, k)."""
        lists: Ints = self._as_given([neighbor_lists(self.job, number) for number in self.job.numbers])
        if self.job.ordered:
            originals = self._originals()
            lists = np.where(lists < 0, -1, originals[lists]).astype(lists.dtype)
        return lists

    def _originals(self) -> Ints:
        return np.concatenate([self.job.originals(number) for number in self.job.numbers])

    def _as_given(self, parts: list[Any]) -> Any:
        """What shards have for their rows, in the user's order of rows."""
        together = sp.csr_array(sp.vstack(parts)) if sp.issparse(parts[0]) else np.concatenate(parts)
        return together[np.argsort(self._originals(), kind="stable")] if self.job.ordered else together


def shard_codes(job: Job, number: int) -> tuple[Ints, Floats]:
    """Class of each row of a shard, and its assignment to it."""
    kept = job.load("assignments", number)
    values = kept["values"]
    if "classes" in kept:
        return kept["classes"][:, 0].astype(np.int64), values[:, 0]
    return values.argmax(axis=1), values.max(axis=1)


def write_shard(job: Job, number: int, folder: KeyedFolder, classes: Labels | None) -> str:
    """Write a Parquet file of a shard's rows with the columns row, label, share and origin; return its name."""
    pyarrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    codes, share = shard_codes(job, number)
    origins = np.full(len(codes), "predicted")
    origins[job.given(number)[0]] = "given"
    columns = {
        "row": job.originals(number),
        "label": codes if classes is None else np.asarray(classes)[codes],
        "share": share,
        "origin": origins,
    }
    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    name = f"labels-{number:05}.parquet"
    folder.put(name, lambda file: parquet.write_table(table, file))
    return name


def drop_other_labels(folder: KeyedFolder, written: Collection[str]) -> None:
    """Remove what an earlier run with more shards left, so that the folder holds every row once."""
    for name in folder.names():
        if re.fullmatch(r"labels-\d{5,}\.parquet", name) and name not in written:
            folder.remove(name)


def _distributions(job: Job, number: int) -> Any:
    kept = job.load("assignments", number)
    values = kept["values"]
    return sparse_rows(kept["classes"], values, job.n_classes) if "classes" in kept else values
