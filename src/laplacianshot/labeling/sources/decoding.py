"""Text files of the encodings that people's programs write."""

from __future__ import annotations

import codecs
import re
import warnings
from pathlib import Path

from laplacianshot.labeling.errors import LabelingError

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
            raise LabelingError(f"{path} is in an encoding that cannot be told; save it as UTF-8.")
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
