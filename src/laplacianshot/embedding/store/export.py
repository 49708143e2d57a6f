"""A store as one file, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from laplacianshot.embedding.store.files import SIDES
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file

if TYPE_CHECKING:
    from laplacianshot.embedding.store.reader import FeatureStore
    from laplacianshot.runtime.types import Labels

FORMATS = (".npz", ".parquet")

# Rows of a row group of Parquet: what a reader has to take in at once.
_GROUP_ROWS = 4096


def check_export(path: Path) -> None:
    """Refuse, before any work, a name of another ending or a format whose package is missing."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: the name must end in {' or '.join(FORMATS)}.")
    if path.suffix.lower() == ".parquet":
        require("pyarrow.parquet", "parquet")


def export(store: FeatureStore, path: Path) -> None:
    """Write the rows of a store to ``path``, ``.npz`` or ``.parquet``, whole or not at all."""
    check_export(path)
    write = _write_npz if path.suffix.lower() == ".npz" else _write_parquet
    put_file(path, lambda file: write(store, file))


def _write_npz(store: FeatureStore, file: IO[bytes]) -> None:
    sides = {name: getattr(store, name) for name in SIDES}
    np.savez(file, features=store.features, **{name: array for name, array in sides.items() if array is not None})


def _write_parquet(store: FeatureStore, file: IO[bytes]) -> None:
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    columns = _columns(store)
    # float32 also for float16, which it holds exactly: not every reader of Parquet knows the half.
    vectors = arrow.list_(arrow.float32(), store.dim)
    fields = [(name, arrow.array(column[:1]).type) for name, column in columns.items()]
    schema = arrow.schema([*fields, ("features", vectors)])
    with parquet.ParquetWriter(file, schema, use_dictionary=list(columns)) as writer:
        for start in range(0, store.n_rows, _GROUP_ROWS):
            group = slice(start, start + _GROUP_ROWS)
            flat = arrow.array(store.features[group].astype(np.float32).reshape(-1))
            arrays: list[Any] = [arrow.array(column[group]) for column in columns.values()]
            arrays.append(arrow.FixedSizeListArray.from_arrays(flat, store.dim))
            writer.write_table(arrow.table(arrays, schema=schema))


def _columns(store: FeatureStore) -> dict[str, Labels]:
    """What is known of each row, by the name of its column."""
    class_name = None
    if store.class_names is not None and store.labels is not None and store.labels.dtype.kind in "iu":
        class_name = store.class_names[store.labels]
    columns = {"name": store.names, "label": store.labels, "class_name": class_name, "split": store.split}
    return {name: column for name, column in columns.items() if column is not None}
