"""Few-shot tasks drawn from a feature set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.datasets.feature_set import ClassRows, FeatureSet
from laplacianshot.episodes import _sampling_kernels as kernels
from laplacianshot.inference.labels import UNLABELED
from laplacianshot.runtime.errors import suggestion
from laplacianshot.runtime.types import Ints

INAT_LEAKING = "inat-leaking-labels"

PROTOCOLS: Mapping[str, str] = MappingProxyType(
    {
        "balanced": "the same number of labeled rows and of queries in every class",
        "dirichlet": "way x query queries in all, shared out among the classes by Dirichlet(alpha)",
        "present": "all classes are labeled, only some of them, drawn for each task, occur among the queries",
        "unequal": "1 to 2 x shot - 1 labeled rows per class, drawn for each class; the same number of queries",
        "inat": "one task of all classes: the first fifth of each class is labeled, all other rows are queries",
        INAT_LEAKING: "the inat task with a graph that looks at the query labels; shows what the leak is worth",
        "open-set": "balanced, with further queries from classes outside the task",
    }
)

# Protocols that share a number of queries out among the classes.
SHARED = ("dirichlet", "present")

# In the iNat task one row of a class in this many, rounded down, is support.
_INAT_SHARE = 5


class Task(NamedTuple):
    """One task, as row numbers of its feature set."""

    support: Ints  # (n_support,)
    support_labels: Ints  # (n_support,): class within the task, 0 to way - 1
    query: Ints  # (n_query,)
    query_labels: Ints  # (n_query,): the same; -1 for a query of a class outside the task
    classes: Ints  # (way,): the set's class code of each class of the task


class TaskGroup(NamedTuple):
    """Tasks of the same size, by number in ascending order."""

    n_support: int
    n_query: int
    numbers: Ints

    @property
    def n_rows(self) -> int:
        """Rows per task."""
        return self.n_support + self.n_query


@dataclass(frozen=True, repr=False, eq=False)
class Tasks:
    """Many tasks of the same number of classes, as row numbers of one feature set.

    Task t is ``rows[offsets[t]:offsets[t + 1]]``: ``n_support[t]`` support rows, class by class, then its queries.
    """

    rows: Ints  # (total,)
    labels: Ints  # (total,) int32: class within the task, 0 to way - 1; -1 for a query of a class outside the task
    offsets: Ints  # (T + 1,)
    n_support: Ints  # (T,)
    classes: Ints  # (T, way): the set's class code of each class of a task
    protocol: str  # the name under which the tasks were drawn

    @property
    def way(self) -> int:
        """Classes per task."""
        return int(self.classes.shape[1])

    @property
    def n_query(self) -> Ints:
        """Queries of each task, (T,)."""
        return np.diff(self.offsets) - self.n_support

    def __len__(self) -> int:
        return len(self.n_support)

    def __getitem__(self, number: int) -> Task:
        t = range(len(self))[number]
        part = slice(self.offsets[t], self.offsets[t + 1])
        rows, labels, n = self.rows[part], self.labels[part], self.n_support[t]
        return Task(rows[:n], labels[:n], rows[n:], labels[n:], self.classes[t])

    def __iter__(self) -> Iterator[Task]:
        return (self[t] for t in range(len(self)))

    def shapes(self) -> list[TaskGroup]:
        """The tasks grouped by (n_support, n_query), so that those of a group can be run together."""
        sizes = np.column_stack([self.n_support, self.n_query])
        found, group = np.unique(sizes, axis=0, return_inverse=True)
        return [TaskGroup(int(s), int(q), np.flatnonzero(group == i)) for i, (s, q) in enumerate(found)]

    def block(self, numbers: ArrayLike) -> tuple[Ints, Ints]:
        """Rows and labels (B, n_support + n_query) of B tasks of one shape, support first.

        Adjacent tasks are not copied.
        """
        ts = np.asarray(numbers, dtype=np.int64)
        starts, sizes, shots = self.offsets[ts], np.diff(self.offsets)[ts], self.n_support[ts]
        if ts.ndim != 1 or ts.size == 0 or (sizes != sizes[0]).any() or (shots != shots[0]).any():
            raise ValueError("numbers must be tasks of one shape, as shapes() groups them.")
        n = int(sizes[0])
        if (np.diff(ts) == 1).all():
            part = slice(int(starts[0]), int(starts[0]) + n * len(ts))
            return self.rows[part].reshape(-1, n), self.labels[part].reshape(-1, n)
        places = starts[:, None] + np.arange(n)
        return self.rows[places], self.labels[places]

    def __repr__(self) -> str:
        support, query = _span(self.n_support), _span(self.n_query)
        return f"Tasks({len(self)} {self.protocol}, {self.way}-way, {support} support and {query} query rows)"


def draw_tasks(
    feature_set: FeatureSet,
    protocol: str = "balanced",
    *,
    way: int = 5,
    shot: int | tuple[int, int] = 1,
    query: int = 15,
    tasks: int = 10_000,
    seed: int = 0,
    split: str | None = None,
    alpha: float = 2.0,
    present: int | None = None,
    total_queries: int | None = None,
    outside: int | None = None,
) -> Tasks:
    """Draw few-shot tasks: classes without replacement, then different rows of each class as support and queries.

    Task t depends on the seed, the settings and t alone: 500 tasks are the first 500 of 10,000.

    =======================  ==========================================================================================
    ``balanced``             ``shot`` support rows and ``query`` queries of each class
    ``dirichlet``            ``way * query`` queries in all, ``p ~ Dirichlet(alpha)``, rounded by largest remainder; a
                             class that has too few rows gives all, the others share the rest
    ``present``              ``way * query`` queries in all, of ``present`` classes only, which are drawn for each task
                             and share the queries as evenly as their rows allow; all classes have support
    ``unequal``              shots of each class uniform in ``1..2 * shot - 1``, of mean ``shot``
    ``inat``                 one task of all classes with five rows or more: of a class with n rows the first ``n // 5``
                             in file order are support and the rest queries; smaller classes are left out, and way,
                             shot, query, tasks and seed are not used
    ``inat-leaking-labels``  the same rows; the name tells the runner to build each class's graph from its own queries
    ``open-set``             balanced, and ``query`` queries of each of ``outside`` further classes, labeled -1
    =======================  ==========================================================================================

    Every class of a task is one with at least ``query`` rows besides its largest possible support. A task of
    ``dirichlet`` or ``present`` whose classes have fewer rows than the queries asked for takes all that they have.

    Parameters
    ----------
    feature_set : FeatureSet
    protocol : str
        One of :data:`PROTOCOLS`.
    way : int
        Classes per task.
    shot : int or (int, int)
        Support rows per class. With a pair ``(low, high)`` those of each class are drawn uniformly from low..high.
    query : int
        Queries per class.
    tasks : int
    seed : int
    split : str, optional
        Draw from this split only. Row numbers are those of the whole set all the same.
    alpha : float
        Concentration of ``dirichlet``: 1 is uniform over all proportions, larger is closer to balanced.
    present : int, optional
        Classes that occur among the queries for ``present``, from 1 to ``way``; that protocol needs it.
    total_queries : int, optional
        Queries per task for ``dirichlet`` and ``present`` (default: ``way * query``).
    outside : int, optional
        Classes outside the task for ``open-set`` (default: ``way``, or all that the set has left).

    Returns
    -------
    Tasks

    Examples
    --------
    >>> digits = FeatureSet(np.arange(60.0).reshape(60, 1), np.repeat(np.arange(6), 10))
    >>> draw_tasks(digits, way=3, shot=2, query=4, tasks=100)
    Tasks(100 balanced, 3-way, 6 support and 12 query rows)
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol={protocol!r} is unknown; {suggestion(protocol, PROTOCOLS)}")
    grouped = _rows_by_class(feature_set, split)
    if protocol in ("inat", INAT_LEAKING):
        _present(present, protocol, 0)
        _total_queries(total_queries, protocol, 0)
        return _inat_task(grouped, protocol, split)

    n_tasks, n_way, n_query = _count("tasks", tasks), _count("way", way), _count("query", query)
    low, high = _shot_range(shot, protocol)
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed < 2**64:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, got {seed!r}.")
    if not isinstance(alpha, Real) or not 0 < alpha < math.inf:
        raise ValueError(f"alpha must be a number above 0, got {alpha!r}.")

    n_present = _present(present, protocol, n_way)
    total = _total_queries(total_queries, protocol, n_way * n_query)

    sizes = np.diff(grouped.starts)
    eligible = np.flatnonzero(sizes >= high + n_query)
    _check_enough_classes(n_way, len(eligible), sizes, f"{high} support + {n_query} query rows", split)
    n_outside = _outside(outside, protocol, n_way, len(eligible))

    states = np.empty(n_tasks, dtype=np.uint64)
    chosen = np.empty((n_tasks, n_way + n_outside), dtype=np.int64)
    kernels.draw_classes(np.uint64(seed), states, len(eligible), chosen)
    chosen = eligible[chosen]
    shots = np.full((n_tasks, n_way), low, dtype=np.int64)
    if high > low:
        kernels.draw_shots(states, low, high, shots)
    queries = np.full((n_tasks, n_way + n_outside), n_query, dtype=np.int64)
    if protocol == "dirichlet":
        kernels.draw_query_counts(states, float(alpha), total, sizes[chosen] - shots, queries)
    elif protocol == "present":
        kernels.draw_present_counts(states, n_present, total, sizes[chosen] - shots, queries)

    n_support = shots.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(n_support + queries.sum(axis=1))])
    rows = np.empty(offsets[-1], dtype=np.int64)
    labels = np.empty(offsets[-1], dtype=np.int32)
    kernels.draw_rows(states, grouped.order, grouped.starts, chosen, shots, queries, offsets, n_support, rows, labels)
    return Tasks(rows, labels, offsets, n_support, np.ascontiguousarray(chosen[:, :n_way]), protocol)


def _rows_by_class(feature_set: FeatureSet, split: str | None) -> ClassRows:
    """Rows of a split grouped by the classes of the whole set, some of them empty."""
    order, starts = feature_set.class_rows
    if split is None:
        return ClassRows(order.copy(), starts.copy())
    inside = np.zeros(feature_set.n_rows, dtype=bool)
    inside[feature_set.rows(split)] = True
    kept = inside[order]
    return ClassRows(order[kept], np.concatenate([[0], np.cumsum(kept)])[starts])


def _inat_task(grouped: ClassRows, protocol: str, split: str | None) -> Tasks:
    sizes = np.diff(grouped.starts)
    eligible = np.flatnonzero(sizes >= _INAT_SHARE)
    _check_enough_classes(1, len(eligible), sizes, f"the first fifth of {_INAT_SHARE} rows or more", split)
    within = np.arange(len(grouped.order)) - np.repeat(grouped.starts[:-1], sizes)
    number = np.full(len(sizes), UNLABELED, dtype=np.int32)
    number[eligible] = np.arange(len(eligible))
    labels = np.repeat(number, sizes)
    support = within < np.repeat(sizes // _INAT_SHARE, sizes)
    query = ~support & (labels != UNLABELED)
    order = np.concatenate([np.flatnonzero(support), np.flatnonzero(query)])
    return Tasks(
        rows=grouped.order[order],
        labels=labels[order],
        offsets=np.array([0, len(order)]),
        n_support=np.array([np.count_nonzero(support)]),
        classes=eligible[None],
        protocol=protocol,
    )


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    return int(value)


def _shot_range(shot: Any, protocol: str) -> tuple[int, int]:
    """The smallest and the largest number of support rows per class."""
    if isinstance(shot, tuple | list):
        if len(shot) != 2 or _count("shot", shot[0]) > _count("shot", shot[1]):
            raise ValueError(f"shot must be a number or a pair (low, high) with low <= high, got {shot!r}.")
        return int(shot[0]), int(shot[1])
    number = _count("shot", shot)
    return (1, 2 * number - 1) if protocol == "unequal" else (number, number)


def _present(present: Any, protocol: str, way: int) -> int:
    """Number of classes among the queries of a task."""
    if protocol != "present":
        if present is not None:
            raise ValueError(f"present={present!r} is for protocol='present'; leave it out with {protocol!r}.")
        return way
    if present is None:
        raise ValueError(
            f"protocol='present' needs present: how many of the way={way} classes occur among the queries."
        )
    if _count("present", present) > way:
        raise ValueError(f"present={present} is above the way={way} classes of a task; lower it, or raise way.")
    return int(present)


def _total_queries(total: Any, protocol: str, usual: int) -> int:
    """Number of queries of a task, where its protocol shares them out among the classes."""
    if total is None:
        return usual
    if protocol not in SHARED:
        names = " and ".join(f"{name!r}" for name in SHARED)
        raise ValueError(f"total_queries={total!r} is for the protocols {names}; use query with {protocol!r}.")
    return _count("total_queries", total)


def _outside(outside: Any, protocol: str, way: int, n_eligible: int) -> int:
    """Number of classes outside a task."""
    if protocol != "open-set":
        if outside is not None:
            raise ValueError(f"outside={outside!r} is for protocol='open-set'; leave it out with {protocol!r}.")
        return 0
    left = n_eligible - way
    if left < 1 or (outside is not None and _count("outside", outside) > left):
        needed = "at least 1 class" if outside is None else f"outside={outside} classes"
        raise ValueError(
            f"protocol='open-set' needs {needed} besides the way={way} of a task, and {left} are left of the "
            f"{n_eligible} classes with enough rows; lower way or outside."
        )
    return min(way, left) if outside is None else int(outside)


def _check_enough_classes(way: int, n_eligible: int, sizes: Ints, needs: str, split: str | None) -> None:
    if way <= n_eligible:
        return
    where = "the set" if split is None else f"split {split!r}"
    present = np.count_nonzero(sizes)
    raise ValueError(
        f"way={way} needs {way} classes with {needs} each; {where} has {n_eligible} such classes of {present}, "
        f"and its largest class has {sizes.max()} rows: lower way, shot or query."
    )


def _span(counts: Ints) -> str:
    if len(counts) == 0:
        return "0"
    low, high = counts.min(), counts.max()
    return f"{low}" if low == high else f"{low} to {high}"
