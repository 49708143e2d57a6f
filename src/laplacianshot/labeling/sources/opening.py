"""From a path to a source."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.sources.base import Source
from laplacianshot.labeling.sources.pictures import open_pictures
from laplacianshot.labeling.sources.tables import ENDINGS as TABLES
from laplacianshot.labeling.sources.tables import Table, TableColumns, columns_of, read_table, texts_of
from laplacianshot.labeling.sources.vectors import is_store, open_npy, open_npz, open_store, vectors_of_table
from laplacianshot.runtime.extras import require

_EXPECTED = (
    "give a folder of pictures, a .csv, .tsv, .jsonl or .parquet of texts, or a .npy, .npz or .parquet of vectors"
)

# A URL, whose slashes a path may have lost, or a pattern.
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]+:/|[*]", re.IGNORECASE)

# What columns are called that nobody has to be asked about.
_TEXT_NAMES = ("text", "texts", "sentence", "sentences")
_VECTOR_NAMES = ("features", "vector", "vectors", "embedding", "embeddings")


def open_source(
    path: str | PathLike[str],
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    folders_are_labels: bool | None = None,
    labels_file: bool = False,
) -> Source:
    """Open what is to be labeled. Pictures are found, not read; tables are read.

    Parameters
    ----------
    path : path
        A folder of pictures; a ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` of texts; a ``.npy``, ``.npz`` or
        ``.parquet`` of vectors, or a feature store (the folder that ``laplacianshot extract`` makes).
    text_column : str, optional
        The column of the texts. By default one called ``text`` or ``sentence``, or the only one there is beside ids
        and labels (of Parquet: the only one of strings).
    id_column : str, optional
        The column whose values are the ids. By default a column ``id`` if its values are all there and all different;
        else rows are numbered from 0.
    label_column : str, optional
        The column of labels, blank where there is none. By default a column ``label``, if there is one.
    folders_are_labels : bool, optional
        Whether the top folders of pictures are classes. By default they are if there is a folder ``unlabeled`` beside
        them, or pictures directly in the folder and no file of labels; see
        :func:`laplacianshot.labeling.sources.pictures.open_pictures`.
    labels_file : bool
        Whether labels come from a file as well.

    Returns
    -------
    Source

    Raises
    ------
    LabelingError
        There is nothing to label, or it cannot be read; the message says what to do.
    """
    where = Path(path)
    _check_there(where)
    ending = where.suffix.lower()
    if where.is_dir():
        named = {"text_column": text_column, "id_column": id_column, "label_column": label_column}
        if is_store(where):
            _refuse("feature stores", **named)
            return open_store(where, labels_file=labels_file)
        _refuse("pictures", **named)
        return open_pictures(where, folders_are_labels=folders_are_labels, labels_file=labels_file)
    if ending in (".npy", ".npz"):
        _refuse("arrays", text_column=text_column, id_column=id_column, label_column=label_column)
        return open_npy(where) if ending == ".npy" else open_npz(where)
    if ending not in TABLES:
        raise LabelingError(f"{where}: files ending in {ending!r} are not read; {_EXPECTED}.")
    table = read_table(where)
    if table.n_rows == 0:
        raise LabelingError(f"{where} has no rows; there is nothing to label.")
    columns = columns_of(table, id_column, label_column)
    if text_column is not None:
        return texts_of(table, columns, table.column(text_column, "text column"))
    if ending == ".parquet":
        return _from_parquet(table, columns)
    return texts_of(table, columns, _text_column(table, [name for name in table.columns if name not in columns.used]))


def _check_there(path: Path) -> None:
    try:
        there = path.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero
        raise LabelingError(f"{str(path)!r}: {error}; {_EXPECTED}.") from error
    if there:
        return
    if _ELSEWHERE.search(str(path)):
        raise LabelingError(f"{path}: URLs and patterns with * are read as shards of vectors, with --engine ray.")
    raise LabelingError(f"{path}: file or folder not found; {_EXPECTED}.")


def _refuse(what: str, **options: str | None) -> None:
    """Columns were named where there are none."""
    for name, value in options.items():
        if value is not None:
            raise LabelingError(f"{name.replace('_', ' ')} {value!r}: {what} have no columns; leave it out.")


def _text_column(table: Table, candidates: list[str]) -> str:
    named = [column for name in _TEXT_NAMES if (column := table.find(name)) in candidates and column is not None]
    if named:
        return named[0]
    if len(candidates) == 1:
        return candidates[0]
    there = f"choose one of {listed(candidates)}" if candidates else "there is none beside ids and labels"
    raise LabelingError(f"{table.path}: which column holds the texts is not clear; {there} with --text-column.")


def _from_parquet(table: Table, columns: TableColumns) -> Source:
    """Vectors if a column holds lists of numbers, texts if one holds strings, else the columns of numbers together."""
    types = require("pyarrow.types", "parquet")
    free = {name: column for name, column in table.columns.items() if name not in columns.used}
    lists = [name for name, column in free.items() if _is_vector(types, column.type)]
    if lists:
        return vectors_of_table(table.path, _stacked(table, _one_of(table, lists)), columns)
    strings = [name for name, column in free.items() if _is_string(types, column.type)]
    if strings:
        return texts_of(table, columns, _text_column(table, strings))
    numbers = [name for name, column in free.items() if _is_number(types, column.type)]
    if not numbers:
        raise LabelingError(f"{table.path}: none of the columns {listed(free)} holds texts or numbers.")
    for name in numbers:
        if free[name].null_count:
            raise LabelingError(f"{table.path}: column {name!r} has gaps; fill them or leave those rows out.")
    return vectors_of_table(table.path, np.column_stack([free[name].to_numpy() for name in numbers]), columns)


def _is_number(types: Any, kind: Any) -> bool:
    return bool(types.is_floating(kind) or types.is_integer(kind))


def _is_string(types: Any, kind: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_vector(types: Any, kind: Any) -> bool:
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and _is_number(types, kind.value_type))


def _one_of(table: Table, lists: list[str]) -> str:
    named = [name for name in lists if name.strip().lower() in _VECTOR_NAMES]
    if len(lists) == 1 or len(named) == 1:
        return (named or lists)[0]
    raise LabelingError(
        f"{table.path}: several columns hold lists of numbers, {listed(lists)}; call the one to use 'features'."
    )


def _stacked(table: Table, name: str) -> Any:
    """The lists of a column as rows (n, D)."""
    compute = require("pyarrow.compute", "parquet")
    column = table.columns[name].combine_chunks()
    lengths = compute.list_value_length(column)
    if column.null_count:
        raise LabelingError(f"{table.path}: column {name!r} has gaps; fill them or leave those rows out.")
    sizes = lengths.to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(sizes != sizes[0])
    if odd.size:
        raise LabelingError(
            f"{table.path}: column {name!r} holds {sizes[0]} numbers in row 0 and {sizes[odd[0]]} in row {odd[0]}; "
            "every vector must have the same length."
        )
    flat = compute.list_flatten(column)
    if flat.null_count:
        raise LabelingError(f"{table.path}: column {name!r} has gaps in its lists; fill them.")
    return flat.to_numpy(zero_copy_only=False).reshape(len(column), int(sizes[0]))
