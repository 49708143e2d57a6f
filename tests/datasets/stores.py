"""Feature stores for the tests."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from laplacianshot.datasets.feature_store import FeatureStore, Manifest, Skipped, StoreKey, lock_store, write_files


def write_store(
    path: str | PathLike[str],
    features: Any,
    labels: Any = None,
    split: Any = None,
    class_names: Any = None,
    names: Any = None,
    *,
    key: StoreKey = StoreKey("w0", "Center(crop=84)", "d0"),  # noqa: B008 - it cannot be changed
    dtype: str = "float32",
    skipped: tuple[Skipped, ...] = (),
    overwrite: bool = False,
) -> FeatureStore:
    """Make a complete store, as an extraction does."""
    rows = np.asarray(features)
    given = {"labels": labels, "split": split, "class_names": class_names, "names": names}
    sides = {name: np.asarray(values) for name, values in given.items() if values is not None}
    total = len(rows) + len(skipped)
    with lock_store(path, key, dtype, overwrite=overwrite) as folder:
        write_files(folder, Manifest(key, dtype, 0, total, skipped=skipped), rows, sides)
    return FeatureStore.open(path)
