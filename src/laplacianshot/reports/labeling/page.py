"""The page of ``laplacianshot label --report``: every class, what to look at, what to label next, and a map."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.labeling.result import PREDICTED, REJECTED, LabelResult
from laplacianshot.reports import html
from laplacianshot.reports.evaluation_page import PAGE, Section
from laplacianshot.reports.files import write_text
from laplacianshot.reports.labeling.choice import Choice, choose
from laplacianshot.reports.labeling.figures import confidence_figure, objective_figure
from laplacianshot.reports.labeling.items import Shown
from laplacianshot.reports.labeling.map_part import dot, map_data, map_html, map_script, places_of
from laplacianshot.reports.labeling.tables import classes_table, run_tables, skipped_table, tiles
from laplacianshot.reports.svg import inline_svg, svg_text
from laplacianshot.reports.text import counted, percentage
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.types import Ints
from laplacianshot.ui.names import isolated, line
from laplacianshot.ui.thumbnails import inline_picture, read_pictures, sheet_of

if TYPE_CHECKING:
    from PIL.Image import Image

# Called with what comes next, it gives what is called with how much is done, and of how much.
# Items on the map at most, and those of them that have a picture.
_ON_MAP = 30_000
_PICTURED = 2000

_READING = (
    "Confidence is the estimated probability that a label is right: of the labels at 80% about four in five should be. "
    "Given labels count as certain unless the neighbors dispute them.",
    "The neighbors of an item are those whose vectors are nearest to its own. A given label is disputed where the "
    "graph, without that label, prefers another class.",
    "What to label next are items that stand for many others about which little is known yet: a label there says most. "
    "They need not be the least sure ones. Put them into the labels file and run the command again.",
    "On the map near items are alike. Distances between far islands say little.",
)


def write_label_report(result: LabelResult, folder: Path, *, watch: Watch | None = None) -> None:
    """Write ``index.html`` to a folder, which must be there; one of that name is replaced, whole or not at all.

    Parameters
    ----------
    result : LabelResult
        With its source; with its vectors there is a map.
    folder : Path
    watch : callable, optional
        Told of the progress, as by :func:`laplacianshot.label_source`.
    """
    write_text(folder / PAGE, label_page(result, watch=watch))


def label_page(result: LabelResult, *, watch: Watch | None = None) -> str:
    """The page as a text: one file of at most about 10 MB, however many items and classes there are."""
    choice = choose(result)
    if watch is not None:
        watch("Map")
    listed = choice.items()
    mapped = _sample(len(result), listed, _ON_MAP)
    on_map = result if len(mapped) == len(result) else result.of_items(mapped)
    places = places_of(on_map)
    pictured = _sample(len(on_map), np.searchsorted(mapped, listed), _PICTURED) if places is not None else listed[:0]
    wanted = np.union1d(listed, mapped[pictured])
    pictures = _pictures(result, wanted, None if watch is None else watch("Pictures"))
    if watch is not None:
        watch("Page")
    texts = _texts(result)
    small = {item: inline_picture(pictures[item]) for item in listed.tolist() if item in pictures}
    shown = Shown(result, small, texts)
    sections = _list_sections(shown, choice)
    if places is not None:
        said = None if texts is None else [texts[item] for item in mapped.tolist()]
        of_map = {place: pictures[item] for place, item in enumerate(mapped.tolist()) if item in pictures}
        data = map_data(on_map, places, said, sheet_of(of_map, pictured.tolist()))
        parts_of_map = [map_html(on_map, data, choice.classes)]
        if on_map is not result:
            text = f"{len(on_map):,} of the {len(result):,} items, all that are listed below among them."
            parts_of_map.insert(0, html.paragraph(text))
        sections.insert(0, ("map", "Map", parts_of_map))
    sections += _class_sections(shown, choice)
    sections += _closing_sections(result)
    parts = [tiles(result), *[html.warning(line(note, 400)) for note in result.notes]]
    parts.append(html.contents([(anchor, name) for anchor, name, _ in sections]))
    for anchor, name, content in sections:
        parts += [html.heading(name, anchor), *content]
    name = line(Path(str(result.settings.get("source", "the source"))).name or "the source", 60)
    script = map_script() if places is not None else ""
    return html.page(f"Labels of {name}", parts, lead=_lead(result), style=_style(), script=script)


def _list_sections(shown: Shown, choice: Choice) -> list[Section]:
    result = shown.result
    sections: list[Section] = []
    if len(choice.suggested):
        says = shown.best_classes if result.classes else None
        parts = [_of("The most useful first", choice.suggested, int(np.count_nonzero(result.suggestions)))]
        sections.append(("next", "What to label next", [*parts, shown.listing(choice.suggested, says, shown.rank)]))
    if len(choice.disputed):
        parts = [_of("Most doubtful first", choice.disputed, int(np.sum(result.disputes >= 0)))]
        parts.append(shown.listing(choice.disputed, shown.disputed, lambda _: ""))
        sections.append(("disputed", "Given labels the neighbors dispute", parts))
    if len(choice.least_sure):
        n_predicted = result.origins.count(PREDICTED)
        parts = [
            _of("Of the predicted labels", choice.least_sure, n_predicted),
            shown.listing(choice.least_sure, shown.best_classes),
        ]
        sections.append(("least-sure", "Least sure", parts))
        parts = [html.paragraph("From as many classes as there is room for."), shown.listing(choice.surest)]
        sections.append(("surest", "Most sure", parts))
    if len(choice.rejected):
        parts = [_of("Left without a label, the strangest first", choice.rejected, result.origins.count(REJECTED))]
        parts.append(html.paragraph("Below each the class that it would have had."))
        sections.append(("rejected", "Items that fit no class", [*parts, shown.listing(choice.rejected)]))
    return sections


def _class_sections(shown: Shown, choice: Choice) -> list[Section]:
    if not choice.classes:
        return []
    result = shown.result
    cards = []
    for one in choice.classes[: choice.n_pictured]:
        name = f"<h3>{dot(one.code)}{isolated(line(result.classes[one.code]))}</h3>"
        counts = f"{counted(one.n_items, 'item')}, {one.n_given:,} given"
        sure = f"; predicted ones {percentage(one.sure, 1)} sure on average" if one.n_predicted else ""
        parts = [f'<section class="class">{name}<p class="quiet">{escape(counts + sure)}</p>']
        parts.append(shown.listing(one.best, shown.sure))
        if len(one.worst):
            parts += ["<h4>Least sure</h4>", shown.listing(one.worst, shown.sure)]
        cards.append("".join([*parts, "</section>"]))
    content = [html.details("All classes as a table", html.table_html(classes_table(result, choice.classes)))]
    if len(choice.classes) > choice.n_pictured:
        content.append(html.paragraph(f"The {choice.n_pictured} largest of {len(choice.classes):,} classes."))
    joined = "\n".join(cards)
    content.append(f'<div class="classes">\n{joined}\n</div>')
    return [("classes", "Classes", content)]


def _closing_sections(result: LabelResult) -> list[Section]:
    sections: list[Section] = []
    sure = result.confidence[np.asarray(result.origins, dtype=object) == PREDICTED]
    drawn = []
    if len(sure):
        right = percentage(sure.mean(), 1)
        caption = f"Confidence of {counted(len(sure), 'predicted label')}; expected to be right: {right}."
        drawn.append((inline_svg(svg_text(confidence_figure(sure)), "sure", caption), caption))
    if len(result.objective) > 1:
        end = "and settled" if result.converged else "and was stopped before it settled"
        caption = f"The objective of the graph fell over {counted(len(result.objective), 'update')} {end}."
        drawn.append((inline_svg(svg_text(objective_figure(result.objective)), "objective", caption), caption))
    if drawn:
        sections.append(("sure", "How sure, and convergence", [html.figures(drawn)]))
    if result.skipped:
        table = skipped_table(result.skipped)
        sections.append(("skipped", "Skipped", [html.table_html(table)]))
    run = [html.table_html(table) for table in run_tables(result)]
    sections.append(("run", "This run", [f'<div class="beside">{"".join(f"<div>{part}</div>" for part in run)}</div>']))
    sections.append(("reading", "How to read this", [html.paragraph(text) for text in _READING]))
    return sections


def _of(what: str, items: Ints, total: int) -> str:
    text = f"{what}: {len(items):,} of {total:,}." if total > len(items) else f"{what}."
    return html.paragraph(text)


def _lead(result: LabelResult) -> str:
    parts = [str(result.settings[key]) for key in ("source", "encoder") if result.settings.get(key)]
    return line(", encoder ".join(parts), 300)


def _sample(n: int, listed: Ints, most: int) -> Ints:
    """At most so many of n items: all, or those that are listed and some of the others, the same each time."""
    if n <= most:
        return np.arange(n)
    others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(n), listed))
    kept = listed[:most]
    return np.sort(np.concatenate([kept, others[: most - len(kept)]]))


def _pictures(result: LabelResult, items: Ints, progress: Callable[[int, int], object] | None) -> dict[int, Image]:
    source = result.source
    if source is None or source.kind != "pictures":
        return {}
    rows = np.arange(len(result)) if result.rows is None else result.rows
    return read_pictures(source, {int(item): int(rows[item]) for item in items}, progress)


def _texts(result: LabelResult) -> dict[int, str] | None:
    source = result.source
    if source is None or source.kind != "texts":
        return None
    rows = range(len(result)) if result.rows is None else result.rows.tolist()
    return {item: str(source.preview(row)) for item, row in enumerate(rows)}


@cache
def _style() -> str:
    return files("laplacianshot.reports.labeling").joinpath("page.css").read_text(encoding="utf-8")
