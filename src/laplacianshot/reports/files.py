"""Output files that are whole or not there."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a file and put it at ``path``, whole or not at all: what was there stays until then."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        # mkstemp makes files for their owner's eyes only.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def json_text(document: Mapping[str, Any]) -> str:
    """One strict JSON document."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Put a text at ``path``, whole or not at all."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")))
