"""Text files of the encodings that people's programs write."""

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, UNLABELED, Skipped
from laplacianshot.labeling.sources.base import Kind, Source, checked_ids, hash_of
from laplacianshot.runtime.extras import require

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

# So many of the places beyond ASCII may look foreign by chance.
_MAX_FOREIGN = 0.05


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, UTF-16, UTF-32 or Windows-1252, line ends as they are.

    A mark at the beginning decides; without one the file is UTF-8 if it can be, UTF-16 if every other byte of its
    beginning is zero, and Windows-1252, with a warning, if it then reads like a western European language.

    Raises
    ------
    LabelingError
        It is none of them.
    """
    try:
        data = path.read_bytes()
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
    start = data[:1000]
    half = len(start) // 2
    if half and start[1::2].count(0) > 0.6 * half and start[::2].count(0) == 0:
        return "utf-16-le"
    if half and start[::2].count(0) > 0.6 * half and start[1::2].count(0) == 0:
        return "utf-16-be"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _is_western(text: str) -> bool:
    """Whether the characters beyond ASCII stand as they do in western European languages, and none is a control."""
    if any(ord(c) < 32 and c not in "\t\n\r\f\v" for c in set(text)):
        return False
    n_foreign = sum(1 for _ in _FOREIGN.finditer(text))
    return n_foreign <= _MAX_FOREIGN * sum(1 for _ in _ACCENTED.finditer(text))


# --- Tables of any of the formats, as columns by name


ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows under named columns.

    Attributes
    ----------
    path : Path
    columns : mapping of str to sequence of values
        All of the same length. Values of a Parquet file stay pyarrow columns until they are asked for.
    n_rows : int
    lines : sequence of int, optional
        The line of the file that each row ends at.
    """

    path: Path
    columns: dict[str, Any]
    n_rows: int
    lines: Sequence[int] | None = None

    def place(self, row: int) -> str:
        """Where a row is to be found, in words."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def records(self) -> Iterator[dict[str, Any]]:
        """The rows one after the other."""
        columns = [self.values(name) for name in self.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(self.columns, row, strict=True))

    def find(self, name: str) -> str | None:
        """The column of that name, exactly or but for case and blanks around; None if there is none, or several."""
        if name in self.columns:
            return name
        alike = [column for column in self.columns if column.strip().lower() == name.strip().lower()]
        return alike[0] if len(alike) == 1 else None

    def column(self, name: str, argument: str) -> str:
        """The column of that name, or an error that names the argument it comes from and the columns there are."""
        found = self.find(name)
        if found is None:
            raise LabelingError(
                f"{self.path}: {argument} {name!r} is not a column; the columns are {listed(self.columns)}."
            )
        return found

    def values(self, name: str) -> Sequence[Any]:
        """Values of a column as Python objects."""
        column = self.columns[name]
        return column if isinstance(column, list) else column.to_pylist()


def read_table(path: Path) -> Table:
    """Read a CSV, TSV, JSON Lines or Parquet file.

    Raises
    ------
    LabelingError
        The file is damaged, empty, or has a row that does not fit; the line is named.
    """
    match path.suffix.lower():
        case ".csv" | ".tsv":
            return _read_csv(path)
        case ".jsonl":
            return _read_jsonl(path)
        case ".parquet":
            return _read_parquet(path)
    raise LabelingError(f"{path}: a table ends in {', '.join(ENDINGS)}.")


def _read_csv(path: Path) -> Table:
    text = read_text(path)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(text)
    with _long_fields():
        # strict: a quote that is never closed must not swallow the rest of the file.
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            head = next((row for row in reader if row), None)
            if head is None:
                raise LabelingError(f"{path} is empty; its first line must name the columns.")
            head = [name.strip() for name in head]
            rows, lines = _fitting(path, reader, len(head))
        except csv.Error as error:
            raise LabelingError(
                f"{path}, line {reader.line_num}: {error}; put texts with quotes, commas or newlines between quotes "
                "and double the quotes within."
            ) from error
    _check_head(path, head)
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in head]
    return Table(path, dict(zip(head, columns, strict=True)), len(rows), lines)


def _fitting(path: Path, reader: Any, width: int) -> tuple[list[list[str]], list[int]]:
    """Rows of exactly that many fields: short ones are filled up with blanks, blank lines are left out."""
    rows, lines = [], []
    for row in reader:
        if len(row) > width:
            raise LabelingError(
                f"{path}, line {reader.line_num}: {len(row)} fields under {width} column names; put texts with the "
                "delimiter in them between quotes."
            )
        if row:
            rows.append(row + [""] * (width - len(row)))
            lines.append(reader.line_num)
    return rows, lines


def _check_head(path: Path, head: list[str]) -> None:
    twice = sorted({name for name in head if head.count(name) > 1})
    if twice:
        raise LabelingError(f"{path}: several columns are called {twice[0]!r}; rename all but one.")


def _delimiter(text: str) -> str:
    """What separates the fields of the first line: a comma, or a semicolon or tab where there is no comma."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t", key=lambda mark: (line.count(mark), mark == ","))


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields be of any length, as a whole article may be one."""
    limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _read_jsonl(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    # splitlines would also split at characters that JSON allows within strings.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LabelingError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise LabelingError(f'{path}, line {number}: not a JSON object; write {{"text": ...}} on each line.')
        rows.append(row)
        lines.append(number)
    if not rows:
        raise LabelingError(f"{path} is empty; each line must be a JSON object.")
    return table_of_records(path, rows, lines)


def table_of_records(path: Path, rows: list[dict[str, Any]], lines: list[int] | None = None) -> Table:
    """Records as columns; what a record lacks is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return Table(path, {name: [row.get(name) for row in rows] for name in names}, len(rows), lines)


def _read_parquet(path: Path) -> Table:
    arrow = require("pyarrow", "parquet")
    parquet = require("pyarrow.parquet", "parquet")
    try:
        # Not read_table, which makes columns of folders that are called name=value.
        with parquet.ParquetFile(path, memory_map=True) as file:
            table = file.read()
    except (arrow.ArrowException, OSError) as error:
        raise LabelingError(f"{path} cannot be read as Parquet ({error}); write it again.") from error
    _check_head(path, table.column_names)
    return Table(path, dict(zip(table.column_names, table.columns, strict=True)), table.num_rows)


# --- Values of tables as labels, ids and texts


def label_of(value: Any) -> str | None:
    """A label, or None where there is none: None, NaN, the number -1 and what is blank.

    Blanks around a label are dropped and its characters composed (NFC), so that what looks the same is the same.

    >>> [label_of(value) for value in (" cat ", "", None, float("nan"), -1, 3, 3.0, True)]
    ['cat', None, None, None, None, '3', '3', 'True']
    """
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return None
        value = int(number) if number.is_integer() else number
    if value is None or (isinstance(value, int | np.integer) and not isinstance(value, bool) and value == -1):
        return None
    return composed(str(value)).strip() or None


def id_of(value: Any) -> str:
    """An id as a string; a whole number in floating point, as spreadsheets and pandas write them, without its point."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def text_of(value: Any) -> str:
    """A text as a string, ``""`` where there is none."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def composed(text: str) -> str:
    """The same characters, an accent and its letter as one (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


# --- Which columns of a table hold the ids, the labels and the items


# What stands beside ids and labels in an output of ours, and the words of its origins.
_OURS = ("confidence", "origin", "suggestion")
_ORIGINS = (GIVEN, PREDICTED, REJECTED, UNLABELED, None)


@dataclass(frozen=True)
class TableColumns:
    """Ids and labels of the n rows of a table.

    Attributes
    ----------
    ids : tuple of n str
    given : tuple of n (str or None)
    id_name : str
        What the ids are, in words.
    id_column, label_column : str or None
    ours : tuple of str
        Columns that we wrote beside them in an earlier run.
    """

    ids: tuple[str, ...]
    given: tuple[str | None, ...]
    id_name: str
    id_column: str | None
    label_column: str | None
    ours: tuple[str, ...] = ()

    @property
    def used(self) -> set[str]:
        """Columns that are not the items."""
        return {name for name in (self.id_column, self.label_column, *self.ours) if name is not None}


def columns_of(table: Table, id_column: str | None, label_column: str | None) -> TableColumns:
    """Ids and labels of a table.

    The ids are those of ``id_column``; without one, those of a column called ``id`` if they are all there and all
    different; else row numbers from 0. The labels are those of ``label_column``, by default of a column ``label``, in
    which predictions of ours do not count.
    """
    ids, found = _ids(table, id_column)
    labels = table.find("label") if label_column is None else table.column(label_column, "label column")
    given = [None] * table.n_rows if labels is None else given_labels(table, labels)
    name = "row numbers from 0" if found is None else f"values of the column {found!r}"
    return TableColumns(ids, tuple(given), name, found, labels, _ours(table))


def given_labels(table: Table, column: str) -> list[str | None]:
    """Labels of a column, None where there is none.

    Those of the column ``label`` do not count where a column ``origin`` says that we predicted them; a warning says
    how many these are. A column of another name is the user's own.
    """
    labels = [label_of(value) for value in table.values(column)]
    origin = table.find("origin") if column == table.find("label") else None
    if origin is None:
        return labels
    # Rejected rows have no label of ours: who finds one there has written it.
    made = [value == PREDICTED for value in table.values(origin)]
    n_ours = sum(ours and label is not None for ours, label in zip(made, labels, strict=True))
    if n_ours:
        n_labels = sum(label is not None for label in labels)
        warnings.warn(
            f"{table.path}: {n_ours:,} of its {n_labels:,} labels are predictions of ours and do not count; "
            f"write {GIVEN!r} under {origin} for those that you have checked.",
            UserWarning,
            stacklevel=3,
        )
    return [None if ours else label for ours, label in zip(made, labels, strict=True)]


def _ours(table: Table) -> tuple[str, ...]:
    """The columns of an output of ours beside ids and labels, if that is what the table is."""
    found = [column for name in _OURS if (column := table.find(name)) is not None]
    if len(found) < len(_OURS) or any(value not in _ORIGINS for value in table.values(found[1])):
        return ()
    dispute = table.find("dispute")
    return (*found,) if dispute is None else (*found, dispute)


def _ids(table: Table, id_column: str | None) -> tuple[tuple[str, ...], str | None]:
    if id_column is not None:
        found = table.column(id_column, "id column")
        return checked_ids(table.path, [id_of(value) for value in table.values(found)], found), found
    guessed = table.find("id")
    if guessed is not None:
        ids = [id_of(value) for value in table.values(guessed)]
        if len(set(ids)) == len(ids) and all(name.strip() for name in ids):
            return checked_ids(table.path, ids, guessed), guessed
    return tuple(str(row) for row in range(table.n_rows)), None


# --- Texts in a column of a table


@dataclass(frozen=True, eq=False, repr=False)
class TextSource(Source):
    """Texts of a table, in its order. Rows whose text is blank are skipped."""

    texts: tuple[str, ...] = ()

    kind: ClassVar[Kind] = "texts"

    def content_hash(self, i: int) -> bytes:
        """Hash of the text."""
        # A half character of a pair, which JSON can hold, is content like any other.
        return hash_of(self.texts[i].encode("utf-8", "surrogatepass"), self.kind)

    def load(self, i: int) -> str:
        """Text i."""
        return self.texts[i]

    def preview(self, i: int) -> str:
        """Text i."""
        return self.texts[i]


def texts_of(table: Table, columns: TableColumns, text_column: str) -> TextSource:
    """The rows of a table that have a text."""
    texts = [text_of(value) for value in table.values(text_column)]
    kept = [row for row, text in enumerate(texts) if text.strip()]
    blank = [row for row, text in enumerate(texts) if not text.strip()]
    skipped = [Skipped(columns.ids[row], f"its {text_column!r} is blank") for row in blank]
    return TextSource(
        table.path,
        ids=tuple(columns.ids[row] for row in kept),
        given=tuple(columns.given[row] for row in kept),
        skipped=tuple(skipped),
        id_name=columns.id_name,
        id_column=columns.id_column,
        rows=tuple(kept),
        texts=tuple(texts[row] for row in kept),
    )
