"""Write a result: a table with one row per item, or tasks for Label Studio."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np

from laplacianshot import __version__
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.labels import ID_FIELD
from laplacianshot.labeling.result import GIVEN, LabelResult
from laplacianshot.labeling.sources import Source
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file

_Columns = dict[str, list[Any]]

# What makes a cell a formula in a spreadsheet.
_FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")

# Decimals of a confidence: more are only rounding.
_DIGITS = 6

# Names of the tags in the labeling interface of Label Studio.
_CONTROL, _OBJECT = "label", "item"

# Where Label Studio serves files of a folder that is connected as local storage.
_LOCAL_FILES = "/data/local-files/?d="

# Characters that XML cannot hold, not even escaped.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def write_rows(
    result: LabelResult, path: str | PathLike[str], *, relabel: bool = False, safe_csv: bool = False
) -> None:
    """Write ``id, label, confidence, origin, suggestion``, whole or not at all; the same result gives the same bytes.

    The name of the file ends in ``.csv`` (UTF-8 with line feeds), ``.jsonl`` or ``.parquet``. ``relabel`` adds a column
    ``dispute``: the label that the graph prefers to a given one, blank where it agrees. LabelingError if the name has
    another ending or its folder does not exist; if the file cannot be written, OSError, and an earlier file stays.

    Ids and labels are written as they are. A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a
    formula: with ``safe_csv`` such a cell of a ``.csv`` has ``'`` before it. Such a file is for looking at, not to be
    given back as labels.
    """
    columns: _Columns = {
        "id": list(result.ids),
        "label": list(result.labels),
        # Without any label there is no confidence.
        "confidence": [
            round(float(value), _DIGITS) if origin else None
            for value, origin in zip(result.confidence, result.origins, strict=True)
        ],
        "origin": list(result.origins),
        "suggestion": [int(rank) if rank > 0 else None for rank in result.suggestions],
    }
    if relabel:
        columns["dispute"] = [result.classes[code] if code >= 0 else "" for code in result.disputes]
    if safe_csv and Path(path).suffix.lower() == ".csv":
        columns = {name: [_harmless(value) for value in column] for name, column in columns.items()}
    _write(columns, Path(path))


def write_predictions(result: LabelResult, path: str | PathLike[str]) -> None:
    """Write ``id, label, confidence, novelty`` of what a model predicts; otherwise as :func:`write_rows`."""
    columns: _Columns = {
        "id": list(result.ids),
        "label": [str(label) for label in result.labels],
        "confidence": [round(float(value), _DIGITS) for value in result.confidence],
        "novelty": [round(float(value), _DIGITS) for value in result.novelty],
    }
    _write(columns, Path(path))


def _harmless(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_MARKS) else value


def write_suggestions(result: LabelResult, path: str | PathLike[str]) -> None:
    """Write ``id, label, suggestion`` of the suggested items, with a blank label to fill in, then of the given ones.

    Texts are in a further column ``text``. The file can be given back as labels. Errors are those of
    :func:`write_rows`.
    """
    given = np.flatnonzero(np.asarray(result.origins) == GIVEN)
    n_new, items = len(result.suggested), [*result.suggested.tolist(), *given.tolist()]
    labels = result.labels
    columns: _Columns = {
        "id": [result.ids[i] for i in items],
        "label": ["" if place < n_new else labels[i] for place, i in enumerate(items)],
        "suggestion": [int(result.suggestions[i]) if place < n_new else None for place, i in enumerate(items)],
    }
    source, rows = result.source, result.rows
    if source is not None and source.kind == "texts" and rows is not None:
        columns["text"] = [str(source.preview(int(rows[i]))) for i in items]
    _write(columns, Path(path))


def export_label_studio(result: LabelResult, source: Source, path: str | PathLike[str]) -> Path:
    """Write tasks for Label Studio to ``path``, a ``.json``, and the labeling interface beside it as ``.xml``.

    One task per item, in the order of the result. A given label is an annotation; a predicted one is a prediction whose
    score is its confidence; an item without a label has neither. The data of a task also hold the item's id, its
    confidence and its rank among the suggestions, by which Label Studio can sort. Pictures are local files of Label
    Studio (:func:`how_to_import`).

    Returns where the interface is. LabelingError if the folder of ``path`` does not exist, or a class has a name that
    Label Studio cannot hold; if a file cannot be written, OSError, and an earlier file stays.
    """
    where = Path(path)
    if where.suffix.lower() != ".json":
        raise LabelingError(f"{where}: the name of an export for Label Studio must end in .json.")
    _check_folder(where)
    odd = [name for name in result.classes if _NOT_XML.search(name)]
    if odd:
        raise LabelingError(f"classes {listed(odd)}: Label Studio takes no control characters; rename them.")
    put_file(interface_of(where), lambda file: file.write(_interface(result, source).encode()), private=True)
    put_file(where, lambda file: file.writelines(_json_list(_tasks(result, source))), private=True)
    return interface_of(where)


def interface_of(path: Path) -> Path:
    """Return where the labeling interface of the tasks in ``path`` is written."""
    return path.with_suffix(".xml")


def how_to_import(source: Source, path: Path) -> str:
    """Return how a person imports the tasks in ``path``, in one line."""
    steps = (
        f"In a project of Label Studio, paste {interface_of(path).name} under Settings > Labeling Interface > Code, "
        f"then import {path.name}"
    )
    if source.kind != "pictures":
        return f"{steps}."
    folder = source.path.resolve()
    return (
        f"{steps}; pictures show where it runs with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={folder.parent}, and has {folder} as local storage."
    )


def _write(columns: _Columns, path: Path) -> None:
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise LabelingError(f"{path}: the name of an output must end in {', '.join(_WRITERS)}.")
    _check_folder(path)
    put_file(path, lambda file: writer(columns, file), private=True)


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise LabelingError(f"{path}: there is no folder {path.parent}; make it first.")


def _write_csv(columns: _Columns, file: IO[bytes]) -> None:
    file.write(",".join(columns).encode() + b"\n")
    for row in zip(*columns.values(), strict=True):
        file.write(",".join(_field(value) for value in row).encode() + b"\n")


def _field(value: str | float | None) -> str:
    """Return a value between commas; the module csv would leave a lone carriage return without quotes."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}f}"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def _write_jsonl(columns: _Columns, file: IO[bytes]) -> None:
    for row in zip(*columns.values(), strict=True):
        file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False).encode() + b"\n")


def _write_parquet(columns: _Columns, file: IO[bytes]) -> None:
    arrow = require("pyarrow", "parquet")
    parquet = require("pyarrow.parquet", "parquet")
    types = {"confidence": arrow.float64(), "novelty": arrow.float64(), "suggestion": arrow.int64()}
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in columns])
    parquet.write_table(arrow.table(columns, schema=schema), file)


_WRITERS: dict[str, Callable[[_Columns, IO[bytes]], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}


def _interface(result: LabelResult, source: Source) -> str:
    tag, value = ("Image", "$image") if source.kind == "pictures" else ("Text", "$text")
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in result.classes)
    return (
        f'<View>\n  <{tag} name="{_OBJECT}" value="{value}"/>\n'
        f'  <Choices name="{_CONTROL}" toName="{_OBJECT}" choice="single" showInline="true">\n'
        f"{choices}\n  </Choices>\n</View>\n"
    )


def _tasks(result: LabelResult, source: Source) -> Iterator[dict[str, Any]]:
    prefix = f"{_LOCAL_FILES}{quote(source.path.resolve().name)}/"
    positions = {name: i for i, name in enumerate(source.ids)}
    for row, (name, label, origin) in enumerate(zip(result.ids, result.labels, result.origins, strict=True)):
        data: dict[str, Any] = {ID_FIELD: name}
        if source.kind == "pictures":
            data["image"] = prefix + quote(name)
        else:
            data["text"] = str(source.preview(positions[name]))
        if result.suggestions[row] > 0:
            data["suggestion"] = int(result.suggestions[row])
        task: dict[str, Any] = {"data": data}
        if label:
            data["confidence"] = score = round(float(result.confidence[row]), _DIGITS)
            names = {"from_name": _CONTROL, "to_name": _OBJECT, "type": "choices"}
            chosen = [{"id": f"item{row}", **names, "value": {"choices": [label]}}]
            if origin == GIVEN:
                task["annotations"] = [{"result": chosen}]
            else:
                version = f"laplacianshot {__version__}"
                task["predictions"] = [{"model_version": version, "score": score, "result": chosen}]
        yield task


def _json_list(values: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    yield b"["
    for number, value in enumerate(values):
        yield (b",\n" if number else b"\n") + json.dumps(value).encode()
    yield b"\n]\n"
