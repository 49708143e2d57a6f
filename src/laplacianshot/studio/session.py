"""One project: a source, its labels, and what is found from them. All that the web does goes through here."""

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
from laplacianshot.studio.changes import ActionError, Book, Change
from laplacianshot.studio.engine import Engine, GivenLabels
from laplacianshot.studio.store import Action, Store
from laplacianshot.studio.thumbnails import Thumbnails
from laplacianshot.studio.vectors import Vectors
from laplacianshot.studio.view import Catalog, View

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.labeling.sources import Source

# Longer pictures than this are no few pixels.
_TINY_SIDE = 32


@dataclass(frozen=True)
class Places:
    """Where a project keeps its files: the folder of the project, and that of vectors by content (None: nowhere)."""

    project: Path
    vectors: Path | None


class Session:
    """A project at work.

    Parameters
    ----------
    source : Source
    encoder : Encoder or None
        None where the source has vectors of its own.
    places : Places
        Folders that are there.
    """

    def __init__(self, source: Source, encoder: Encoder | None, places: Places) -> None:
        self.source = source
        # Tells pictures of this run from those of another one at the same address.
        self.key = secrets.token_hex(8)
        self.store = Store(places.project, str(source.path.resolve()))
        self.thumbnails = Thumbnails(source, places.project / "thumbnails")
        texts = [str(source.preview(i)) for i in range(len(source))] if source.kind == "texts" else None
        self.catalog = Catalog(source.ids, texts)
        self._index = {name: i for i, name in enumerate(source.ids)}
        self.lock = RLock()
        self._listeners: list[Callable[[], object]] = []
        self._signature: tuple[object, ...] = ()
        self._revision = 0
        self._view: View | None = None
        self.given = self._read_given(self.store.book)
        self.engine = Engine(Vectors(source, encoder, places.vectors), lambda: self.given, self._published)

    def start(self) -> None:
        """Begin the work in the background."""
        self.engine.start()

    def close(self) -> None:
        """End; labels are on the disk already."""
        self.engine.close()
        self.store.close()

    @cached_property
    def tiny(self) -> bool:
        """Whether the pictures have so few pixels that these should be seen."""
        if self.source.kind != "pictures" or self.source.file(0) is not None:
            return False
        first: Any = self.source.load(0)
        return bool(max(first.size) <= _TINY_SIDE)

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have ``listener`` called, from any thread, when anything has changed; gives what ends that."""
        with self.lock:
            self._listeners.append(listener)

        def end() -> None:
            with self.lock:
                self._listeners.remove(listener)

        return end

    def act(self, kind: str, make: Callable[[Book], Change], tell: Callable[[Book, Change], str]) -> Action:
        """Do one thing: ``make`` gives the change that it is to the book, ``tell`` says it in words."""
        with self.lock:
            book = self.store.book
            change = make(book)
            action = self.store.commit(kind, tell(book.after(change) if change.classes else book, change), change)
            self._follow(change)
        self.engine.wake()
        self._published()
        return action

    def turn_back(self, steps: int, *, redo: bool = False) -> Action:
        """Undo, or redo, so many actions, as far as there are any; the last of them."""
        action: Action | None = None
        with self.lock:
            for _ in range(steps):
                if action is not None and (self.store.next_redo if redo else self.store.next_undo) is None:
                    break
                action = self.store.redo() if redo else self.store.undo()
                self._follow(self.store.change_of(action.version))
        self.engine.wake()
        self._published()
        if action is None:
            raise ActionError("steps must be 1 or more.", 422)
        return action

    def items(self, indices: Sequence[int]) -> list[str]:
        """Ids of the items at these positions, each once."""
        n = len(self.source)
        wrong = next((i for i in indices if not 0 <= i < n), None)
        if wrong is not None:
            raise ActionError(f"there is no item {wrong}; they are 0 to {n - 1}.", 404)
        return [self.source.ids[i] for i in dict.fromkeys(indices)]

    def accepted(self, rows: Ints) -> Callable[[Book], Change]:
        """The change that gives predicted items at these positions the labels they are predicted to have."""

        def make(book: Book) -> Change:
            view = self.view()
            chosen = rows[(view.origins[rows] == views.PREDICTED)]
            if not len(chosen):
                raise ActionError("none of these items has a predicted label.")
            changes: list[Change] = []
            for class_id in np.unique(view.classes[chosen]).tolist():
                some = [self.source.ids[i] for i in chosen[view.classes[chosen] == class_id].tolist()]
                changes.append(book.labeling(some, class_id, "accepted"))
            return Change(labels=tuple(one for change in changes for one in change.labels))

        return make

    def view(self) -> View:
        """The items as they are now."""
        with self.lock:
            if self._view is None or self._view.revision != self._revision:
                self._view = self._look()
            return self._view

    @property
    def revision(self) -> int:
        """Of the view."""
        return self._revision

    def _published(self) -> None:
        with self.lock:
            progress, vectors = self.engine.progress, self.engine.vectors
            ready = int(np.count_nonzero(vectors.ready))
            signature = (self.given.version, id(progress.found), ready, len(vectors.failed))
            if signature != self._signature:
                self._signature = signature
                self._revision += 1
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _read_given(self, book: Book) -> GivenLabels:
        classes = np.full(len(self.source), views.NO_CLASS, dtype=np.int32)
        asked = np.zeros(len(self.source), dtype=bool)
        for item, label in book.labels.items():
            # An item that is no longer in the source keeps its label, and shows again when it is back.
            if (i := self._index.get(item)) is not None:
                classes[i], asked[i] = label.class_id, label.how != "accepted"
        return GivenLabels(self.store.version, classes, asked)

    def _follow(self, change: Change) -> None:
        """The labels after a change, as arrays of their own: others may be reading those before."""
        classes, asked = self.given.classes.copy(), self.given.asked.copy()
        for some in change.labels:
            rows = [i for item in some.items if (i := self._index.get(item)) is not None]
            classes[rows] = views.NO_CLASS if some.after is None else some.after.class_id
            asked[rows] = some.after is not None and some.after.how != "accepted"
        self.given = GivenLabels(self.store.version, classes, asked)

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
        found = progress.found
        if found is not None:
            at = found.warm.positions
            strangeness[at], strange[at], suggestions[at] = found.strangeness, found.strange, found.suggestions
            if len(found.class_ids):
                # A class may have gone since.
                there = np.isin(found.class_ids, list(self.store.book.classes))
                numbers = np.where(there, found.class_ids, views.NO_CLASS)
                classes[at] = np.where(found.codes >= 0, numbers[found.codes], views.NO_CLASS)
                confidence[at] = np.where(classes[at] >= 0, found.confidence, np.nan)
                origins[at[classes[at] >= 0]] = views.PREDICTED
                preferred = np.where(found.disputes >= 0, numbers[found.disputes], views.NO_CLASS)
                disputes[at] = np.where(has_label[at], preferred, views.NO_CLASS)
        disputes[disputes == given.classes] = views.NO_CLASS
        origins[has_label] = views.GIVEN
        classes[has_label] = given.classes[has_label]
        confidence[has_label & (disputes < 0)] = 1.0
        strange[has_label] = False
        suggestions[has_label] = 0
        return View(self._revision, classes, origins, confidence, disputes, strangeness, strange, suggestions)
