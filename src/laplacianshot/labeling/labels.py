"""The labels that people gave, one an item of the source or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.sources.source import Source
from laplacianshot.labeling.sources.tables import Table, read_table
from laplacianshot.labeling.sources.values import id_of, label_of

Given = tuple[str | None, ...]


def read_labels(path: str | PathLike[str], source: Source) -> Given:
    """Labels of a file, in the order of the source; None for items that it does not label.

    Parameters
    ----------
    path : path
        A table with the columns ``id`` and ``label``.
    source : Source
        Whose ids the file speaks of.

    Returns
    -------
    tuple of n (str or None)

    Raises
    ------
    LabelingError
        The file cannot be read, names what is not in the source, or gives an item two labels; the rows are named.
    """
    where = Path(path)
    table = read_table(where)
    ids, labels = _id_column(table, source), table.column("label", "the labels' column")
    positions = {name: i for i, name in enumerate(source.ids)}
    found: dict[int, str] = {}
    for name, value in zip(table.values(ids), table.values(labels), strict=True):
        label = label_of(value)
        if label is None:
            continue
        key = id_of(name)
        if key not in positions:
            raise LabelingError(f"{where}: id {key!r} is not in {source.path}.")
        if found.setdefault(positions[key], label) != label:
            raise LabelingError(f"{where}: id {key!r} has two labels.")
    return tuple(found.get(i) for i in range(len(source)))


def _id_column(table: Table, source: Source) -> str:
    if source.id_column is not None and (named := table.find(source.id_column)) is not None:
        return named
    return table.column("id", "the labels' column")


def merge_given(source: Source, labels: Sequence[str | None] | None) -> Given:
    """Labels of the source itself together with those of a file.

    Raises
    ------
    LabelingError
        They give an item two different labels; the rows are named.
    """
    if labels is None:
        return source.given
    pairs = list(zip(source.ids, source.given, labels, strict=True))
    clash = [(name, own, other) for name, own, other in pairs if own and other and own != other]
    if clash:
        name, own, other = clash[0]
        raise LabelingError(
            f"{source.path}: {name!r} is {own!r} in the source and {other!r} in the file of labels; "
            f"{len(clash)} items clash: {listed(name for name, *_ in clash)}."
        )
    return tuple(own or other for _, own, other in pairs)


def check_labels(labels: Iterable[str | None], source: Source) -> None:
    """Raise for labels from which nothing can be learnt: none at all, or those of a single class."""
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
