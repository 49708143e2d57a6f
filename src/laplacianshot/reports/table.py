"""A table as plain data, drawn alike in a terminal, in Markdown and in a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["", "good", "bad", "quiet"]


@dataclass(frozen=True)
class Cell:
    """A text and how it is meant: a clear gain, a clear loss, or nothing to look at."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Row:
    """Cells from left to right."""

    cells: tuple[Cell, ...]
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under a head. The first column holds names, the others numbers.

    Attributes
    ----------
    title : str
    head : tuple of str
    rows : tuple of Row
    notes : tuple of str
        Sentences below the table.
    words : tuple of int
        Columns besides the first that hold words, not numbers.
    spare : int
        So many columns, from the last on, may be left out where there is no room.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    words: tuple[int, ...] = ()
    spare: int = 0

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers, to be set flush right."""
        return column > 0 and column not in self.words


def row(*cells: str | Cell, bold: bool = False) -> Row:
    """A row of texts and cells."""
    return Row(tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells), bold)


def to_markdown(tables: Sequence[Table]) -> str:
    """The tables as Markdown, each under its title.

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
    """The table in columns of plain text, under its title, notes below.

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
