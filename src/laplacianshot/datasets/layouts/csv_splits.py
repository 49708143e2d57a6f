"""Splits in CSV files, one a split, in the public format of miniImageNet."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from laplacianshot.datasets._listing import SPLITS, Listing, Record
from laplacianshot.datasets.layouts import folders

DESCRIPTION = (
    "DATA/train.csv, DATA/val.csv and DATA/test.csv, each with the columns filename and label in any order, and the "
    "pictures in DATA/images. A filename may hold folders."
)
MINI = (
    "miniImageNet, 100 classes of 600 pictures of ILSVRC-2012. Expected: DATA/train.csv, val.csv and test.csv with the "
    "columns filename and label (64, 16 and 20 classes, the lists published by Ravi and Larochelle with their "
    "meta-learner LSTM), and the pictures they name in DATA/images. The pictures come from ImageNet's own site after "
    "registration. The .pkl files in circulation are not read, as a pickle may run code: write their pictures into "
    "class folders DATA/train, DATA/val and DATA/test and choose dataset 'folder'."
)
TIERED = (
    "tieredImageNet, 608 classes of ILSVRC-2012. Expected: either class folders DATA/train, DATA/val and DATA/test, or "
    "DATA/train.csv, val.csv and test.csv with the columns filename and label and the pictures in DATA/images (351, 97 "
    "and 160 classes, the lists published by Ren and others with their few-shot SSL code). The pictures come from "
    "ImageNet's own site after registration. The .pkl files in circulation are not read, as a pickle may run code: "
    "write their pictures into class folders."
)


def find(data: Path) -> Listing:
    """The pictures that the CSV files list, split by split."""
    return _listing(data, DESCRIPTION)


def find_mini(data: Path) -> Listing:
    """The set miniImageNet, with its numbers of classes checked."""
    instead = "for other splits choose dataset 'csv-splits'."
    return _listing(data, MINI).expect_classes("mini", {"base": 64, "val": 16, "novel": 20}, instead)


def find_tiered(data: Path) -> Listing:
    """The set tieredImageNet from CSV files or class folders, with its numbers of classes checked."""
    listing = _listing(data, TIERED) if _tables(data) else _class_folders(data)
    instead = "for other splits choose dataset 'csv-splits' or 'folder'."
    return listing.expect_classes("tiered", {"base": 351, "val": 97, "novel": 160}, instead)


def _class_folders(data: Path) -> Listing:
    if not any((data / name).is_dir() for name in SPLITS):
        raise FileNotFoundError(f"{data}: neither CSV files nor folders of splits. tiered: {TIERED}")
    return folders.find(data)


def _tables(data: Path) -> dict[str, Path]:
    """CSV files by the word of their name, such as ``train``."""
    return {word: data / f"{word}.csv" for word in SPLITS if (data / f"{word}.csv").is_file()}


def _listing(data: Path, description: str) -> Listing:
    tables = _tables(data)
    if not tables:
        raise FileNotFoundError(f"{data}: there is no train.csv, val.csv or test.csv. Expected: {description}")
    folder = "images/" if (data / "images").is_dir() else ""
    records: list[Record] = []
    seen: dict[str, str] = {}
    for word, table in tables.items():
        for filename, label in _rows(table):
            if filename in seen:
                raise ValueError(f"{table}: {filename!r} is listed twice, the first time in {seen[filename]}.csv.")
            seen[filename] = word
            records.append(Record(folder + filename, label, SPLITS[word]))
    if not any((data / record.path).exists() for record in records):
        raise FileNotFoundError(f"{data}: none of the listed pictures is there. Expected: {description}")
    return Listing.of_files(data, records)


def _rows(table: Path) -> Iterator[tuple[str, str]]:
    """(filename, label) of each row."""
    try:
        # utf-8-sig: spreadsheets put a mark of order before the first column's name.
        with table.open(encoding="utf-8-sig", newline="") as file:
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
                    raise ValueError(
                        f"{table}, line {reader.line_num}: {filename!r} leads out of the pictures' folder."
                    )
                empty = False
                yield filename, label
            if empty:
                raise ValueError(f"{table} lists no pictures.")
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{table} cannot be read ({error}); save it as CSV in UTF-8.") from error
