"""Texts as files that are whole or not there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laplacianshot.runtime.files import put_file


def json_text(document: Mapping[str, Any]) -> str:
    """One strict JSON document."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Put a text at ``path``, whole or not at all."""
    put_file(path, lambda file: file.write(text.encode("utf-8")))
