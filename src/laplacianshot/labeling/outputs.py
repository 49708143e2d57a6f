"""Write a result: a table with one row per item, or tasks for Label Studio."""

from __future__ import annotations

import json
import math
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
from laplacianshot.labeling.tables import OUR_NAMES, plain_name
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file

# Values by column: lists, or columns of pyarrow.
_Columns = dict[str, Any]

# What makes a cell a formula in a spreadsheet.
_FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")

# Decimals of a confidence: more are only rounding.
_DIGITS = 6

# Names of the tags in the labeling interface of Label Studio.
_CONTROL, _OBJECT = "label", "item"

# Where Label Studio serves files of a folder that is connected as local storage.
_LOCAL_FILES = "/data/local-files/?d="

# Characters that XML cannot hold, not even escaped.
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def write_rows(
    result: LabelResult, path: str | PathLike[str], *, relabel: bool = False, safe_csv: bool = False
) -> None:
    """Write one row per item, whole or not at all; the same result gives the same bytes.

    The columns are those of :func:`columns_of_result`. The name of the file ends in ``.csv`` (UTF-8 with line feeds),
    ``.jsonl`` or ``.parquet``. LabelingError if the name has another ending or its folder does not exist; if the file
    cannot be written, OSError, and an earlier file stays.

    Values are written as they are. A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a
    formula: with ``safe_csv`` such a cell of a ``.csv`` has ``'`` before it. Such a file is for looking at, not to be
    given back as labels.
    """
    columns = columns_of_result(result, relabel=relabel)
    if safe_csv and Path(path).suffix.lower() == ".csv":
        columns = {name: [_harmless(value) for value in _listed(column)] for name, column in columns.items()}
    _write(columns, Path(path))


def columns_of_result(result: LabelResult, *, relabel: bool = False) -> _Columns:
    """Return the columns of an output: ours, those of the source, and what tells later whether a label was changed.

    - ``id``, ``label``, ``confidence``, ``origin`` and ``suggestion``; ids are whole numbers where those of the source
      are;
    - with ``relabel``, ``dispute``: the label that the graph prefers to a given one, blank where it agrees;
    - the columns of a table, but for vectors; one that has a name of ours gets ``source_`` before it
      (:func:`renamed_columns`). Columns of an earlier output of ours are replaced;
    - ``written``: the label once more. Where a person changes ``label`` later, the two differ, and the label counts as
      given. Both are written alike, so that a program that rewrites one, as spreadsheets do, rewrites both.
    """
    columns: _Columns = {
        "id": _id_values(result),
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
    columns |= _source_columns(result)
    return columns | {"written": columns["label"]} if any(columns["label"]) else columns


def renamed_columns(source: Source) -> dict[str, str]:
    """Return the names that columns of a source get in an output because theirs are ours."""
    taken = {plain_name(name) for name in source.columns} | set(OUR_NAMES)
    renamed = {}
    for name in source.columns:
        if plain_name(name) in OUR_NAMES:
            new = f"source_{name.strip()}"
            while plain_name(new) in taken:
                new = f"source_{new}"
            taken.add(plain_name(new))
            renamed[name] = new
    return renamed


def _source_columns(result: LabelResult, rows: Any = None) -> _Columns:
    """Return the columns of the source at the items of a result, or at some of these."""
    source, places = result.source, result.rows
    if source is None or places is None or not source.columns:
        return {}
    chosen = places if rows is None else places[rows]
    whole = len(chosen) == len(source) and bool((chosen == np.arange(len(source))).all())
    new = renamed_columns(source)
    return {
        new.get(name, name): column
        if whole
        else [column[place] for place in chosen.tolist()]
        if isinstance(column, list)
        else column.take(chosen)
        for name, column in source.columns.items()
    }


def _id_values(result: LabelResult) -> list[Any]:
    """Return the ids, as whole numbers where those of the source are."""
    is_whole = result.source is not None and result.source.whole_ids
    return [int(name) for name in result.ids] if is_whole else list(result.ids)


def _listed(column: Any) -> list[Any]:
    """Return the values of a column."""
    values: list[Any] = column if isinstance(column, list) else column.to_pylist()
    return values


def write_predictions(result: LabelResult, path: str | PathLike[str]) -> None:
    """Write ``id, label, confidence, novelty`` of what a model predicts, and the columns of the source.

    Otherwise as :func:`write_rows`.
    """
    columns: _Columns = {
        "id": _id_values(result),
        "label": [str(label) for label in result.labels],
        "confidence": [round(float(value), _DIGITS) for value in result.confidence],
        "novelty": [round(float(value), _DIGITS) for value in result.novelty],
    }
    _write(columns | _source_columns(result), Path(path))


def _harmless(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_MARKS) else value


def write_suggestions(result: LabelResult, path: str | PathLike[str]) -> None:
    """Write ``id, label, suggestion`` of the suggested items, with a blank label to fill in, then of the given ones.

    Texts are in a further column ``text``, unless the table has one; the columns of the table follow. The file can be
    given back as labels. Errors are those of :func:`write_rows`.
    """
    given = np.flatnonzero(np.asarray(result.origins) == GIVEN)
    n_new, items = len(result.suggested), [*result.suggested.tolist(), *given.tolist()]
    labels = result.labels
    ids = _id_values(result)
    columns: _Columns = {
        "id": [ids[i] for i in items],
        "label": ["" if place < n_new else labels[i] for place, i in enumerate(items)],
        "suggestion": [int(result.suggestions[i]) if place < n_new else None for place, i in enumerate(items)],
    }
    source, rows = result.source, result.rows
    kept = _source_columns(result, np.array(items, dtype=np.int64))
    if source is not None and source.kind == "texts" and rows is not None and "text" not in map(plain_name, kept):
        columns["text"] = [str(source.preview(int(rows[i]))) for i in items]
    _write(columns | kept, Path(path))


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
    check_folder(where)
    if source.kind == "pictures" and len(source) and source.file(0) is None:
        raise LabelingError(f"{source.path}: Label Studio needs files of pictures, and these are not in files.")
    odd = [name for name in result.classes if NOT_XML.search(name)]
    if odd:
        raise LabelingError(f"classes {listed(odd)}: Label Studio takes no control characters; rename them.")
    put_file(interface_of(where), lambda file: file.write(_interface(result, source).encode()), private=True)
    put_file(where, lambda file: file.writelines(json_list(_tasks(result, source))), private=True)
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
    check_folder(path)
    put_file(path, lambda file: writer(columns, file), private=True)


def check_folder(path: Path) -> None:
    """Raise LabelingError if the folder of a file does not exist."""
    if not path.parent.is_dir():
        raise LabelingError(f"{path}: there is no folder {path.parent}; make it first.")


def _write_csv(columns: _Columns, file: IO[bytes]) -> None:
    columns = _without_bytes(columns)
    file.write(",".join(map(_field, columns)).encode() + b"\n")
    confidence = list(columns).index("confidence") if "confidence" in columns else -1
    for row in zip(*map(_listed, columns.values()), strict=True):
        fields = [
            f"{value:.{_DIGITS}f}" if place == confidence and isinstance(value, float) else _field(value)
            for place, value in enumerate(row)
        ]
        file.write(",".join(fields).encode() + b"\n")


def _field(value: Any) -> str:
    """Return a value between commas; the module csv would leave a lone carriage return without quotes."""
    text = _text(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def _text(value: Any) -> str:
    """Return a value as text, a blank for None; half of a character, which UTF-8 cannot hold, as an escape."""
    plain = _plain_value(value)
    text = json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict) else str(plain)
    return "" if plain is None else text.encode("utf-8", "backslashreplace").decode()


def _write_jsonl(columns: _Columns, file: IO[bytes]) -> None:
    columns = _without_bytes(columns)
    for row in zip(*map(_listed, columns.values()), strict=True):
        values = dict(zip(columns, map(_plain_value, row), strict=True))
        file.write(json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def _plain_value(value: Any) -> Any:
    """Return a value of a table as JSON has it: times and the like as texts, None for NaN."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_plain_value(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain_value(one) for name, one in value.items()}
    if hasattr(value, "tolist"):  # numpy
        return _plain_value(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _without_bytes(columns: _Columns) -> _Columns:
    """Return the columns that a text can hold: all but bytes, alone or within lists and structures."""
    return {name: column for name, column in columns.items() if isinstance(column, list) or not _has_bytes(column.type)}


def _has_bytes(kind: Any) -> bool:
    types = require("pyarrow.types", "parquet")
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return True
    return any(_has_bytes(kind.field(place).type) for place in range(kind.num_fields))


def _write_parquet(columns: _Columns, file: IO[bytes]) -> None:
    parquet = require("pyarrow.parquet", "parquet")
    parquet.write_table(arrow_table(columns), file)


def arrow_table(columns: _Columns) -> Any:
    """Return columns as a Table of pyarrow: ours with their types, those of the source with their own."""
    arrow = require("pyarrow", "parquet")
    ours = dict.fromkeys(OUR_NAMES, arrow.string()) | {"suggestion": arrow.int64()}
    ours |= dict.fromkeys(("confidence", "novelty"), arrow.float64())
    if "id" in columns and all(isinstance(value, int) for value in columns["id"]):
        ours["id"] = arrow.int64()

    def typed(name: str, column: Any) -> Any:
        if not isinstance(column, list):
            return column
        try:
            return arrow.array(column, ours.get(name))
        except (arrow.ArrowException, OverflowError, UnicodeEncodeError):
            # Values of several types in one column, as JSON and DataFrames may have, or half a character.
            return arrow.array([None if value is None else _text(value) for value in column])

    return arrow.table({name: typed(name, column) for name, column in columns.items()})


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


def json_list(values: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield a JSON list, with a value in each line."""
    yield b"["
    for number, value in enumerate(values):
        yield (b",\n" if number else b"\n") + json.dumps(value).encode()
    yield b"\n]\n"
