"""What scale.py found, as tables in Markdown and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scale_vectors import D

# Rows from which on growth is measured: below, a fit is exact.
LARGE = 100_000


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and peak memory against N."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for n_classes, color in zip(sorted({row["n_classes"] for row in rows}), ("#0072B2", "#D55E00"), strict=False):
        mine = [row for row in rows if row["n_classes"] == n_classes]
        n = [row["n"] for row in mine]
        left.plot(n, [row["seconds"] for row in mine], "o-", color=color, label=f"fit, {n_classes:,} classes")
        left.plot(n, [row["exact_seconds"] for row in mine], "--", color=color, label="exact search alone")
        right.plot(n, [row["peak_gb"] for row in mine], "o-", color=color, label=f"{n_classes:,} classes")
    sizes = np.array(sorted({row["n"] for row in rows}))
    right.plot(sizes, sizes * D * 4 / 1e9, ":", color="#555555", label="the file itself")
    left.set(xscale="log", yscale="log", xlabel="rows N", ylabel="seconds", title="Time on two cores")
    right.set(xscale="log", yscale="log", xlabel="rows N", ylabel="GB", title="Peak memory of the process")
    for axes in (left, right):
        axes.grid(alpha=0.25, which="major")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def heads(part: str) -> str:
    """The first two lines of a table."""
    names = _HEADS[part]
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def line(part: str, row: dict[str, Any]) -> str:
    """A row of a table."""
    cells = _LINES[part](row)
    return f"| {' | '.join(cells)} |"


def table(part: str, rows: Sequence[dict[str, Any]]) -> str:
    """All of it, with what follows from it below."""
    return "\n".join([heads(part), *(line(part, row) for row in rows), "", *conclusions(part, rows)]).rstrip() + "\n"


def page(template: str, found: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """The page of results, from a template with ``{part}`` in its sections; parts not measured are left out."""
    first, *sections = template.split("\n## ")
    kept = [first]
    for section in sections:
        wanted = [part for part in _HEADS if f"{{{part}}}" in section]
        if all(part in found for part in wanted):
            for part in wanted:
                section = section.replace(f"{{{part}}}", table(part, found[part]).rstrip())
            kept.append(section)
    return "\n## ".join(kept).rstrip() + "\n"


def conclusions(part: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Sentences that follow from the rows."""
    if part == "growth":
        return [f"{_slope_of(rows, n_classes)}\n" for n_classes in sorted({row["n_classes"] for row in rows})]
    if part == "accuracy":
        pairs = zip(rows[::2], rows[1::2], strict=True)
        return [
            f"{exact['n_classes']:,} classes: {100 * (auto['accuracy'] - exact['accuracy']):+.2f} points.\n"
            for exact, auto in pairs
        ]
    return []


def _slope_of(rows: Sequence[dict[str, Any]], n_classes: int) -> str:
    large = [row for row in rows if row["n_classes"] == n_classes and row["n"] >= LARGE]
    if len(large) < 2:
        return ""
    found = [slope(large, key) for key in ("seconds", "cpu_seconds")]
    return (
        f"{n_classes:,} classes: from {large[0]['n']:,} to {large[-1]['n']:,} rows the slope of log time against log N "
        f"is {found[0]:.2f} ({found[1]:.2f} by processor time)."
    )


def slope(rows: Sequence[dict[str, Any]], key: str) -> float:
    """Slope of log seconds against log N."""
    return float(np.polyfit(np.log([row["n"] for row in rows]), np.log([row[key] for row in rows]), 1)[0])


def _growth(row: dict[str, Any]) -> list[str]:
    search, updates = (row["stages"].get(name) for name in ("Neighbors", "Updates"))
    ratio = None if search is None else row["seconds"] / search
    return [
        f"{row['n']:,}",
        f"{row['n_classes']:,}",
        str(row["n_neighbors"]),
        f"{row['recall']:.3f}",
        *("" if value is None else f"{value:.1f}" for value in (search, updates)),
        f"{row['seconds']:.1f}",
        "" if ratio is None else f"{ratio:.2f}",
        f"{row['exact_seconds']:,.1f}",
        f"{row['exact_seconds'] / row['seconds']:.1f}",
        f"{100 * row['accuracy']:.2f}",
        f"{100 * row['dropped_mass']:.2f}",
        f"{row['peak_gb']:.2f}",
    ]


def _graph(row: dict[str, Any]) -> list[str]:
    where = [f"{row['n']:,}", str(row["n_neighbors"]), row["method"]]
    if "error" in row:
        return [*where, row["error"], "", "", "", ""]
    parameters = ", ".join(f"{name} {value:g}" for name, value in row["parameters"].items() if name != "seed")
    figures = [f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}", f"{row['recall']:.3f}", f"{row['peak_gb']:.2f}"]
    return [*where, *figures, parameters]


def _accuracy(row: dict[str, Any]) -> list[str]:
    where = [f"{row['n']:,}", f"{row['n_classes']:,}", row["graph"]]
    return [*where, f"{row['recall']:.3f}", f"{100 * row['accuracy']:.2f}", f"{row['seconds']:.1f}"]


def _peers(row: dict[str, Any]) -> list[str]:
    where = [f"{row['n']:,}", row["peer"]]
    if "error" in row:
        return [*where, row["error"], "", "", ""]
    figures = [f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}", f"{100 * row['accuracy']:.2f}"]
    return [*where, *figures, f"{row['peak_gb']:.2f}"]


_SECONDS = ("search, s", "updates, s", "fit, s", "fit / search", "exact search, s", "exact / fit")
_HEADS = {
    "growth": ("N", "C", "k", "recall", *_SECONDS, "accuracy, %", "dropped, %", "peak, GB"),
    "graph": ("N", "k", "method", "s", "processor, s", "recall", "peak, GB", "parameters"),
    "accuracy": ("N", "C", "graph", "recall", "accuracy, %", "fit, s"),
    "peers": ("N", "method", "s", "processor, s", "accuracy, %", "peak, GB"),
}
_LINES = {"growth": _growth, "graph": _graph, "accuracy": _accuracy, "peers": _peers}
