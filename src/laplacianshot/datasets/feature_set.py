"""Features with a label for every row, split into parts: what tasks are drawn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.datasets.feature_store import FeatureStore
from laplacianshot.inference.transforms import base_mean as mean_of_rows
from laplacianshot.runtime.arrays import check_size
from laplacianshot.runtime.files import open_input
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints, Labels

# Rows looked at together, so that a memory-mapped set is never held in memory whole.
_BLOCK_ROWS = 4096


def checked_features(features: ArrayLike, dtype: Any = None) -> Floats:
    """``features`` as an array of finite numbers (n, D), copied only where it is none yet.

    Their squares fit ``dtype``, by default that in which these rows are worked on.
    """
    if hasattr(features, "tocsr"):
        raise ValueError("features are a sparse matrix; make them dense with features.toarray().")
    if isinstance(features, np.ma.MaskedArray):
        raise ValueError("features are a masked array; fill in or leave out the masked rows and pass a plain array.")
    try:
        rows: Any = np.asanyarray(features)
    except ValueError as error:
        raise ValueError(f"features must be an array of shape (n, D): {error}") from error
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(
            f"features must have shape (n, D) with at least one row and one column, got shape {rows.shape}."
        )
    if rows.dtype.kind not in "iuf" or rows.dtype.itemsize > 8:
        raise ValueError(
            f"features have dtype {rows.dtype}; convert them to float16, float32, float64 or integers with astype."
        )
    if not rows.dtype.isnative:
        rows = rows.astype(rows.dtype.newbyteorder("="))
    for start, stop in row_blocks(len(rows), _BLOCK_ROWS):
        if rows.dtype.kind == "f":
            finite = np.isfinite(rows[start:stop])
            if not finite.all():
                row, column = np.argwhere(~finite)[0]
                raise ValueError(
                    f"features[{start + row}, {column}] is {rows[start + row, column]}; "
                    "every feature must be a finite number: repair that row or leave it out."
                )
        check_size(rows[start:stop], "features", dtype)
    return rows  # type: ignore[no-any-return]


def _checked_column(values: Any, name: str, n_rows: int) -> Labels:
    """One value for each row, as an array (n,) of one dtype."""
    column: Labels = _one_dtype(values, name)
    if column.shape != (n_rows,):
        raise ValueError(f"{name} must have shape ({n_rows},), one for each row of features, got shape {column.shape}.")
    return column


def _checked_labels(labels: Any, n_rows: int) -> Labels:
    """``labels`` as an array of integers, strings or bools (n,)."""
    values = _checked_column(labels, "labels", n_rows)
    if values.dtype.kind not in "iubU":
        raise ValueError(
            f"labels have dtype {values.dtype}; use integers, strings or bools, one kind for all rows and none missing."
        )
    if values.dtype.kind == "U" and (values == "").any():
        raise ValueError(
            f"labels[{int(np.argmax(values == ''))}] is an empty string; give every row a label or leave the row out."
        )
    return values


def _checked_split(split: Any, n_rows: int) -> Labels | None:
    """``split`` as an array of strings (n,), or None."""
    if split is None:
        return None
    values = _checked_column(split, "split", n_rows)
    if values.dtype.kind != "U":
        raise ValueError(
            f"split has dtype {values.dtype}; use a string for each row, such as 'base', 'val' or 'novel'."
        )
    return values


def check_split_name(split: str, splits: Collection[str], argument: str = "split") -> None:
    """Raise ValueError, in the name of the argument, for a split that is not among those of a set."""
    if not splits:
        raise ValueError(
            f"{argument}={split!r}: the set has no splits; leave {argument} out, or call with_split first."
        )
    if split not in splits:
        raise ValueError(f"{argument}={split!r} is not in the set; its splits are {', '.join(splits)}.")


def _names_of(classes: Labels, class_names: Any) -> tuple[str, ...]:
    """Name of each of the classes (C,) that occur."""
    if class_names is None:
        return tuple(str(label) for label in classes.tolist())
    names = _one_dtype(class_names, "class_names")
    if names.ndim != 1 or names.dtype.kind != "U":
        raise ValueError(
            f"class_names must be a sequence of strings, got an array of {names.dtype} of shape {names.shape}."
        )
    if classes.dtype.kind == "U":
        unknown = classes[~np.isin(classes, names)]
        if unknown.size:
            raise ValueError(f"labels hold {str(unknown[0])!r}, which is not among the {len(names)} class_names.")
        return tuple(classes.tolist())
    numbers = classes.astype(np.int64) if classes.dtype.kind == "b" else classes
    if int(numbers[0]) < 0 or int(numbers[-1]) >= len(names):
        raise ValueError(
            f"labels go from {numbers[0]} to {numbers[-1]}, but the {len(names)} class_names are for labels 0 to "
            f"{len(names) - 1}; give a name for each label or leave class_names out."
        )
    return tuple(names[numbers].tolist())


def _one_dtype(values: Any, name: str) -> Any:
    """``values`` as an array whose dtype tells their kind; what is mixed or has gaps stays an array of objects.

    Asking numpy alone would turn ``["a", 1]`` and ``["a", None]`` into strings.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise ValueError(f"{name} are masked at some rows; fill in every value or leave those rows out.")
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OT":
        return np.asarray(values)
    objects = np.asarray(values, dtype=object)
    kinds = {str if isinstance(v, str) else bool if isinstance(v, bool | np.bool_) else type(v) for v in objects.flat}
    if kinds == {str} or kinds == {bool}:
        return objects.astype(kinds.pop())
    if kinds and all(issubclass(kind, Integral) and kind is not bool for kind in kinds):
        return np.array(objects.tolist())
    return objects


def _read_store(path: Path) -> dict[str, Any]:
    store = FeatureStore.open(path)
    if store.labels is None:
        raise ValueError(f"{path} holds no labels; make it again with a label for each row.")
    return {name: getattr(store, name) for name in ("features", "labels", "split", "class_names")}


def read_npz(path: Path, required: Sequence[str], optional: Sequence[str], expected: str) -> dict[str, Any]:
    """Arrays of an ``.npz`` file by name. Nothing is unpickled; ``expected`` says in messages what it should hold."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: file not found; give an .npz file with {expected}.")
    with ExitStack() as stack:
        file = stack.enter_context(open_input(path))
        try:
            archive = np.load(file, allow_pickle=False)
        except OSError:
            raise
        except Exception as error:  # a damaged file may fail in any way
            raise ValueError(f"{path} is not an .npz file, or is truncated; write it with np.savez.") from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} holds a single array; give an .npz file with {expected}.")
        stack.enter_context(archive)
        missing = [name for name in required if name not in archive.files]
        if missing:
            there = ", ".join(archive.files) or "nothing"
            raise ValueError(f"{path} has no array {missing[0]!r}; it holds {there}. Expected: {expected}.")
        return {name: _read_array(archive, name, path) for name in (*required, *optional) if name in archive.files}


def _read_array(archive: Any, name: str, path: Path) -> Any:
    try:
        array = archive[name]
        if min(array.shape, default=0) < 0:
            raise ValueError(f"its header says shape {array.shape}")
        return array
    except Exception as error:  # a damaged header may fail in any way
        if "allow_pickle" in str(error):
            raise ValueError(
                f"{path}: {name!r} is an array of Python objects, which is not read as it may run code; "
                "save numbers or strings of a fixed dtype."
            ) from error
        raise ValueError(f"{path}: {name!r} is damaged ({error}); write the file again.") from error


class ClassRows(NamedTuple):
    """Rows grouped by class: those of class c are ``order[starts[c]:starts[c + 1]]``, in file order."""

    order: Ints  # (n,)
    starts: Ints  # (C + 1,)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class FeatureSet:
    """Features with a class for every row, and optionally a split.

    The input is checked once, here. Features are kept as they are stored: a float16 or memory-mapped array is not
    copied. A class may occur in several splits.

    Parameters
    ----------
    features : array of shape (n, D)
        Finite numbers: float16, float32, float64 or integers.
    labels : array of shape (n,)
        Integers (of any value: -1 is a class like any other), strings or bools. Every row has one.
    split : array of strings of shape (n,), optional
        The part that a row belongs to, such as ``base``, ``val`` or ``novel``.
    class_names : sequence of str of length K, optional
        ``class_names[label]`` is the name of an integer label 0 to K - 1; string labels must be among the names. A
        class without a given name is called ``str(label)``.

    Attributes
    ----------
    features : array of shape (n, D)
    codes : int array of shape (n,)
        Class of each row, 0 to C - 1.
    classes : array of shape (C,)
        The labels that occur, sorted: ``labels == classes[codes]``.
    class_names : tuple of str of length C
        Name of each class that occurs.
    split : array of strings of shape (n,), or None

    Examples
    --------
    >>> FeatureSet([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], ["cat", "dog", "cat"], split=["base", "novel", "base"])
    FeatureSet(3 rows x 2, 2 classes, splits base 2, novel 1)
    """

    features: Floats
    codes: Ints
    classes: Labels
    class_names: tuple[str, ...]
    split: Labels | None

    def __init__(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        split: ArrayLike | None = None,
        class_names: Sequence[str] | Labels | None = None,
    ) -> None:
        # Tasks are solved from inner products in float32.
        rows = checked_features(features, np.float32)
        classes, codes = np.unique(_checked_labels(labels, len(rows)), return_inverse=True)
        names = _names_of(classes, class_names)
        self._fill(rows, codes.astype(np.int64), classes, names, _checked_split(split, len(rows)))

    def _fill(self, *values: Any) -> Self:
        """Set the fields, which are checked, in their order."""
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)
        self.codes.flags.writeable = False
        return self

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a feature file: ``.npz`` with ``features``, ``labels`` and optionally ``split`` and ``class_names``.

        Other arrays of the file are left alone. Nothing is unpickled. A folder is read as a feature store, whose
        features stay on the disk, memory-mapped.
        """
        file = Path(path)
        names = ("features", "labels"), ("split", "class_names")
        arrays = _read_store(file) if file.is_dir() else read_npz(file, *names, "'features' and 'labels'")
        try:
            return cls(arrays["features"], arrays["labels"], arrays.get("split"), arrays.get("class_names"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.codes)

    @property
    def n_classes(self) -> int:
        """Number of classes that occur, C."""
        return len(self.classes)

    @property
    def dim(self) -> int:
        """Features per row, D."""
        return int(self.features.shape[1])

    @property
    def labels(self) -> Labels:
        """The labels as they were given, (n,)."""
        return self.classes[self.codes]

    @cached_property
    def splits(self) -> dict[str, int]:
        """Number of rows of each split, in the order in which the splits first occur; empty without a split."""
        return {} if self.split is None else dict(Counter(self.split.tolist()))

    @cached_property
    def class_rows(self) -> ClassRows:
        """Row numbers grouped by class, each class in file order."""
        order = np.argsort(self.codes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.codes, minlength=self.n_classes))])
        order.flags.writeable = starts.flags.writeable = False
        return ClassRows(order, starts)

    def rows(self, split: str | None = None) -> Ints:
        """Row numbers of a split, ascending; all of them for None."""
        if split is None:
            return np.arange(self.n_rows)
        check_split_name(split, self.splits)
        return np.flatnonzero(self.split == split)

    def select(self, split: str) -> Self:
        """The rows of one split, with the classes that occur there. Adjacent rows are not copied."""
        rows = self.rows(split)
        kept, codes = np.unique(self.codes[rows], return_inverse=True)
        names = tuple(self.class_names[c] for c in kept)
        part = None if self.split is None else self.split[rows]
        made = object.__new__(type(self))
        return made._fill(self._features_at(rows), codes.astype(np.int64), self.classes[kept], names, part)

    def with_split(self, split: ArrayLike) -> Self:
        """The same rows with another split (n,). Features are shared."""
        checked = _checked_split(split, self.n_rows)
        return object.__new__(type(self))._fill(self.features, self.codes, self.classes, self.class_names, checked)

    def split_by_class(self, parts: Mapping[str, float], *, seed: int = 0) -> Self:
        """The same rows, split so that all rows of a class go to one part.

        Parameters
        ----------
        parts : mapping of str to float
            A fraction of the classes for each part, summing to 1. Numbers of classes are rounded by largest remainder.
        seed : int
            Of the order in which classes are dealt out.

        Examples
        --------
        >>> intents = FeatureSet([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "c", "d"])
        >>> intents.split_by_class({"base": 0.5, "novel": 0.5}, seed=0).splits
        {'base': 2, 'novel': 2}
        """
        names, shares = np.array(list(parts)), np.array(list(parts.values()), dtype=np.float64)
        if not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
            raise ValueError(f"parts must be fractions above 0 that sum to 1, got {dict(parts)}.")
        if not isinstance(seed, Integral) or seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {seed!r}.")
        exact = shares * self.n_classes
        counts = np.floor(exact + 1e-9).astype(np.int64)
        short = self.n_classes - int(counts.sum())
        counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
        if not counts.all():
            name = str(names[np.argmin(counts)])
            raise ValueError(f"parts: {name!r} would get no class of {self.n_classes}; give it a larger fraction.")
        part_of_class = np.empty(self.n_classes, dtype=names.dtype)
        part_of_class[np.random.default_rng(int(seed)).permutation(self.n_classes)] = np.repeat(names, counts)
        return self.with_split(part_of_class[self.codes])

    def base_mean(self, split: str = "base", transform: str = "cl2") -> Floats | None:
        """The center that a split gives a transform, (D,) float64; None if there is no such split.

        It is the mean of the rows for ``cl2``, that of their unit roots for ``power``.
        """
        if split not in self.splits:
            return None
        rows = self.rows(split)
        if _adjacent(rows):
            return mean_of_rows(self._features_at(rows), transform)
        total = np.zeros(self.dim)
        for start, stop in row_blocks(len(rows), _BLOCK_ROWS):
            total += (stop - start) * mean_of_rows(self.features[rows[start:stop]], transform)
        return total / len(rows)

    def _features_at(self, rows: Ints) -> Floats:
        return self.features[rows[0] : rows[-1] + 1] if _adjacent(rows) else self.features[rows]

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} {count}" for name, count in self.splits.items())
        return (
            f"FeatureSet({self.n_rows} rows x {self.dim}, {self.n_classes} classes, "
            f"{f'splits {splits}' if splits else 'no splits'})"
        )


def _adjacent(rows: Ints) -> bool:
    return bool(rows[-1] - rows[0] + 1 == len(rows))
