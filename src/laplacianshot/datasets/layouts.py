"""The layouts in which picture sets are published: where their pictures, classes and splits are."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from laplacianshot.datasets.decoding import EncodedBytes, Files, Pixels, Source
from laplacianshot.datasets.feature_set import read_npz
from laplacianshot.runtime.files import open_input, read_input
from laplacianshot.runtime.types import Ints, Labels

# The names by which data sets call the three parts, and ours.
_SPLITS = {
    "base": "base",
    "train": "base",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "novel": "novel",
    "test": "novel",
}

# The split of pictures that nothing splits.
_UNSPLIT = "all"


class _Record(NamedTuple):
    """One picture in a file: its path below the root, its class and its split."""

    path: str
    class_name: str
    split: str


@dataclass(frozen=True, eq=False)
class _Listing:
    """Pictures found, not yet checked."""

    names: Labels  # (n,) of str
    labels: Ints  # (n,)
    class_names: tuple[str, ...]
    split: Labels  # (n,) of str
    source: Source

    @classmethod
    def of_files(cls, root: Path, records: Iterable[_Record], class_names: Iterable[str] | None = None) -> _Listing:
        """Files below ``root``; classes are numbered by ``class_names``, or in the order of their names."""
        rows = list(records)
        known = tuple(sorted({row.class_name for row in rows}) if class_names is None else class_names)
        numbers = {name: number for number, name in enumerate(known)}
        paths = [row.path for row in rows]
        return cls(
            names=np.array(paths, dtype=np.str_),
            labels=np.array([numbers[row.class_name] for row in rows], dtype=np.int64),
            class_names=known,
            split=np.array([row.split for row in rows], dtype=np.str_),
            source=Files(root, paths),
        )

    def expect_classes(self, dataset: str, expected: Mapping[str, int], instead: str) -> _Listing:
        """Return itself, if each split has the expected number of classes and no class is in two splits."""
        found = {name: len(np.unique(self.labels[self.split == name])) for name in expected}
        if found != dict(expected) or set(self.split.tolist()) != set(expected):
            listed, there = (", ".join(f"{n} {name}" for name, n in each.items()) for each in (expected, found))
            raise ValueError(f"dataset {dataset!r} has {listed} classes, these files have {there}; {instead}")
        if sum(found.values()) > len(np.unique(self.labels)):
            raise ValueError(f"dataset {dataset!r}: a class occurs in two splits; {instead}")
        return self


_FOLDERS = (
    "your own pictures in class folders, DATA/CLASS/picture.jpg. If the folders of DATA are called base or train, val, "
    "and novel or test, they are splits: DATA/train/CLASS/picture.jpg. A folder that holds pictures is a class with "
    "all that is below it; a folder of folders is part of the names of its classes."
)

_ENDINGS = {".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def find_folders(data: Path) -> _Listing:
    """The pictures of class folders, in the order of their paths."""
    if not data.is_dir():
        raise ValueError(f"{data} is not a folder. folder: {_FOLDERS}")
    loose, tops = _children(data)
    if loose:
        raise ValueError(
            f"{data}: {loose[0]!r} is in no class folder; put every picture into a folder named after its class."
        )
    found = {top: list(_walk(data / top, top)) for top in tops}
    found = {top: pictures for top, pictures in found.items() if pictures}
    if not found:
        raise ValueError(f"{data}: there are no pictures in its folders. folder: {_FOLDERS}")
    records = [
        _Record(path, name, split)
        for top, pictures in found.items()
        for split in [_split_of(top, list(found))]
        for path, name in (_without_split(pictures, top) if split != _UNSPLIT else pictures)
    ]
    return _Listing.of_files(data, sorted(records))


def _split_of(top: str, tops: list[str]) -> str:
    """The split that a folder of the root stands for, or ``all`` if the root holds classes."""
    splits = [name for name in tops if name.lower() in _SPLITS]
    if len(splits) == len(tops):
        return _SPLITS[top.lower()]
    if len(splits) >= 2:
        other = next(name for name in tops if name not in splits)
        raise ValueError(
            f"{', '.join(splits)} look like splits, but {other!r} beside them is none; have either splits or classes."
        )
    return _UNSPLIT


def _without_split(pictures: list[tuple[str, str]], top: str) -> Iterator[tuple[str, str]]:
    for path, name in pictures:
        if name == top:
            raise ValueError(f"{path!r} is in no class folder; put the pictures of a split into folders of classes.")
        yield path, name.removeprefix(f"{top}/")


def _walk(
    folder: Path, name: str, above: tuple[str, ...] = (), class_name: str | None = None
) -> Iterator[tuple[str, str]]:
    """(path below the root, class) of each picture; a folder with pictures of its own is a class."""
    real = os.path.realpath(folder)
    # A link to a folder above would never end.
    if real in above:
        return
    files, folders = _children(folder)
    if files and class_name is None:
        class_name = name
    for file in files:
        yield f"{name}/{file}", str(class_name)
    for child in folders:
        yield from _walk(folder / child, f"{name}/{child}", (*above, real), class_name)


def _children(folder: Path) -> tuple[list[str], list[str]]:
    """Names of the pictures and of the folders in a folder, sorted; hidden ones are left out."""
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "__MACOSX")):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            # A link that leads nowhere is a picture that cannot be read; a pipe or a device is none.
            elif (entry.is_symlink() or entry.is_file()) and os.path.splitext(entry.name)[1].lower() in _ENDINGS:  # noqa: PTH122 - a Path for each file is slow
                files.append(entry.name)
    return sorted(files), sorted(folders)


_CSV_SPLITS = (
    "DATA/train.csv, DATA/val.csv and DATA/test.csv, each with the columns filename and label in any order, and the "
    "pictures in DATA/images. A filename may hold folders."
)
_MINI = (
    "miniImageNet, 100 classes of 600 pictures of ILSVRC-2012. Expected: DATA/train.csv, val.csv and test.csv with the "
    "columns filename and label (64, 16 and 20 classes, the lists published by Ravi and Larochelle with their "
    "meta-learner LSTM), and the pictures they name in DATA/images. The pictures come from ImageNet's own site after "
    "registration. The .pkl files in circulation are not read, as a pickle may run code: write their pictures into "
    "class folders DATA/train, DATA/val and DATA/test and choose dataset 'folder'."
)
_TIERED = (
    "tieredImageNet, 608 classes of ILSVRC-2012. Expected: either class folders DATA/train, DATA/val and DATA/test, or "
    "DATA/train.csv, val.csv and test.csv with the columns filename and label and the pictures in DATA/images (351, 97 "
    "and 160 classes, the lists published by Ren and others with their few-shot SSL code). The pictures come from "
    "ImageNet's own site after registration. The .pkl files in circulation are not read, as a pickle may run code: "
    "write their pictures into class folders."
)


def _find_mini(data: Path) -> _Listing:
    """The set miniImageNet, with its numbers of classes checked."""
    instead = "for other splits choose dataset 'csv-splits'."
    return _csv_listing(data, _MINI).expect_classes("mini", {"base": 64, "val": 16, "novel": 20}, instead)


def _find_tiered(data: Path) -> _Listing:
    """The set tieredImageNet from CSV files or class folders, with its numbers of classes checked."""
    if not _tables(data) and not any((data / name).is_dir() for name in _SPLITS):
        raise FileNotFoundError(f"{data}: neither CSV files nor folders of splits. tiered: {_TIERED}")
    listing = _csv_listing(data, _TIERED) if _tables(data) else find_folders(data)
    instead = "for other splits choose dataset 'csv-splits' or 'folder'."
    return listing.expect_classes("tiered", {"base": 351, "val": 97, "novel": 160}, instead)


def _tables(data: Path) -> dict[str, Path]:
    """CSV files by the word of their name, such as ``train``."""
    return {word: data / f"{word}.csv" for word in _SPLITS if (data / f"{word}.csv").is_file()}


def _csv_listing(data: Path, description: str) -> _Listing:
    """The pictures that the CSV files list, split by split."""
    tables = _tables(data)
    if not tables:
        raise FileNotFoundError(f"{data}: there is no train.csv, val.csv or test.csv. Expected: {description}")
    folder = "images/" if (data / "images").is_dir() else ""
    records: list[_Record] = []
    seen: dict[str, str] = {}
    for word, table in tables.items():
        for filename, label in _csv_rows(table):
            if filename in seen:
                raise ValueError(f"{table}: {filename!r} is listed twice, the first time in {seen[filename]}.csv.")
            seen[filename] = word
            records.append(_Record(folder + filename, label, _SPLITS[word]))
    if not any((data / record.path).exists() for record in records):
        raise FileNotFoundError(f"{data}: none of the listed pictures is there. Expected: {description}")
    return _Listing.of_files(data, records)


def _csv_rows(table: Path) -> Iterator[tuple[str, str]]:
    """(filename, label) of each row."""
    try:
        # utf-8-sig: spreadsheets put a mark of order before the first column's name.
        with open_input(table) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or []
            if "filename" not in columns or "label" not in columns:
                raise ValueError(f"{table} must have the columns filename and label, it has {', '.join(columns)}.")
            empty = True
            for row in reader:
                filename, label = row["filename"], row["label"]
                if not filename or not label:
                    raise ValueError(f"{table}, line {reader.line_num}: the filename or the label is missing.")
                path = PurePosixPath(filename)
                if path.is_absolute() or ".." in path.parts:
                    raise ValueError(f"{table}, line {reader.line_num}: {filename!r} is outside the pictures' folder.")
                empty = False
                yield filename, label
            if empty:
                raise ValueError(f"{table} lists no pictures.")
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{table} cannot be read ({error}); save it as CSV in UTF-8.") from error


_CUB = (
    "CUB-200-2011, 11,788 pictures of 200 bird species. Expected: DATA/images.txt, DATA/image_class_labels.txt, "
    "DATA/classes.txt and DATA/images, as in the archive CUB_200_2011 of Caltech's vision group (CaltechDATA, for "
    "non-commercial research). DATA may also be the folder that holds CUB_200_2011."
)


def split_of_class(i: int) -> str:
    """The split of the class of zero-based number i: even ones base, of the odd ones every other val and novel.

    The rule of Chen et al. (A closer look at few-shot classification, 2019): 100, 50 and 50 of the 200 classes.
    """
    return ("base", "val", "base", "novel")[i % 4]


def _find_cub(data: Path) -> _Listing:
    """The pictures in the order of their numbers."""
    root = data / "CUB_200_2011" if (data / "CUB_200_2011").is_dir() else data
    missing = [name for name in ("images.txt", "image_class_labels.txt", "classes.txt") if not (root / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{data}: there is no {missing[0]}. Expected: {_CUB}")
    paths = _numbered(root / "images.txt")
    classes = _numbered(root / "classes.txt")
    class_of = _numbered(root / "image_class_labels.txt")
    numbers = {name: i for i, name in enumerate(classes)}
    records = []
    for number, path in paths.items():
        name = classes.get(class_of.get(number, ""))
        if name is None:
            raise ValueError(f"{root / 'image_class_labels.txt'}: picture {number} of images.txt has no class there.")
        records.append(_Record(f"images/{path}", name, split_of_class(numbers[class_of[number]])))
    listing = _Listing.of_files(root, records, classes.values())
    return listing.expect_classes("cub", {"base": 100, "val": 50, "novel": 50}, "for other classes choose 'folder'.")


def _numbered(table: Path) -> dict[str, str]:
    """Lines ``NUMBER REST``."""
    rows: dict[str, str] = {}
    for line, text in enumerate(read_input(table).decode("utf-8").splitlines(), start=1):
        if not text.strip():
            continue
        number, _, rest = text.partition(" ")
        if not rest or number in rows:
            raise ValueError(f"{table}, line {line}: expected a number of its own and a name, got {text!r}.")
        rows[number] = rest
    return rows


_INAT = (
    "meta-iNat, 1,135 animal species of iNaturalist 2017 with 50 to 1,000 pictures each, 908 base and 227 novel "
    "(Wertheimer and Hariharan, 2019). Expected: DATA/train_2017_bboxes.json and the pictures it names, below "
    "DATA/train_val_images, as given out by the iNaturalist competition of 2017 (Visipedia). The published lists of "
    "classes are random: put the novel ones, one category id or name per line, into DATA/novel_classes.txt. By default "
    "every fifth category by id is novel: the same number of classes, but not those of the published figures."
)
_MIN_PICTURES, _MAX_PICTURES = 50, 1000


def find_inat(data: Path) -> _Listing:
    """meta-iNat, with its numbers of classes checked."""
    instead = "take the annotations with boxes of 2017, whole."
    return find_species(data, _MIN_PICTURES, _MAX_PICTURES).expect_classes("inat", {"base": 908, "novel": 227}, instead)


def find_species(data: Path, min_pictures: int, max_pictures: int) -> _Listing:
    """The pictures of the species that have between ``min_pictures`` and ``max_pictures``, by picture id."""
    table = data / "train_2017_bboxes.json"
    if not table.is_file():
        raise FileNotFoundError(f"{data}: there is no {table.name}. Expected: {_INAT}")
    try:
        content: dict[str, Any] = json.loads(read_input(table).decode("utf-8"))
        names = {int(row["id"]): str(row["name"]) for row in content["categories"]}
        paths = {int(row["id"]): str(row["file_name"]) for row in content["images"]}
        # A picture has several boxes, all of one species.
        species = {int(row["image_id"]): int(row["category_id"]) for row in content["annotations"]}
        counts = Counter(species.values())
        chosen = [number for number in sorted(names) if min_pictures <= counts[number] <= max_pictures]
        novel = _novel(data / "novel_classes.txt", names, chosen)
        class_of = {number: f"{number:04d} {names[number]}" for number in chosen}
        records = [
            _Record(paths[picture], class_of[number], "novel" if number in novel else "base")
            for picture, number in sorted(species.items())
            if number in class_of
        ]
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{table} is not an annotation file of iNaturalist ({error!r}). {_INAT}") from error
    return _Listing.of_files(data, records, class_of.values())


def _novel(file: Path, names: dict[int, str], chosen: list[int]) -> set[int]:
    if not file.is_file():
        return set(chosen[4::5])
    numbers = {names[number]: number for number in chosen} | {str(number): number for number in chosen}
    expected = [line.strip() for line in read_input(file).decode("utf-8").splitlines() if line.strip()]
    unknown = [line for line in expected if line not in numbers]
    if unknown:
        raise ValueError(f"{file}: {unknown[0]!r} is neither the id nor the name of one of the chosen species.")
    return {numbers[line] for line in expected}


_ARRAYS = (
    "labels (n,), class_names, and either images uint8 (n, H, W) or (n, H, W, 3), or jpeg_bytes uint8 with offsets "
    "(n + 1,); optionally split (n,) or evaluation (n,)"
)
_CUB84 = (
    "CUB-200-2011 at 84 pixels in one file. Expected: DATA/cub84.npz, or the file itself, with jpeg_bytes, offsets, "
    "labels, class_names and split. Make it from the data set 'cub': shorter side 96, center crop 84, JPEG."
)
_OMNIGLOT28 = (
    "Omniglot at 28 pixels in one file, 1,623 characters of 20 drawings. Expected: DATA/omniglot28.npz, or the file "
    "itself, with images (n, 28, 28), labels, class_names (ALPHABET/CHARACTER) and evaluation. Background is base, but "
    "every sixth of its alphabets val; evaluation is novel. Make it from images_background and images_evaluation of "
    "Lake's repository."
)
_CIFARFS = (
    "CIFAR-FS, 32 pixels, in one file. Expected: DATA/cifarfs_images.npz, or the file itself, with images "
    "(n, 32, 32, 3), labels, class_names and split (64, 16 and 20 classes of CIFAR-100, the lists of Bertinetto and "
    "others)."
)

# Of the background alphabets in the order of their names, numbers 5, 11, 17, ... are for validation.
_VAL_ALPHABETS = 6


def _find_bundle(name: str, description: str, data: Path) -> _Listing:
    """The pictures of the bundle of that name in a folder, in a folder right below it, or given itself."""
    places = [data] if data.is_file() else [data / name, *sorted(data.glob(f"*/{name}"))]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{data}: there is no {name}. {description}")
    optional = ("images", "jpeg_bytes", "offsets", "split", "evaluation")
    arrays = read_npz(path, ("labels", "class_names"), optional, _ARRAYS)
    labels = arrays["labels"]
    if arrays["class_names"].ndim != 1:
        raise ValueError(f"{path}: 'class_names' has shape {arrays['class_names'].shape}; it must be (C,).")
    class_names = tuple(str(name) for name in arrays["class_names"])
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.size == 0:
        raise ValueError(f"{path}: labels must be one integer per picture, got {labels.dtype} {labels.shape}.")
    n = len(labels)
    if labels.min() < 0 or labels.max() >= len(class_names):
        raise ValueError(
            f"{path}: labels go from {labels.min()} to {labels.max()}, and there are {len(class_names)} class_names."
        )
    source = _bundle_source(arrays, n, path)
    names = np.array([f"{path.name}#{i}" for i in range(n)])
    return _Listing(names, labels.astype(np.int64), class_names, _bundle_split(arrays, class_names, path), source)


def _bundle_source(arrays: dict[str, Any], n: int, path: Path) -> Source:
    if "images" in arrays:
        images = arrays["images"]
        if images.dtype != np.uint8 or len(images) != n or not (images.ndim == 3 or images.shape[3:] == (3,)):
            raise ValueError(
                f"{path}: images must be uint8 ({n}, H, W) or ({n}, H, W, 3), got {images.dtype} {images.shape}."
            )
        return Pixels(images)
    if "jpeg_bytes" not in arrays or "offsets" not in arrays:
        raise ValueError(f"{path} has neither images nor jpeg_bytes with offsets. Expected: {_ARRAYS}.")
    buffer, offsets = arrays["jpeg_bytes"], arrays["offsets"]
    if buffer.dtype != np.uint8 or buffer.ndim != 1:
        raise ValueError(f"{path}: jpeg_bytes must be uint8 of one dimension, got {buffer.dtype} {buffer.shape}.")
    if offsets.shape != (n + 1,) or offsets.dtype.kind not in "iu":
        raise ValueError(f"{path}: offsets must be {n + 1} integers, one more than labels, got {offsets.shape}.")
    offsets = offsets.astype(np.int64)
    if offsets[0] < 0 or offsets[-1] > len(buffer) or (np.diff(offsets) < 0).any():
        raise ValueError(f"{path}: offsets must ascend from 0 to at most the {len(buffer)} bytes there are.")
    return EncodedBytes(buffer, offsets)


def _bundle_split(arrays: dict[str, Any], class_names: tuple[str, ...], path: Path) -> Labels:
    labels: Ints = arrays["labels"]
    given = arrays.get("split", arrays.get("evaluation"))
    if given is None:
        return np.full(len(labels), _UNSPLIT)
    if given.shape != labels.shape:
        raise ValueError(f"{path}: split or evaluation must have one entry for each of {len(labels)} pictures.")
    if "split" in arrays:
        return np.array([_SPLITS.get(str(name).lower(), str(name)) for name in given])
    return _omniglot_split(labels, class_names, given.astype(bool))


def _omniglot_split(labels: Ints, class_names: tuple[str, ...], evaluation: Labels) -> Labels:
    """Evaluation is novel. Of the background, whole alphabets are held out: novel classes are of new alphabets too."""
    alphabet = np.array([name.partition("/")[0] for name in class_names])[labels]
    background = np.unique(alphabet[~evaluation])
    val = np.isin(alphabet, background[_VAL_ALPHABETS - 1 :: _VAL_ALPHABETS])
    return np.where(evaluation, "novel", np.where(val, "val", "base"))


class Layout(NamedTuple):
    """How to find the pictures of a data set, and what a user must know to provide them."""

    find: Callable[[Path], _Listing]
    description: str


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "folder": Layout(find_folders, _FOLDERS),
        "csv-splits": Layout(lambda data: _csv_listing(data, _CSV_SPLITS), _CSV_SPLITS),
        "mini": Layout(_find_mini, _MINI),
        "tiered": Layout(_find_tiered, _TIERED),
        "cub": Layout(_find_cub, _CUB),
        "inat": Layout(find_inat, _INAT),
        "cub84": Layout(partial(_find_bundle, "cub84.npz", _CUB84), _CUB84),
        "omniglot28": Layout(partial(_find_bundle, "omniglot28.npz", _OMNIGLOT28), _OMNIGLOT28),
        "cifarfs": Layout(partial(_find_bundle, "cifarfs_images.npz", _CIFARFS), _CIFARFS),
    }
)
