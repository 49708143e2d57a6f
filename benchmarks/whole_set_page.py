"""What whole_set.py found, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from whole_set_methods import NEAREST, OURS, RBF, RBF_ROWS, TABLE_COLUMNS, TITLES
from whole_set_tasks import LABELS, MAX_CLASSES, PLANE_ROWS, SIZES, SOURCES, WEAK_ROWS, Cell

from laplacianshot.episodes.results import PairedDifference, mean_interval, paired_difference


@dataclass(frozen=True)
class Found:
    """All methods in one cell: accuracies of each, draw by draw; rows and classes of the first draw."""

    cell: Cell
    rows: int
    classes: int
    accuracies: Mapping[str, Sequence[float]]

    def mean(self, method: str) -> float:
        """Mean accuracy of a method."""
        return float(np.mean(self.accuracies[method]))

    @property
    def best_other(self) -> str:
        """The method with the highest mean, ours left out."""
        return max((name for name in self.accuracies if name != OURS), key=self.mean)

    def lead(self, other: str) -> PairedDifference:
        """Accuracy of ours minus that of another method, draw by draw."""
        return paired_difference(self.accuracies[OURS], self.accuracies[other])

    @property
    def behind(self) -> float:
        """Points from ours up to the best other method; negative where ours is the best."""
        return -100 * self.lead(self.best_other).mean

    @property
    def worse_than_nearest(self) -> bool:
        """Whether the interval of the difference to the nearest prototype is below zero."""
        return self.lead(NEAREST).high < 0

    @property
    def line(self) -> str:
        """The cell in one line of a terminal."""
        best = self.best_other
        return (
            f"{self.cell.name}, {self.cell.sizes}, {self.cell.per_class} per class, {self.rows:,} rows: "
            f"{100 * self.mean(OURS):.1f}, nearest prototype {100 * self.mean(NEAREST):.1f} "
            f"({self.lead(NEAREST).percent(sign=True)}), best other {TITLES[best]} {100 * self.mean(best):.1f} "
            f"({self.lead(best).percent(sign=True)})"
        )


def page(found: Sequence[Found], command: str, *, draws: int, max_rows: int, poisson: str) -> str:
    """The page of results."""
    lines = [
        "# Whole sets from a few labels",
        "",
        "A whole set is unlabeled but for 1, 2, 5 or 10 rows per class. Made by one command:",
        "",
        "```console",
        f"$ {command}",
        "```",
        "",
        f"Accuracy on the unlabeled rows in %, mean over {draws} draws of the labels, and of the rows where a set has",
        f"more than {max_rows:,} of them or more than {MAX_CLASSES} classes. Classes without more rows than labels are",
        "left out. Generated sets are generated anew in each draw. *Natural* sizes are those of the set. In a *long",
        "tail* the unlabeled rows per class fall geometrically to a tenth, from the median over classes and in an",
        "order that is drawn; a class that has fewer keeps what it has. All methods of a row saw the same draws.",
        "Intervals are 95% of paired differences.",
        "",
        "LaplacianShot is the default recipe with nothing set, on features and tables as they come: it chooses the",
        "transform itself. The others see",
        f"centered L2-normalized rows, or standardized columns where there are at most {TABLE_COLUMNS} (tables, moons,",
        "rings). Nearest prototype, 1-NN, logistic regression and ridge learn from the labeled rows alone.",
        "LabelSpreading is scikit-learn's: knn has 7 neighbors, rbf has its scale by the spanning-tree rule and is",
        f"left out above {RBF_ROWS:,} rows. Poisson learning has 10 neighbors ({_poisson_text(poisson)}).",
        "",
        *summary(found),
        "",
        "## Every cell",
        "",
        "*Best other* is the method other than ours with the highest mean in this very cell: a choice that nobody can",
        "make without knowing all labels. Differences are ours minus theirs, in points. Rows and classes are those of",
        "the first draw.",
    ]
    for name in dict.fromkeys(one.cell.name for one in found):
        lines += ["", f"### {name}", "", f"{SOURCES[name].what}{_generated(name)}.", "", *_cell_table(found, name)]
    return "\n".join(lines) + "\n"


def _poisson_text(poisson: str) -> str:
    if poisson == "re-made":
        return "re-made from the paper of Calder et al., 2020; its labels are those of the package graphlearning"
    return f"{poisson}, the package of its authors"


def _generated(name: str) -> str:
    if SOURCES[name].generate is None:
        return ""
    return f"; {WEAK_ROWS if name.startswith('weak') else PLANE_ROWS} rows per class"


def _cell_table(found: Sequence[Found], name: str) -> list[str]:
    lines = [
        "| sizes | labels per class | rows | classes | LaplacianShot | nearest prototype | difference | best other | "
        "difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        if one.cell.name != name:
            continue
        best = one.best_other
        texts = [
            one.cell.sizes,
            str(one.cell.per_class),
            f"{one.rows:,}",
            str(one.classes),
            mean_interval(one.accuracies[OURS]).percent(),
            f"{100 * one.mean(NEAREST):.1f}",
            one.lead(NEAREST).percent(sign=True),
            f"{TITLES[best]} {100 * one.mean(best):.1f}",
            one.lead(best).percent(sign=True),
        ]
        lines.append(f"| {' | '.join(texts)} |")
    return lines


def summary(found: Sequence[Found]) -> list[str]:
    """Means over cells of every method, and how often and where ours is behind."""
    parts = {"all": list(found)}
    parts |= {f"{n} per class": [one for one in found if one.cell.per_class == n] for n in LABELS}
    parts |= {sizes: [one for one in found if one.cell.sizes == sizes] for sizes in SIZES}
    lines = [
        "## Summary",
        "",
        "Mean accuracy over cells.",
        "",
        "| | " + " | ".join(f"{part} ({len(cells)})" for part, cells in parts.items()) + " |",
        "|---|" + "---|" * len(parts),
    ]
    for method, title in TITLES.items():
        texts = [_mean_over(cells, method) for cells in parts.values()]
        lines.append(f"| {f'**{title}**' if method == OURS else title} | " + " | ".join(texts) + " |")
    of_rbf = [one for one in found if RBF in one.accuracies]
    if len(of_rbf) < len(found):
        text = f"† Not run in all cells. Over the {len(of_rbf)} that {TITLES[RBF]} ran in, all sizes and labels"
        lines += ["", f"{text}: {', '.join(f'{TITLES[m]} {_mean_over(of_rbf, m)}' for m in TITLES)}."]
    more = [one for one in found if one.cell.per_class >= 2]
    for points in (1, 3):
        late = [one for one in more if one.behind > points]
        share = f"{len(late)} of {len(more)} ({len(late) / max(1, len(more)):.0%})"
        where = "; ".join(f"{_place(one)} {-one.behind:+.1f} {TITLES[one.best_other]}" for one in late)
        text = f"Cells with two or more labels per class more than {points} point{'s' * (points > 1)} behind the best"
        lines += ["", f"{text}: {share}{f': {where}' if where and points > 1 else ''}."]
    worse = [one for one in found if one.worse_than_nearest]
    where = "; ".join(f"{_place(one)} {one.lead(NEAREST).percent(sign=True)}" for one in worse)
    text = "Cells worse than nearest prototype by more than the interval"
    return [*lines, "", f"{text}: {len(worse)} of {len(found)}{f': {where}' if where else ''}."]


def _mean_over(cells: Sequence[Found], method: str) -> str:
    """Mean over the cells that the method ran in, marked where these are not all."""
    ran = [one.mean(method) for one in cells if method in one.accuracies]
    return f"{100 * np.mean(ran):.1f}{'' if len(ran) == len(cells) else ' †'}" if ran else ""


def _place(one: Found) -> str:
    return f"{one.cell.name} {one.cell.sizes} {one.cell.per_class}"
