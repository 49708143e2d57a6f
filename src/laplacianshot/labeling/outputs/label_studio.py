"""Tasks that Label Studio imports."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from laplacianshot.labeling.result import LabelResult
from laplacianshot.labeling.sources.source import Source


def export_label_studio(result: LabelResult, source: Source, path: str | PathLike[str]) -> Path:
    """Write tasks with predictions to ``path``, and the labelling interface beside it; gives the path of the latter."""
    raise NotImplementedError
