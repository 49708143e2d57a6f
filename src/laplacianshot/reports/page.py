"""Pages made of blocks: one HTML file each that loads nothing from elsewhere, for light and dark screens.

The Jinja templates beside this module turn plain data into HTML and escape every text. Only figures, which we draw
ourselves, and JSON and scripts, which cannot contain ``<``, are inserted as they are.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from laplacianshot import __version__
from laplacianshot.reports.figures import inline_svg
from laplacianshot.runtime.extras import require

PAGE = "index.html"


# One part of a page: a table, or what :func:`block` returns.
Block: TypeAlias = Any


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading of its own, which the top of the page links to."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


def block(macro: str, *values: Any, **named: Any) -> Block:
    """Return a part of a page, drawn by a macro of ``blocks.html``."""
    return getattr(_templates().get_template("blocks.html").module, macro)(*values, **named)


def drawing(svg: str, name: str, caption: str) -> Block:
    """Return a figure of ours, from :func:`~laplacianshot.reports.figures.svg_text`, with a name that no other has."""
    return block("figure", trusted(inline_svg(svg, name, caption)), caption)


def trusted(html: str) -> Any:
    """Mark a text as HTML that the template inserts as it is. Never for texts of users."""
    return require("markupsafe", "cli").Markup(html)


def render_page(
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    opening: Iterable[Block] = (),
    closing: Block = "",
    command: str = "",
    links: bool = True,
    style: str = "",
    script: str = "",
) -> str:
    """Return the whole document.

    The lead is a sentence below the title; the opening stands before the links to the sections, the closing at the very
    end; the command is the one that made the page. CSS and script are those of this page: no other script can run,
    whatever the blocks contain.
    """
    template = _templates().get_template("page.html")
    page: str = template.render(
        title=title,
        sections=sections,
        lead=lead,
        opening=list(opening),
        closing=closing,
        command=command,
        links=links,
        style=trusted(asset("page.css") + style),
        script=trusted(script),
        policy=trusted(_policy(script)) if script else "",
        version=__version__,
    )
    return page


@cache
def asset(name: str) -> str:
    """Return the text of a file beside the templates."""
    return files("laplacianshot.reports").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _templates() -> Any:
    jinja2 = require("jinja2", "cli")
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _policy(script: str) -> str:
    """Return the content policy: images within the page, and the script with this hash."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    )
