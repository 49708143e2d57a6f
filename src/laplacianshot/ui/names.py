"""Names and texts of users on a page: whatever they hold, they are text, on one line, and stay within their place."""

from __future__ import annotations

import re
from html import escape
from itertools import zip_longest

# Control characters by their pictures: a line feed in a file name is to be seen.
_PICTURES = {code: chr(0x2400 + code) for code in range(32)} | {127: "\u2421"}
# Halves of characters, which file names can hold and UTF-8 cannot.
_PICTURES |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_SPACES = {ord(space): " " for space in "\t\n\r\v\f\x85\u2028\u2029"}


def line(text: str, most: int = 80) -> str:
    r"""A name on one line: control characters by their pictures, the middle of a long one left out.

    Examples
    --------
    >>> line("two\nlines.jpg"), line("a long name of a file.jpg", 16)
    ('two␊lines.jpg', 'a long na…le.jpg')
    """
    # A longer one is cut first: a text may be a book.
    whole = len(text) <= 4 * most
    shown = (text if whole else f"{text[: 2 * most]}{text[-2 * most :]}").translate(_PICTURES)
    if len(shown) <= most:
        return shown
    tail = (most - 1) // 2 - 1 if most > 4 else 0
    return f"{shown[: most - 1 - tail]}…{shown[len(shown) - tail :]}"


def in_order(name: str) -> list[tuple[str, int]]:
    """A key by which people sort names: numbers in them by their size, letters whatever their case.

    Examples
    --------
    >>> sorted(["c10", "C2", "c1", "b"], key=in_order)
    ['b', 'c1', 'C2', 'c10']
    """
    pieces = re.split(r"([0-9]{1,18})", name.casefold())
    return [(text, int(number or -1)) for text, number in zip_longest(pieces[::2], pieces[1::2])]


def short_path(path: str, most: int = 48) -> str:
    """A path on one line: of a long one folders after the first are left out, and if need be more of its middle.

    Examples
    --------
    >>> short_path("2024/05/birds of the lake/heron/IMG_0012.jpg", 30)
    '2024/…/heron/IMG_0012.jpg'
    """
    shown = path.translate(_PICTURES)
    first, *rest = shown.split("/")
    for left_out in range(1, len(rest)):
        if len(shown) <= most:
            break
        shown = "/".join([first, "…", *rest[left_out:]])
    return line(shown, most)


def passage(text: str, most: int = 280) -> str:
    r"""The beginning of a text, white space as single spaces.

    Examples
    --------
    >>> passage("Where is\n  my card?"), passage("Where is my card?", 9)
    ('Where is my card?', 'Where is…')
    """
    start = " ".join(text[: 4 * most].translate(_SPACES).split()).translate(_PICTURES)
    return start if len(start) <= most and len(text) <= 4 * most else f"{start[: most - 1]}…"


def isolated(text: str) -> str:
    """A text as HTML that cannot turn round the direction of what is beside it."""
    return f"<bdi>{escape(text)}</bdi>"
