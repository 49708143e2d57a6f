"""Checks of output files before the work that fills them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from laplacianshot.cli.errors import CommandError


def check_output(path: Path, endings: Sequence[str]) -> Path:
    """The absolute path of an output that can be written, or a :class:`CommandError` that says why it cannot.

    A file is really made in its folder, and removed again: permissions alone do not tell of a read-only disk.
    """
    if path.suffix.lower() not in endings:
        raise CommandError(f"--output {path}: the name must end in {', '.join(endings)}.")
    full = path.absolute()
    if full.is_dir():
        raise CommandError(f"--output {path}: this is a folder; name a file in it.")
    if not full.parent.is_dir():
        raise CommandError(f"--output {path}: there is no folder {full.parent}; make it first.")
    if full.exists() and not os.access(full, os.W_OK):
        raise CommandError(f"--output {path}: the file is there and cannot be written; choose another name.")
    try:
        with tempfile.NamedTemporaryFile(dir=full.parent, prefix=".laplacianshot-"):
            pass
    except OSError as error:
        raise CommandError(f"--output {path}: cannot write there ({error.strerror}); choose another folder.") from error
    return full
