"""The page of ``laplacianshot label --report``: every class, what to check, what to label next, and a map."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from laplacianshot.inference.transforms import base_mean, choose_centered, transform_features
from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult, Skipped
from laplacianshot.reports.figures import BLUE, INK, new_axes, svg_text
from laplacianshot.reports.label_items import LIST, Cards, Choice, ClassItems, choose, interval_text
from laplacianshot.reports.label_look import confusion_blocks, large_side, look_block, neighbors_of
from laplacianshot.reports.page import PAGE, Block, Section, asset, block, drawing, render_page, trusted
from laplacianshot.reports.table import Columns, Table, columns_table, counted, percentage, row, write_text
from laplacianshot.runtime.progress import Progress, Watch, no_watch
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.ui.colors import NO_CLASS, ClassColor, class_color
from laplacianshot.ui.map import map_2d
from laplacianshot.ui.names import in_order, line, passage
from laplacianshot.ui.thumbnails import Sheet, inline_picture, read_pictures, sheet_of

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from PIL.Image import Image

# Maximum number of items on the map, and of those with a picture.
MAX_ON_MAP = 30_000
_MAX_PICTURES = 2000

_READING = (
    "Confidence is the estimated probability that a label is right: of all labels with a confidence of 80%, about four "
    "in five should be right. Given labels count as certain unless the neighbors dispute them.",
    "The neighbors of an item are the items with the most similar vectors. A given label is disputed if the neighbors "
    "suggest another class when that label is left out.",
    "The items to label next represent many others that little is known about, so a label there helps most. They are "
    "not always those with the lowest confidence. Add their labels to the labels file and run the command again.",
    "Items that are close on the map are similar. Distances between separate groups mean little.",
)


def write_label_report(result: LabelResult, folder: Path, *, watch: Watch = no_watch) -> None:
    """Write ``index.html`` into an existing folder; an old one is replaced atomically.

    The page has pictures or texts if the result has its source, and a map if it has vectors.
    """
    write_text(folder / PAGE, label_page(result, watch=watch), private=True)


def label_page(result: LabelResult, *, watch: Watch = no_watch) -> str:
    """Return the page: one file of at most about 15 MB, however many items and classes there are."""
    choice = choose(result)
    watch("Map")
    listed = choice.items()
    mapped = _sample(len(result), listed, MAX_ON_MAP)
    on_map = result if len(mapped) == len(result) else result.of_items(mapped)
    places = places_of(on_map)
    near = neighbors_of(result, listed)
    wanted = np.unique(np.concatenate([np.zeros(0, np.int64), *[np.asarray(some, np.int64) for some in near.values()]]))
    # The items of the lists first, then their neighbors, as far as these are on the map.
    first = np.concatenate([listed, np.setdiff1d(np.intersect1d(wanted, mapped), listed)])
    pictured = _sample(len(on_map), np.searchsorted(mapped, first), _MAX_PICTURES) if places is not None else listed[:0]
    pictures = _pictures(result, np.union1d(listed, mapped[pictured]), listed, watch("Pictures"))
    watch("Page")
    texts = _texts(result)
    small = {item: inline_picture(pictures[item]) for item in listed.tolist() if item in pictures}
    cards = Cards(result, small, texts)
    sections = _list_sections(cards, choice)
    cells: dict[int, int] = {}
    if places is not None:
        names = None if texts is None else [texts[item] for item in mapped.tolist()]
        of_map = {place: pictures[item] for place, item in enumerate(mapped.tolist()) if item in pictures}
        sheet = sheet_of(of_map, pictured.tolist())
        if sheet is not None:
            cells = {int(mapped[point]): place for place, point in enumerate(sheet.items)}
        data = map_data(on_map, places, names, sheet)
        blocks: tuple[Block, ...] = (map_block(on_map, data, choice.classes),)
        if on_map is not result:
            text = f"{len(on_map):,} of the {len(result):,} items, including all items listed below."
            blocks = (block("text", text), *blocks)
        sections.insert(0, Section("map", "Map", blocks))
    sections += [*_class_sections(cards, choice), *_confusion_sections(result), *_closing_sections(result)]
    large = {item: pictures[item] for item in listed.tolist() if item in pictures}
    look = look_block(result, listed.tolist(), near, large, texts, cells, None if on_map is result else mapped)
    name = line(Path(str(result.settings.get("source", "the source"))).name or "the source", 60)
    return render_page(
        f"Labels of {name}",
        sections,
        lead=_lead(result),
        opening=[_tiles(result), *_source_of(result), *[block("text", line(n, 400), "warning") for n in result.notes]],
        style=asset("label.css"),
        closing=look,
        script=(_map_script() if places is not None else "") + asset("look.js"),
    )


def _list_sections(cards: Cards, choice: Choice) -> list[Section]:
    result = cards.result
    sections: list[Section] = []
    if len(choice.suggested):
        labels = cards.best_classes if result.classes else None
        text = block("text", "The most useful items first.")
        items = cards.items(choice.suggested[:LIST], labels, cards.rank)
        more = result.suggested[LIST:]
        blocks = [text, items]
        if len(more):
            pictured = choice.suggested[LIST:]
            inner: list[Block] = [cards.items(pictured, labels, cards.rank)]
            if len(more) > len(pictured):
                inner.append(_suggestions_table(result, more[len(pictured) :]))
            blocks.append(block("details", f"All {len(result.suggested):,} suggestions", inner))
        sections.append(Section("next", "What to label next", tuple(blocks)))
    if len(choice.disputed):
        text = _of("The most doubtful labels first", choice.disputed, int(np.sum(result.disputes >= 0)))
        items = cards.items(choice.disputed, cards.disputed, lambda _: "")
        sections.append(Section("disputed", "Given labels that the neighbors dispute", (text, items)))
    if len(choice.least_confident):
        text = _of("Predicted labels", choice.least_confident, result.origins.count(PREDICTED))
        items = cards.items(choice.least_confident, cards.best_classes)
        sections.append(Section("least-confident", "Lowest confidence", (text, items)))
        text = block("text", "From as many classes as possible.")
        sections.append(Section("most-confident", "Highest confidence", (text, cards.items(choice.most_confident))))
    if len(choice.rejected):
        text = _of("Left without a label, the most unusual first", choice.rejected, result.origins.count(REJECTED))
        note = block("text", "The class below each item is the one it is closest to.")
        sections.append(Section("rejected", "Items that fit no class", (text, note, cards.items(choice.rejected))))
    return sections


def _class_sections(cards: Cards, choice: Choice) -> list[Section]:
    if not choice.classes:
        return []
    result = cards.result
    shown = []
    for one in choice.classes[: choice.n_pictured]:
        summary = f"{counted(one.n_items, 'item')}, {one.n_given:,} given"
        if one.n_predicted:
            summary += f"; mean confidence of predicted labels {one.mean_confidence}"
        best, worst = (cards.items(items, cards.confidence) if len(items) else "" for items in (one.best, one.worst))
        shown.append((class_color(one.code), line(result.classes[one.code]), summary, best, worst))
    blocks: list[Block] = [block("details", "All classes as a table", [_classes_table(result, choice.classes)])]
    if len(choice.classes) > choice.n_pictured:
        blocks.append(block("text", f"The {choice.n_pictured} largest of {len(choice.classes):,} classes."))
    return [Section("classes", "Classes", (*blocks, block("classes", shown)))]


def _suggestions_table(result: LabelResult, items: Ints) -> Table:
    """Suggestions that are too many for pictures."""
    shown = items[:_CLASSES]
    rows = tuple(row(f"{int(result.suggestions[item]):,}. {line(result.ids[item])}") for item in shown.tolist())
    more = len(items) - len(shown)
    return Table("More", ("Item",), rows, (f"And {more:,} more, in the output under suggestion.",) if more else ())


def _confusion_sections(result: LabelResult) -> list[Section]:
    blocks = confusion_blocks(result)
    return [Section("confusion", "Which classes are mixed up", tuple(blocks))] if blocks else []


def _closing_sections(result: LabelResult) -> list[Section]:
    sections: list[Section] = []
    confidence = result.confidence[np.asarray(result.origins, dtype=object) == PREDICTED]
    drawn = []
    if len(confidence):
        right = percentage(confidence.mean(), 1)
        caption = f"Confidence of {counted(len(confidence), 'predicted label')}; expected to be right: {right}."
        drawn.append(drawing(svg_text(_confidence_figure(confidence)), "confidence-figure", caption))
    if len(result.objective) > 1:
        end = "and converged" if result.converged else "and was stopped before it converged"
        caption = f"The objective decreased over {counted(len(result.objective), 'iteration')} {end}."
        drawn.append(drawing(svg_text(_objective_figure(result.objective)), "objective", caption))
    if drawn:
        sections.append(Section("confidence", "Confidence and convergence", (block("figures", drawn),)))
    if result.skipped:
        sections.append(Section("skipped", "Skipped", (_skipped_table(result.skipped),)))
    run = block("beside", [[table] for table in _run_tables(result)])
    sections.append(Section("run", "This run", (run,)))
    sections.append(Section("reading", "How to read this", tuple(block("text", text) for text in _READING)))
    return sections


def _of(what: str, items: Ints, total: int) -> Block:
    return block("text", f"{what}: {len(items):,} of {total:,}." if total > len(items) else f"{what}.")


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


def _pictures(result: LabelResult, items: Ints, listed: Ints, progress: Progress) -> dict[int, Image]:
    """Return pictures of items; those that are listed are large, as they can be opened."""
    source = result.source
    if source is None or source.kind != "pictures":
        return {}
    rows = np.arange(len(result)) if result.rows is None else result.rows
    positions = {int(item): int(rows[item]) for item in items}
    large = set(listed.tolist())
    return read_pictures(source, positions, progress, large=large, large_side=large_side(len(large)))


def _texts(result: LabelResult) -> dict[int, str] | None:
    source = result.source
    if source is None or source.kind != "texts":
        return None
    rows = range(len(result)) if result.rows is None else result.rows.tolist()
    return {item: str(source.preview(row)) for item, row in enumerate(rows)}


# Maximum number of characters of all item names together, and of all class names.
_NAMES = 2_000_000
_CLASS_NAMES = 500_000
# Maximum number of class buttons, and of entries in the list of classes.
_BUTTONS = 24
_CHOICES = 2_000

_ORIGINS = {PREDICTED: 0, GIVEN: 1, REJECTED: 2}


def places_of(result: LabelResult) -> Floats | None:
    """Return the position of each item on the map, (n, 2); None without vectors."""
    if result.vectors is None or len(result) == 0:
        return None
    X = np.asarray(result.vectors)
    if result.affinity is not None:
        return map_2d(X, result.affinity)
    transform = choose_centered(X)
    return map_2d(transform_features(X, transform, base_mean(X, transform)))


def map_data(result: LabelResult, places: Floats, texts: Sequence[str] | None, sheet: Sheet | None) -> dict[str, Any]:
    """Return what the script draws, as JSON values: places (n, 2) in [-1, 1]^2, and texts or else ids of the items."""
    n, n_classes = len(result), len(result.classes)
    colors = [class_color(code) for code in range(n_classes)]
    length = max(8, min(160, _NAMES // max(1, n)))
    width = max(8, min(60, _CLASS_NAMES // max(1, n_classes)))
    grid = np.round(32767.5 * (np.clip(places, -1, 1) + 1))
    data: dict[str, Any] = {
        "places": _bytes(grid, "<u2"),
        "codes": _bytes(result.codes, "<i4"),
        "confidence": _bytes(_steps(np.nan_to_num(result.confidence)), "u1"),
        "origins": _bytes([_ORIGINS.get(origin, 3) for origin in result.origins], "u1"),
        "disputes": [[int(item), int(result.disputes[item])] for item in np.flatnonzero(result.disputes >= 0)[:5000]],
        "suggested": result.suggested[:5000].tolist(),
        "classes": [line(name, width) for name in result.classes],
        "light": [color.light for color in colors] + [NO_CLASS.light],
        "dark": [color.dark for color in colors] + [NO_CLASS.dark],
        "texts": [line(name, length) for name in result.ids] if texts is None else [passage(t, length) for t in texts],
    }
    if sheet is not None:
        data["sheet"] = vars(sheet) | {"sizes": [side for size in sheet.sizes for side in size]}
    return data


def map_block(result: LabelResult, data: dict[str, Any], classes: Sequence[ClassItems]) -> Block:
    """Return the map of a page. A list of classes is added where there are more than fit on buttons."""
    # Without "<" no name can end the script element.
    inline = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    many = len(classes) > _BUTTONS
    return block(
        "map",
        data=trusted(inline),
        n_items=f"{len(result):,}",
        buttons=_choices(result, classes[:_BUTTONS], 40),
        choices=_choices(result, classes[:_CHOICES], 60) if many else [],
        n_more=f"{len(classes) - _BUTTONS:,}" if many else "",
        no_label=NO_CLASS if np.any(result.codes < 0) else None,
        has_given=GIVEN in result.origins,
        has_suggested=len(result.suggested) > 0,
        has_disputed=bool(np.any(result.disputes >= 0)),
    )


@cache
def _map_script() -> str:
    """Return the script that draws the map: the shared module and the report's own, as one module."""
    shared = files("laplacianshot.ui").joinpath("page", "js", "plane.js").read_text(encoding="utf-8")
    own = re.sub(r"^import .*?;\n", "", asset("map.js"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^export ", "", shared, flags=re.MULTILINE) + own


def _choices(result: LabelResult, classes: Sequence[ClassItems], width: int) -> list[tuple[int, str, ClassColor]]:
    """Code, name and color of classes in the order of their names."""
    codes = sorted((shown.code for shown in classes), key=lambda code: in_order(result.classes[code]))
    return [(code, line(result.classes[code], width), class_color(code)) for code in codes]


def _steps(shares: Floats) -> Floats:
    """Round shares to 200 steps; only 1 becomes 200, and only 0 becomes 0."""
    steps: Floats = np.clip(np.round(200 * shares), 1.0 * (shares > 0), 200.0 - (shares < 1))
    return steps


def _bytes(values: Any, dtype: DTypeLike) -> str:
    return base64.b64encode(np.asarray(values).astype(dtype).tobytes()).decode("ascii")


_BINS = 20


def _confidence_figure(confidence: Floats) -> Figure:
    """A histogram of the confidence of predicted labels; dashed: the mean."""
    figure, axes = new_axes(2.6, "confidence, %", "predicted labels")
    counts, edges = np.histogram(np.clip(confidence, 0, 1), bins=_BINS, range=(0, 1))
    axes.bar(100 * edges[:-1], counts, width=100 / _BINS * 0.86, align="edge", color=BLUE)
    mean = float(confidence.mean())
    axes.axvline(100 * mean, color=INK, lw=1.2, ls=(0, (4, 3)))
    shift, side = (-5, "right") if mean > 0.5 else (5, "left")
    axes.annotate(
        f"mean {percentage(mean, 1)}",
        (100 * mean, 1),
        xycoords=("data", "axes fraction"),
        xytext=(shift, -2),
        textcoords="offset points",
        ha=side,
        va="top",
        fontsize=9.5,
        color=INK,
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1.12 * max(1, counts.max()))
    _whole_counts(axes.yaxis)
    return figure


def _objective_figure(objective: Floats) -> Figure:
    """The objective after each iteration, relative to its first value."""
    figure, axes = new_axes(2.6, "iteration", "F minus its first value")
    iterations = np.arange(1, len(objective) + 1)
    axes.plot(iterations, objective - objective[0], color=BLUE, lw=2.4, marker="o", ms=4)
    _whole_counts(axes.xaxis)
    return figure


def _whole_counts(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


# Maximum number of rows of a table; a note counts the others.
_CLASSES = 2_000
_SKIPPED = 50


def _tiles(result: LabelResult) -> Block:
    """Return the main numbers."""
    counts = result.counts()
    numbers = [("items", f"{len(result):,}"), ("classes", f"{len(result.classes):,}")]
    numbers += [("labels given", f"{counts[GIVEN]:,}"), ("labels predicted", f"{counts[PREDICTED]:,}")]
    if (said := result.expected_accuracy) is not None:
        numbers.append((f"of them expected to be right ({interval_text(said)})", percentage(said.estimate)))
    rest = [
        ("fit no class", counts[REJECTED]),
        ("given labels disputed", int(np.sum(result.disputes >= 0))),
        ("to label next", int(np.count_nonzero(result.suggestions))),
        ("skipped", len(result.skipped)),
    ]
    numbers += [(name, f"{number:,}") for name, number in rest if number]
    return block("tiles", numbers)


def _source_of(result: LabelResult) -> list[Block]:
    """Return where the expected accuracy comes from."""
    said = result.expected_accuracy
    if said is None:
        return []
    text = (
        f"Predicted labels expected to be right: {percentage(said.estimate)}, with 95% certainty {interval_text(said)}."
    )
    return [block("text", f"{text} {said.source}")]


def _classes_table(result: LabelResult, classes: Sequence[ClassItems]) -> Table:
    """Number of items and mean confidence per class, the largest class first."""
    shown = classes[:_CLASSES]
    columns: Columns = {
        "Class": [line(result.classes[one.code]) for one in shown],
        "Items": [f"{one.n_items:,}" for one in shown],
        "Given": [f"{one.n_given:,}" for one in shown],
        "Predicted": [f"{one.n_predicted:,}" for one in shown],
        "Mean confidence": [one.mean_confidence for one in shown],
    }
    notes = (f"The {_CLASSES:,} largest of {len(classes):,} classes.",) if len(classes) > _CLASSES else ()
    return columns_table("Classes", columns, notes=notes)


def _skipped_table(skipped: Sequence[Skipped]) -> Table:
    """Items that could not be read, and why."""
    rows = tuple(row(line(fault.id), line(fault.reason, 200)) for fault in skipped[:_SKIPPED])
    more = len(skipped) - _SKIPPED
    return Table("Skipped", ("Item", "Reason"), rows, (f"And {more:,} more.",) if more > 0 else (), words=(1,))


def _run_tables(result: LabelResult) -> list[Table]:
    """The settings of the run, and its times."""
    words = {True: "yes", False: "no"}
    values = {name: value for name, value in result.settings.items() if value is not None}
    texts = {name: words[value] if isinstance(value, bool) else str(value) for name, value in values.items()}
    settings = tuple(row(line(str(name)), line(text, 200)) for name, text in texts.items())
    stages = tuple(row(line(stage.name), f"{stage.seconds:.2f}") for stage in result.stages)
    tables = [
        Table("Settings", ("Setting", "Value"), settings, words=(1,)),
        Table("Time", ("Stage", "Seconds"), stages),
    ]
    return [table for table in tables if table.rows]
