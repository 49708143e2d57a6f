"""Numbers, JSON documents and files as all tables, pages and sentences show them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laplacianshot.runtime.files import put_file

# For types alone: commands import this module, and --help does not wait for the rest.
if TYPE_CHECKING:
    from laplacianshot.episodes.results import MeanInterval


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


def interval_dict(interval: MeanInterval) -> dict[str, float | int | None]:
    """Return an interval for JSON; that of one value is None."""
    ci95 = interval.ci95 if math.isfinite(interval.ci95) else None
    return {"mean": interval.mean, "ci95": ci95, "n": interval.n}


def json_text(document: Mapping[str, Any]) -> str:
    """Return one strict JSON document."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    put_file(path, lambda file: file.write(text.encode("utf-8")))


def write_report(folder: Path, drawings: Mapping[str, str], texts: Mapping[str, str]) -> None:
    """Write figures and other files into an existing folder, in this order; each replaces an old one atomically.

    Parameters
    ----------
    folder : Path
    drawings : mapping of str to str
        SVG by the name of its file, without the ending.
    texts : mapping of str to str
        By the name of the file. The page is the last: where it is, the rest is.
    """
    for name, text in (*((f"{name}.svg", svg) for name, svg in drawings.items()), *texts.items()):
        write_text(folder / name, text)
