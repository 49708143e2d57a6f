"""Which columns of a table hold the ids, the labels and the items."""

from __future__ import annotations

from dataclasses import dataclass

from laplacianshot.labeling.sources.source import checked_ids
from laplacianshot.labeling.sources.tables import Table
from laplacianshot.labeling.sources.values import id_of, label_of


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
    """

    ids: tuple[str, ...]
    given: tuple[str | None, ...]
    id_name: str
    id_column: str | None
    label_column: str | None

    @property
    def used(self) -> set[str]:
        """Columns that are not the items."""
        return {name for name in (self.id_column, self.label_column) if name is not None}


def columns_of(table: Table, id_column: str | None, label_column: str | None) -> TableColumns:
    """Ids and labels of a table.

    The ids are those of ``id_column``; without one, those of a column called ``id`` if they are all there and all
    different; else row numbers from 0. The labels are those of ``label_column``, by default of a column ``label``.
    """
    ids, found = _ids(table, id_column)
    labels = table.find("label") if label_column is None else table.column(label_column, "label column")
    given = [None] * table.n_rows if labels is None else [label_of(value) for value in table.values(labels)]
    name = "row numbers from 0" if found is None else f"values of the column {found!r}"
    return TableColumns(ids, tuple(given), name, found, labels)


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
