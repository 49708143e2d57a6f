"""Pictures sorted into class folders, with a log that undoes it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from laplacianshot.labeling.result import LabelResult, Skipped
from laplacianshot.labeling.sources.source import Source


@dataclass(frozen=True)
class Applied:
    """What was done to the pictures.

    Attributes
    ----------
    log : Path
    n_done : int
        Pictures copied, moved, linked, or put back.
    left : tuple of Skipped
        Pictures left alone, and why.
    """

    log: Path
    n_done: int
    left: tuple[Skipped, ...]


def apply_labels(
    result: LabelResult,
    source: Source,
    folder: str | PathLike[str],
    how: Literal["copy", "move", "link"],
    log: str | PathLike[str] | None = None,
) -> Applied:
    """Sort the labelled pictures into class folders of ``folder``; ``log`` is by default a new file in it."""
    raise NotImplementedError


def unfinished(folder: str | PathLike[str]) -> tuple[Path, ...]:
    """Logs in ``folder`` of runs that were ended before they had done all."""
    raise NotImplementedError


def finish(log: str | PathLike[str]) -> Applied:
    """Do what is left of a run that was ended half-way."""
    raise NotImplementedError


def undo(log: str | PathLike[str]) -> Applied:
    """Put everything back as it was before the run of that log."""
    raise NotImplementedError
