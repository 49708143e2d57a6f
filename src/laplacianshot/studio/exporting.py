"""Export and import labels in the formats of ``laplacianshot label``."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from laplacianshot import __version__
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.labels import read_labels
from laplacianshot.labeling.model import LabelModel
from laplacianshot.labeling.model_file import model_bytes
from laplacianshot.labeling.outputs import export_label_studio, write_rows
from laplacianshot.labeling.result import ACCEPTED, GIVEN, PREDICTED, UNLABELED, LabelResult, Skipped
from laplacianshot.studio import view as views
from laplacianshot.studio.change_log import Action, ActionError, How, checked_name
from laplacianshot.studio.session import Session

# File name and media type of each format.
FORMATS = {
    "csv": ("labels.csv", "text/csv; charset=utf-8"),
    "jsonl": ("labels.jsonl", "application/x-ndjson"),
    "parquet": ("labels.parquet", "application/vnd.apache.parquet"),
    "label-studio": ("labels.label-studio.json", "application/json"),
    "label-studio-interface": ("labels.label-studio.xml", "application/xml"),
    "model": ("model.lshot", "application/zip"),
}
_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".parquet")


@dataclass(frozen=True)
class Incoming:
    """Imported labels: the action (None if nothing was new), and the number of labels imported and kept."""

    action: Action | None
    imported: int
    kept: int
    notes: tuple[str, ...]


def export(session: Session, kind: str, *, disputes: bool = False) -> bytes:
    """Export the labels; ``disputes`` adds a column of the classes that the neighbors suggest for given labels."""
    if kind == "model":
        return model_bytes(model_of(session))
    result = _result_of(session)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FORMATS[kind][0]
        if kind.startswith("label-studio"):
            # Writes the tasks and, beside them, the interface.
            export_label_studio(result, session.source, path.with_suffix(".json"))
        else:
            write_rows(result, path, relabel=disputes)
        return path.read_bytes()


def model_of(session: Session) -> LabelModel:
    """Return a model of the last full prediction, for new items."""
    predictions = session.engine.progress.predictions
    model = None
    if predictions is not None and predictions.make_model is not None:
        state = session.log.state
        # A class may have been deleted since.
        known = [int(number) in state.classes for number in predictions.class_ids]
        if all(known):
            names = [state.name_of(int(number)) for number in predictions.class_ids]
            model = predictions.make_model(names, session.source.kind, session.engine.vectors.encoder)
    if model is None:
        raise ActionError("there is no model yet: label items of two classes, and wait for the predictions.", 409)
    return model


def _result_of(session: Session) -> LabelResult:
    """Return the current labels as a result of ``laplacianshot label``: one row per readable item."""
    view, state = session.view(), session.log.state
    # An item that cannot be read may still have a label.
    rows = np.flatnonzero(view.origins != views.FAILED)
    # Column of each class id; the last entry is that of no class, -1.
    lookup = np.full(state.next_id + 1, -1)
    lookup[list(state.classes)] = np.arange(len(state.classes))
    origins = np.array([UNLABELED, UNLABELED, PREDICTED, GIVEN, UNLABELED, ACCEPTED])[view.origins[rows]]
    vectors, source, predictions = session.engine.vectors, session.source, session.engine.progress.predictions
    return LabelResult(
        ids=tuple(source.ids[i] for i in rows.tolist()),
        classes=tuple(entry.name for entry in state.classes.values()),
        codes=lookup[view.classes[rows]],
        origins=tuple(origins.tolist()),
        probabilities=np.zeros((len(rows), len(state.classes)), np.float32),
        confidence=np.nan_to_num(view.confidence[rows].astype(np.float64)),
        suggestions=view.suggestions[rows],
        disputes=lookup[view.disputes[rows]],
        novelty=np.nan_to_num(view.novelty[rows]),
        skipped=(*source.skipped, *(Skipped(source.ids[i], reason) for i, reason in sorted(vectors.failed.items()))),
        settings={"source": str(source.path), "kind": source.kind, "version": __version__},
        source=source,
        rows=rows,
        expected_accuracy=None if predictions is None else predictions.accuracy,
    )


def import_file(session: Session, name: str, content: bytes, *, replace: bool) -> Incoming:
    """Import the labels of a file; ``replace`` overwrites labels that differ."""
    ending = Path(name).suffix.lower()
    if ending not in _ENDINGS:
        raise ActionError(f"a labels file must end in {', '.join(_ENDINGS)}.", 422)
    shown = name.replace("/", "_").replace("\\", "_")[-100:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"labels{ending}"
        path.write_bytes(content)
        try:
            return import_path(session, path, replace=replace, shown=shown)
        except LabelingError as error:
            raise ActionError(str(error).replace(str(path), shown), 422) from error


def import_path(session: Session, path: Path, *, replace: bool, shown: str | None = None) -> Incoming:
    """Import the labels of a file by its path."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        labels = read_labels(path, session.source)
    notes = tuple(str(warning.message).replace(str(path), shown or str(path)) for warning in caught)
    found = {name: label for name, label in zip(session.source.ids, labels, strict=True) if label is not None}
    return take_over(session, found, "imported", f"Import of {shown or path.name}", replace=replace, notes=notes)


def take_over(
    session: Session, labels: dict[str, str], how: How, what: str, *, replace: bool = False, notes: tuple[str, ...] = ()
) -> Incoming:
    """Label items, by id, with classes, by name, in one action."""
    checked = {item: checked_name(label) for item, label in labels.items()}
    with session.lock:
        state = session.log.state
        own = {item: state.name_of(label.class_id) for item, label in state.labels.items() if item in checked}
        kept = {item for item, name in own.items() if name != checked[item] and not replace}
        new = {item: name for item, name in checked.items() if own.get(item) != name and item not in kept}
        action = session.act(lambda state: state.labeling_by_name(new, how, what)) if new else None
    return Incoming(action, len(new), len(kept), notes)
