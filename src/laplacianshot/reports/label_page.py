"""The page of ``laplacianshot label --report``: every class, what to check, what to label next, and a map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult, Skipped
from laplacianshot.reports.figures import BLUE, INK, QUIET, WIDTH, bare, inline_svg, new_figure, svg_text
from laplacianshot.reports.label_items import Cards, Choice, ClassItems, Items, choose
from laplacianshot.reports.label_map import map_block, map_data, map_script, places_of
from laplacianshot.reports.page import (
    PAGE,
    Beside,
    Block,
    Details,
    Figures,
    Section,
    Text,
    asset,
    drawing,
    render_page,
)
from laplacianshot.reports.table import Table, row
from laplacianshot.reports.text import counted, percentage, write_text
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.ui.colors import ClassColor, class_color
from laplacianshot.ui.names import line
from laplacianshot.ui.thumbnails import inline_picture, read_pictures, sheet_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

# Maximum number of items on the map, and of those with a picture.
MAX_ON_MAP = 30_000
MAX_PICTURES = 2000

_READING = (
    "Confidence is the estimated probability that a label is right: of all labels with a confidence of 80%, about four "
    "in five should be right. Given labels count as certain unless the neighbors dispute them.",
    "The neighbors of an item are the items with the most similar vectors. A given label is disputed if the neighbors "
    "suggest another class when that label is left out.",
    "The items to label next represent many others that little is known about, so a label there helps most. They are "
    "not always those with the lowest confidence. Add their labels to the labels file and run the command again.",
    "Items that are close on the map are similar. Distances between separate groups mean little.",
)


def write_label_report(result: LabelResult, folder: Path, *, watch: Watch | None = None) -> None:
    """Write ``index.html`` into an existing folder; an old one is replaced atomically.

    Parameters
    ----------
    result : LabelResult
        With its source. The page has a map if the result has vectors.
    folder : Path
    watch : callable, optional
        ``watch(stage)`` returns a ``progress(done, total)`` callback.
    """
    write_text(folder / PAGE, label_page(result, watch=watch))


def label_page(result: LabelResult, *, watch: Watch | None = None) -> str:
    """Return the page: one file of at most about 10 MB, however many items and classes there are."""
    choice = choose(result)
    if watch is not None:
        watch("Map")
    listed = choice.items()
    mapped = _sample(len(result), listed, MAX_ON_MAP)
    on_map = result if len(mapped) == len(result) else result.of_items(mapped)
    places = places_of(on_map)
    pictured = _sample(len(on_map), np.searchsorted(mapped, listed), MAX_PICTURES) if places is not None else listed[:0]
    pictures = _pictures(result, np.union1d(listed, mapped[pictured]), None if watch is None else watch("Pictures"))
    if watch is not None:
        watch("Page")
    texts = _texts(result)
    small = {item: inline_picture(pictures[item]) for item in listed.tolist() if item in pictures}
    cards = Cards(result, small, texts)
    sections = _list_sections(cards, choice)
    if places is not None:
        names = None if texts is None else [texts[item] for item in mapped.tolist()]
        of_map = {place: pictures[item] for place, item in enumerate(mapped.tolist()) if item in pictures}
        data = map_data(on_map, places, names, sheet_of(of_map, pictured.tolist()))
        blocks: tuple[Block, ...] = (map_block(on_map, data, choice.classes),)
        if on_map is not result:
            text = f"{len(on_map):,} of the {len(result):,} items, including all items listed below."
            blocks = (Text(text), *blocks)
        sections.insert(0, Section("map", "Map", blocks))
    sections += [*_class_sections(cards, choice), *_closing_sections(result)]
    name = line(Path(str(result.settings.get("source", "the source"))).name or "the source", 60)
    return render_page(
        f"Labels of {name}",
        sections,
        lead=_lead(result),
        opening=[tiles(result), *[Text(line(note, 400), "warning") for note in result.notes]],
        style=asset("label.css"),
        script=map_script() if places is not None else "",
    )


def _list_sections(cards: Cards, choice: Choice) -> list[Section]:
    result = cards.result
    sections: list[Section] = []
    if len(choice.suggested):
        labels = cards.best_classes if result.classes else None
        text = _of("The most useful items first", choice.suggested, int(np.count_nonzero(result.suggestions)))
        items = cards.items(choice.suggested, labels, cards.rank)
        sections.append(Section("next", "What to label next", (text, items)))
    if len(choice.disputed):
        text = _of("The most doubtful labels first", choice.disputed, int(np.sum(result.disputes >= 0)))
        items = cards.items(choice.disputed, cards.disputed, lambda _: "")
        sections.append(Section("disputed", "Given labels that the neighbors dispute", (text, items)))
    if len(choice.least_confident):
        text = _of("Predicted labels", choice.least_confident, result.origins.count(PREDICTED))
        items = cards.items(choice.least_confident, cards.best_classes)
        sections.append(Section("least-confident", "Lowest confidence", (text, items)))
        text = Text("From as many classes as possible.")
        sections.append(Section("most-confident", "Highest confidence", (text, cards.items(choice.most_confident))))
    if len(choice.rejected):
        text = _of("Left without a label, the most unusual first", choice.rejected, result.origins.count(REJECTED))
        note = Text("The class below each item is the one it is closest to.")
        sections.append(Section("rejected", "Items that fit no class", (text, note, cards.items(choice.rejected))))
    return sections


@dataclass(frozen=True)
class ClassCard:
    """A class and some of its items."""

    name: str
    color: ClassColor
    summary: str
    best: Items
    worst: Items


@dataclass(frozen=True)
class ClassCards:
    """Cards of classes."""

    cards: tuple[ClassCard, ...]

    kind: ClassVar[str] = "classes"


def _class_sections(cards: Cards, choice: Choice) -> list[Section]:
    if not choice.classes:
        return []
    result = cards.result
    shown = []
    for one in choice.classes[: choice.n_pictured]:
        summary = f"{counted(one.n_items, 'item')}, {one.n_given:,} given"
        if one.n_predicted:
            summary += f"; mean confidence of predicted labels {percentage(one.confidence, 1)}"
        best, worst = (cards.items(items, cards.confidence) for items in (one.best, one.worst))
        shown.append(ClassCard(line(result.classes[one.code]), class_color(one.code), summary, best, worst))
    blocks: list[Block] = [Details("All classes as a table", (classes_table(result, choice.classes),))]
    if len(choice.classes) > choice.n_pictured:
        blocks.append(Text(f"The {choice.n_pictured} largest of {len(choice.classes):,} classes."))
    return [Section("classes", "Classes", (*blocks, ClassCards(tuple(shown))))]


def _closing_sections(result: LabelResult) -> list[Section]:
    sections: list[Section] = []
    confidence = result.confidence[np.asarray(result.origins, dtype=object) == PREDICTED]
    drawn = []
    if len(confidence):
        right = percentage(confidence.mean(), 1)
        caption = f"Confidence of {counted(len(confidence), 'predicted label')}; expected to be right: {right}."
        svg = svg_text(confidence_figure(confidence))
        drawn.append(drawing(inline_svg(svg, "confidence-figure", caption), caption))
    if len(result.objective) > 1:
        end = "and converged" if result.converged else "and was stopped before it converged"
        caption = f"The objective decreased over {counted(len(result.objective), 'iteration')} {end}."
        drawn.append(drawing(inline_svg(svg_text(objective_figure(result.objective)), "objective", caption), caption))
    if drawn:
        sections.append(Section("confidence", "Confidence and convergence", (Figures(tuple(drawn)),)))
    if result.skipped:
        sections.append(Section("skipped", "Skipped", (skipped_table(result.skipped),)))
    run = Beside(tuple((table,) for table in run_tables(result)))
    sections.append(Section("run", "This run", (run,)))
    sections.append(Section("reading", "How to read this", tuple(Text(text) for text in _READING)))
    return sections


def _of(what: str, items: Ints, total: int) -> Text:
    return Text(f"{what}: {len(items):,} of {total:,}." if total > len(items) else f"{what}.")


def _lead(result: LabelResult) -> str:
    parts = [str(result.settings[key]) for key in ("source", "encoder") if result.settings.get(key)]
    return line(", encoder ".join(parts), 300)


def _sample(n: int, listed: Ints, max_items: int) -> Ints:
    """Return at most ``max_items`` of n items: the listed ones, then others, the same ones each time."""
    if n <= max_items:
        return np.arange(n)
    others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(n), listed))
    kept = listed[:max_items]
    return np.sort(np.concatenate([kept, others[: max_items - len(kept)]]))


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


_BINS = 20


def confidence_figure(confidence: Floats) -> Figure:
    """A histogram of the confidence of predicted labels; dashed: the mean."""
    figure = new_figure(WIDTH, 2.6)
    axes = figure.add_subplot()
    bare(axes)
    counts, edges = np.histogram(np.clip(confidence, 0, 1), bins=_BINS, range=(0, 1))
    axes.bar(100 * edges[:-1], counts, width=100 / _BINS * 0.86, align="edge", color=BLUE)
    mean = float(confidence.mean())
    axes.axvline(100 * mean, color=INK, lw=1.2, ls=(0, (4, 3)))
    left = mean > 0.5
    axes.annotate(
        f"mean {percentage(mean, 1)}",
        (100 * mean, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-5 if left else 5, -2),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
        fontsize=9.5,
        color=INK,
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1.12 * max(1, counts.max()))
    axes.set_xlabel("confidence, %", fontsize=9.5, color=QUIET, loc="right")
    axes.set_ylabel("predicted labels", fontsize=9.5, color=QUIET)
    _whole_counts(axes.yaxis)
    return figure


def objective_figure(objective: Floats) -> Figure:
    """The objective after each iteration, relative to its first value."""
    figure = new_figure(WIDTH, 2.6)
    axes = figure.add_subplot()
    bare(axes)
    iterations = np.arange(1, len(objective) + 1)
    axes.plot(iterations, objective - objective[0], color=BLUE, lw=2.4, marker="o", ms=4)
    axes.set_xlabel("iteration", fontsize=9.5, color=QUIET, loc="right")
    axes.set_ylabel("F minus its first value", fontsize=9.5, color=QUIET)
    _whole_counts(axes.xaxis)
    return figure


def _whole_counts(axis: object) -> None:
    from matplotlib.axis import Axis
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    assert isinstance(axis, Axis)
    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


# Maximum number of rows of a table; a note counts the others.
_CLASSES = 2_000
_SKIPPED = 50


@dataclass(frozen=True)
class Tiles:
    """Numbers at the top of a page: pairs of name and value."""

    values: tuple[tuple[str, str], ...]

    kind: ClassVar[str] = "tiles"


def tiles(result: LabelResult) -> Tiles:
    """Return the main numbers."""
    counts = result.counts()
    confidence = result.confidence[np.asarray(result.origins, dtype=object) == PREDICTED]
    numbers = [("items", f"{len(result):,}"), ("classes", f"{len(result.classes):,}")]
    numbers += [("labels given", f"{counts[GIVEN]:,}"), ("labels predicted", f"{counts[PREDICTED]:,}")]
    if len(confidence):
        # With a handful of labels no more can be said than this: see docs/results/confidence.md.
        numbers.append(("of them expected to be right", f"about {percentage(confidence.mean())}"))
    rest = [
        ("fit no class", counts[REJECTED]),
        ("given labels disputed", int(np.sum(result.disputes >= 0))),
        ("to label next", int(np.count_nonzero(result.suggestions))),
        ("skipped", len(result.skipped)),
    ]
    numbers += [(name, f"{number:,}") for name, number in rest if number]
    return Tiles(tuple(numbers))


def classes_table(result: LabelResult, classes: Sequence[ClassItems]) -> Table:
    """Number of items and mean confidence per class, the largest class first."""
    rows = [
        row(
            line(result.classes[one.code]),
            f"{one.n_items:,}",
            f"{one.n_given:,}",
            f"{one.n_predicted:,}",
            "" if math.isnan(one.confidence) else percentage(one.confidence, 1),
        )
        for one in classes[:_CLASSES]
    ]
    notes = (f"The {_CLASSES:,} largest of {len(classes):,} classes.",) if len(classes) > _CLASSES else ()
    return Table("Classes", ("Class", "Items", "Given", "Predicted", "Mean confidence"), tuple(rows), notes)


def skipped_table(skipped: Sequence[Skipped]) -> Table:
    """Items that could not be read, and why."""
    rows = tuple(row(line(fault.id), line(fault.reason, 200)) for fault in skipped[:_SKIPPED])
    more = len(skipped) - _SKIPPED
    return Table("Skipped", ("Item", "Reason"), rows, (f"And {more:,} more.",) if more > 0 else (), words=(1,))


def run_tables(result: LabelResult) -> list[Table]:
    """The settings of the run, and its times."""
    settings = tuple(
        row(line(str(name)), line(_word(value), 200)) for name, value in result.settings.items() if value is not None
    )
    stages = tuple(row(line(stage.name), f"{stage.seconds:.2f}") for stage in result.stages)
    tables = [
        Table("Settings", ("Setting", "Value"), settings, words=(1,)),
        Table("Time", ("Stage", "Seconds"), stages),
    ]
    return [table for table in tables if table.rows]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
