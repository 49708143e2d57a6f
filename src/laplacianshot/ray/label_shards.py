"""Label vectors in shards on a shared path: labels of rows in, shards of labels out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.estimator import LaplacianShot
from laplacianshot.labeling.errors import LabelingError, listed, one_line
from laplacianshot.labeling.sources import is_store, vector_files
from laplacianshot.labeling.tables import given_labels, id_of, read_table
from laplacianshot.ray.fit import ray_fit
from laplacianshot.ray.job import RUN_FOLDER
from laplacianshot.ray.result import RayFit
from laplacianshot.runtime.progress import Watch

# Endings of a single output file.
_FILES = (".csv", ".jsonl", ".parquet")


def label_shards(
    source: str | PathLike[str],
    labels: str | PathLike[str] | Mapping[int, str],
    output: str | PathLike[str],
    *,
    balanced: bool = False,
    base_mean: ArrayLike | None = None,
    graph: str = "auto",
    address: str | None = None,
    run_folder: str | None = None,
    shards: int | None = None,
    watch: Watch | None = None,
) -> RayFit:
    """Label every row of vectors in shards, on a Ray cluster.

    Parameters
    ----------
    source : path or URL
        A folder of ``.npy`` or ``.parquet`` files, one such file, or a pattern with ``*``, that every node can read.
    labels : path, or mapping of int to str
        A table with the columns ``id`` and ``label``, where ids are row numbers over all shards from 0, predictions of
        ours not counted; or labels by row.
    output : path or URL
        A folder for the labels: one ``.parquet`` per shard with the columns row, label, share (the assignment to the
        class, not calibrated) and origin.
    balanced, base_mean, graph, address, shards, watch
        See :func:`~laplacianshot.label_source`.
    run_folder : str, optional
        Folder of finished stages (default: ``_run`` in the output, which readers of Parquet skip).

    Returns
    -------
    RayFit

    Raises
    ------
    LabelingError
        The input cannot be labeled; the message says why and what to do.
    """
    out = fspath(output)
    is_folder = f"{out}: the output of shards is a folder of Parquet files"
    if out.rstrip("/").lower().endswith(_FILES):
        raise LabelingError(f"{is_folder}; give a name without this ending.")
    if Path(out).is_file():
        raise LabelingError(f"{is_folder}, and this is a file; name another.")
    rows, names = _given(labels)
    classes, codes = np.unique(names, return_inverse=True)
    with one_line():
        return ray_fit(
            fspath(source),
            (rows, codes),
            folder=f"{out.rstrip('/')}/{RUN_FOLDER}" if run_folder is None else run_folder,
            estimator=LaplacianShot(balanced=balanced, base_mean=base_mean, graph=graph),
            shards=shards,
            address=address,
            output=out,
            classes=classes,
            watch=watch,
        )


def is_sharded(source: str) -> bool:
    """Whether this names shards: a URL, a pattern, or a folder of ``.npy`` or ``.parquet`` files."""
    if "*" in source or re.match(r"[a-z0-9]+:/", source):
        return True
    folder = Path(source)
    return folder.is_dir() and not is_store(folder) and bool(vector_files(folder))


def _given(labels: str | PathLike[str] | Mapping[int, str]) -> tuple[Any, list[str]]:
    """Rows that have a label, and their labels."""
    if isinstance(labels, Mapping):
        return np.array(list(labels), dtype=np.int64), list(labels.values())
    path = Path(labels)
    if not path.is_file():
        raise LabelingError(f"{path}: file of labels not found.")
    table = read_table(path)
    ids = [id_of(value) for value in table.values(table.column("id", "column"))]
    found = given_labels(table, table.column("label", "column"))
    odd = [name for name, label in zip(ids, found, strict=True) if label is not None and not name.strip().isdigit()]
    if odd:
        raise LabelingError(f"{path}: ids of shards are row numbers from 0, and {listed(odd)} are not.")
    pairs = [(int(name), label) for name, label in zip(ids, found, strict=True) if label is not None]
    return np.array([row for row, _ in pairs], dtype=np.int64), [label for _, label in pairs]
