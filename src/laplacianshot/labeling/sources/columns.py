"""Which columns of a table hold the ids, the labels and the items."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, UNLABELED
from laplacianshot.labeling.sources.source import checked_ids
from laplacianshot.labeling.sources.tables import Table
from laplacianshot.labeling.sources.values import id_of, label_of

# What stands beside ids and labels in an output of ours, and the words of its origins.
_OURS = ("confidence", "origin", "suggestion")
_ORIGINS = (GIVEN, PREDICTED, REJECTED, UNLABELED, None)


@dataclass(frozen=True)
class TableColumns:
    """Ids and labels of the n rows of a table.

    Attributes
    ----------
    ids : tuple of n str
    given : tuple of n (str or None)
    id_name : str
        What the ids are, in words.
    id_column, label_column : str or None
    ours : tuple of str
        Columns that we wrote beside them in an earlier run.
    """

    ids: tuple[str, ...]
    given: tuple[str | None, ...]
    id_name: str
    id_column: str | None
    label_column: str | None
    ours: tuple[str, ...] = ()

    @property
    def used(self) -> set[str]:
        """Columns that are not the items."""
        return {name for name in (self.id_column, self.label_column, *self.ours) if name is not None}


def columns_of(table: Table, id_column: str | None, label_column: str | None) -> TableColumns:
    """Ids and labels of a table.

    The ids are those of ``id_column``; without one, those of a column called ``id`` if they are all there and all
    different; else row numbers from 0. The labels are those of ``label_column``, by default of a column ``label``, in
    which predictions of ours do not count.
    """
    ids, found = _ids(table, id_column)
    labels = table.find("label") if label_column is None else table.column(label_column, "label column")
    given = [None] * table.n_rows if labels is None else given_labels(table, labels)
    name = "row numbers from 0" if found is None else f"values of the column {found!r}"
    return TableColumns(ids, tuple(given), name, found, labels, _ours(table))


def given_labels(table: Table, column: str) -> list[str | None]:
    """Labels of a column, None where there is none.

    Those of the column ``label`` do not count where a column ``origin`` says that we predicted them; a warning says
    how many these are. A column of another name is the user's own.
    """
    labels = [label_of(value) for value in table.values(column)]
    origin = table.find("origin") if column == table.find("label") else None
    if origin is None:
        return labels
    # Rejected rows have no label of ours: who finds one there has written it.
    made = [value == PREDICTED for value in table.values(origin)]
    n_ours = sum(ours and label is not None for ours, label in zip(made, labels, strict=True))
    if n_ours:
        n_labels = sum(label is not None for label in labels)
        warnings.warn(
            f"{table.path}: {n_ours:,} of its {n_labels:,} labels are predictions of ours and do not count; "
            f"write {GIVEN!r} under {origin} for those that you have checked.",
            UserWarning,
            stacklevel=3,
        )
    return [None if ours else label for ours, label in zip(made, labels, strict=True)]


def _ours(table: Table) -> tuple[str, ...]:
    """The columns of an output of ours beside ids and labels, if that is what the table is."""
    found = [column for name in _OURS if (column := table.find(name)) is not None]
    if len(found) < len(_OURS) or any(value not in _ORIGINS for value in table.values(found[1])):
        return ()
    dispute = table.find("dispute")
    return (*found,) if dispute is None else (*found, dispute)


def _ids(table: Table, id_column: str | None) -> tuple[tuple[str, ...], str | None]:
    if id_column is not None:
        found = table.column(id_column, "id column")
        return checked_ids(table.path, [id_of(value) for value in table.values(found)], found), found
    guessed = table.find("id")
    if guessed is not None:
        ids = [id_of(value) for value in table.values(guessed)]
        if len(set(ids)) == len(ids) and all(name.strip() for name in ids):
            return checked_ids(table.path, ids, guessed), guessed
    return tuple(str(row) for row in range(table.n_rows)), None
