"""One project: a source, its labels and the predictions. Everything the web does goes through here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.labeling.classes import ClassNames
from laplacianshot.runtime.types import Ints
from laplacianshot.studio import view as views
from laplacianshot.studio.change_log import Action, ActionError, Change, ChangeLog, Given, LabelState
from laplacianshot.studio.engine import Engine, GivenLabels, Vectors
from laplacianshot.studio.names import NameVectors
from laplacianshot.studio.thumbnails import Thumbnails
from laplacianshot.studio.view import Catalog, View

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.labeling.sources import Source

# Pictures up to this many pixels long are shown pixel by pixel.
_TINY_SIDE = 32


def expected_wrong(wrong: float) -> str:
    """Say how many labels are expected to be wrong, given the sum of one minus their confidence."""
    return f"about {wrong:,.0f} expected to be wrong" if wrong >= 0.95 else "hardly any expected to be wrong"


class Session:
    """A project that is open.

    A source that contains vectors has no encoder. ``project`` is the folder of the project, which must exist, and
    ``cache`` that of the vector cache. ``names`` encodes the names of classes, which count for nothing without.
    """

    def __init__(
        self,
        source: Source,
        encoder: Encoder | None,
        project: Path,
        cache: Path | None,
        names: NameVectors | None = None,
    ) -> None:
        self.source = source
        self.names = NameVectors("texts", problem="nothing here reads names.") if names is None else names
        # Distinguishes the pictures of this run from those of another run at the same address.
        self.key = secrets.token_hex(8)
        self.log = ChangeLog(project, str(source.path.resolve()))
        self.thumbnails = Thumbnails(source, project / "thumbnails")
        texts = [str(source.preview(i)) for i in range(len(source))] if source.kind == "texts" else None
        self.catalog = Catalog(source.ids, texts)
        self._index = {name: i for i, name in enumerate(source.ids)}
        self.lock = RLock()
        self._listeners: list[Callable[[], object]] = []
        self._signature: tuple[object, ...] = ()
        self._revision = 0
        self._view: View | None = None
        self._confirmed = self.log.confirmed()
        self.given = self._read_given(self.log.state)
        self.engine = Engine(
            Vectors(source, encoder, cache), lambda: self.given, self._published, compares_names=self.names.usable
        )

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

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener``, from any thread, after each change."""
        with self.lock:
            self._listeners.append(listener)

    def act(self, make: Callable[[LabelState], Change]) -> Action:
        """Perform one action: ``make`` returns its change to the state."""
        with self.lock:
            change = make(self.log.state)
            action = self.log.commit(change)
            self._follow(change)
        self.engine.wake()
        self._published()
        return action

    def name_classes(self, given: ClassNames) -> Action | None:
        """Add classes by name, so that everything is labeled by their names; None if all were there already.

        Where names cannot be compared with items, the classes are added and that is all.
        """
        counted = self.names.usable
        said = dict(zip(given.names, given.texts or ((),) * len(given.names), strict=True))
        if counted:
            self.names.check(said)
        with self.lock:
            if not self.log.state.naming(said, counted=counted):
                return None
            return self.act(lambda state: state.naming(said, counted=counted))

    def turn_back(self, steps: int, *, redo: bool = False) -> Action:
        """Undo or redo up to ``steps`` actions, at least one, and return the last one."""
        with self.lock:
            for step in range(steps):
                if step and (self.log.next_redo if redo else self.log.next_undo) is None:
                    break
                action = self.log.redo() if redo else self.log.undo()
                self._follow(self.log.change_of(action.version))
        self.engine.wake()
        self._published()
        return action

    def items(self, indices: Sequence[int]) -> list[str]:
        """Return the ids of the items at these positions, without duplicates."""
        n = len(self.source)
        wrong = next((i for i in indices if not 0 <= i < n), None)
        if wrong is not None:
            raise ActionError(f"there is no item {wrong}; items are numbered 0 to {n - 1}.", 404)
        return [self.source.ids[i] for i in dict.fromkeys(indices)]

    def label(self, indices: Sequence[int], class_id: int | None) -> Action:
        """Label items with a class, or remove their given labels (None)."""
        items = self.items(indices)
        return self.act(lambda state: state.clearing(items) if class_id is None else state.labeling(items, class_id))

    def label_by_name(self, indices: Sequence[int], name: str) -> Action:
        """Label items with the class of that name; the class is added if it does not exist."""
        labels = dict.fromkeys(self.items(indices), name)
        return self.act(lambda state: state.labeling_by_name(labels))

    def accept(self, indices: Sequence[int]) -> Action:
        """Accept the predictions of these items; that of a single one becomes a given label."""
        items = self.items(indices)
        if len(items) > 1:
            return self._accept(np.unique(np.asarray(indices, dtype=np.int64)), "")
        with self.lock:
            # Whoever accepts one item has looked at it: that is a label like any other.
            view = self.view()
            if view.origins[indices[0]] not in (views.PREDICTED, views.ACCEPTED):
                raise ActionError("this item has no predicted label.")
            return self.label(indices, int(view.classes[indices[0]]))

    def accept_confident(self, min_confidence: float, class_id: int | None) -> Action:
        """Accept all predictions of at least this confidence, of one class or of all."""
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
            chosen = rows[view.origins[rows] == views.PREDICTED].tolist()
            if not chosen:
                raise ActionError("none of these items has a predicted label.")
            wrong = float(np.sum(1 - view.confidence[chosen], dtype=np.float64))
            said = f"{which}; {expected_wrong(wrong)}"
            return state.accepting({self.source.ids[i]: int(view.classes[i]) for i in chosen}, said)

        return self.act(make)

    @property
    def folder_labels(self) -> int:
        """How many labels are names of the folders that pictures lie in."""
        return self.log.state.n_from_source if self.source.kind == "pictures" else 0

    def free_of_folders(self) -> Action:
        """Remove all labels that are names of folders, and the classes that have no other."""
        if not self.folder_labels:
            raise ActionError("no label of this project is the name of a folder.")
        return self.act(lambda state: state.freeing())

    def view(self) -> View:
        """Return the current view of all items."""
        with self.lock:
            if self._view is None or self._view.revision != self._revision:
                self._view = self._look()
            return self._view

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
        accepted = classes.copy()
        for item, label in state.labels.items():
            # An item that has left the source keeps its label, and shows it again when the item is back.
            if (i := self._index.get(item)) is not None:
                (accepted if self._is_accepted(item, label) else classes)[i] = label.class_id
        return GivenLabels(self.log.version, classes, accepted, self.names.of(state.classes))

    def _is_accepted(self, item: str, label: Given) -> bool:
        """Whether nobody has looked at a label: it was accepted with others."""
        return label.how == "accepted" and self._confirmed.get(item) != label

    def _follow(self, change: Change) -> None:
        """Update the arrays of given labels. New arrays are made, as other threads may be reading the old ones."""
        classes, accepted = self.given.classes.copy(), self.given.accepted.copy()
        for some in change.labels:
            rows = {item: i for item in some.items if (i := self._index.get(item)) is not None}
            classes[[*rows.values()]] = accepted[[*rows.values()]] = views.NO_CLASS
            if (after := some.after) is not None:
                for item, i in rows.items():
                    (accepted if self._is_accepted(item, after) else classes)[i] = after.class_id
        named = self.names.of(self.log.state.classes) if change.classes else self.given.named
        self.given = GivenLabels(self.log.version, classes, accepted, named)

    def _look(self) -> View:
        n = len(self.source)
        progress, vectors, given = self.engine.progress, self.engine.vectors, self.given
        classes = np.full(n, views.NO_CLASS, dtype=np.int32)
        origins = np.full(n, views.WAITING, dtype=np.uint8)
        confidence = np.full(n, np.nan, dtype=np.float32)
        disputes = np.full(n, views.NO_CLASS, dtype=np.int32)
        novelty = np.full(n, np.nan, dtype=np.float32)
        novel = np.zeros(n, dtype=bool)
        suggestions = np.zeros(n, dtype=np.int32)
        origins[vectors.ready] = views.UNLABELED
        origins[list(vectors.failed)] = views.FAILED
        has_label, accepted = given.classes >= 0, given.accepted >= 0
        predictions = progress.predictions
        if predictions is not None:
            at = predictions.cache.positions
            novelty[at], novel[at] = predictions.novelty, predictions.novel
            suggestions[at] = predictions.suggestions
            if len(predictions.class_ids):
                # A class may have been deleted since.
                exists = np.isin(predictions.class_ids, list(self.log.state.classes))
                numbers = np.where(exists, predictions.class_ids, views.NO_CLASS)
                classes[at] = np.where(predictions.codes >= 0, numbers[predictions.codes], views.NO_CLASS)
                confidence[at] = np.where(classes[at] >= 0, predictions.confidence, np.nan)
                origins[at[classes[at] >= 0]] = views.PREDICTED
                preferred = np.where(predictions.disputes >= 0, numbers[predictions.disputes], views.NO_CLASS)
                disputes[at] = np.where(has_label[at], preferred, views.NO_CLASS)
                # The graph says of an accepted label what it says of any item without one.
                disputes[at] = np.where(accepted[at], classes[at], disputes[at])
                confidence[at] = np.where(accepted[at], predictions.probability_of(given.accepted[at]), confidence[at])
        disputes[disputes == np.where(accepted, given.accepted, given.classes)] = views.NO_CLASS
        origins[accepted] = views.ACCEPTED
        classes[accepted] = given.accepted[accepted]
        origins[has_label] = views.GIVEN
        classes[has_label] = given.classes[has_label]
        confidence[has_label & (disputes < 0)] = 1.0
        novel[has_label] = False
        suggestions[has_label] = 0
        return View(self._revision, classes, origins, confidence, disputes, novelty, novel, suggestions)
