"""Texts in a column of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from laplacianshot.labeling.result import Skipped
from laplacianshot.labeling.sources.columns import TableColumns
from laplacianshot.labeling.sources.source import Kind, Source, hash_of
from laplacianshot.labeling.sources.tables import Table
from laplacianshot.labeling.sources.values import text_of


@dataclass(frozen=True, eq=False, repr=False)
class TextSource(Source):
    """Texts of a table, in its order. Rows whose text is blank are skipped."""

    texts: tuple[str, ...] = ()

    kind: ClassVar[Kind] = "texts"

    def content_hash(self, i: int) -> bytes:
        """Hash of the text."""
        # A half character of a pair, which JSON can hold, is content like any other.
        return hash_of(self.texts[i].encode("utf-8", "surrogatepass"), self.kind)

    def load(self, i: int) -> str:
        """Text i."""
        return self.texts[i]

    def preview(self, i: int) -> str:
        """Text i."""
        return self.texts[i]


def texts_of(table: Table, columns: TableColumns, text_column: str) -> TextSource:
    """The rows of a table that have a text."""
    texts = [text_of(value) for value in table.values(text_column)]
    kept = [row for row, text in enumerate(texts) if text.strip()]
    blank = [row for row, text in enumerate(texts) if not text.strip()]
    skipped = [Skipped(columns.ids[row], f"its {text_column!r} is blank") for row in blank]
    return TextSource(
        table.path,
        ids=tuple(columns.ids[row] for row in kept),
        given=tuple(columns.given[row] for row in kept),
        skipped=tuple(skipped),
        id_name=columns.id_name,
        id_column=columns.id_column,
        rows=tuple(kept),
        texts=tuple(texts[row] for row in kept),
    )
