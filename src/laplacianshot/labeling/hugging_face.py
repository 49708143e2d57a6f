"""Data sets of Hugging Face as sources: of a hub, saved to disk, or files that the package datasets reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from laplacianshot.datasets.decoding import MAX_PICTURE_BYTES, CorruptPicture, decode
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.sources import PREFIX, Kind, Source, from_table, hash_of, kept_columns
from laplacianshot.labeling.tables import Table, columns_of
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import read_input

if TYPE_CHECKING:
    from PIL.Image import Image

EXTRA = "hf-datasets"

# How the package calls what reads files of these endings.
_READERS = {".parquet": "parquet", ".arrow": "arrow", ".csv": "csv", ".jsonl": "json", ".json": "json"}

# What a column of pictures is called where there are several.
_PICTURE_NAMES = ("image", "img", "picture", "photo")


@dataclass(frozen=True, eq=False, repr=False)
class DatasetPictures(Source):
    """Pictures in a column of a data set, each decoded on request."""

    rows: Any = None  # a Dataset with one column, whose values hold the bytes or the path of a file
    column: str = ""

    kind: ClassVar[Kind] = "pictures"

    def encoded(self, i: int) -> bytes:
        """Return the bytes of picture i as they are stored."""
        value = self.rows[i][self.column] or {}
        if value.get("bytes"):
            return bytes(value["bytes"])
        if not value.get("path"):
            raise CorruptPicture(self.ids[i], "there is no picture")
        try:
            return read_input(Path(value["path"]), MAX_PICTURE_BYTES)
        except OSError as error:
            raise CorruptPicture(self.ids[i], error.strerror or type(error).__name__) from error

    def content_hash(self, i: int) -> bytes:
        """Return the hash of the bytes."""
        # Not that of a file, which encoders decode at the size that they need.
        return hash_of(self.encoded(i), "pictures-dataset")

    def load(self, i: int) -> Image:
        """Return picture i, decoded now and upright."""
        return decode(self.encoded(i), self.ids[i], upright=True)


def open_dataset(given: Any, chosen: Mapping[str, Any]) -> Source:
    """Open a Dataset, or what ``hf-dataset:`` names.

    ``hf-dataset:WHERE`` is a folder that ``save_to_disk`` has written, a folder or file that ``load_dataset`` reads, or
    the name of a data set on the hub, with a comma before the name of its configuration. ``WHERE@SPLIT`` chooses one of
    several splits. Items are the pictures of a column of type Image, else texts or vectors as in a ``.parquet``; labels
    of type ClassLabel have their names.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    image = require("datasets", EXTRA).Image(decode=False)
    name = str(given) if isinstance(given, str | os.PathLike) else f"{PREFIX}{type(given).__name__}"
    data = _load(name) if isinstance(given, str | os.PathLike) else given
    kinds = {column: type(feature).__name__ for column, feature in data.features.items()}
    pictures = [column for column, kind in kinds.items() if kind == "Image"]
    left_out = [column for column, kind in kinds.items() if kind in ("Image", "Audio", "Video", "Pdf", "Nifti")]
    plain = data.remove_columns(left_out)
    columns = (
        dict(zip(plain.column_names, plain.with_format("arrow")[:].columns, strict=True)) if plain.features else {}
    )
    for column, feature in plain.features.items():
        if kinds[column] == "ClassLabel":
            numbers = columns[column].to_pylist()
            columns[column] = [None if code is None or code < 0 else feature.names[code] for code in numbers]
    table = Table(Path(name), columns, len(data))
    if not pictures or chosen.get("text column") is not None:
        return from_table(table, chosen)
    column = next((column for column in pictures if column.lower() in _PICTURE_NAMES), pictures[0])
    if len(data) == 0:
        raise LabelingError(f"{name} has no rows; there is nothing to label.")
    found = columns_of(table, chosen.get("id column"), chosen.get("label column"))
    return DatasetPictures(
        table.path,
        ids=found.ids,
        given=found.given,
        id_column=found.id_column,
        columns=kept_columns(table, found, set()),
        whole_ids=found.whole_ids,
        rows=data.select_columns([column]).with_format(None).cast_column(column, image),
        column=column,
    )


def _load(name: str) -> Any:
    """Load what ``hf-dataset:WHERE`` names, in one split."""
    datasets = require("datasets", EXTRA)
    where, split = name.removeprefix(PREFIX), None
    if not where:
        raise LabelingError(f"{name} lacks what comes after the colon: a folder, a file or a name on the hub.")
    if "@" in where and not Path(where).exists():
        where, _, split = where.rpartition("@")
    path = Path(where)
    try:
        with _quiet(datasets):
            if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
                found = datasets.load_from_disk(str(path))
            elif path.suffix.lower() in _READERS and path.is_file():
                found = datasets.load_dataset(_READERS[path.suffix.lower()], data_files=str(path))
            elif path.is_dir():
                found = datasets.load_dataset(str(path))
            else:
                hub, _, configuration = where.partition(",")
                found = datasets.load_dataset(hub, configuration or None)
    except (OSError, ValueError, KeyError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise LabelingError(f"{name}: this data set cannot be loaded ({error}).") from error
    if not hasattr(found, "keys"):
        if split is not None:
            raise LabelingError(f"{name}: this data set has no splits; leave @{split} out.")
        return found
    if split is None and len(found) == 1:
        return next(iter(found.values()))
    if split not in found:
        wrong = "which of its splits is meant is not clear" if split is None else f"there is no split {split!r}"
        raise LabelingError(f"{name}: {wrong}; write {PREFIX}{where}@SPLIT with one of {listed(found)}.")
    return found[split]


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Let the package draw no bars of its own, and count no downloads."""
    enabled = datasets.is_progress_bar_enabled()
    counted, datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS, False
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = counted
        if enabled:
            datasets.enable_progress_bars()
