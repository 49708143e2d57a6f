"""Neighbours of a large set kept in a folder by what they were made from, so that a run that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot._files import put_file, remove_partial
from laplacianshot.inference._threads import row_blocks
from laplacianshot.scale.cells import CellIndex
from laplacianshot.scale.neighbors import GraphReport, OrderedNeighbors, Progress, search_neighbors
from laplacianshot.scale.plan import GraphChoice
from laplacianshot.scale.reduction import Reduction
from laplacianshot.scale.rows import Rows

# Raised by one whenever the same rows would give other neighbours than before.
CODE_VERSION = 2
_BLOCK_ROWS = 16384
_CELLS = ("centroids", "starts", "parts")


@dataclass(frozen=True)
class GraphFolder:
    """A folder of its own for the neighbours of one set of rows; whole once its ``report.json`` is there."""

    folder: Path

    @classmethod
    def of(cls, checkpoint: Path, rows: Rows, n_neighbors: int, graph: GraphChoice) -> GraphFolder:
        """Named by the content of the rows and by everything that the neighbours depend on."""
        digest = hashlib.blake2b(digest_size=16)
        settings = [CODE_VERSION, rows.shape, str(rows.source.dtype), n_neighbors]
        settings += [graph.method, graph.target_recall, graph.seed, graph.reduce]
        digest.update(json.dumps(settings).encode())
        for part in (rows.origin, rows.scale):
            digest.update(part.tobytes())
        for start, stop in row_blocks(len(rows.source), _BLOCK_ROWS):
            digest.update(np.ascontiguousarray(rows.source[start:stop]).view(np.uint8).data)
        return cls(checkpoint / f"neighbors-{digest.hexdigest()}")

    def load(self, searched: Rows) -> OrderedNeighbors | None:
        """What was saved, or None; ``searched`` are the rows that were searched."""
        try:
            report = json.loads((self.folder / "report.json").read_text())
            order, indices = self._array("order"), self._array("indices")
            cells = None if report["method"] != "cells" else {name: self._array(name) for name in _CELLS}
        except FileNotFoundError:
            return None
        index = None
        if cells is not None:
            probes = int(report["parameters"]["probes"])
            index = CellIndex(searched.centered().ordered(order), order, n_probes=probes, **cells)
        return OrderedNeighbors(order, indices, np.empty((len(order), 0), np.float32), GraphReport(**report), index)

    def save(self, found: OrderedNeighbors) -> None:
        """Keep neighbours: arrays first, then the report that makes them count."""
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_partial(self.folder)
        arrays = {"order": found.order, "indices": found.indices}
        if found.index is not None:
            arrays |= {name: getattr(found.index, name) for name in _CELLS}
        for name, array in arrays.items():
            put_file(self.folder / f"{name}.npy", lambda file, array=array: np.save(file, array))  # type: ignore[misc]
        text = json.dumps(asdict(found.report))
        put_file(self.folder / "report.json", lambda file: file.write(text.encode()))

    def _array(self, name: str) -> Any:
        return np.load(self.folder / f"{name}.npy", allow_pickle=False)


def kept_neighbors(
    rows: Rows,
    n_neighbors: int,
    graph: GraphChoice,
    reduction: Reduction | None = None,
    *,
    memory: int | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> OrderedNeighbors:
    """The nearest other rows of each row: from the folder ``checkpoint``, or sought and put there.

    Parameters
    ----------
    rows : Rows of shape (n, D)
    n_neighbors : int
    graph : GraphChoice
    reduction : Reduction, optional
        What is searched in place of the rows.
    memory : int, optional
    progress : callable, optional
    checkpoint : Path, optional
    """
    reduced = None if reduction is None else reduction.apply(rows)
    kept = None if checkpoint is None else GraphFolder.of(checkpoint, rows, n_neighbors, graph)
    found = None if kept is None else kept.load(rows if reduced is None else reduced)
    if found is not None:
        return found
    found = search_neighbors(
        rows,
        n_neighbors,
        target_recall=graph.target_recall,
        method=graph.method,
        seed=graph.seed,
        memory=memory,
        reduced=reduced,
        progress=progress,
    )
    if kept is not None:
        kept.save(found)
    return found
