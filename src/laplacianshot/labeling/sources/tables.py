"""Tables of any of the formats, as columns by name."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.sources.decoding import read_text
from laplacianshot.runtime.extras import require

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
                f"{self.path}: {argument} {name!r} is no column; the columns are {listed(self.columns)}."
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
            raise LabelingError(f"{path}, line {number}: this is not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise LabelingError(f'{path}, line {number}: this is no JSON object; write {{"text": ...}} on each line.')
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
