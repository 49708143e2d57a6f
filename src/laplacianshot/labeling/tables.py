"""Tables in CSV, TSV, JSON Lines and Parquet files and in memory, and the ids and labels in them."""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import re
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot.labeling.errors import LabelingError, first_three, listed
from laplacianshot.labeling.result import ACCEPTED, GIVEN, PREDICTED, REJECTED, UNLABELED
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import check_input, read_input
from laplacianshot.runtime.types import Floats

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")

# Longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# What western European languages do not write: three letters beyond ASCII in a row, or a symbol between two letters.
_FOREIGN = re.compile("[À-ÿŠšŽžŒœŸƒ]{3}|[^\\W\\d_][¡-©«¬®-³µ¶¸¹»-¿×÷‚„…†‡ˆ‰‹•˜™›][^\\W\\d_]")
_ACCENTED = re.compile("[^\x00-\x7f]+")
# Half of a pair of UTF-16, or a byte of a file name that is not UTF-8.
_HALF = re.compile("[\ud800-\udfff]")

# Cells that a table may leave blank, however few it fills.
_MAX_BLANKS = 50_000_000

# Share of the places beyond ASCII that may look foreign by chance.
_MAX_FOREIGN = 0.05

# Columns of our own outputs besides ids and labels, those that only some have, and the values of an origin.
_OUR_COLUMNS = ("confidence", "origin", "suggestion")
_MORE_COLUMNS = ("dispute", "written")
OUR_NAMES = ("id", "label", "novelty", *_OUR_COLUMNS, *_MORE_COLUMNS)
_ORIGINS = (GIVEN, PREDICTED, ACCEPTED, REJECTED, UNLABELED, None)

# What a column of vectors is called where several columns hold lists of numbers.
_VECTOR_NAMES = ("features", "vector", "vectors", "embedding", "embeddings")


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, UTF-16, UTF-32 or Windows-1252, with its line ends as they are.

    A byte order mark decides; without one the file is UTF-8 if it can be, UTF-16 if every other byte of its beginning
    is zero, and Windows-1252, with a warning, if it then reads like a western European language.
    """
    try:
        data = read_input(path)
    except OSError as error:
        raise LabelingError(f"{path} cannot be read: {error.strerror}.") from error
    encoding = _encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise LabelingError(
            f"{path} is not text in {encoding}: byte {error.start} cannot be read; save it as UTF-8."
        ) from error
    if encoding == "cp1252":
        if not _is_western(text):
            raise LabelingError(f"{path} has an unknown encoding; save it as UTF-8.")
        warnings.warn(f"{path} was read as Windows-1252; save it as UTF-8 if letters are wrong.", stacklevel=2)
    return text


def _encoding(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    even, odd = data[:1000:2], data[1:1000:2]
    if odd.count(0) > 0.6 * len(odd) and even.count(0) == 0:
        return "utf-16-le"
    if even.count(0) > 0.6 * len(even) and odd.count(0) == 0:
        return "utf-16-be"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _is_western(text: str) -> bool:
    """Whether the characters beyond ASCII are used as in western European languages, and none is a control."""
    if any(ord(c) < 32 and c not in "\t\n\r\f\v" for c in set(text)):
        return False
    return len(_FOREIGN.findall(text)) <= _MAX_FOREIGN * len(_ACCENTED.findall(text))


@dataclass(frozen=True, eq=False)
class Table:
    """Rows under named columns."""

    path: Path  # or what a table in memory is, such as DataFrame
    columns: dict[str, Any]  # all of the same length: lists, or pyarrow columns
    n_rows: int
    lines: Sequence[int] | None = None  # the line of the file at which each row ends
    index: Sequence[Any] | None = None  # what pandas numbers the rows by, if not 0, 1, ...

    def place(self, row: int) -> str:
        """Return where a row is in the file, in words."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the rows."""
        columns = [self.values(name) for name in self.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(self.columns, row, strict=True))

    def find(self, name: str) -> str | None:
        """Return the column of that name, exactly or but for case and blanks around it; None if there is not one."""
        if name in self.columns:
            return name
        alike = [column for column in self.columns if column.strip().lower() == name.strip().lower()]
        return alike[0] if len(alike) == 1 else None

    def column(self, name: str, argument: str) -> str:
        """Return the column of that name, or raise an error that names its argument and the existing columns."""
        found = self.find(name)
        if found is None:
            raise LabelingError(
                f"{self.path}: {argument} {name!r} is not a column; the columns are {listed(self.columns)}."
            )
        return found

    def values(self, name: str) -> Sequence[Any]:
        """Return the values of a column as Python objects."""
        column = self.columns[name]
        return column if isinstance(column, list) else column.to_pylist()


def read_table(path: Path) -> Table:
    """Read a CSV, TSV, JSON Lines or Parquet file; LabelingError names the line if it is damaged or does not fit."""
    match path.suffix.lower():
        case ".csv" | ".tsv":
            return _read_csv(path)
        case ".jsonl":
            return _read_jsonl(path)
        case ".parquet":
            return _read_parquet(path)
    raise LabelingError(f"{path}: a table ends in {', '.join(ENDINGS)}.")


def is_frame(given: Any) -> bool:
    """Whether a value is a table in memory: a DataFrame of pandas, polars or the like, or a Table of pyarrow."""
    return hasattr(given, "columns") and (hasattr(given, "iloc") or hasattr(given, "__arrow_c_stream__"))


def open_table(given: Any) -> Table:
    """Return a table in memory, or read one from a path."""
    return table_of_frame(given) if is_frame(given) else read_table(Path(given))


def table_of_frame(frame: Any) -> Table:
    """Return a DataFrame of pandas, polars or the like, or a Table of pyarrow; columns are called by their str."""
    arrow = require("pyarrow", "parquet")
    path = Path(type(frame).__name__)
    if not hasattr(frame, "iloc"):
        table = arrow.table(frame)
        _check_names(path, table.column_names)
        return Table(path, dict(zip(table.column_names, table.columns, strict=True)), table.num_rows)
    names = [str(name) for name in frame.columns]
    _check_names(path, names)
    columns = {name: _column_of_series(frame.iloc[:, place]) for place, name in enumerate(names)}
    index = frame.index
    if list(index) == list(range(len(frame))):
        return Table(path, columns, len(frame))
    if not index.is_unique:
        warnings.warn(
            f"{path}: its index holds values more than once, so ids are row numbers from 0; name a column with "
            "id_column if there is a better one.",
            UserWarning,
            stacklevel=2,
        )
        return Table(path, columns, len(frame))
    return Table(path, columns, len(frame), index=index.tolist())


def _column_of_series(series: Any) -> Any:
    """Return a column of pandas for pyarrow, or as a list where pyarrow has no type for it, with None for gaps."""
    arrow = require("pyarrow", "parquet")
    try:
        column = arrow.Array.from_pandas(series)
    except (arrow.ArrowException, TypeError, ValueError):
        return series.astype(object).where(series.notna(), None).tolist()
    return column if isinstance(column, arrow.ChunkedArray) else arrow.chunked_array([column])


def _read_csv(path: Path) -> Table:
    text = read_text(path)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(text)
    rows: list[list[str]] = []
    lines: list[int] = []
    with _long_fields():
        # strict: a quote that is never closed must not swallow the rest of the file.
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            for row in filter(None, reader):
                if rows and len(row) > len(rows[0]):
                    raise LabelingError(
                        f"{path}, line {reader.line_num}: {len(row)} fields under {len(rows[0])} column names; put "
                        "texts with the delimiter in them between quotes."
                    )
                # Short rows are filled up with blanks.
                rows.append(row + [""] * (len(rows[0]) - len(row)) if rows else [name.strip() for name in row])
                lines.append(reader.line_num)
        except csv.Error as error:
            raise LabelingError(
                f"{path}, line {reader.line_num}: {error}; put texts with quotes, commas or newlines between quotes "
                "and double the quotes within."
            ) from error
    if not rows:
        raise LabelingError(f"{path} is empty; its first line must name the columns.")
    _check_names(path, rows[0])
    columns = {name: values for name, *values in zip(*rows, strict=True)}
    return Table(path, columns, len(rows) - 1, lines[1:])


def _check_names(path: Path, names: list[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise LabelingError(f"{path}: several columns are called {twice!r}; rename all but one.")


def _delimiter(text: str) -> str:
    """Return what separates the fields of the first line: a comma, or a semicolon or tab if it has no comma."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t", key=lambda mark: (line.count(mark), mark == ","))


@contextmanager
def _long_fields() -> Iterator[None]:
    """Allow fields of any length, as a whole article may be one."""
    limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _read_jsonl(path: Path) -> Table:
    rows: dict[int, dict[str, Any]] = {}
    # splitlines would also split at characters that JSON allows within strings.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows[number] = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LabelingError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(rows[number], dict):
            raise LabelingError(f'{path}, line {number}: not a JSON object; write {{"text": ...}} on each line.')
    if not rows:
        raise LabelingError(f"{path} is empty; each line must be a JSON object.")
    return table_of_records(path, list(rows.values()), list(rows))


def table_of_records(path: Path, rows: list[dict[str, Any]], lines: list[int] | None = None) -> Table:
    """Return records as columns, with None where a record has no value."""
    names = dict.fromkeys(name for row in rows for name in row)
    # Each record with fields of its own would make a table of records by records.
    if len(names) * len(rows) > max(_MAX_BLANKS, 100 * sum(map(len, rows))):
        raise LabelingError(f"{path}: its {len(rows):,} records have {len(names):,} different fields; use the same.")
    return Table(path, {name: [row.get(name) for row in rows] for name in names}, len(rows), lines)


def _read_parquet(path: Path) -> Table:
    arrow = require("pyarrow", "parquet")
    parquet = require("pyarrow.parquet", "parquet")
    try:
        check_input(path)
        # Not read_table, which makes columns of folders that are called name=value.
        with parquet.ParquetFile(path, memory_map=True) as file:
            table = file.read()
    except (arrow.ArrowException, OSError) as error:
        raise LabelingError(f"{path} cannot be read as Parquet ({error}); write it again.") from error
    _check_names(path, table.column_names)
    return Table(path, dict(zip(table.column_names, table.columns, strict=True)), table.num_rows)


def holds_numbers(kind: Any) -> bool:
    """Whether a pyarrow type is one of numbers."""
    types = require("pyarrow.types", "parquet")
    return bool(types.is_floating(kind) or types.is_integer(kind))


def vector_column(path: Path | str, kinds: Mapping[str, Any]) -> str | None:
    """Return the column of vectors among columns with these pyarrow types, None if none holds lists of numbers."""
    types = require("pyarrow.types", "parquet")
    lists = [
        name
        for name, kind in kinds.items()
        if (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
        and holds_numbers(kind.value_type)
    ]
    named = [name for name in lists if name.strip().lower() in _VECTOR_NAMES]
    if len(lists) > 1 and len(named) != 1:
        raise LabelingError(
            f"{path}: several columns hold lists of numbers, {listed(lists)}; call the one to use 'features'."
        )
    return next(iter(named or lists), None)


def stacked_rows(path: Path | str, name: str, column: Any, first: int = 0) -> Floats:
    """Return the lists of a pyarrow column as rows (n, D); ``first`` is the number of its first row in the file."""
    compute = require("pyarrow.compute", "parquet")
    if column.null_count:
        raise LabelingError(f"{path}: column {name!r} has gaps; fill them or leave those rows out.")
    lists = column.combine_chunks()
    sizes = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(sizes != sizes[0])
    if odd.size:
        raise LabelingError(
            f"{path}: column {name!r} holds {sizes[0]} numbers in row {first} and {sizes[odd[0]]} in row "
            f"{first + odd[0]}; every vector must have the same length."
        )
    flat = compute.list_flatten(lists)
    if flat.null_count:
        raise LabelingError(f"{path}: column {name!r} has gaps in its lists; fill them.")
    rows: Floats = flat.to_numpy(zero_copy_only=False).reshape(len(lists), int(sizes[0]))
    return rows


def label_of(value: Any) -> str | None:
    """Return a label, or None where there is none: None, NaN, the number -1 and blanks.

    Blanks around a label are dropped and its characters composed (NFC), so that what looks the same is the same.

    >>> [label_of(value) for value in (" cat ", "", None, float("nan"), -1, 3, 3.0, True)]
    ['cat', None, None, None, None, '3', '3', 'True']
    """
    is_number = isinstance(value, int | float | np.number)
    label = None if is_number and value == -1 else composed(id_of(value)).strip() or None
    if label is not None and not encodable(label):
        raise LabelingError(f"the label {label!r} holds half a character, which no file can hold; repair it.")
    return label


def id_of(value: Any) -> str:
    """Return an id as a string, ``""`` for None and NaN; of a whole number in floating point only the number."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return ""
        if float(value).is_integer():
            return str(int(value))
    return str(value)


def composed(text: str) -> str:
    """Return the same characters with each accent and its letter as one (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def encodable(name: str) -> bool:
    """Whether a string can be written as UTF-8, which file names in another encoding cannot."""
    return _HALF.search(name) is None


@dataclass(frozen=True)
class TableColumns:
    """Ids and labels of the n rows of a table."""

    ids: tuple[str, ...]
    given: tuple[str | None, ...]
    id_column: str | None
    used: set[str]  # columns that are not the items
    ours: set[str]  # columns that an output writes anew: those of an earlier one, and "id" and "label" if they are used
    whole_ids: bool  # whether the ids are whole numbers where they come from


def columns_of(table: Table, id_column: str | None, label_column: str | None) -> TableColumns:
    """Return the ids and labels of a table.

    The ids are those of ``id_column``, by default of a column ``id`` if they are complete and all different, or of the
    index of a DataFrame; else row numbers from 0. The labels are those of ``label_column``, by default of a column
    ``label`` without our predictions.
    """
    ids, id_column, values = _ids(table, id_column)
    labels = table.find("label") if label_column is None else table.column(label_column, "label column")
    given = [None] * table.n_rows if labels is None else given_labels(table, labels)
    earlier = _our_columns(table)
    used = {name for name in (id_column, labels, *earlier) if name is not None}
    same = {name for name in (id_column, labels) if name is not None and plain_name(name) in ("id", "label")}
    whole = values is None or all(isinstance(value, int | np.integer) for value in values)
    return TableColumns(ids, tuple(given), id_column, used, {*same, *earlier}, whole)


def plain_name(column: str) -> str:
    """Return the name of a column without what :meth:`Table.find` overlooks: case and blanks around it."""
    return column.strip().lower()


def given_labels(table: Table, column: str) -> list[str | None]:
    """Return the labels of a column, None where there is none.

    Labels in a column ``label`` do not count if a column ``origin`` says that we predicted them, unless a person has
    changed them since: then they are not what we wrote, which is in the column ``written``. A warning counts both. A
    column of another name is the user's own.
    """
    labels = [label_of(value) for value in table.values(column)]
    origin = table.find("origin") if column == table.find("label") else None
    if origin is None:
        return labels
    ours = [
        made in (PREDICTED, ACCEPTED) and label is not None
        for made, label in zip(table.values(origin), labels, strict=True)
    ]
    n_labels, n_changed = len(labels) - labels.count(None), 0
    if (written := table.find("written")) is not None:
        changed = [
            mine and not same_label(label, label_of(first))
            for mine, label, first in zip(ours, labels, table.values(written), strict=True)
        ]
        n_changed = sum(changed)
        ours = [mine and not new for mine, new in zip(ours, changed, strict=True)]
    # Rejected rows have no label of ours: a user has added one that is there.
    given = [None if mine else label for mine, label in zip(ours, labels, strict=True)]
    parts = []
    if n_changed:
        parts.append(f"{n_changed:,} {_labels(n_changed)} that you changed {'counts' if n_changed == 1 else 'count'}")
    if n_ours := sum(ours):
        parts.append(
            f"{n_ours:,} of its {n_labels:,} labels are predictions of laplacianshot and do not count; write {GIVEN!r} "
            f"under {origin} for those that you have checked"
        )
    if parts:
        warnings.warn(f"{table.path}: {'; '.join(parts)}.", UserWarning, stacklevel=3)
    return given


def _labels(count: int) -> str:
    return "label" if count == 1 else "labels"


def same_label(one: str | None, other: str | None) -> bool:
    """Whether two labels are the same, also after a spreadsheet or pandas has written the numbers of one anew.

    >>> same_label("3", "3.0"), same_label("007", "7"), same_label("heron", "Heron")
    (True, True, False)
    """
    if one == other:
        return True
    try:
        return one is not None and other is not None and float(one) == float(other)
    except ValueError:
        return False


def _our_columns(table: Table) -> list[str]:
    """Return the columns of our outputs besides ids and labels, if the table is such an output."""
    found = [column for name in _OUR_COLUMNS if (column := table.find(name)) is not None]
    if len(found) < len(_OUR_COLUMNS) or any(value not in _ORIGINS for value in table.values(found[1])):
        return []
    return found + [column for name in _MORE_COLUMNS if (column := table.find(name)) is not None]


def _ids(table: Table, id_column: str | None) -> tuple[tuple[str, ...], str | None, Sequence[Any] | None]:
    """Return ids, the column they come from, and its values; both None for row numbers."""
    column = table.find("id") if id_column is None else table.column(id_column, "id column")
    if column is not None:
        values = table.values(column)
        ids = [id_of(value) for value in values]
        if id_column is not None or (len(set(ids)) == len(ids) and all(name.strip() for name in ids)):
            return checked_ids(table.path, ids, column), column, values
    if table.index is not None:
        return checked_ids(table.path, table.index, "index"), "index", table.index
    return tuple(str(row) for row in range(table.n_rows)), None, None


def checked_ids(path: Path, values: Sequence[Any], column: str) -> tuple[str, ...]:
    """Return values as ids, or raise an error that names the rows if some are blank, equal or cannot be written."""
    ids = tuple(id_of(value) for value in values)
    blank = [row for row, name in enumerate(ids) if not name.strip()]
    if blank:
        raise LabelingError(f"{path}: column {column!r} is blank in rows {listed(blank)}; give every row an id.")
    odd = [row for row, name in enumerate(ids) if not encodable(name)]
    if odd:
        raise LabelingError(f"{path}: column {column!r} holds half characters in rows {listed(odd)}; repair them.")
    first: dict[str, int] = {}
    twice = [
        f"rows {first[name]} and {row} are both {name!r}"
        for row, name in enumerate(ids)
        if first.setdefault(name, row) != row
    ]
    if twice:
        raise LabelingError(
            f"{path}: column {column!r} holds ids more than once ({first_three(twice)}); repair them or choose another "
            "column."
        )
    return ids
