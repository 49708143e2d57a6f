"""Checks of output files before the work that fills them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from laplacianshot.cli.errors import CommandError


def check_output(path: Path, endings: Sequence[str], option: str = "--output") -> Path:
    """The absolute path of an output that can be written, or a :class:`CommandError` that says why it cannot."""
    if path.suffix.lower() not in endings:
        raise CommandError(f"{option} {path}: the name must end in {', '.join(endings)}.")
    full = path.absolute()
    if full.is_dir():
        raise CommandError(f"{option} {path}: this is a folder; name a file in it.")
    if full.exists() and not os.access(full, os.W_OK):
        raise CommandError(f"{option} {path}: the file is there and cannot be written; choose another name.")
    _check_folder(full.parent, path, option)
    return full


def check_report_folder(path: Path, option: str = "--report") -> Path:
    """The absolute path of a folder for a report, there or to be made, or a :class:`CommandError`."""
    full = path.absolute()
    if full.exists() and not full.is_dir():
        raise CommandError(f"{option} {path}: this is a file; name a folder.")
    _check_folder(full if full.is_dir() else full.parent, path, option)
    return full


def _check_folder(folder: Path, path: Path, option: str) -> None:
    """A file is really made in the folder, and removed again: permissions do not tell of a read-only disk."""
    if not folder.is_dir():
        raise CommandError(f"{option} {path}: there is no folder {folder}; make it first.")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".laplacianshot-"):
            pass
    except OSError as error:
        raise CommandError(f"{option} {path}: cannot write there ({error.strerror}); choose another folder.") from error
