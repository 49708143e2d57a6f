"""One project: a source, its labels and the predictions. Everything the web does goes through here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.runtime.types import Ints
from laplacianshot.studio import view as views
from laplacianshot.studio.change_log import Action, ChangeLog
from laplacianshot.studio.changes import ActionError, Change, LabelState, checked_name
from laplacianshot.studio.engine import Engine, GivenLabels
from laplacianshot.studio.thumbnails import Thumbnails
from laplacianshot.studio.vectors import Vectors
from laplacianshot.studio.view import Catalog, View

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.labeling.sources import Source

# Pictures up to this many pixels long are shown pixel by pixel.
_TINY_SIDE = 32


@dataclass(frozen=True)
class Folders:
    """The folders of a project: its own, and the cache of vectors (None: no cache)."""

    project: Path
    vectors: Path | None


class Session:
    """A project that is open.

    Parameters
    ----------
    source : Source
    encoder : Encoder or None
        None if the source contains vectors.
    folders : Folders
        Existing folders.
    """

    def __init__(self, source: Source, encoder: Encoder | None, folders: Folders) -> None:
        self.source = source
        # Distinguishes the pictures of this run from those of another run at the same address.
        self.key = secrets.token_hex(8)
        self.log = ChangeLog(folders.project, str(source.path.resolve()))
        self.thumbnails = Thumbnails(source, folders.project / "thumbnails")
        texts = [str(source.preview(i)) for i in range(len(source))] if source.kind == "texts" else None
        self.catalog = Catalog(source.ids, texts)
        self._index = {name: i for i, name in enumerate(source.ids)}
        self.lock = RLock()
        self._listeners: list[Callable[[], object]] = []
        self._signature: tuple[object, ...] = ()
        self._revision = 0
        self._view: View | None = None
        self.given = self._read_given(self.log.state)
        self.engine = Engine(Vectors(source, encoder, folders.vectors), lambda: self.given, self._published)

    def start(self) -> None:
        """Start the background work."""
        self.engine.start()

    def close(self) -> None:
        """Stop the background work; labels are on disk already."""
        self.engine.close()
        self.log.close()

    @cached_property
    def tiny(self) -> bool:
        """Whether the pictures are so small that single pixels should be visible."""
        if self.source.kind != "pictures" or self.source.file(0) is not None:
            return False
        first: Any = self.source.load(0)
        return bool(max(first.size) <= _TINY_SIDE)

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call ``listener``, from any thread, after each change; returns a function that stops this."""
        with self.lock:
            self._listeners.append(listener)

        def end() -> None:
            with self.lock:
                self._listeners.remove(listener)

        return end

    def act(
        self, kind: str, make: Callable[[LabelState], Change], summary: Callable[[LabelState, Change], str]
    ) -> Action:
        """Perform one action: ``make`` returns its change to the state, ``summary`` describes it in words."""
        with self.lock:
            state = self.log.state
            change = make(state)
            after = state.after(change) if change.classes else state
            action = self.log.commit(kind, summary(after, change), change)
            self._follow(change)
        self.engine.wake()
        self._published()
        return action

    def turn_back(self, steps: int, *, redo: bool = False) -> Action:
        """Undo or redo up to ``steps`` actions and return the last one."""
        action: Action | None = None
        with self.lock:
            for _ in range(steps):
                if action is not None and (self.log.next_redo if redo else self.log.next_undo) is None:
                    break
                action = self.log.redo() if redo else self.log.undo()
                self._follow(self.log.change_of(action.version))
        self.engine.wake()
        self._published()
        if action is None:
            raise ActionError("steps must be 1 or more.", 422)
        return action

    def items(self, indices: Sequence[int]) -> list[str]:
        """Return the ids of the items at these positions, without duplicates."""
        n = len(self.source)
        wrong = next((i for i in indices if not 0 <= i < n), None)
        if wrong is not None:
            raise ActionError(f"there is no item {wrong}; items are numbered 0 to {n - 1}.", 404)
        return [self.source.ids[i] for i in dict.fromkeys(indices)]

    # What a person can do; each of these is one action.

    def label(self, indices: Sequence[int], class_id: int) -> Action:
        """Label items with a class."""
        items = self.items(indices)
        return self.act(
            "label",
            lambda state: state.labeling(items, class_id),
            lambda state, change: f"{count_of(change.n_items)}: {state.name_of(class_id)}",
        )

    def label_by_name(self, indices: Sequence[int], name: str) -> Action:
        """Label items with the class of that name; the class is added if it does not exist."""
        items, checked = self.items(indices), checked_name(name)
        return self.act(
            "label",
            lambda state: state.labeling_by_name(dict.fromkeys(items, checked)),
            lambda state, change: f"{count_of(change.n_items)}: {checked}",
        )

    def clear(self, indices: Sequence[int]) -> Action:
        """Remove the given labels of items."""
        items = self.items(indices)
        return self.act(
            "clear",
            lambda state: state.clearing(items),
            lambda state, change: f"{count_of(change.n_items)}: label removed",
        )

    def accept(self, indices: Sequence[int]) -> Action:
        """Turn the predictions of these items into given labels."""
        self.items(indices)
        return self._accept(np.unique(np.asarray(indices, dtype=np.int64)), "")

    def accept_confident(self, min_confidence: float, class_id: int | None) -> Action:
        """Turn all predictions of at least this confidence into given labels, of one class or of all."""
        with self.lock:
            if class_id is not None:
                self.log.state.name_of(class_id)
            classes = () if class_id is None else (class_id,)
            query = views.Query(classes=classes, origins=("predicted",), min_confidence=min_confidence)
            rows = self.catalog.select(self.view(), query)
            return self._accept(rows, f", confidence {100 * min_confidence:g}% or more")

    def _accept(self, rows: Ints, which: str) -> Action:
        def make(state: LabelState) -> Change:
            view = self.view()
            chosen = rows[(view.origins[rows] == views.PREDICTED)]
            if not len(chosen):
                raise ActionError("none of these items has a predicted label.")
            changes: list[Change] = []
            for class_id in np.unique(view.classes[chosen]).tolist():
                some = [self.source.ids[i] for i in chosen[view.classes[chosen] == class_id].tolist()]
                changes.append(state.labeling(some, class_id, "accepted"))
            return Change(labels=tuple(one for change in changes for one in change.labels))

        def summary(state: LabelState, change: Change) -> str:
            names = sorted({state.name_of(one.after.class_id) for one in change.labels if one.after is not None})
            what = names[0] if len(names) == 1 else f"{len(names)} classes"
            return f"{count_of(change.n_items)} accepted: {what}{which}"

        return self.act("accept", make, summary)

    def add_class(self, name: str) -> Action:
        """Add a class."""
        return self.act(
            "add-class",
            lambda state: state.adding(name),
            lambda state, change: f"New class: {_new_name(change)}",
        )

    def rename_class(self, class_id: int, name: str) -> Action:
        """Rename a class."""
        before = self.log.state.name_of(class_id)
        return self.act(
            "rename-class",
            lambda state: state.renaming(class_id, name),
            lambda state, change: f"{before} is now {_new_name(change)}",
        )

    def merge_classes(self, class_id: int, into: int) -> Action:
        """Merge a class into another one."""
        before = self.log.state.name_of(class_id)
        return self.act(
            "merge-classes",
            lambda state: state.merging(class_id, into),
            lambda state, change: f"{before} merged into {state.name_of(into)}: {count_of(change.n_items)}",
        )

    def delete_class(self, class_id: int) -> Action:
        """Delete a class and its labels."""
        before = self.log.state.name_of(class_id)
        return self.act(
            "delete-class",
            lambda state: state.deleting(class_id),
            lambda state, change: f"{before} deleted: {count_of(change.n_items)}",
        )

    def view(self) -> View:
        """Return the current view of all items."""
        with self.lock:
            if self._view is None or self._view.revision != self._revision:
                self._view = self._look()
            return self._view

    @property
    def revision(self) -> int:
        """Revision of the current view."""
        return self._revision

    def _published(self) -> None:
        with self.lock:
            progress, vectors = self.engine.progress, self.engine.vectors
            ready = int(np.count_nonzero(vectors.ready))
            signature = (self.given.version, id(progress.predictions), ready, len(vectors.failed))
            if signature != self._signature:
                self._signature = signature
                self._revision += 1
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _read_given(self, state: LabelState) -> GivenLabels:
        classes = np.full(len(self.source), views.NO_CLASS, dtype=np.int32)
        asked = np.zeros(len(self.source), dtype=bool)
        for item, label in state.labels.items():
            # An item that has left the source keeps its label, and shows it again when the item is back.
            if (i := self._index.get(item)) is not None:
                classes[i], asked[i] = label.class_id, label.how != "accepted"
        return GivenLabels(self.log.version, classes, asked)

    def _follow(self, change: Change) -> None:
        """Update the arrays of given labels. New arrays are made, as other threads may be reading the old ones."""
        classes, asked = self.given.classes.copy(), self.given.asked.copy()
        for some in change.labels:
            rows = [i for item in some.items if (i := self._index.get(item)) is not None]
            classes[rows] = views.NO_CLASS if some.after is None else some.after.class_id
            asked[rows] = some.after is not None and some.after.how != "accepted"
        self.given = GivenLabels(self.log.version, classes, asked)

    def _look(self) -> View:
        n = len(self.source)
        progress, vectors, given = self.engine.progress, self.engine.vectors, self.given
        classes = np.full(n, views.NO_CLASS, dtype=np.int32)
        origins = np.full(n, views.WAITING, dtype=np.uint8)
        confidence = np.full(n, np.nan, dtype=np.float32)
        disputes = np.full(n, views.NO_CLASS, dtype=np.int32)
        strangeness = np.full(n, np.nan, dtype=np.float32)
        strange = np.zeros(n, dtype=bool)
        suggestions = np.zeros(n, dtype=np.int32)
        origins[vectors.ready] = views.UNLABELED
        origins[list(vectors.failed)] = views.FAILED
        has_label = given.classes >= 0
        predictions = progress.predictions
        if predictions is not None:
            at = predictions.cache.positions
            strangeness[at], strange[at], suggestions[at] = (
                predictions.strangeness,
                predictions.strange,
                predictions.suggestions,
            )
            if len(predictions.class_ids):
                # A class may have been deleted since.
                exists = np.isin(predictions.class_ids, list(self.log.state.classes))
                numbers = np.where(exists, predictions.class_ids, views.NO_CLASS)
                classes[at] = np.where(predictions.codes >= 0, numbers[predictions.codes], views.NO_CLASS)
                confidence[at] = np.where(classes[at] >= 0, predictions.confidence, np.nan)
                origins[at[classes[at] >= 0]] = views.PREDICTED
                preferred = np.where(predictions.disputes >= 0, numbers[predictions.disputes], views.NO_CLASS)
                disputes[at] = np.where(has_label[at], preferred, views.NO_CLASS)
        disputes[disputes == given.classes] = views.NO_CLASS
        origins[has_label] = views.GIVEN
        classes[has_label] = given.classes[has_label]
        confidence[has_label & (disputes < 0)] = 1.0
        strange[has_label] = False
        suggestions[has_label] = 0
        return View(self._revision, classes, origins, confidence, disputes, strangeness, strange, suggestions)


def _new_name(change: Change) -> str:
    return next(one.after.name for one in change.classes if one.after is not None)


def count_of(n: int) -> str:
    """Return ``"1 item"`` or ``"1,234 items"``."""
    return "1 item" if n == 1 else f"{n:,} items"
