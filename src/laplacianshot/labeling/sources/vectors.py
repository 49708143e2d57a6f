"""Rows of numbers: no encoder is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from laplacianshot.datasets.feature_set import _UNREADABLE, checked_features
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sources.base import Kind, Source, checked_ids, hash_of
from laplacianshot.labeling.sources.tables import TableColumns, id_of, label_of
from laplacianshot.runtime.types import Floats

_ARRAYS = "an array 'features' of shape (n, D), and if you like 'labels' and 'ids' of shape (n,) and 'class_names'"


@dataclass(frozen=True, eq=False, repr=False)
class VectorSource(Source):
    """Rows (n, D) of an array, in its order; a ``.npy`` stays on the disk until rows are asked for."""

    array: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    kind: ClassVar[Kind] = "vectors"

    @property
    def vectors(self) -> Floats:
        """Rows (n, D), of the dtype they are stored in."""
        return self.array

    def content_hash(self, i: int) -> bytes:
        """Hash of the row's bytes and its dtype."""
        row = np.ascontiguousarray(self.array[i])
        return hash_of(str(row.dtype).encode() + row.tobytes(), self.kind)

    def load(self, i: int) -> Any:
        """Row i (D,)."""
        return self.array[i]

    def preview(self, i: int) -> str:
        """The id of row i."""
        return self.ids[i]


def open_npy(path: Path) -> VectorSource:
    """The rows of a ``.npy`` file, memory-mapped."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (*_UNREADABLE, OSError) as error:
        raise LabelingError(
            f"{path} is not an array of numbers, or is damaged ({error}); write it with np.save."
        ) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise LabelingError(f"{path} holds several arrays; call it .npz.")
    return _vectors(path, array)


def open_npz(path: Path) -> VectorSource:
    """The array ``features`` of an ``.npz`` file with the ``labels``, ``ids`` and ``class_names`` beside it."""
    arrays = _read_npz(path)
    features = _checked(path, arrays["features"])
    given, ids = None, None
    if "labels" in arrays:
        given = _labels(path, arrays["labels"], arrays.get("class_names"), len(features))
    if "ids" in arrays:
        if arrays["ids"].shape != (len(features),):
            raise LabelingError(f"{path}: 'ids' has shape {arrays['ids'].shape}, and there are {len(features)} rows.")
        ids = checked_ids(path, [id_of(value) for value in arrays["ids"].tolist()], "ids")
    return _vectors(path, features, given, ids)


def vector_files(folder: Path) -> list[Path]:
    """The ``.npy`` and ``.parquet`` files directly in a folder: shards, if they are labeled together."""
    return [file for file in folder.iterdir() if file.suffix.lower() in (".npy", ".parquet") and file.is_file()]


def is_store(folder: Path) -> bool:
    """Whether a folder is a feature store."""
    return (folder / "manifest.json").is_file() and (folder / "vectors.bin").is_file()


def open_store(folder: Path, *, labels_file: bool = False) -> VectorSource:
    """The rows of a feature store, memory-mapped, called by their names if it has any.

    Its labels are given ones, -1 is none; where labels come from a file they are not looked at.
    """
    # Here, as other vectors need no store.
    from laplacianshot.datasets.feature_store import FeatureStore, StoreError

    try:
        store = FeatureStore.open(folder)
        features, labels, names = store.features, store.labels, store.names
        class_names = store.class_names
    except StoreError as error:
        raise LabelingError(str(error)) from error
    given = None
    if labels is not None and not labels_file:
        given = _labels(folder, labels, class_names, len(store))
    ids = None if names is None else [id_of(value) for value in names.tolist()]
    if ids is not None and len(set(ids)) < len(ids):
        ids = None
    return _vectors(folder, features, given, None if ids is None else checked_ids(folder, ids, "names"))


def vectors_of_table(path: Path, array: Any, columns: TableColumns) -> VectorSource:
    """Rows of a table, with its ids and labels."""
    return VectorSource(
        path, columns.ids, columns.given, (), columns.id_name, columns.id_column,
        rows=tuple(range(len(columns.ids))), array=_checked(path, array),
    )  # fmt: skip


def _vectors(
    path: Path, array: Any, given: tuple[str | None, ...] | None = None, ids: tuple[str, ...] | None = None
) -> VectorSource:
    features = _checked(path, array)
    n = len(features)
    return VectorSource(
        path,
        ids=tuple(str(row) for row in range(n)) if ids is None else ids,
        given=(None,) * n if given is None else given,
        id_name="row numbers from 0" if ids is None else "values of the array 'ids' or 'names'",
        id_column=None if ids is None else "ids",
        rows=tuple(range(n)),
        array=features,
    )


def _checked(path: Path, array: Any) -> Floats:
    try:
        return checked_features(array)
    except ValueError as error:
        raise LabelingError(f"{path}: {error}") from error


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise LabelingError(f"{path} holds a single array; call it .npy, or write {_ARRAYS} with np.savez.")
        with archive:
            if "features" not in archive.files:
                there = ", ".join(archive.files) or "nothing"
                raise LabelingError(f"{path} has no array 'features', it holds {there}; write {_ARRAYS} with np.savez.")
            wanted = ("features", "labels", "ids", "class_names")
            return {name: archive[name] for name in wanted if name in archive.files}
    except LabelingError:
        raise
    except (*_UNREADABLE, OSError) as error:
        raise LabelingError(
            f"{path} is damaged, no .npz file, or holds Python objects ({error}); write {_ARRAYS} with np.savez."
        ) from error


def _labels(path: Path, labels: Any, class_names: Any, n_rows: int) -> tuple[str | None, ...]:
    """Labels by name; numbers are looked up in ``class_names`` if it is there, -1 and ``""`` are none."""
    if labels.shape != (n_rows,):
        raise LabelingError(f"{path}: 'labels' has shape {labels.shape}, and there are {n_rows} rows.")
    if labels.dtype.kind not in "iubUf":
        raise LabelingError(f"{path}: 'labels' has dtype {labels.dtype}; write strings or whole numbers.")
    if labels.dtype.kind == "f" and not (np.isnan(labels) | (labels == np.floor(labels))).all():
        raise LabelingError(f"{path}: 'labels' holds fractions; write strings or whole numbers.")
    if class_names is None or labels.dtype.kind not in "iu":
        return tuple(label_of(value) for value in labels.tolist())
    wrong = np.flatnonzero((labels < -1) | (labels >= len(class_names)))
    if wrong.size:
        raise LabelingError(
            f"{path}: labels[{wrong[0]}] is {labels[wrong[0]]}, and there are {len(class_names)} class_names."
        )
    return tuple(None if value == -1 else label_of(str(class_names[value])) for value in labels.tolist())
