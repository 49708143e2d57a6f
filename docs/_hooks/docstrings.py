"""Docstrings keep the reStructuredText marks that ``help()`` readers know; here they are taken off the page."""

from __future__ import annotations

import re
from typing import Any

# :func:`name` is set as plain code, and "as follows::" before a literal block loses one colon.
_ROLE = re.compile(r":(?:py:)?(?:attr|class|data|func|meth|mod|obj):(?=<code>)")
_LITERAL = re.compile(r"::(?=</p>\s*<(?:div|pre)\b)")


def on_page_content(content: str, **_: Any) -> str:
    """Clean one rendered page."""
    return _LITERAL.sub(":", _ROLE.sub("", content))
