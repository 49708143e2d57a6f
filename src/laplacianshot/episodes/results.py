"""Results over many tasks: accuracies with 95% intervals, paired differences, curves."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True)
class Setting:
    """Which tasks a method saw; arguments of :func:`~laplacianshot.episodes.draw_tasks`, and the center."""

    protocol: str = "balanced"
    way: int = 5
    shot: int | tuple[int, int] = 1
    query: int = 15
    tasks: int = 10_000
    seed: int = 0
    split: str | None = None
    alpha: float = 2.0
    present: int | None = None  # classes among the queries, in protocol "present"
    total_queries: int | None = None  # per task, in protocols "dirichlet" and "present"; None: way * query
    center: str = "task"  # where CL2's center came from: "base mean" or "task"

    def __post_init__(self) -> None:
        # numpy's numbers and a list for the pair are welcome; a setting holds plain ones, for JSON and for comparing.
        for name in ("way", "query", "tasks", "seed"):
            object.__setattr__(self, name, int(getattr(self, name)))
        for name in ("present", "total_queries"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else int(given))
        shot: Any = self.shot
        pair = isinstance(shot, (tuple, list))
        object.__setattr__(self, "shot", (int(shot[0]), int(shot[1])) if pair else int(shot))
        object.__setattr__(self, "alpha", float(self.alpha))

    def __str__(self) -> str:
        return self.title

    @property
    def is_inat(self) -> bool:
        """Whether this is the one large task of the iNat protocol, which has no shot and no number of tasks."""
        return self.protocol.startswith("inat")

    @property
    def title(self) -> str:
        """``5-way 1-shot, balanced``; ``20-way 1-shot, 5 present``."""
        shot = str(self.shot) if isinstance(self.shot, int) else f"{self.shot[0]}-{self.shot[1]}"
        return f"{self.way}-way{'' if self.is_inat else f' {shot}-shot'}, {self.short_protocol}"

    @property
    def short_protocol(self) -> str:
        """The protocol with the numbers that only it has: ``5 present``, ``dirichlet, 75 queries``."""
        name = self.protocol if self.present is None else f"{self.present} {self.protocol}"
        return name if self.total_queries is None else f"{name}, {self.total_queries} queries"

    @property
    def slug(self) -> str:
        """``5-way-1-shot-balanced``, for names of files and anchors."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def description(self) -> str:
        """How the tasks were drawn, in one sentence."""
        if self.is_inat:
            return f"One task of all classes, the first fifth of each labeled; center: {self.center}"
        queries = f"{self.query} queries per class"
        total = self.way * self.query if self.total_queries is None else self.total_queries
        if self.protocol == "open-set":
            queries += " and others of classes outside the task, which are not scored"
        if self.protocol == "dirichlet":
            queries = f"{total} queries, class shares Dirichlet({self.alpha:g})"
        if self.protocol == "present":
            queries = f"{total} queries of {self.present} of the {self.way} classes (fewer where these have fewer rows)"
        tasks = f"{self.tasks:,} task{'' if self.tasks == 1 else 's'}"
        return f"{tasks}, {queries}, seed {self.seed}, center: {self.center}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The setting as keyword arguments of the functions that draw tasks."""
        return {key: value for key, value in asdict(self).items() if key != "center"}


@dataclass(frozen=True, repr=False)
class Evaluation:
    """One method over many tasks.

    Attributes
    ----------
    method : str
        Its name.
    setting : Setting
    accuracies : array of shape (T,)
        Share of right labels among the queries, task by task. Fewer than ``setting.tasks`` when interrupted or for a
        method that was given fewer.
    class_accuracies : array of shape (n_classes,)
        Share of right labels among the queries of each class of the set, NaN for a class that no query was of.
    class_names : tuple of str
    iterations : int array of shape (T,) or None
        Updates that each task took, for methods that count them.
    seconds : float
        Wall time from row numbers to accuracies, as if the method had run alone.
    interrupted : bool
    numbers : int array of shape (T,) or None
        Which tasks these are; None: the first T.
    """

    method: str
    setting: Setting
    accuracies: Floats
    class_accuracies: Floats = field(default_factory=lambda: np.empty(0))
    class_names: tuple[str, ...] = ()
    iterations: Ints | None = None
    seconds: float = math.nan
    interrupted: bool = False
    numbers: Ints | None = None

    @property
    def interval(self) -> MeanInterval:
        """Mean accuracy with its 95% interval."""
        return mean_interval(self.accuracies)

    @property
    def mean(self) -> float:
        """Mean accuracy over tasks."""
        return self.interval.mean

    @property
    def ci95(self) -> float:
        """Half-width of the 95% interval of the mean."""
        return self.interval.ci95

    @property
    def n_tasks(self) -> int:
        """Tasks that were run."""
        return len(self.accuracies)

    @property
    def mean_class_accuracy(self) -> float:
        """Mean over classes of each class's accuracy; the iNat protocol's figure."""
        return float(np.nanmean(self.class_accuracies))

    def difference(self, other: Evaluation) -> PairedDifference:
        """Accuracy minus that of another method on the same tasks; those that both have run."""
        if self.setting != other.setting:
            raise ValueError(f"{self.method} and {other.method} saw different tasks: {self.setting}, {other.setting}.")
        one, two = _task_numbers(self), _task_numbers(other)
        _, mine, its = np.intersect1d(one, two, assume_unique=True, return_indices=True)
        if len(mine) == 0:
            raise ValueError(f"{self.method} and {other.method} have run no task in common.")
        return paired_difference(self.accuracies[mine], other.accuracies[its])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings for JSON; NaN and infinity become None."""
        classes = zip(self.class_names, self.class_accuracies.tolist(), strict=True)
        return {
            "method": self.method,
            "setting": asdict(self.setting),
            "tasks": self.n_tasks,
            **self.interval.to_dict(),
            "mean_class_accuracy": _finite(self.mean_class_accuracy) if len(self.class_accuracies) else None,
            "class_accuracies": {name: _finite(value) for name, value in classes},
            "mean_iterations": None if self.iterations is None else float(self.iterations.mean()),
            "seconds": _finite(self.seconds),
            "interrupted": self.interrupted,
        }

    def __repr__(self) -> str:
        return (
            f"Evaluation({self.method}: {100 * self.mean:.2f} ± {100 * self.ci95:.2f}, {self.setting}, "
            f"{self.n_tasks} tasks in {self.seconds:.2g} s)"
        )


@dataclass(frozen=True, repr=False)
class Evaluations(Sequence[Evaluation]):
    """Several methods on the same tasks, by number or by name; ``print`` shows them as a table, best first.

    Attributes
    ----------
    evaluations : tuple of Evaluation
        In the order in which they were asked for.
    """

    evaluations: tuple[Evaluation, ...]

    def __len__(self) -> int:
        return len(self.evaluations)

    @overload
    def __getitem__(self, key: str | int) -> Evaluation: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Evaluation, ...]: ...
    def __getitem__(self, key: str | int | slice) -> Evaluation | tuple[Evaluation, ...]:
        """A method by its name or number, or several by a slice."""
        if not isinstance(key, str):
            return self.evaluations[key]
        if key in self.names:
            return self.evaluations[self.names.index(key)]
        raise KeyError(f"there is no method {key!r}; there are: {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Methods in the order in which they were asked for."""
        return tuple(evaluation.method for evaluation in self.evaluations)

    @property
    def best(self) -> Evaluation:
        """The method with the highest mean accuracy on the tasks that all have run."""
        common = reduce(np.intersect1d, [_task_numbers(evaluation) for evaluation in self.evaluations])
        if len(common) == 0:
            return max(self.evaluations, key=lambda evaluation: evaluation.mean)

        def mean(evaluation: Evaluation) -> float:
            return float(evaluation.accuracies[np.isin(_task_numbers(evaluation), common)].mean())

        return max(self.evaluations, key=mean)

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its end."""
        return any(evaluation.interrupted for evaluation in self.evaluations)

    def difference(self, method: str, other: str) -> PairedDifference:
        """Accuracy of ``method`` minus that of ``other`` on the tasks that both have run."""
        return self[method].difference(self[other])

    def to_dict(self) -> dict[str, Any]:
        """All of them, and each one's paired difference to the best, for JSON."""
        best = self.best
        rows = []
        for evaluation in self.evaluations:
            gap = evaluation.difference(best)
            rows.append(evaluation.to_dict() | {"difference_to_best": gap.to_dict() | {"tasks": gap.n}})
        return {"best": best.method, "evaluations": rows}

    def __repr__(self) -> str:
        best = self.best
        return f"Evaluations({len(self)} methods, best {best.method} at {100 * best.mean:.2f} ± {100 * best.ci95:.2f})"

    def __str__(self) -> str:
        """A table of accuracies with 95% intervals and paired differences to the best method, best first."""
        best, setting = self.best, self.evaluations[0].setting
        is_timed = any(math.isfinite(one.seconds) for one in self.evaluations)
        lines = [["Method", "Accuracy, %", "To the best", *(["ms/task"] if is_timed else [])]]
        for one in sorted(self.evaluations, key=lambda evaluation: -evaluation.mean):
            gap = "best" if one is best else one.difference(best).percent(digits=2, sign=True)
            lines.append([one.method, one.interval.percent(digits=2), gap])
            lines[-1] += [f"{1000 * one.seconds / one.n_tasks:,.3g}"] if is_timed else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(f"{text:{'>' if c else '<'}{widths[c]}}" for c, text in enumerate(line)).rstrip()
            for line in lines
        ]
        fewer = [f"{one.method} {one.n_tasks:,}" for one in self.evaluations if one.n_tasks < setting.tasks]
        notes = [f"Fewer tasks: {', '.join(fewer)}; differences are over shared tasks."] if fewer else []
        return "\n".join([setting.title, *table, setting.description, *notes])


@dataclass(frozen=True, repr=False)
class Tuning:
    """Accuracies over a grid of lambda, and of k, on paired tasks."""

    lam: float  # the best of ``lams`` on ``lam_split``, at ``n_neighbors``
    n_neighbors: int  # the best of ``neighbors`` on ``neighbor_split``, each at its own best lambda
    lams: Floats  # (L,)
    neighbors: Ints  # (K,)
    lam_accuracies: Floats  # (L, T): task by task on ``lam_split``, at ``n_neighbors``
    neighbor_accuracies: Floats  # (K, L, T): task by task on ``neighbor_split``
    setting: Setting  # of the tasks that chose lambda
    lam_split: str | None
    neighbor_split: str | None
    seconds: float

    @property
    def lam_curve(self) -> tuple[MeanInterval, ...]:
        """Mean accuracy at each lambda."""
        return tuple(mean_interval(row) for row in self.lam_accuracies)

    @property
    def neighbor_curve(self) -> tuple[MeanInterval, ...]:
        """Mean accuracy at each k, at its best lambda."""
        best = self.neighbor_accuracies.mean(axis=2).argmax(axis=1)
        return tuple(mean_interval(rows[i]) for rows, i in zip(self.neighbor_accuracies, best, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return {
            "lam": self.lam,
            "n_neighbors": self.n_neighbors,
            "setting": asdict(self.setting),
            "lam_split": self.lam_split,
            "neighbor_split": self.neighbor_split,
            "lams": [
                {"lam": lam} | point.to_dict() for lam, point in zip(self.lams.tolist(), self.lam_curve, strict=True)
            ],
            "neighbors": [
                {"n_neighbors": k} | point.to_dict()
                for k, point in zip(self.neighbors.tolist(), self.neighbor_curve, strict=True)
            ],
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        return f"Tuning(lam={self.lam:g}, n_neighbors={self.n_neighbors}, {self.setting}, {self.setting.tasks} tasks)"


@dataclass(frozen=True, repr=False)
class Convergence:
    """The objective of a recipe after each update, task by task."""

    method: str
    setting: Setting
    objective: Floats  # (T, max updates), NaN after a task's last update
    converged: NDArray[np.bool_]  # (T,)

    @property
    def iterations(self) -> Ints:
        """Updates of each task, (T,)."""
        counts: Ints = np.isfinite(self.objective).sum(axis=1)
        return counts

    @property
    def filled(self) -> Floats:
        """The objective with its last value kept after the last update, so that tasks can be averaged."""
        last = self.objective[np.arange(len(self.objective)), self.iterations - 1]
        return np.where(np.isnan(self.objective), last[:, None], self.objective)

    @property
    def rises(self) -> NDArray[np.bool_]:
        """Whether the objective of a task rose at any update by more than rounding (1e-5 of its size), (T,)."""
        steps = np.diff(self.filled, axis=1)
        scale = np.abs(self.filled).max(axis=1, keepdims=True)
        return np.asarray((steps > 1e-5 * scale).any(axis=1))

    def __repr__(self) -> str:
        return (
            f"Convergence({self.method}: {len(self.objective)} tasks, {self.iterations.mean():.1f} updates on average, "
            f"{int(self.rises.sum())} with a rise)"
        )


def _task_numbers(evaluation: Evaluation) -> Ints:
    return np.arange(evaluation.n_tasks) if evaluation.numbers is None else evaluation.numbers


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# Standard normal quantile of a two-sided 95% interval.
_Z95 = 1.96


@dataclass(frozen=True, repr=False)
class MeanInterval:
    """A mean of n values and the half-width of its 95% interval.

    ``ci95 = 1.96 std / sqrt(n)`` with the sample standard deviation (``n - 1`` below the sum); infinite for one value,
    which says nothing about its spread.
    """

    mean: float
    ci95: float
    n: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.ci95

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.ci95

    def percent(self, *, digits: int = 1, sign: bool = False) -> str:
        """The mean in percent with its interval; the margin of a single value is left out.

        Examples
        --------
        >>> MeanInterval(0.949, 0.001, 100).percent()
        '94.9 ± 0.1'
        >>> MeanInterval(-0.02, 0.001, 100).percent(digits=2, sign=True)
        '-2.00 ± 0.10'
        """
        mean = f"{100 * self.mean:{'+' if sign else ''}.{digits}f}"
        return f"{mean} ± {100 * self.ci95:.{digits}f}" if math.isfinite(self.ci95) else mean

    def to_dict(self) -> dict[str, float | None]:
        """``mean`` and ``ci95`` for JSON, an infinite one as None."""
        return {"mean": self.mean, "ci95": _finite(self.ci95)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mean:.4g} ± {self.ci95:.2g}, n={self.n})"


@dataclass(frozen=True, repr=False)
class PairedDifference(MeanInterval):
    """Mean of ``a_i - b_i`` over the same tasks, with its own interval."""

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return abs(self.mean) > self.ci95


def mean_interval(values: ArrayLike) -> MeanInterval:
    """Mean of values (n,) with its 95% interval.

    Examples
    --------
    >>> mean_interval([0.8, 0.9, 1.0])
    MeanInterval(0.9 ± 0.11, n=3)
    """
    array, n = _values(values, "values"), np.size(values)
    ci95 = _Z95 * float(array.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return MeanInterval(float(array.mean()), ci95, n)


def paired_difference(a: ArrayLike, b: ArrayLike) -> PairedDifference:
    """Mean of ``a - b`` for values (n,) measured on the same n tasks.

    Examples
    --------
    >>> paired_difference([0.8, 0.9, 1.0], [0.7, 0.8, 0.9])
    PairedDifference(0.1 ± ..., n=3)
    """
    first, second = _values(a, "a"), _values(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"a and b must come from the same tasks, got {len(first)} and {len(second)} values.")
    found = mean_interval(first - second)
    return PairedDifference(found.mean, found.ci95, found.n)


def _values(values: ArrayLike, name: str) -> Floats:
    array: Floats = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a non-empty array of shape (n,), got shape {array.shape}.")
    return array
