"""Vectors in files on a shared path, cut into shards: ranges of rows that one worker handles at a time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from laplacianshot.labeling.tables import stacked_rows, vector_column
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import check_input, load_npy
from laplacianshot.runtime.keyed_folder import file_system
from laplacianshot.runtime.types import Floats

Source: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

_ENDINGS = (".npy", ".parquet")
# Minimum number of rows per shard when the number of shards is chosen here.
_MIN_ROWS = 1000


@dataclass(frozen=True)
class Shard:
    """Rows ``start..stop`` of a file; the first of them is row ``first`` of the whole set."""

    path: str  # path or URL of a .npy (m, D) or a .parquet with a column of vectors
    start: int
    stop: int
    first: int
    width: int  # D

    def __len__(self) -> int:
        return self.stop - self.start

    def read(self) -> Floats:
        """The rows (m, D), memory-mapped where they are in a local ``.npy``; whole numbers as float64."""
        rows = (_parquet_rows if self.path.endswith(".parquet") else _npy_rows)(self.path, self.start, self.stop)
        return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def open_shards(source: Source, count: int | None = None, *, cpus: int = 1) -> tuple[Shard, ...]:
    """The shards of a source, in the order of its rows.

    Parameters
    ----------
    source : path, URL or list of them
        A ``.npy`` or ``.parquet`` file, a folder of them (in the order of their names), or a pattern with ``*``.
    count : int, optional
        Number of shards, at least one per file; larger files are cut into ranges of rows (default: one per
        CPU, but not fewer than 1,000 rows per shard).
    cpus : int

    Raises
    ------
    ValueError
        There are no vectors, fewer rows than shards, or files that do not fit together.
    """
    files = [(path, *_shape(path)) for path in _files(source)]
    files = [(path, rows, width) for path, rows, width in files if rows]
    if not files:
        raise InputError(f"{_named(source)} holds no rows.")
    path, _, width = files[0]
    for other, _, its_width in files:
        if its_width != width:
            raise InputError(f"{other} has vectors of {its_width} numbers and {path} of {width}; they must be equal.")
    n = sum(rows for _, rows, _ in files)
    n_shards = max(1, min(cpus, n // _MIN_ROWS)) if count is None else count
    if n_shards < 1:
        raise InputError(f"shards is {n_shards}; give a number from 1 on.")
    if n_shards > n:
        raise InputError(f"shards is {n_shards} and {_named(source)} has {n} rows; give at most one shard per row.")
    shards, first = [], 0
    for path, rows, _ in files:
        # In proportion to its rows.
        parts = max(1, min(rows, round(n_shards * rows / n)))
        bounds = [rows * part // parts for part in range(parts + 1)]
        shards += [Shard(path, a, b, first + a, width) for a, b in pairwise(bounds)]
        first += rows
    return tuple(shards)


def _named(source: Source) -> str:
    return str(source) if isinstance(source, str | PathLike) else f"{len(source)} files"


def _files(source: Source) -> list[str]:
    """Paths or URLs of the files of a source."""
    if not isinstance(source, str | PathLike):
        return [path for one in source for path in _files(one)]
    url = fspath(source)
    fs, path, is_local = file_system(url)
    if "*" in url:
        found = sorted(fs.glob(path))
    elif fs.isdir(path):
        found = sorted(name for name in fs.ls(path, detail=False) if name.endswith(_ENDINGS))
    else:
        found = [path] if fs.exists(path) else []
    if not found:
        raise InputError(f"{url}: no {' or '.join(_ENDINGS)} files found.")
    odd = [name for name in found if not name.endswith(_ENDINGS)]
    if odd:
        raise InputError(f"{odd[0]}: shards are files ending in {' or '.join(_ENDINGS)}.")
    return [str(name) if is_local else str(fs.unstrip_protocol(name)) for name in found]


def _shape(path: str) -> tuple[int, int]:
    """Rows and columns of a file, from its header."""
    fs, inner, is_local = file_system(path)
    if is_local:
        check_input(inner)
    with fs.open(inner, "rb") as file:
        if not path.endswith(".parquet"):
            return _npy_header(path, file)[0]
        parquet = _parquet(path, file)
        rows = parquet.metadata.num_rows
        column = _vector_column(path, parquet.schema_arrow)
        first = next(parquet.iter_batches(batch_size=1, columns=[column]), None) if rows else None
        return rows, 0 if first is None else len(first.column(0)[0].as_py() or ())


def _npy_header(path: str, file: Any) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Shape and dtype of an open ``.npy`` file, which is read up to its data."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(file)
    except ValueError as error:
        raise InputError(f"{path} is not a .npy file, or is damaged ({error}); write it with np.save.") from None
    if len(shape) != 2 or dtype.kind not in "fiu":
        raise InputError(f"{path} has shape {shape} and dtype {dtype}; a shard holds numbers (n, D).")
    if by_columns:
        raise InputError(f"{path} is stored column by column; write it with np.save(path, np.ascontiguousarray(X)).")
    return (int(shape[0]), int(shape[1])), dtype


def _npy_rows(path: str, start: int, stop: int) -> Floats:
    fs, inner, is_local = file_system(path)
    if is_local:
        mapped: Floats = load_npy(Path(inner), mapped=True)[start:stop]
        return mapped
    with fs.open(inner, "rb") as file:
        (_, width), dtype = _npy_header(path, file)
        offset, step = file.tell(), width * dtype.itemsize
        data = fs.cat_file(inner, start=offset + start * step, end=offset + stop * step)
    rows: Floats = np.frombuffer(data, dtype).reshape(-1, width)
    return rows


def _parquet(path: str, file: Any) -> Any:
    """A Parquet file, opened; InputError if it is not one."""
    parquet, pyarrow = require("pyarrow.parquet", "parquet"), require("pyarrow", "parquet")
    try:
        return parquet.ParquetFile(file)
    except (pyarrow.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is not a Parquet file, or is damaged ({reason}).") from None


def _vector_column(path: str, schema: Any) -> str:
    """The name of the column that holds the vectors."""
    name = vector_column(path, dict(zip(schema.names, schema.types, strict=True)))
    if name is None:
        raise InputError(f"{path}: no column holds lists of numbers.")
    return name


def _parquet_rows(path: str, start: int, stop: int) -> Floats:
    fs, inner, is_local = file_system(path)
    parquet = _parquet(path, inner if is_local else io.BytesIO(fs.cat_file(inner)))
    column = _vector_column(path, parquet.schema_arrow)
    # Only the row groups that the range touches.
    sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
    ends = np.cumsum(sizes)
    groups = [group for group, end in enumerate(ends) if end > start and end - sizes[group] < stop]
    table = parquet.read_row_groups(groups, columns=[column])
    before = int(ends[groups[0]] - sizes[groups[0]])
    return stacked_rows(path, column, table.column(0).slice(start - before, stop - start), start)
