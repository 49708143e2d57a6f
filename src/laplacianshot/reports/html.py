"""A page that needs nothing but itself: one file, no network, light and dark, narrow and wide."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape

from laplacianshot import __version__
from laplacianshot.reports.table import Table

_STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --panel: #f7f8fa; --ink: #1f2933; --quiet: #66717d; --line: #e1e5ea; --accent: #00695c;
  --good: #00704f; --bad: #b23c00; --warn: #fff6e0; --warn-line: #e69f00;
  --blue: #0072b2; --sky: #3a9bd5; --green: #009e73; --orange: #c98500; --vermilion: #d55e00; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181d; --panel: #1c2229; --ink: #e6eaee; --quiet: #9aa6b2; --line: #2f3842; --accent: #5cc8b4;
  --good: #4fd1a0; --bad: #ff9a66; --warn: #2b2413; --warn-line: #b98a2a;
  --blue: #58b4ec; --sky: #9bd3f5; --green: #3fd0a4; --orange: #f0b23e; --vermilion: #ff8a4a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif; }
main { max-width: 80rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 2.5rem) 3rem; }
h1 { font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.2; margin: 0.4rem 0 0.3rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 0.4rem; padding-top: 0.6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 0.3rem; }
p { margin: 0.4rem 0; max-width: 48rem; overflow-wrap: anywhere; }
.lead { max-width: none; }
.quiet, figcaption, .notes { color: var(--quiet); font-size: 0.9rem; }
.warning { background: var(--warn); border-left: 4px solid var(--warn-line); padding: 0.5rem 0.9rem; margin: 0.8rem 0;
  max-width: 52rem; border-radius: 0 4px 4px 0; }
nav { display: flex; flex-wrap: wrap; gap: 0.3rem 1rem; margin: 1rem 0; font-size: 0.95rem; }
a { color: var(--accent); }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 0.6rem 0.8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.85rem; }
pre, code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
.scroll { overflow-x: auto; margin: 0.7rem 0; max-width: 100%; width: fit-content; border: 1px solid var(--line);
  border-radius: 6px; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.32rem 0.8rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--panel); font-weight: 600; color: var(--quiet); }
tbody th { font-weight: 400; position: sticky; left: 0; background: var(--paper); }
thead th:first-child { position: sticky; left: 0; }
.number { text-align: right; }
tr.bold > * { font-weight: 700; }
.good { color: var(--good); } .bad { color: var(--bad); } td.quiet { color: var(--quiet); font-size: inherit; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem 2rem;
  margin: 0.8rem 0; }
figure { margin: 0; max-width: 36rem; }
.beside { display: flex; flex-wrap: wrap; gap: 0.5rem 2.5rem; align-items: flex-start; }
.beside > * { flex: 0 1 auto; min-width: 0; max-width: 100%; }
.beside > .figures { flex: 1 1 20rem; grid-template-columns: 1fr; }
td.text { white-space: normal; min-width: 12rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit !important; }
summary { cursor: pointer; color: var(--accent); margin: 0.6rem 0; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 0.8rem; }
@media print { .scroll { border: 0; } main { padding: 0; } }
"""


def page(title: str, parts: Iterable[str], *, lead: str = "", style: str = "", script: str = "") -> str:
    """The whole document.

    Parameters
    ----------
    title : str
    parts : iterable of str
        Elements of the page, already HTML.
    lead : str
        A sentence below the title.
    style : str
        Rules of this page, besides those of all pages.
    script : str
        Run when the page is there. No other script can run, whatever the parts hold.
    """
    body = "\n".join(parts)
    opening = f'<p class="quiet lead">{escape(lead)}</p>\n' if lead else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{_policy(script)}<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{opening}{body}\n"
        f'<footer class="quiet">laplacianshot {__version__}</footer>\n</main>\n'
        f"{f'<script>{script}</script>' if script else ''}</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    """What the page may load: pictures within itself, and the script with this hash."""
    if not script:
        return ""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    rules = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def heading(text: str, anchor: str, *, level: int = 2) -> str:
    """A heading that can be linked to."""
    return f'<h{level} id="{anchor}">{escape(text)}</h{level}>'


def contents(entries: Sequence[tuple[str, str]]) -> str:
    """Links to headings: pairs of anchor and text."""
    links = "\n".join(f'<a href="#{anchor}">{escape(text)}</a>' for anchor, text in entries)
    return f"<nav>\n{links}\n</nav>"


def warning(text: str) -> str:
    """A sentence that must not be overlooked."""
    return f'<p class="warning">{escape(text)}</p>'


def code(text: str) -> str:
    """A command or a program."""
    return f"<pre>{escape(text)}</pre>"


def table_html(table: Table) -> str:
    """The table without its title; it scrolls by itself where it is wider than the screen."""
    head = "".join(f"<th{_number(table, column)}>{escape(text)}</th>" for column, text in enumerate(table.head))
    lines = []
    for entry in table.rows:
        first, *others = entry.cells
        cells = "".join(
            f"<td{_number(table, column, cell.tone)}>{escape(cell.text)}</td>"
            for column, cell in enumerate(others, start=1)
        )
        opening = '<tr class="bold">' if entry.bold else "<tr>"
        lines.append(f'{opening}<th scope="row">{escape(first.text)}</th>{cells}</tr>')
    notes = "\n".join(f'<p class="notes">{escape(note)}</p>' for note in table.notes)
    if not lines:
        return notes
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>"
    return f'<div class="scroll"><table>\n{body}\n</table></div>\n{notes}'


def details(summary: str, content: str) -> str:
    """What is shown only to those who ask."""
    return f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>"


def side_by_side(first: str, second: str) -> str:
    """Two elements in one line where the screen is wide enough."""
    return f'<div class="beside">\n<div>{first}</div>\n{second}\n</div>'


def figures(entries: Iterable[tuple[str, str]]) -> str:
    """Figures side by side as far as the screen allows: pairs of SVG and caption."""
    inner = "\n".join(f"<figure>{svg}<figcaption>{escape(text)}</figcaption></figure>" for svg, text in entries)
    return f'<div class="figures">\n{inner}\n</div>'


def _number(table: Table, column: int, tone: str = "") -> str:
    names = " ".join(name for name in ("number" if table.is_number(column) else "", tone) if name)
    return f' class="{names}"' if names else ""
