"""The Ray engine: fits, encodes and evaluates on a cluster what is otherwise done on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot.embedding.encoding import Encoded
from laplacianshot.engine.graph import node_graph
from laplacianshot.engine.large import LargeTask, fitted_of
from laplacianshot.episodes.runners import TaskRunner
from laplacianshot.episodes.tasks import TaskGroup
from laplacianshot.estimator import LaplacianShot, constants_of, hints_of
from laplacianshot.inference.priors import NOTHING_KNOWN, Hints, Knowledge
from laplacianshot.inference.solution import Solution
from laplacianshot.inference.transforms import transform_features
from laplacianshot.labeling.sources import Source
from laplacianshot.neighbors.rows import Rows
from laplacianshot.ray.cluster import connected
from laplacianshot.ray.encoding import ray_encode
from laplacianshot.ray.fit import check_supported, ray_fit
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.files import user_cache
from laplacianshot.runtime.keyed_folder import KeyedFolder, content_key
from laplacianshot.runtime.progress import Progress, Watch
from laplacianshot.runtime.threads import row_blocks, single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints, Transform

# Calls per CPU in an evaluation: enough to end together, few enough to send the work rarely.
_CALLS_PER_CPU = 4


@dataclass(frozen=True)
class RayEngine:
    """Work on a Ray cluster, by the name ``"ray"`` (:func:`laplacianshot.runtime.extras.open_engine`).

    ``run_folder`` is a path or URL that every node can write to (default: a folder in the user's cache, for a cluster
    that runs on this machine alone).
    """

    address: str | None = None  # of the cluster; see laplacianshot.ray.connected
    run_folder: str | None = None
    shards: int | None = None  # number of parts that rows are cut into (default: one per CPU)

    def check(self) -> None:
        """Raise InputError if a cluster elsewhere has no folder that its nodes can write to."""
        if self.run_folder is None and self.address is not None:
            raise InputError(
                "engine 'ray' with an address needs run_folder (--run-folder): a path or URL that every node can write "
                "to."
            )

    @property
    def _place(self) -> str:
        self.check()
        return str(user_cache()[0] / "ray") if self.run_folder is None else self.run_folder

    def fit(
        self,
        estimator: LaplacianShot,
        features: Floats,
        codes: Ints,
        n_classes: int,
        *,
        source: Sequence[str] | None = None,
        watch: Watch | None = None,
        checkpoint: Path | None = None,
        knowledge: Knowledge = NOTHING_KNOWN,
        hints: Hints | None = None,
    ) -> Solution:
        """Solve a task on the cluster; see :func:`~laplacianshot.estimator.fit_large`.

        ``source`` names files that hold the rows and that every node can read; by default the rows are written to the
        folder first. ``knowledge`` is what is known besides labels, and ``hints`` what it says of these rows.
        """
        check_supported(estimator)
        found = ray_fit(
            self._written(features) if source is None else source,
            codes,
            folder=self._place,
            estimator=estimator,
            shards=self.shards,
            address=self.address,
            watch=watch,
            knowledge=knowledge,
            hints=hints,
        )
        transform, center, scale = found.job.transform, found.job.center, found.job.scale
        table = transform == "standard"
        if table:
            features = transform_features(features, "standard", center, scale=scale)
        formed: Transform = "none" if table else transform
        rows = Rows.transformed(features, formed, center)
        constants = constants_of(estimator, codes, n_classes)
        if table and hints is not None:
            hints = hints_of(features, codes, n_classes, knowledge)
        known = (knowledge, hints)
        task = LargeTask(features, codes, n_classes, formed, center, constants, found.plan, table, *known).informed(
            rows
        )
        if found.prototypes_held:
            task = task.with_held_prototypes()
        graph = node_graph(np.arange(len(codes)), found.neighbors())
        result = Solution(
            found.distributions(),
            found.prototypes,
            found.objective,
            found.converged,
            constants.lam,
            labels=found.codes(),
            tau=found.tau,
            bias=found.bias,
            dropped_mass=found.dropped,
        )
        return replace(
            fitted_of(task, rows, graph, result, found.graph), transform=transform, center=center, scale=scale
        )

    def encode(self, source: Source, encoder: str | None, progress: Progress | None = None) -> Encoded:
        """Vectors of pictures or texts."""
        assert source.kind != "vectors"
        where: Any = {"folder": self._place, "address": self.address, "shards": self.shards}
        return ray_encode(source, encoder, source.kind, **where, progress=progress)

    @contextmanager
    def spread(self, runner: TaskRunner, chunks: list[TaskGroup]) -> Iterator[Iterator[Any]]:
        """Answer chunks of few-shot tasks on the workers: a context whose value yields the answers in order."""
        with connected(self.address) as cluster:
            shared = cluster.share(runner)
            key = str(shared)
            size = -(-len(chunks) // (_CALLS_PER_CPU * max(1, cluster.cpus())))
            calls = [(shared, key, chunks[start:stop]) for start, stop in row_blocks(len(chunks), size)]
            yield (answer for part in cluster.stream(_answer_chunks, calls) for answer in part)

    def _written(self, features: Floats) -> list[str]:
        """The rows in a file of the folder, named by their content."""
        folder, name = KeyedFolder.create(self._place), f"rows-{content_key(features)}.npy"
        if not folder.has(name):
            folder.put(name, lambda file: np.save(file, np.ascontiguousarray(features)))
        return [folder.path(name)]


# Rows of the last evaluation, which the next call on this worker is probably for.
_prepared: dict[str, TaskRunner] = {}


def _answer_chunks(runner: TaskRunner, key: str, chunks: list[TaskGroup]) -> list[Any]:
    """Run every method on the tasks of some chunks, on a worker."""
    if key not in _prepared:
        _prepared.clear()
        _prepared[key] = runner.prepare()
    with single_threaded_blas():
        return [_prepared[key].answers(chunk) for chunk in chunks]
