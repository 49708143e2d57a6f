"""A session in the words of the wire."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from laplacianshot.studio import schemas
from laplacianshot.studio.session import Session
from laplacianshot.studio.store import Action
from laplacianshot.studio.view import GIVEN, ORIGINS, PREDICTED, View
from laplacianshot.ui.colors import class_color
from laplacianshot.ui.names import passage

# Characters of a text in a gallery, and of a whole text.
_SHORT, _LONG = 300, 100_000
# Classes and neighbors that the details of an item name.
_CLASSES, _NEIGHBORS = 5, 12


def state_of(session: Session) -> schemas.State:
    """The project at this moment."""
    view, book, progress = session.view(), session.store.book, session.engine.progress
    vectors, source = session.engine.vectors, session.source
    given, predicted = view.by_class(GIVEN), view.by_class(PREDICTED)
    undo, redo = session.store.next_undo, session.store.next_redo
    return schemas.State(
        version=session.given.version,
        predicted=progress.predicted,
        settled=progress.settled,
        revision=view.revision,
        source=schemas.SourceInfo(
            name=source.path.name or str(source.path),
            kind=source.kind,
            total=len(source),
            tiny=session.tiny,
            key=session.key,
        ),
        embedding=schemas.EmbeddingInfo(
            done=vectors.done,
            total=len(source),
            failed=len(vectors.failed),
            finished=vectors.finished,
            problem=progress.problem,
        ),
        classes=[
            schemas.ClassInfo(
                id=id,
                name=entry.name,
                color=entry.color,
                light=class_color(entry.color).light,
                dark=class_color(entry.color).dark,
                given=given.get(id, 0),
                predicted=predicted.get(id, 0),
            )
            for id, entry in book.classes.items()
        ],
        counts=schemas.Counts(**view.counts()),
        accuracy=_accuracy(session),
        undo=None if undo is None else action_info(undo),
        redo=None if redo is None else action_info(redo),
        map=schemas.MapInfo(ready=progress.places is not None, revision=progress.map_revision),
        hint=_hint(session, len(given)),
        seconds=progress.seconds,
    )


def action_info(action: Action) -> schemas.ActionInfo:
    """A line of the history."""
    return schemas.ActionInfo.model_validate(action, from_attributes=True)


def items_of(session: Session, view: View, rows: Iterable[int]) -> list[schemas.ItemInfo]:
    """The items at these positions."""
    return [schemas.ItemInfo.model_validate(_item(session, view, i, _SHORT)) for i in rows]


def detail_of(session: Session, i: int) -> schemas.ItemDetail:
    """All that is known of an item."""
    view, found = session.view(), session.engine.progress.found
    probabilities: list[schemas.ClassProbability] = []
    neighbors: list[int] = []
    if found is not None:
        row = int(np.searchsorted(found.warm.positions, i))
        if row < len(found.warm) and found.warm.positions[row] == i:
            near = found.warm.neighbors.indices[row, :_NEIGHBORS]
            neighbors = found.warm.positions[near[near >= 0]].tolist()
            for column in np.argsort(-found.probabilities[row], kind="stable")[:_CLASSES].tolist():
                class_id = int(found.class_ids[column])
                if class_id in session.store.book.classes:
                    likely = {"class": class_id, "probability": float(found.probabilities[row, column])}
                    probabilities.append(schemas.ClassProbability.model_validate(likely))
    item = _item(session, view, i, _LONG)
    return schemas.ItemDetail.model_validate(item | {"probabilities": probabilities, "neighbors": neighbors})


def _item(session: Session, view: View, i: int, most: int) -> dict[str, object]:
    class_id, confidence, dispute = int(view.classes[i]), float(view.confidence[i]), int(view.disputes[i])
    given = session.store.book.labels.get(session.source.ids[i])
    text = None
    if session.source.kind == "texts":
        whole = _whole(str(session.source.preview(i)))
        text = passage(whole, most) if most == _SHORT else whole[:most]
    return {
        "index": i,
        "id": session.source.ids[i],
        "text": text,
        "class": class_id if class_id >= 0 else None,
        "origin": ORIGINS[view.origins[i]],
        "how": None if given is None else given.how,
        "confidence": None if math.isnan(confidence) else round(confidence, 6),
        "dispute": dispute if dispute >= 0 else None,
        "strange": bool(view.strange[i]),
        "suggestion": int(view.suggestions[i]),
        "reason": session.engine.vectors.failed.get(i),
    }


def _whole(text: str) -> str:
    """A text that can be written as UTF-8: halves of characters, which JSON can hold, are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _accuracy(session: Session) -> schemas.Accuracy | None:
    progress = session.engine.progress
    found, held_back = progress.found, progress.accuracy
    if found is None or not len(found.class_ids):
        return None
    expected = found.expected_accuracy(session.given.classes[found.warm.positions] >= 0)
    if held_back is None:
        return schemas.Accuracy(estimate=None, low=None, high=None, right=0, checked=0, expected=expected)
    low, high = held_back.interval
    return schemas.Accuracy(
        estimate=held_back.estimate,
        low=low,
        high=high,
        right=held_back.right,
        checked=held_back.checked,
        expected=expected,
    )


def _hint(session: Session, n_classes: int) -> str | None:
    """What is missing before anything can be predicted."""
    progress, vectors = session.engine.progress, session.engine.vectors
    if progress.problem is not None:
        return f"The work has stopped: {progress.problem}"
    if n_classes == 0:
        return "Name a class and label a few items of it; the queue shows good ones to begin with."
    if n_classes == 1:
        return "Label at least one item of a second class; then the rest is labeled for you."
    if progress.found is None or not len(progress.found.class_ids):
        if vectors.finished and progress.settled == session.given.version:
            return "The labeled items of fewer than two classes can be read; label another one."
        return "The first predictions are on the way."
    return None
