"""Finished stages of a large fit, kept by what they were made from, so that a run that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot.engine.plan import GraphChoice
from laplacianshot.neighbors.cells import CellIndex
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.search import GraphReport, OrderedNeighbors, search_neighbors
from laplacianshot.runtime.files import put_file, remove_partial
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import row_blocks

# Raised by one whenever the same input would give another result than before.
CODE_VERSION = 3
# Stages of a kind that are kept, those used last; and seconds after which a file half written is nobody's any more.
MOST_KEPT = 4
_ABANDONED = 3600.0
_FACTS = "facts.json"
_BLOCK_ROWS = 16384
_CELLS = ("centroids", "starts", "parts")


@dataclass(frozen=True)
class StageFolder:
    """A folder of its own for what one stage found; whole once its ``facts.json`` is there."""

    folder: Path

    @classmethod
    def of(cls, checkpoint: Path, kind: str, *made_from: Any) -> StageFolder:
        """Named by the kind of stage and by everything that its result depends on: texts, numbers and bytes."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (CODE_VERSION, *made_from):
            digest.update(part if isinstance(part, bytes) else json.dumps(part).encode())
        return cls(checkpoint / f"{kind}-{digest.hexdigest()}")

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Facts and arrays that were saved, or None; what is damaged counts as absent."""
        path = self.folder / _FACTS
        try:
            facts = json.loads(path.read_text())
            arrays = {name: np.load(self.folder / f"{name}.npy", allow_pickle=False) for name in facts["arrays"]}
            path.touch()
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return None
        return facts, arrays

    def save(self, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Keep what a stage found, arrays first, and forget the oldest of its kind. A full disk costs a warning."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_partial(self.folder, older=_ABANDONED)
            for name, array in arrays.items():
                put_file(self.folder / f"{name}.npy", lambda file, array=array: np.save(file, array))  # type: ignore[misc]
            text = json.dumps({**facts, "arrays": list(arrays)})
            put_file(self.folder / _FACTS, lambda file: file.write(text.encode()))
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            warnings.warn(f"a finished stage could not be kept in {self.folder} ({error.strerror}).", stacklevel=2)
        self._forget_others()

    def _forget_others(self) -> None:
        kind = self.folder.name.rpartition("-")[0]
        used: list[tuple[float, Path]] = []
        for other in self.folder.parent.glob(f"{kind}-*"):
            with suppress(OSError):
                used.append(((other / _FACTS).stat().st_mtime, other))
        for _, other in sorted(used)[:-MOST_KEPT]:
            shutil.rmtree(other, ignore_errors=True)


def content_of(rows: Rows) -> str:
    """A hash of what rows are made of and how."""
    digest = hashlib.blake2b(repr((rows.shape, str(rows.source.dtype))).encode(), digest_size=16)
    for part in (rows.origin, rows.scale):
        digest.update(part.tobytes())
    for start, stop in row_blocks(len(rows.source), _BLOCK_ROWS):
        digest.update(np.ascontiguousarray(rows.source[start:stop]).view(np.uint8).data)
    return digest.hexdigest()


def kept_neighbors(
    rows: Rows,
    n_neighbors: int,
    graph: GraphChoice,
    *,
    memory: int | None = None,
    progress: Progress | None = None,
    folder: StageFolder | None = None,
) -> OrderedNeighbors:
    """The nearest other rows of each row: from a folder, or sought and put there.

    Parameters
    ----------
    rows : Rows of shape (n, D)
    n_neighbors : int
    graph : GraphChoice
    memory : int, optional
    progress : callable, optional
    folder : StageFolder, optional
        That of these very arguments.
    """
    kept = None if folder is None else folder.load()
    if kept is not None:
        return _from_arrays(*kept, searched=rows)
    found = search_neighbors(
        rows,
        n_neighbors,
        target_recall=graph.target_recall,
        method=graph.method,
        seed=graph.seed,
        memory=memory,
        progress=progress,
    )
    if folder is not None:
        cells = {} if found.index is None else {name: getattr(found.index, name) for name in _CELLS}
        folder.save({"report": asdict(found.report)}, {"order": found.order, "indices": found.indices, **cells})
    return found


def _from_arrays(facts: dict[str, Any], arrays: dict[str, Any], searched: Rows) -> OrderedNeighbors:
    report, order, index = GraphReport(**facts["report"]), arrays["order"], None
    if report.method == "cells":
        cells = {name: arrays[name] for name in _CELLS}
        probes = int(report.parameters["probes"])
        index = CellIndex(searched.centered().ordered(order), order, n_probes=probes, **cells)
    return OrderedNeighbors(order, arrays["indices"], np.empty((len(order), 0), np.float32), report, index)
