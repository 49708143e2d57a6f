"""What an extraction is told of: vectors of each split, the time it took, and pictures left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.reports.table import Table, row

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.embedding import Extraction

# Pictures left out that are named in a table; JSON has all.
_NAMED = 10


@dataclass(frozen=True)
class ExtractionReport:
    """An extraction, to be printed.

    Attributes
    ----------
    extraction : Extraction
    pictures : Pictures
    network, dataset : str
        Their names.
    export : Path or None
        The file that goes with it.
    """

    extraction: Extraction
    pictures: Pictures
    network: str
    dataset: str
    export: Path | None
    interrupted: bool = False

    @property
    def _skipped(self) -> list[dict[str, str]]:
        found: list[Any] = [*self.pictures.skipped, *self.extraction.store.skipped]
        return [{"name": fault.name, "reason": fault.reason} for fault in found]

    def _splits(self) -> dict[str, tuple[int, int]]:
        """Vectors and classes of each split."""
        store = self.extraction.store
        if store.split is None or store.labels is None:
            return {}
        return {
            name: (int((store.split == name).sum()), len(np.unique(store.labels[store.split == name])))
            for name in self.pictures.splits
        }

    def tables(self) -> Sequence[Table]:
        """To be printed."""
        store, run = self.extraction.store, self.extraction
        rows = [row(name, f"{count:,}", f"{classes:,}") for name, (count, classes) in self._splits().items()]
        if len(rows) > 1:
            rows.append(row("all", f"{len(store):,}", f"{self.pictures.n_classes:,}", bold=True))
        notes = [f"Store: {store.path}"]
        if run.encoded == 0:
            notes.append("It was complete already: nothing was computed.")
        else:
            before = f", {run.found:,} were done before" if run.found else ""
            speed = f"{run.encoded / run.seconds:,.0f} a second"
            notes.append(f"{run.encoded:,} pictures in {run.seconds:,.0f} s, {speed}{before}.")
        skipped = self._skipped
        if skipped:
            notes.append(f"Left out, as they cannot be read: {len(skipped):,}")
            notes += [f"  {fault['name']!r}: {fault['reason']}" for fault in skipped[:_NAMED]]
            notes += ["  and so on; --json lists all of them"] if len(skipped) > _NAMED else []
        title = f"{self.network} on {self.dataset}: vectors of {store.dim:,} numbers, {store.dtype}"
        return [Table(title, ("Split", "Vectors", "Classes"), tuple(rows), tuple(notes))]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        store, run = self.extraction.store, self.extraction
        return {
            "store": str(store.path),
            "key": {"digest": store.key.digest, **asdict(store.key)},
            "network": self.network,
            "dataset": self.dataset,
            "rows": len(store),
            "dim": store.dim,
            "dtype": store.dtype,
            "splits": {name: {"rows": n, "classes": c} for name, (n, c) in self._splits().items()},
            "skipped": self._skipped,
            "found": run.found,
            "encoded": run.encoded,
            "seconds": run.seconds,
            "export": None if self.export is None else str(self.export),
        }
