"""What a feature set is made of, checked: arrays from a caller or from a file."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from numbers import Integral
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.datasets.feature_store import FeatureStore
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Labels

# Rows looked at together, so that a memory-mapped set is never held in memory whole.
_BLOCK_ROWS = 4096

# What numpy and zipfile raise on a file that is no archive, or a damaged one.
_UNREADABLE = (BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)


def checked_features(features: ArrayLike) -> Floats:
    """``features`` as an array of finite numbers (n, D), copied only where it is none yet."""
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
    if rows.dtype.kind == "f":
        for start, stop in row_blocks(len(rows), _BLOCK_ROWS):
            finite = np.isfinite(rows[start:stop])
            if not finite.all():
                row, column = np.argwhere(~finite)[0]
                raise ValueError(
                    f"features[{start + row}, {column}] is {rows[start + row, column]}; "
                    "every feature must be a finite number: repair that row or leave it out."
                )
    return rows  # type: ignore[no-any-return]


def checked_labels(labels: Any, n_rows: int) -> Labels:
    """``labels`` as an array of integers, strings or bools (n,)."""
    values: Labels = _one_dtype(labels, "labels")
    if values.shape != (n_rows,):
        raise ValueError(f"labels must have shape ({n_rows},), one for each row of features, got shape {values.shape}.")
    if values.dtype.kind not in "iubU":
        raise ValueError(
            f"labels have dtype {values.dtype}; use integers, strings or bools, one kind for all rows and none missing."
        )
    if values.dtype.kind == "U" and (values == "").any():
        raise ValueError(
            f"labels[{int(np.argmax(values == ''))}] is an empty string; give every row a label or leave the row out."
        )
    return values


def checked_split(split: Any, n_rows: int) -> Labels | None:
    """``split`` as an array of strings (n,), or None."""
    if split is None:
        return None
    values: Labels = _one_dtype(split, "split")
    if values.shape != (n_rows,):
        raise ValueError(f"split must have shape ({n_rows},), one for each row of features, got shape {values.shape}.")
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


def names_of(classes: Labels, class_names: Any) -> tuple[str, ...]:
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


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of a feature file or store that a :class:`FeatureSet` is made of."""
    return _read_store(path) if path.is_dir() else _read_npz(path)


def _read_store(path: Path) -> dict[str, Any]:
    store = FeatureStore.open(path)
    if store.labels is None:
        raise ValueError(f"{path} holds no labels; make it again with a label for each row.")
    return {name: getattr(store, name) for name in ("features", "labels", "split", "class_names")}


def _read_npz(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; give an .npz file with 'features' and 'labels'.")
    try:
        archive = np.load(path, allow_pickle=False)
    except _UNREADABLE as error:
        raise ValueError(f"{path} is not an .npz file, or is truncated; write it with np.savez.") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(f"{path} holds a single array; give an .npz file with 'features' and 'labels'.")
    arrays: dict[str, Any] = {}
    with archive:
        missing = [name for name in ("features", "labels") if name not in archive.files]
        if missing:
            there = ", ".join(archive.files) or "nothing"
            raise ValueError(f"{path} has no array {missing[0]!r}; it holds {there}.")
        for name in ("features", "labels", "split", "class_names"):
            if name in archive.files:
                arrays[name] = _read_array(archive, name, path)
    return arrays


def _read_array(archive: Any, name: str, path: Path) -> Any:
    try:
        return archive[name]
    except _UNREADABLE as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"{path}: {name!r} is an array of Python objects, which is not read as it may run code; "
                "save numbers or strings of a fixed dtype."
            ) from error
        raise ValueError(f"{path}: {name!r} is damaged ({error}); write the file again.") from error
