"""Names and texts of users on a page: always text, on one line, of limited length."""

from __future__ import annotations

import re
from itertools import zip_longest

# Pictures of control characters, so that a line feed in a file name is visible.
_PICTURES = {code: chr(0x2400 + code) for code in range(32)} | {127: "\u2421"}
# Halves of characters, which file names can hold and UTF-8 cannot.
_PICTURES |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_SPACES = {ord(space): " " for space in "\t\n\r\v\f\x85\u2028\u2029"}


def line(text: str, max_length: int = 80) -> str:
    r"""Return a name on one line: control characters as pictures, the middle of a long name left out.

    Examples
    --------
    >>> line("two\nlines.jpg"), line("a long name of a file.jpg", 16)
    ('two␊lines.jpg', 'a long na…le.jpg')
    """
    # A very long one is cut first: a text may be a book.
    whole = len(text) <= 4 * max_length
    shown = (text if whole else f"{text[: 2 * max_length]}{text[-2 * max_length :]}").translate(_PICTURES)
    if len(shown) <= max_length:
        return shown
    tail = (max_length - 1) // 2 - 1 if max_length > 4 else 0
    return f"{shown[: max_length - 1 - tail]}…{shown[len(shown) - tail :]}"


def in_order(name: str) -> list[tuple[str, int]]:
    """Return a key that sorts names as people do: numbers in them by size, letters regardless of case.

    Examples
    --------
    >>> sorted(["c10", "C2", "c1", "b"], key=in_order)
    ['b', 'c1', 'C2', 'c10']
    """
    pieces = re.split(r"([0-9]{1,18})", name.casefold())
    return [(text, int(number or -1)) for text, number in zip_longest(pieces[::2], pieces[1::2])]


def short_path(path: str, max_length: int = 48) -> str:
    """Return a path on one line; a long one without folders after the first and, if needed, more of its middle.

    Examples
    --------
    >>> short_path("2024/05/birds of the lake/heron/IMG_0012.jpg", 30)
    '2024/…/heron/IMG_0012.jpg'
    """
    shown = path.translate(_PICTURES)
    first, *rest = shown.split("/")
    for left_out in range(1, len(rest)):
        if len(shown) <= max_length:
            break
        shown = "/".join([first, "…", *rest[left_out:]])
    return line(shown, max_length)


def passage(text: str, max_length: int = 280) -> str:
    r"""Return the beginning of a text, white space as single spaces.

    Examples
    --------
    >>> passage("Where is\n  my card?"), passage("Where is my card?", 9)
    ('Where is my card?', 'Where is…')
    """
    start = " ".join(text[: 4 * max_length].translate(_SPACES).split()).translate(_PICTURES)
    return start if len(start) <= max_length and len(text) <= 4 * max_length else f"{start[: max_length - 1]}…"
