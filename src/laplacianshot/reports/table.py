"""Tables as plain data, drawn alike in a terminal, in Markdown and in a page; numbers, JSON and files of reports."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from laplacianshot.runtime.files import put_file

# For types alone: commands import this module, and --help does not wait for the rest.
if TYPE_CHECKING:
    from laplacianshot.episodes.results import MeanInterval

_Tone: TypeAlias = Literal["", "good", "bad", "quiet"]


@dataclass(frozen=True)
class Cell:
    """A text and its tone: a clear gain, a clear loss, or unimportant."""

    text: str
    tone: _Tone = ""


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
    """Make a table of columns by heading, with some rows bold; ``words`` are headings of columns that contain words."""
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


def percentage(share: float, digits: int = 0) -> str:
    """Return a share in percent; only all of something is 100%, and only nothing is 0%.

    Examples
    --------
    >>> percentage(0.5), percentage(0.999), percentage(1.0), percentage(0.001)
    ('50%', '>99%', '100%', '<1%')
    >>> percentage(0.9985, 1), percentage(0.9999, 1), percentage(0.0001, 1), percentage(0.0, 1)
    ('99.9%', '>99.9%', '<0.1%', '0.0%')
    """
    shown, step = f"{100 * share:.{digits}f}", 10.0**-digits
    if share < 1 and float(shown) >= 100:
        return f">{100 - step:.{digits}f}%"
    if share > 0 and float(shown) <= 0:
        return f"<{step:.{digits}f}%"
    return f"{shown}%"


def points(difference: MeanInterval, *, digits: int = 1) -> str:
    """Return the size of a difference in words: ``2.0 ± 0.1 points``."""
    size = type(difference)(abs(difference.mean), difference.ci95, difference.n)
    return f"{size.percent(digits=digits)} points"


def side(difference: float) -> str:
    """Return "ahead of" or "behind", by the sign of a difference."""
    return "ahead of" if difference >= 0 else "behind"


def counted(number: int, what: str) -> str:
    """Return a number of things: ``1 task``, ``10,000 tasks``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds with about three digits.

    Examples
    --------
    >>> milliseconds(4.51e-05), milliseconds(0.01234), milliseconds(1.5)
    ('0.045', '12.3', '1,500')
    """
    value = 1000 * seconds
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def duration(seconds: float, *, digits: int = 1) -> str:
    """``2 h 05 min``, ``3 min 20 s`` or ``4.2 s``.

    Examples
    --------
    >>> duration(7500), duration(200), duration(4.21), duration(4.21, digits=0)
    ('2 h 05 min', '3 min 20 s', '4.2 s', '4 s')
    """
    if round(seconds, digits) < 60:
        return f"{seconds:.{digits}f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def left_out_notes(faults: Sequence[str]) -> list[str]:
    """Return notes on items that cannot be read, the first ten by name."""
    notes = [f"Left out, as they cannot be read: {len(faults):,}"] if faults else []
    notes += [f"  {fault}" for fault in faults[:10]]
    return [*notes, "  and so on; --json lists all of them"] if len(faults) > 10 else notes


def interval_dict(interval: MeanInterval) -> dict[str, float | int | None]:
    """Return an interval for JSON; that of one value is None."""
    ci95 = interval.ci95 if math.isfinite(interval.ci95) else None
    return {"mean": interval.mean, "ci95": ci95, "n": interval.n}


def timeless(document: Any) -> Any:
    """Return a JSON document without times: without keys that contain ``second``."""
    if isinstance(document, dict):
        return {key: timeless(value) for key, value in document.items() if "second" not in key}
    return [timeless(value) for value in document] if isinstance(document, (list, tuple)) else document


def json_text(document: Mapping[str, Any]) -> str:
    """Return one strict JSON document."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file atomically, for its owner alone if ``private``."""
    put_file(path, lambda file: file.write(text.encode("utf-8")), private=private)


def write_report(folder: Path, drawings: Mapping[str, str], texts: Mapping[str, str]) -> None:
    """Write figures, SVG by name, and then texts by file name into an existing folder, each atomically.

    The page is the last text: where it is, the rest is.
    """
    for name, text in (*((f"{name}.svg", svg) for name, svg in drawings.items()), *texts.items()):
        write_text(folder / name, text)
