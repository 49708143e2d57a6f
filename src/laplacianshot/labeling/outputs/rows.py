"""A result as a table: one row an item."""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.result import GIVEN, LabelResult
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file

# Digits of a confidence: more would only tell of rounding.
_DIGITS = 6


def write_rows(result: LabelResult, path: str | PathLike[str], *, relabel: bool = False) -> None:
    """Write ``id, label, confidence, origin, suggestion``, whole or not at all; the same result gives the same bytes.

    Parameters
    ----------
    result : LabelResult
    path : path
        Ends in ``.csv``, ``.jsonl`` or ``.parquet``. CSV is UTF-8, with a line feed at the ends of lines.
    relabel : bool
        A further column ``dispute``: the label that the graph prefers to a given one, blank where it agrees.

    Raises
    ------
    LabelingError
        The name has another ending, or its folder is not there.
    OSError
        The file cannot be written. What was there before stays.
    """
    _write(_columns(result, relabel), Path(path))


def write_suggestions(result: LabelResult, path: str | PathLike[str]) -> None:
    """Write ``id, label, suggestion`` of the suggested items, with a blank label to fill in, then of the given ones.

    Texts are in a further column ``text``. The file can be given back as labels. Parameters and errors are those of
    :func:`write_rows`.
    """
    given = np.flatnonzero(np.asarray(result.origins) == GIVEN)
    n_new, items = len(result.suggested), [*result.suggested.tolist(), *given.tolist()]
    labels = result.labels
    columns: dict[str, list[Any]] = {
        "id": [result.ids[i] for i in items],
        "label": ["" if place < n_new else labels[i] for place, i in enumerate(items)],
        "suggestion": [int(result.suggestions[i]) if place < n_new else None for place, i in enumerate(items)],
    }
    source, rows = result.source, result.rows
    if source is not None and source.kind == "texts" and rows is not None:
        columns["text"] = [str(source.preview(int(rows[i]))) for i in items]
    _write(columns, Path(path))


def _write(columns: dict[str, list[Any]], path: Path) -> None:
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise LabelingError(f"{path}: the name of an output must end in {', '.join(_WRITERS)}.")
    if not path.parent.is_dir():
        raise LabelingError(f"{path}: there is no folder {path.parent}; make it first.")
    put_file(path, lambda file: writer(columns, file))


def _columns(result: LabelResult, relabel: bool) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "id": list(result.ids),
        "label": list(result.labels),
        # Without any label there is nothing to be sure of.
        "confidence": [
            round(float(value), _DIGITS) if origin else None
            for value, origin in zip(result.confidence, result.origins, strict=True)
        ],
        "origin": list(result.origins),
        "suggestion": [int(rank) if rank > 0 else None for rank in result.suggestions],
    }
    if relabel:
        columns["dispute"] = [result.classes[code] if code >= 0 else "" for code in result.disputes]
    return columns


def _write_csv(columns: dict[str, list[Any]], file: IO[bytes]) -> None:
    file.write(",".join(columns).encode() + b"\n")
    for row in zip(*columns.values(), strict=True):
        file.write(",".join(_field(value) for value in row).encode("utf-8") + b"\n")


def _field(value: str | float | None) -> str:
    """A value between commas. The module csv would leave a lone carriage return without quotes, and end the row."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}f}"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def _write_jsonl(columns: dict[str, list[Any]], file: IO[bytes]) -> None:
    for row in zip(*columns.values(), strict=True):
        file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False).encode("utf-8") + b"\n")


def _write_parquet(columns: dict[str, list[Any]], file: IO[bytes]) -> None:
    arrow = require("pyarrow", "parquet")
    parquet = require("pyarrow.parquet", "parquet")
    types = {"confidence": arrow.float64(), "suggestion": arrow.int64()}
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in columns])
    parquet.write_table(arrow.table(columns, schema=schema), file)


_WRITERS: dict[str, Callable[[dict[str, list[Any]], IO[bytes]], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
