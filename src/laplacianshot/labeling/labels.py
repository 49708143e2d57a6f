"""The labels that people gave, one an item of the source or none."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from laplacianshot.inference.labels import _WORDS_FOR_NOTHING
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.label_studio import is_export, read_choices
from laplacianshot.labeling.matching import SKIPPED, Entry, Ids
from laplacianshot.labeling.sources.base import Source
from laplacianshot.labeling.sources.tables import (
    ENDINGS,
    Table,
    given_labels,
    id_of,
    label_of,
    read_table,
    read_text,
    table_of_records,
)

Given = tuple[str | None, ...]


def read_labels(path: str | PathLike[str], source: Source) -> Given:
    """Labels of a file, in the order of the source; None for items that it does not label.

    Parameters
    ----------
    path : path
        A ``.csv``, ``.tsv``, ``.json``, ``.jsonl`` or ``.parquet`` with the columns ``id`` and ``label``, blank where
        there is no label. An id is one of ``source.ids``, nearly spelled so; its column may also be called as that of
        the source. In a table with a column ``origin``, as we write them, only rows of origin ``given`` count.
        Or an export of Label Studio, ``.json`` or ``.csv``.
    source : Source
        Whose items the file labels.

    Returns
    -------
    tuple of n (str or None)

    Raises
    ------
    LabelingError
        The file cannot be read, names what is not in the source, or gives an item two labels; the rows are named.
    """
    where = Path(path)
    if not where.is_file():
        raise LabelingError(f"{where}: file of labels not found.")
    table = _read(where)
    if is_export(table):
        entries = [
            Entry(chosen.place, chosen.name, chosen.positions, chosen.label) for chosen in read_choices(table, source)
        ]
    else:
        entries = list(_of_table(table, source))
    return _settled(where, entries, source)


def read_predictions(path: str | PathLike[str], source: Source) -> dict[str, str]:
    """Read all labels of a table, predictions included, by id: what :mod:`laplacianshot.labeling.outputs` writes.

    Raises
    ------
    LabelingError
        As :func:`read_labels`; or there is no label at all.
    """
    where = Path(path)
    if not where.is_file():
        raise LabelingError(f"{where}: file of labels not found.")
    labels = _settled(where, list(_of_table(_read(where), source, predictions=True)), source)
    found = {name: label for name, label in zip(source.ids, labels, strict=True) if label is not None}
    if not found:
        raise LabelingError(f"{where}: no item has a label; there is nothing to sort.")
    return found


def merge_given(source: Source, labels: Sequence[str | None] | None) -> Given:
    """Labels of the source itself together with those of a file.

    Raises
    ------
    LabelingError
        They give an item two different labels, or a label is the word -1; the rows are named.
    """
    others = [None] * len(source) if labels is None else [label_of(label) for label in labels]
    pairs = list(zip(source.ids, source.given, others, strict=True))
    clash = [f"{name!r} is {own!r} and {other!r}" for name, own, other in pairs if own and other and own != other]
    if clash:
        raise LabelingError(
            f"{source.path}: the source and the file of labels disagree, {_some(clash)}; change one of them."
        )
    merged = tuple(own or other for _, own, other in pairs)
    _check_words(source, merged)
    return merged


def check_labels(labels: Iterable[str | None], source: Source) -> None:
    """Raise for labels from which nothing can be learned: none at all, or those of a single class."""
    given = list(labels)
    classes = sorted({label for label in given if label is not None})
    if not classes:
        raise LabelingError(
            f"{source.path}: none of the {len(source)} items has a label; label at least one item of each class, "
            "with --labels FILE or in the source."
        )
    if len(classes) == 1:
        rows = [name for name, label in zip(source.ids, given, strict=True) if label is not None]
        raise LabelingError(
            f"{source.path}: all labels are {classes[0]!r} ({listed(rows)}); label at least one item of another class."
        )


def _read(path: Path) -> Table:
    if path.suffix.lower() in ENDINGS:
        return read_table(path)
    if path.suffix.lower() != ".json":
        raise LabelingError(f"{path}: a file of labels ends in {', '.join(ENDINGS)} or .json.")
    try:
        records = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, LabelingError):
            raise
        raise LabelingError(f"{path} is not JSON ({error}); export it again.") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise LabelingError(f"{path}: not a list of tasks; export from Label Studio as JSON, or give a CSV file.")
    return table_of_records(path, records)


def _of_table(table: Table, source: Source, *, predictions: bool = False) -> Iterator[Entry]:
    """The labels of a table, with the items that its ids mean; with our predictions or without them."""
    ids, labels = _column(table, source, "id"), _column(table, source, "label")
    known = Ids(source)
    found = [label_of(value) for value in table.values(labels)] if predictions else given_labels(table, labels)
    for row, (value, label) in enumerate(zip(table.values(ids), found, strict=True)):
        name = id_of(value)
        if label is None:
            continue
        if not name.strip():
            raise LabelingError(f"{table.path}, {table.place(row)}: the label {label!r} has no id.")
        position = known.find(name)
        yield Entry(table.place(row), repr(name), () if position is None else (position,), label)


def _column(table: Table, source: Source, name: str) -> str:
    """The column of ids or labels; ids may also be under the name they have in the source."""
    wanted = [name] if name == "label" or source.id_column is None else [source.id_column, name]
    for column in wanted:
        if (found := table.find(column)) is not None:
            return found
    raise LabelingError(
        f"{table.path} has no column {name!r}, its columns are {listed(table.columns)}; "
        "the first line must be id,label and each further line an item."
    )


def _settled(path: Path, entries: list[Entry], source: Source) -> Given:
    """One label an item, or an error that names what does not fit."""
    unknown = [f"{entry.name} ({entry.place})" for entry in entries if not entry.positions]
    if unknown:
        raise LabelingError(
            f"{path}: {len(unknown)} of {len(entries)} labels are for what is not in {source.path}: {_some(unknown)}; "
            f"its ids are {source.id_name}, such as {source.ids[0]!r}."
        )
    found: dict[int, Entry] = {}
    clash = []
    for entry in entries:
        for position in entry.positions:
            first = found.setdefault(position, entry)
            if position != SKIPPED and first.label != entry.label:
                clash.append(
                    f"{source.ids[position]!r} is {first.label!r} ({first.place}) and {entry.label!r} ({entry.place})"
                )
    if clash:
        raise LabelingError(f"{path}: items have two labels, {_some(clash)}; keep one of each.")
    return tuple(found[i].label if i in found else None for i in range(len(source)))


def _check_words(source: Source, labels: Given) -> None:
    """Raise for the word -1 and warn of others that may have been meant as no label."""
    words = {label for label in labels if label is not None and label.lower() in _WORDS_FOR_NOTHING}
    minus_one = sorted(word for word in words if word.startswith("-1"))
    if minus_one:
        rows = [name for name, label in zip(source.ids, labels, strict=True) if label in minus_one]
        raise LabelingError(
            f"{source.path}: the label of {listed(rows)} is the word {minus_one[0]!r}; "
            "leave it blank if there is none, or give the class another name."
        )
    if words:
        warnings.warn(
            f"{source.path}: {min(words)!r} is a class like any other; leave labels blank where there is none.",
            UserWarning,
            stacklevel=3,
        )


def _some(faults: list[str]) -> str:
    """The first three of many faults, and how many more there are."""
    more = f"; {len(faults) - 3} more" if len(faults) > 3 else ""
    return "; ".join(faults[:3]) + more
