"""How numbers, JSON documents and files are written: one place for every table, page and sentence."""

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


def percent(interval: MeanInterval, *, digits: int = 1, sign: bool = False) -> str:
    """A share in percent with its interval, ``94.9 ± 0.1``; the margin of a single value is left out.

    Examples
    --------
    >>> from laplacianshot.episodes.results import MeanInterval
    >>> percent(MeanInterval(0.949, 0.001, 100))
    '94.9 ± 0.1'
    >>> percent(MeanInterval(-0.02, 0.001, 100), digits=2, sign=True)
    '-2.00 ± 0.10'
    """
    return interval.percent(digits=digits, sign=sign)


def percentage(share: float, digits: int = 0) -> str:
    """A share in percent; only all of something is 100%, and only nothing is 0%.

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
    """The size of a difference in words: ``2.0 ± 0.1 points``."""
    size = type(difference)(abs(difference.mean), difference.ci95, difference.n)
    return f"{percent(size, digits=digits)} points"


def side(difference: float) -> str:
    """Whether a difference puts one ahead of the other."""
    return "ahead of" if difference >= 0 else "behind"


def counted(number: int, what: str) -> str:
    """A number of things: ``1 task``, ``10,000 tasks``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds with about three figures.

    Examples
    --------
    >>> milliseconds(4.51e-05), milliseconds(0.01234), milliseconds(1.5)
    ('0.045', '12.3', '1,500')
    """
    value = 1000 * seconds
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def interval_dict(interval: MeanInterval) -> dict[str, float | int | None]:
    """An interval for JSON; that of one value is None."""
    ci95 = interval.ci95 if math.isfinite(interval.ci95) else None
    return {"mean": interval.mean, "ci95": ci95, "n": interval.n}


def json_text(document: Mapping[str, Any]) -> str:
    """One strict JSON document."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Put a text at ``path``, whole or not at all."""
    put_file(path, lambda file: file.write(text.encode("utf-8")))
