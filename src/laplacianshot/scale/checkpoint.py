"""Neighbours of a large set kept in a folder by what they were made from, so that a run that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot._files import put_file, remove_partial
from laplacianshot.inference._threads import row_blocks
from laplacianshot.scale.cells import CellIndex
from laplacianshot.scale.neighbors import GraphReport, OrderedNeighbors
from laplacianshot.scale.rows import Rows

if TYPE_CHECKING:
    from laplacianshot.scale.plan import LargePlan

# Raised by one whenever the same rows would give other neighbours than before.
CODE_VERSION = 1
_BLOCK_ROWS = 16384
_CELLS = ("centroids", "starts", "parts")


@dataclass(frozen=True)
class GraphFolder:
    """A folder of its own for the neighbours of one set of rows; whole once its ``report.json`` is there."""

    folder: Path

    @classmethod
    def of(cls, checkpoint: Path, rows: Rows, n_neighbors: int, plan: LargePlan) -> GraphFolder:
        """Named by the content of the rows and by everything that the neighbours depend on."""
        digest = hashlib.blake2b(digest_size=16)
        settings = [CODE_VERSION, rows.shape, str(rows.source.dtype), n_neighbors]
        settings += [plan.target_recall, plan.seed, plan.reduce]
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
