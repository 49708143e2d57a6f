"""Summary of a labeling run for the terminal and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult
from laplacianshot.reports.label_items import choose, interval_text
from laplacianshot.reports.table import Table, left_out_notes, percentage, row

# Maximum number of classes, and of other entries, in the terminal; files and JSON have all.
_NAMED_CLASSES = 25
_NAMED = 10
_NAMED_SUGGESTIONS = 50


@dataclass(frozen=True)
class LabelSummary:
    """A result to print."""

    result: LabelResult
    interrupted: bool = False

    def tables(self) -> Sequence[Table]:
        """Return the tables to print: classes, then what to label next."""
        found = self.result
        tables = [self._classes()] if found.classes else []
        if len(found.suggested):
            tables.append(self._suggestions())
        return [*tables, *self._notes(*self._disputed())]

    def _notes(self, *more: str) -> list[Table]:
        left_out = left_out_notes([f"{_line(fault.id)}: {_line(fault.reason)}" for fault in self.result.skipped])
        notes = (*self.result.notes, *more, *left_out)
        return [Table("Notes", (), (), notes)] if notes else []

    def _classes(self) -> Table:
        found = self.result
        counts, classes = found.counts(), choose(found).classes
        rows = [
            row(_line(found.classes[one.code]), f"{one.n_given:,}", f"{one.n_predicted:,}", one.mean_confidence)
            for one in classes[:_NAMED_CLASSES]
        ]
        confidence = found.confidence[np.asarray(found.origins) == PREDICTED]
        mean = percentage(confidence.mean(), 1) if len(confidence) else ""
        rows.append(row("all", f"{counts[GIVEN]:,}", f"{counts[PREDICTED]:,}", mean, bold=True))
        notes = []
        if found.expected_accuracy is not None:
            said = found.expected_accuracy
            share, interval = percentage(said.estimate), interval_text(said)
            notes.append(f"Predicted labels expected to be right: {share} (95% interval {interval}). {said.source}")
        if len(classes) > _NAMED_CLASSES:
            notes.append(f"{len(classes) - _NAMED_CLASSES:,} smaller classes are not shown.")
        if (recall := found.settings.get("graph_recall", 1.0)) < 1:
            notes.append(f"Neighbors were searched approximately: {percentage(recall, 1)} of the true ones were found.")
        if counts[REJECTED]:
            notes.append(f"Rejected, as they fit the classes least: {counts[REJECTED]:,}")
        if n_cached := int(found.settings.get("cached") or 0):
            notes.append(f"{n_cached:,} vectors came from the cache.")
        title = f"{len(found):,} items of {found.settings.get('source', 'the source')}"
        return Table(title, ("Class", "Given", "Predicted", "Mean confidence"), tuple(rows), tuple(notes))

    def _suggestions(self, n_named: int = _NAMED) -> Table:
        found = self.result
        rows = []
        for place, item in enumerate(found.suggested[:n_named], 1):
            name = f"{place}. {self._shown(item)}"
            if not found.classes:
                rows.append(row(name))
                continue
            code = found.codes[item]
            label = _line(found.classes[code]) if code >= 0 else found.origins[item]
            rows.append(row(name, label, percentage(found.confidence[item]) if code >= 0 else ""))
        more = len(found.suggested) - n_named
        notes = (f"and {more:,} more, in the output under suggestion.",) if more > 0 else ()
        if not found.classes:
            return Table("What to label first", ("Item",), tuple(rows), notes)
        return Table("What to label next", ("Item", "Now", "Confidence"), tuple(rows), notes, words=(1,))

    def _shown(self, item: int) -> str:
        """The id of an item and the beginning of its text."""
        found = self.result
        if found.source is None or found.source.kind != "texts" or found.rows is None:
            return _line(found.ids[item])
        return f"{_line(found.ids[item])}: {_line(str(found.source.preview(int(found.rows[item]))))}"

    def _disputed(self) -> list[str]:
        found = self.result
        disputed = np.flatnonzero(found.disputes >= 0)
        if not len(disputed):
            return []
        lines = [f"Given labels that the neighbors dispute: {len(disputed):,}"]
        for item in disputed[:_NAMED]:
            given, other = found.classes[found.codes[item]], found.classes[found.disputes[item]]
            lines.append(f"  {self._shown(item)}: given {_line(given)}, neighbors suggest {_line(other)}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON, with every item."""
        found = self.result
        labels = found.labels
        items = [
            {
                "id": found.ids[i],
                "label": labels[i] or None,
                "confidence": round(float(found.confidence[i]), 6) if found.classes else None,
                "origin": found.origins[i] or None,
                "suggestion": int(found.suggestions[i]) or None,
                "dispute": found.classes[found.disputes[i]] if found.disputes[i] >= 0 else None,
            }
            for i in range(len(found))
        ]
        return {
            "settings": dict(found.settings),
            "classes": list(found.classes),
            "counts": found.counts(),
            "expected_accuracy": None if found.expected_accuracy is None else found.expected_accuracy.to_dict(),
            "converged": bool(found.converged),
            "objective": [float(value) for value in found.objective],
            "seconds": {stage.name: stage.seconds for stage in found.stages},
            "skipped": [asdict(fault) for fault in found.skipped],
            "notes": list(found.notes),
            "items": items,
        }


class SuggestionSummary(LabelSummary):
    """What to label first or next, and nothing else."""

    def tables(self) -> Sequence[Table]:
        """Return the tables to print: the suggestions, then notes."""
        suggestions = [self._suggestions(_NAMED_SUGGESTIONS)] if len(self.result.suggested) else []
        return [*suggestions, *self._notes()]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON, the most useful item first."""
        document = super().to_dict()
        items = document.pop("items")
        facts = {name: document[name] for name in ("settings", "classes", "seconds", "skipped", "notes")}
        return facts | {"suggestions": [items[i] for i in self.result.suggested]}


class PredictionSummary(LabelSummary):
    """What a saved model says of new items."""

    def tables(self) -> Sequence[Table]:
        """Return the tables to print: the first items, how many there are of each class, then notes."""
        found = self.result
        labels = [_line(str(label)) for label in found.labels]
        items = [
            row(self._shown(i), labels[i], percentage(found.confidence[i]), f"{found.novelty[i]:.2f}")
            for i in range(min(_NAMED_SUGGESTIONS, len(found)))
        ]
        more = len(found) - len(items)
        notes = (f"and {more:,} more, in the output (-o OUT.csv).",) if more > 0 else ()
        counts = np.bincount(found.codes, minlength=len(found.classes))
        order = np.argsort(-counts, kind="stable")[:_NAMED_CLASSES]
        classes = [
            row(
                _line(str(found.classes[c])), f"{counts[c]:,}", percentage(found.confidence[found.codes == c].mean(), 1)
            )
            for c in order[counts[order] > 0]
        ]
        classes.append(row("all", f"{len(found):,}", percentage(found.confidence.mean(), 1), bold=True))
        return [
            Table("Predictions", ("Item", "Label", "Confidence", "Novelty"), tuple(items), notes, words=(1,)),
            Table("Classes", ("Class", "Items", "Mean confidence"), tuple(classes)),
            *self._notes(),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON, with every item."""
        found = self.result
        items = [
            {"id": name, "label": label, "confidence": round(float(sure), 6), "novelty": round(float(novelty), 6)}
            for name, label, sure, novelty in zip(found.ids, found.labels, found.confidence, found.novelty, strict=True)
        ]
        return {
            "settings": dict(found.settings),
            "classes": list(found.classes),
            "skipped": [asdict(fault) for fault in found.skipped],
            "notes": list(found.notes),
            "items": items,
        }


def _line(text: str) -> str:
    """A name on one line, with escapes for what cannot be printed."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= 60 else f"{shown[:40]}...{shown[-16:]}"
