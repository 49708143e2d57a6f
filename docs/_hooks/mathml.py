"""Formulas without a script: each ``$...$`` and ``$$...$$`` of a page becomes MathML while the site is built."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

# What pymdownx.arithmatex (generic) leaves in the page.
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, page: Page, **_: Any) -> str:
    """Replace the formulas of one rendered page."""

    def to_mathml(latex: str, display: str) -> str:
        try:
            mathml = convert(html.unescape(latex).strip(), display=display)
        except Exception as error:
            raise PluginError(f"{page.file.src_uri}: cannot read the formula {latex!r}: {error!r}") from error
        if ">&<" in mathml or "\\" in mathml:
            raise PluginError(f"{page.file.src_uri}: a command or environment of the formula {latex!r} is not known")
        return mathml

    content = _BLOCK.sub(lambda match: f'<div class="formula">{to_mathml(match[1], "block")}</div>', content)
    return _INLINE.sub(lambda match: to_mathml(match[1], "inline"), content)
