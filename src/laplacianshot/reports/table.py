"""A table as plain data, drawn alike in a terminal, in Markdown and in a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["", "good", "bad", "quiet"]


@dataclass(frozen=True)
class Cell:
    """A text and its tone: a clear gain, a clear loss, or unimportant."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Row:
    """Cells from left to right."""

    cells: tuple[Cell, ...]
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A titled table. The first column contains names, the others numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()  # sentences below the table
    words: tuple[int, ...] = ()  # columns, besides the first, that contain words and not numbers
    spare: int = 0  # number of columns, counted from the last, that may be left out on a narrow terminal

    def is_number(self, column: int) -> bool:
        """Whether a column contains numbers, which are aligned right."""
        return column > 0 and column not in self.words


def row(*cells: str | Cell, bold: bool = False) -> Row:
    """Make a row of texts and cells."""
    return Row(tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells), bold)


# Cells of each column by its heading.
Columns: TypeAlias = dict[str, list[str | Cell]]


def columns_table(
    title: str,
    columns: Columns,
    *,
    bold: Sequence[bool] = (),
    notes: Sequence[str] = (),
    words: Sequence[str] = (),
    spare: int = 0,
) -> Table:
    """Make a table of columns by heading.

    Parameters
    ----------
    title : str
    columns : dict of str to list of n cells
    bold : sequence of n bool
        Which rows are bold; default: none.
    notes : sequence of str
    words : sequence of str
        Headings of columns, besides the first, that contain words.
    spare : int
        See :class:`Table`.
    """
    head = tuple(columns)
    lines = list(zip(*columns.values(), strict=True))
    rows = tuple(row(*cells, bold=is_bold) for cells, is_bold in zip(lines, bold or [False] * len(lines), strict=True))
    return Table(title, head, rows, tuple(notes), tuple(head.index(name) for name in words), spare)


def to_markdown(tables: Sequence[Table]) -> str:
    """Return the tables as Markdown, each under its title.

    Examples
    --------
    >>> print(to_markdown([Table("Birds", ("method", "accuracy"), (row("nearest", "85.5", bold=True),))]))
    ## Birds
    <BLANKLINE>
    | method | accuracy |
    |---|---:|
    | **nearest** | **85.5** |
    <BLANKLINE>
    """
    return "\n".join(_one(table) for table in tables)


def to_text(table: Table) -> str:
    """Return the table as plain text, with its title above and notes below.

    Examples
    --------
    >>> print(to_text(Table("Birds", ("method", "accuracy"), (row("nearest", "85.5"),))))
    Birds
    method   accuracy
    nearest      85.5
    """
    lines = [table.head, *(tuple(cell.text for cell in entry.cells) for entry in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "  ".join(f"{text:{'>' if table.is_number(c) else '<'}{widths[c]}}" for c, text in enumerate(line)).rstrip()
        for line in lines
    ]
    return "\n".join([table.title, *aligned, *table.notes])


def _one(table: Table) -> str:
    lines = [f"## {table.title}", "", _line(table.head)]
    lines.append("|" + "|".join("---:" if table.is_number(c) else "---" for c in range(len(table.head))) + "|")
    for entry in table.rows:
        texts = [cell.text.replace("|", "\\|") for cell in entry.cells]
        lines.append(_line([f"**{text}**" if entry.bold and text else text for text in texts]))
    for note in table.notes:
        lines += ["", note]
    return "\n".join([*lines, ""])


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
