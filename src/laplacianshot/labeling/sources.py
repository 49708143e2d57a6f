"""What can be labeled: pictures in folders, texts in tables, vectors in arrays."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from laplacianshot.datasets.decoding import MAX_PICTURE_BYTES, CorruptPicture, decode
from laplacianshot.datasets.feature_set import checked_features, read_npz
from laplacianshot.datasets.feature_store import FeatureStore
from laplacianshot.labeling.errors import LabelingError, listed, one_line
from laplacianshot.labeling.result import Skipped
from laplacianshot.labeling.tables import (
    ENDINGS,
    Table,
    TableColumns,
    checked_ids,
    columns_of,
    encodable,
    holds_numbers,
    id_of,
    is_frame,
    label_of,
    read_table,
    stacked_rows,
    table_of_frame,
    vector_column,
)
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import load_npy, read_input
from laplacianshot.runtime.types import Floats

if TYPE_CHECKING:
    from PIL.Image import Image

Kind: TypeAlias = Literal["pictures", "texts", "vectors"]

_EXPECTED = (
    "give a folder of pictures, a .csv, .tsv, .jsonl or .parquet of texts, a .npy, .npz or .parquet of vectors, or "
    "hf-dataset:NAME"
)
_ARRAYS = "an array 'features' of shape (n, D), and optionally 'labels' and 'ids' of shape (n,) and 'class_names'"

# Before the place of a data set of Hugging Face.
PREFIX = "hf-dataset:"

# A URL, whose slashes a path may have lost, or a pattern.
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]+:/|[*]", re.IGNORECASE)

# Usual names of columns.
_TEXT_NAMES = ("text", "texts", "sentence", "sentences")

_PICTURES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}

# A folder of this name holds pictures without a label.
UNLABELED_FOLDERS = {"unlabeled", "unlabelled", "_unlabeled", "_unlabelled"}
# Folders that a message names.
_NAMED_FOLDERS = 6
# Folders of a camera or an archive: a year, or a year with month and day.
_DATE = re.compile(r"(19|20)\d\d([-_. ]?\d\d){0,2}")


@dataclass(frozen=True, eq=False, repr=False)
class Source(ABC):
    """n items to be labeled. Made by :func:`open_source`."""

    path: Path
    ids: tuple[str, ...]  # all different: path below the folder with /, row number from 0, or value of the id column
    given: tuple[str | None, ...]  # labels that the source itself holds
    skipped: tuple[Skipped, ...] = ()  # items that cannot be read, as far as this is known; not among the n
    id_column: str | None = None  # the column or array that the ids come from
    vectors: Floats | None = None  # (n, D), if the items are vectors already
    columns: Mapping[str, Any] = field(default_factory=dict)  # those of a table that an output keeps, of n values each
    whole_ids: bool = False  # whether the ids are whole numbers where they come from

    kind: ClassVar[Kind]

    def __post_init__(self) -> None:
        if not self.ids:
            why = f"; the first of {len(self.skipped)}: {self.skipped[0].reason}" if self.skipped else ""
            raise LabelingError(f"{self.path}: there is nothing to label{why}.")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def id_name(self) -> str:
        """What the ids are, in words."""
        if self.id_column is not None:
            return f"values of {self.id_column!r}"
        return "paths below the folder" if self.kind == "pictures" else "row numbers from 0"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {len(self)} {self.kind})"

    @abstractmethod
    def content_hash(self, i: int) -> bytes:
        """Return 16 bytes that depend on the content of item i alone; CorruptPicture if it cannot be read."""

    @abstractmethod
    def load(self, i: int) -> Image | str | Any:
        """Return item i: a picture, RGB or L; a text; or a row (D,). CorruptPicture if it cannot be read."""

    def file(self, i: int) -> Path | None:
        """Return the file of item i, if it has its own."""
        return None

    def preview(self, i: int) -> str | Path:
        """Return what a page shows of item i: the file of a picture, a text, or the id of a row."""
        return str(self.load(i)) if self.kind == "texts" else self.file(i) or self.ids[i]


def hash_of(content: bytes, kind: str) -> bytes:
    """Return the blake2b hash of a content of that kind, 16 bytes."""
    return hashlib.blake2b(content, digest_size=16, person=kind.encode()).digest()


@dataclass(frozen=True, eq=False, repr=False)
class PictureSource(Source):
    """Pictures below a folder, in the order of their paths; each is read on request."""

    kind: ClassVar[Kind] = "pictures"

    def file(self, i: int) -> Path:
        """Return the file of picture i."""
        return self.path / self.ids[i]

    def content_hash(self, i: int) -> bytes:
        """Return the hash of the file's bytes."""
        try:
            return hash_of(read_input(self.file(i), MAX_PICTURE_BYTES), self.kind)
        except OSError as error:
            raise CorruptPicture(self.ids[i], error.strerror or type(error).__name__) from error

    def load(self, i: int) -> Image:
        """Return picture i, decoded now."""
        return decode(self.file(i), self.ids[i])


@dataclass(frozen=True, eq=False, repr=False)
class TextSource(Source):
    """Texts of a table, in its order. Rows whose text is blank are skipped."""

    texts: tuple[str, ...] = ()

    kind: ClassVar[Kind] = "texts"

    def content_hash(self, i: int) -> bytes:
        """Return the hash of the text."""
        # JSON can hold half of a pair of characters, which is content like any other.
        return hash_of(self.texts[i].encode("utf-8", "surrogatepass"), self.kind)

    def load(self, i: int) -> str:
        """Return text i."""
        return self.texts[i]


@dataclass(frozen=True, eq=False, repr=False)
class VectorSource(Source):
    """Rows (n, D) of an array, in its order and dtype; a ``.npy`` stays on the disk until rows are requested."""

    vectors: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    kind: ClassVar[Kind] = "vectors"

    def content_hash(self, i: int) -> bytes:
        """Return the hash of the row's bytes and its dtype."""
        row = np.ascontiguousarray(self.vectors[i])
        return hash_of(str(row.dtype).encode() + row.tobytes(), self.kind)

    def load(self, i: int) -> Any:
        """Return row i (D,)."""
        return self.vectors[i]


def open_source(
    path: Any,
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    classes_from_folders: bool | None = None,
    labels_file: bool = False,
) -> Source:
    """Open what is to be labeled. Pictures are found, not read; tables are read.

    ``path`` is a folder of pictures; a ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` of texts; a ``.npy``, ``.npz`` or
    ``.parquet`` of vectors, or a feature store (the folder that ``laplacianshot extract`` makes). It may also be in
    memory: a DataFrame of pandas or polars, a Table of pyarrow, a Dataset of Hugging Face, an array of vectors (n, D),
    or texts; ``hf-dataset:WHERE`` is such a Dataset (:func:`laplacianshot.labeling.hugging_face.open_dataset`). By
    default

    - texts are in a column called ``text`` or ``sentence``, or the only one besides ids and labels (in Parquet and in
      memory: the only one of strings);
    - ids are in a column ``id`` if its values are complete and all different, or are the index of a DataFrame of pandas
      if they are; else rows are numbered from 0;
    - labels are in a column ``label``, blank for unlabeled rows;
    - folders of pictures are not classes; see :func:`open_pictures` for the one exception;
    - the labels of a feature store count unless there is also a ``labels_file``.

    Raises LabelingError if there is nothing to label, or it cannot be read; the message says what to do.
    """
    chosen = {"text column": text_column, "id column": id_column, "label column": label_column}
    if is_dataset(path) or (isinstance(path, str | PathLike) and str(path).startswith(PREFIX)):
        # Imported here, as it needs what is in this module.
        from laplacianshot.labeling.hugging_face import open_dataset

        return open_dataset(path, chosen)
    if is_frame(path):
        return from_table(table_of_frame(path), chosen)
    if not isinstance(path, str | PathLike):
        _refuse_columns(chosen, "arrays")
        return _in_memory(path)
    where = Path(path)
    _check_exists(where)
    ending = where.suffix.lower()
    if where.is_dir() or ending in (".npy", ".npz"):
        what = "arrays" if not where.is_dir() else "feature stores" if is_store(where) else "pictures"
        _refuse_columns(chosen, what)
        if what == "pictures":
            return open_pictures(where, classes_from_folders=classes_from_folders)
        if what == "feature stores":
            return _open_store(where, labels_file=labels_file)
        return _open_npy(where) if ending == ".npy" else _open_npz(where)
    if ending not in ENDINGS:
        raise LabelingError(f"{where}: files ending in {ending!r} are not read; {_EXPECTED}.")
    return from_table(read_table(where), chosen)


def is_dataset(given: Any) -> bool:
    """Whether a value is a Dataset of the package datasets."""
    return hasattr(given, "features") and hasattr(given, "column_names") and hasattr(given, "with_format")


def from_table(table: Table, chosen: Mapping[str, Any]) -> Source:
    """Open the texts or vectors of a table."""
    if table.n_rows == 0:
        raise LabelingError(f"{table.path} has no rows; there is nothing to label.")
    # The columns of a DataFrame may be called by numbers.
    text, ids, labels = (None if name is None else str(name) for name in chosen.values())
    columns = columns_of(table, ids, labels)
    if text is not None:
        return _texts(table, columns, table.column(text, "text column"))
    free = [name for name in table.columns if name not in columns.used]
    if any(not isinstance(table.columns[name], list) for name in free):
        return _from_arrow(table, columns)
    return _texts(table, columns, _text_column(table, free))


def _refuse_columns(chosen: Mapping[str, Any], what: str) -> None:
    for name, value in chosen.items():
        if value is not None:
            raise LabelingError(f"{name} {value!r}: {what} have no columns; leave it out.")


def _in_memory(given: Any) -> Source:
    """Open vectors (n, D), or texts, that a program holds."""
    values = list(given) if isinstance(given, Sequence) or getattr(given, "ndim", 0) == 1 else None
    if values and all(isinstance(value, str) for value in values):
        table = Table(Path("texts"), {"text": [str(value) for value in values]}, len(values))
        return _texts(table, columns_of(table, None, None), "text")
    path = Path("array")
    try:
        array = given if hasattr(given, "ndim") else np.asarray(given)
    except ValueError as error:
        raise LabelingError(f"source: {error}") from error
    if getattr(array, "ndim", 0) != 2:
        raise LabelingError(
            f"source: a {type(given).__name__} of shape {getattr(array, 'shape', ())} is neither vectors of shape "
            f"(n, D) nor a list of texts nor a DataFrame; or {_EXPECTED}."
        )
    return _vectors(path, array)


def _check_exists(path: Path) -> None:
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero
        raise LabelingError(f"{str(path)!r}: {error}; {_EXPECTED}.") from error
    if exists:
        return
    if _ELSEWHERE.search(str(path)):
        raise LabelingError(f"{path}: URLs and patterns with * are read as shards of vectors, with --engine ray.")
    raise LabelingError(f"{path}: file or folder not found; {_EXPECTED}.")


@dataclass(frozen=True)
class PictureFolders:
    """The top folders of a folder of pictures, and whether they may be classes."""

    path: Path
    counts: dict[str, int]  # pictures below each top folder; none of those called unlabeled
    n_loose: int  # pictures directly in the folder
    n_unlabeled: int  # pictures below a folder called unlabeled

    @classmethod
    def of(cls, path: Path, names: Iterable[str] | None = None) -> PictureFolders:
        """Count the pictures below a folder, whose paths may be known already."""
        found = _walk(path) if names is None else names
        tops = Counter(name.partition("/")[0] if "/" in name else "" for name in found)
        loose = tops.pop("", 0)
        unlabeled = sum(tops.pop(top) for top in list(tops) if top.lower() in UNLABELED_FOLDERS)
        return cls(path, dict(tops), loose, unlabeled)

    @property
    def may_be_classes(self) -> bool:
        """Whether every picture lies in one of several folders, and these are not all named by dates."""
        dates = [top for top in self.counts if _DATE.fullmatch(top)]
        enough = len(self.counts) >= (1 if self.n_unlabeled else 2)
        return enough and not self.n_loose and len(dates) < len(self.counts)

    @property
    def look_like_classes(self) -> bool:
        """Whether also some pictures lie in a folder called unlabeled, and no folder is named by a date."""
        return self.may_be_classes and self.n_unlabeled > 0 and not any(map(_DATE.fullmatch, self.counts))

    def __str__(self) -> str:
        shown = sorted(self.counts.items(), key=lambda one: -one[1])[:_NAMED_FOLDERS]
        more = f" and {len(self.counts) - len(shown):,} more" if len(self.counts) > len(shown) else ""
        # A folder's name may hold anything, also a line feed.
        parts = ", ".join(f"{name if name.isprintable() else ascii(name)} ({n:,})" for name, n in shown)
        return f"{parts}{more}"


def open_pictures(path: Path, *, classes_from_folders: bool | None = None) -> PictureSource:
    """Find the pictures below a folder.

    Hidden files and folders, and files that do not end as pictures do, are left out. A linked folder is read once,
    and only if it is not below the folder anyway.

    Pictures directly in the folder, or below one called ``unlabeled`` or ``unlabelled`` (also with ``_`` before it, in
    any case), have no label. With ``classes_from_folders`` every other top folder is a class, and all pictures below it
    have that label; if it is False, folders are only parts of paths.

    If it is None, folders are parts of paths too, with one exception, of which a UserWarning tells: every picture lies
    in a folder, one of these is called ``unlabeled`` and none is named by a date (``2024``, ``2024-11-16``).
    """
    names, skipped = [], []
    for name in sorted(_walk(path)):
        if encodable(name):
            names.append(name)
        else:
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            skipped.append(Skipped(shown, "its name is not UTF-8; rename it"))
    if not names and not skipped:
        raise LabelingError(f"{path}: {_why_no_pictures(path)}")
    if classes_from_folders is None:
        folders = PictureFolders.of(path, names)
        classes_from_folders = folders.look_like_classes
        if classes_from_folders:
            warnings.warn(
                f"{path}: FOLDERS ARE READ AS CLASSES: {folders}. If they are not classes, pass "
                "classes_from_folders=False; if they are, pass True.",
                UserWarning,
                stacklevel=3,
            )
    tops = [name.partition("/")[0] if "/" in name else None for name in names]
    given = [
        None if not classes_from_folders or top is None or top.lower() in UNLABELED_FOLDERS else label_of(top)
        for top in tops
    ]
    return PictureSource(path, tuple(names), tuple(given), tuple(skipped))


def open_picture_files(paths: Sequence[Path]) -> PictureSource:
    """Open files of pictures by their paths, which are their ids."""
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise LabelingError(f"{listed(missing)}: not a file; give a folder of pictures, or files of them.")
    names = tuple(dict.fromkeys(str(path) for path in paths))
    return PictureSource(Path(), names, (None,) * len(names))


def _why_no_pictures(path: Path) -> str:
    if vectors := len(vector_files(path)):
        files, one = ("file", "it") if vectors == 1 else ("files", "one of them")
        return (
            f"there are no pictures and {vectors:,} {files} of vectors; name {one}, or label all with "
            "laplacianshot label --engine ray."
        )
    endings = ", ".join(sorted(ending[1:] for ending in _PICTURES))
    return f"there are no pictures in this folder; pictures end in {endings}."


def _walk(root: Path) -> Iterator[str]:
    """Yield the paths of the pictures below ``root``, with ``/``; links last, so that real folders keep their names."""
    seen: set[str] = set()
    folders, linked = [""], list[str]()
    while folders or linked:
        folder = folders.pop() if folders else linked.pop(0)
        full = os.path.join(root, folder)  # noqa: PTH118 - a Path for each file is slow
        real = os.path.realpath(full)
        if real in seen:
            continue
        seen.add(real)
        try:
            entries = [entry for entry in os.scandir(full) if not entry.name.startswith((".", "__MACOSX"))]
        except OSError as error:
            raise LabelingError(
                f"{root}: the folder {full} cannot be read ({error.strerror}); allow it or move it away."
            ) from error
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            # isdir, as is_dir raises for a link to itself.
            if os.path.isdir(entry) if entry.is_symlink() else entry.is_dir():  # noqa: PTH112
                (linked if entry.is_symlink() else folders).append(name)
            # A link to nothing is a picture that cannot be read; a pipe or a device is not a picture.
            elif os.path.splitext(entry.name)[1].lower() in _PICTURES and (entry.is_symlink() or entry.is_file()):  # noqa: PTH122
                yield name
        linked.sort()


def _texts(table: Table, columns: TableColumns, text_column: str) -> TextSource:
    """Return the rows of a table that have a text."""
    texts = ["" if id_of(value) == "" else str(value) for value in table.values(text_column)]
    blank = [name for name, text in zip(columns.ids, texts, strict=True) if not text.strip()]
    full = [row for row, text in enumerate(texts) if text.strip()]
    return TextSource(
        table.path,
        ids=tuple(columns.ids[row] for row in full),
        given=tuple(columns.given[row] for row in full),
        skipped=tuple(Skipped(name, f"its {text_column!r} is blank") for name in blank),
        id_column=columns.id_column,
        columns=kept_columns(table, columns, set(), full),
        whole_ids=columns.whole_ids,
        texts=tuple(texts[row] for row in full),
    )


def kept_columns(
    table: Table, columns: TableColumns, items: set[str], rows: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return the columns of a table that an output keeps, at some rows: all but the vectors and what is ours."""

    def at(column: Any) -> Any:
        if rows is None or len(rows) == table.n_rows:
            return column
        return [column[row] for row in rows] if isinstance(column, list) else column.take(rows)

    left_out = items | columns.ours
    return {name: at(column) for name, column in table.columns.items() if name not in left_out}


def _text_column(table: Table, candidates: list[str]) -> str:
    named = [column for name in _TEXT_NAMES if (column := table.find(name)) in candidates and column is not None]
    if named or len(candidates) == 1:
        return (named or candidates)[0]
    there = f"choose one of {listed(candidates)}" if candidates else "there is none besides ids and labels"
    raise LabelingError(
        f"{table.path}: which column holds the texts is not clear; {there} with --text-column (text_column in Python)."
    )


def _from_arrow(table: Table, columns: TableColumns) -> Source:
    """Open vectors if a column holds lists of numbers, texts if one holds strings, else all columns of numbers.

    Columns are those of pyarrow; others, in which a DataFrame holds values of several types, are not considered.
    """
    types = require("pyarrow.types", "parquet")

    def is_string(kind: Any) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    free = {
        name: column
        for name, column in table.columns.items()
        if name not in columns.used and not isinstance(column, list)
    }
    vectors = vector_column(table.path, {name: column.type for name, column in free.items()})
    strings = [name for name, column in free.items() if is_string(column.type)]
    numbers = [name for name, column in free.items() if holds_numbers(column.type)]
    if vectors is not None:
        array, items = stacked_rows(table.path, vectors, free[vectors]), {vectors}
    elif strings:
        return _texts(table, columns, _text_column(table, strings))
    elif numbers:
        gaps = [name for name in numbers if free[name].null_count]
        if gaps:
            raise LabelingError(f"{table.path}: column {gaps[0]!r} has gaps; fill them or leave those rows out.")
        array, items = np.column_stack([free[name].to_numpy() for name in numbers]), set(numbers)
    else:
        raise LabelingError(f"{table.path}: none of the columns {listed(free)} holds texts or numbers.")
    ids = None if columns.id_column is None else columns.ids
    opened = _vectors(table.path, array, columns.given, ids, columns.id_column)
    return replace(opened, columns=kept_columns(table, columns, items), whole_ids=columns.whole_ids)


def _open_npy(path: Path) -> VectorSource:
    """Open the rows of a ``.npy`` file, memory-mapped."""
    try:
        array = load_npy(path, mapped=True)
    except OSError as error:
        raise LabelingError(f"{path} cannot be read: {error.strerror}.") from error
    except InputError as error:
        raise LabelingError(f"{path}: {error}; write it with np.save.") from error
    return _vectors(path, array)


def _open_npz(path: Path) -> VectorSource:
    """Open the array ``features`` of an ``.npz`` file with the ``labels``, ``ids`` and ``class_names`` beside it."""
    try:
        arrays = read_npz(path, ["features"], ["labels", "ids", "class_names"], _ARRAYS)
    except (ValueError, OSError) as error:
        raise LabelingError(str(error)) from error
    n_rows = len(arrays["features"]) if arrays["features"].ndim else 0
    given = _labels(path, arrays["labels"], arrays.get("class_names"), n_rows) if "labels" in arrays else None
    if "ids" not in arrays:
        return _vectors(path, arrays["features"], given)
    if arrays["ids"].shape != (n_rows,):
        raise LabelingError(f"{path}: 'ids' has shape {arrays['ids'].shape}, and there are {n_rows} rows.")
    opened = _vectors(path, arrays["features"], given, checked_ids(path, arrays["ids"].tolist(), "ids"))
    return replace(opened, whole_ids=arrays["ids"].dtype.kind in "iu")


def _open_store(folder: Path, *, labels_file: bool = False) -> VectorSource:
    """Open the rows of a feature store, memory-mapped, with its names as ids if they are all different.

    Its labels are given ones, -1 for unlabeled rows; they are ignored if labels come from a file.
    """
    with one_line():
        store = FeatureStore.open(folder)
        features, labels, names, class_names = store.features, store.labels, store.names, store.class_names
    given = None if labels is None or labels_file else _labels(folder, labels, class_names, len(store))
    if names is None or len(np.unique(names)) < len(names):
        return _vectors(folder, features, given)
    return _vectors(folder, features, given, checked_ids(folder, names.tolist(), "names"))


def is_store(folder: Path) -> bool:
    """Whether a folder is a feature store."""
    return (folder / "manifest.json").is_file() and (folder / "vectors.bin").is_file()


def vector_files(folder: Path) -> list[Path]:
    """Return the ``.npy`` and ``.parquet`` files directly in a folder: shards, if they are labeled together."""
    return [file for file in folder.iterdir() if file.suffix.lower() in (".npy", ".parquet") and file.is_file()]


def _vectors(
    path: Path,
    array: Any,
    given: tuple[str | None, ...] | None = None,
    ids: tuple[str, ...] | None = None,
    id_column: str | None = "ids",
) -> VectorSource:
    with one_line(path):
        features = checked_features(array)
    n = len(features)
    return VectorSource(
        path,
        ids=tuple(str(row) for row in range(n)) if ids is None else ids,
        given=(None,) * n if given is None else given,
        id_column=None if ids is None else id_column,
        vectors=features,
        whole_ids=ids is None,
    )


def _labels(path: Path, labels: Any, class_names: Any, n_rows: int) -> tuple[str | None, ...]:
    """Return labels by name; whole numbers are positions in ``class_names`` if there are any; -1 and "" are none."""
    if labels.shape != (n_rows,):
        raise LabelingError(f"{path}: 'labels' has shape {labels.shape}, and there are {n_rows} rows.")
    if labels.dtype.kind not in "iubUf":
        raise LabelingError(f"{path}: 'labels' has dtype {labels.dtype}; write strings or whole numbers.")
    if labels.dtype.kind == "f" and not (np.isnan(labels) | (labels == np.floor(labels))).all():
        raise LabelingError(f"{path}: 'labels' holds fractions; write strings or whole numbers.")
    if class_names is None or labels.dtype.kind not in "iu":
        return tuple(label_of(value) for value in labels.tolist())
    names = np.asarray(class_names)
    if names.ndim != 1 or names.dtype.kind not in "UiubT":
        raise LabelingError(f"{path}: 'class_names' has shape {names.shape}, dtype {names.dtype}; write strings (C,).")
    wrong = np.flatnonzero((labels < -1) | (labels >= len(names)))
    if wrong.size:
        raise LabelingError(
            f"{path}: labels[{wrong[0]}] is {labels[wrong[0]]}, and there are {len(names)} class_names."
        )
    label: dict[int, str | None] = {-1: None}
    first: dict[str, int] = {}
    for number in np.unique(labels[labels >= 0]).tolist():
        name = label_of(names[number].item() if names.dtype.kind in "iub" else names[number])
        if name is None:
            raise LabelingError(f"{path}: class_names[{number}] is blank, and its class has labels; give it a name.")
        if first.setdefault(name, number) != number:
            raise LabelingError(
                f"{path}: class_names[{first[name]}] and class_names[{number}] are both {name!r}; give each class a "
                "name of its own."
            )
        label[number] = name
    return tuple(label[number] for number in labels.tolist())
