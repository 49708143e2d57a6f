"""An estimator fitted on Ray: the same attributes, found by the cluster and put together here."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot.engine.choices import Choices
from laplacianshot.engine.graph import node_graph
from laplacianshot.engine.large import LargeTask, fitted_of
from laplacianshot.engine.plan import GraphChoice, LargePlan
from laplacianshot.engine.rounded import Rounded
from laplacianshot.engine.solve import Fitted
from laplacianshot.neighbors.rows import Rows
from laplacianshot.ray.fit import ray_fit
from laplacianshot.ray.folder import RunFolder
from laplacianshot.ray.options import RayOptions
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

_BLOCK_ROWS = 16384


@dataclass(frozen=True)
class RayEngine:
    """Fits :class:`~laplacianshot.LaplacianShot` on a cluster; given to :func:`~laplacianshot.engine.fit.fit_large`.

    Attributes
    ----------
    folder : str
        Path or URL that every node can write to.
    address : str, optional
        Of the cluster; see :func:`~laplacianshot.ray.connected`.
    shards : int, optional
    source : paths, optional
        Files that hold the rows and that every node can read. Without: the rows are written to the folder first.
    """

    folder: str
    address: str | None = None
    shards: int | None = None
    source: Sequence[str] | None = None

    def __call__(
        self,
        choices: Choices,
        features: Floats,
        codes: Ints,
        n_classes: int,
        *,
        watch: Watch | None = None,
        checkpoint: Path | None = None,
    ) -> tuple[Floats | None, Fitted]:
        """The center and the solution; see :meth:`~laplacianshot.engine.choices.Choices.fit`."""
        options = _options(choices)
        found = ray_fit(
            self._written(features) if self.source is None else self.source,
            codes,
            folder=self.folder,
            options=options,
            shards=self.shards,
            address=self.address,
            watch=watch,
        )
        center = found.job.center
        rows = Rows.transformed(features, choices.transform, center)
        task = LargeTask(
            features, codes, n_classes, choices.transform, center, choices.constants(codes, n_classes), LargePlan()
        )
        graph = node_graph(np.arange(len(codes)), found.neighbors(), codes < 0)
        result = Rounded(
            found.distributions(),
            found.codes(),
            found.prototypes,
            found.objective,
            found.converged,
            found.tau,
            found.bias,
            found.dropped,
        )
        return center, fitted_of(task, rows, graph, result, found.graph)

    def _written(self, features: Floats) -> list[str]:
        """The rows in a file of the folder, by content."""
        digest = hashlib.blake2b(f"{features.dtype}{features.shape}".encode(), digest_size=12)
        for start, stop in row_blocks(len(features), _BLOCK_ROWS):
            digest.update(np.ascontiguousarray(features[start:stop]).view(np.uint8).data)
        folder, name = RunFolder.of(self.folder), f"rows-{digest.hexdigest()}.npy"
        if not folder.has(name):
            folder.put(name, lambda file: np.save(file, np.ascontiguousarray(features)))
        return [folder.path(name)]


def _options(choices: Choices) -> RayOptions:
    """The same choices for shards; ValueError for those that are only there on one machine."""
    if choices.recipe != "default":
        raise ValueError(f"recipe={choices.recipe!r} is not there on Ray; only the default recipe is.")
    if choices.graph_name not in ("auto", "exact", "cells"):
        raise ValueError(f"graph={choices.graph_name!r} is not there on Ray; choose auto, exact or cells.")
    if choices.reduce is not None or isinstance(choices.base_mean, str):
        raise ValueError("reduce, and base_mean by name, are not there on Ray; leave them out.")
    mean: Any = choices.base_mean
    return RayOptions(
        transform=choices.transform,
        base_mean=mean,
        balanced=choices.balanced,
        lam=choices.lam,
        n_neighbors=choices.n_neighbors,
        max_iter=choices.max_iter,
        tol=choices.tol,
        choice=GraphChoice(choices.graph, None, choices.target_recall, choices.random_state),
    )
