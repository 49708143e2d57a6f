"""What a person can do, each as one action on a session."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from laplacianshot.runtime.types import Ints
from laplacianshot.studio.changes import Book, Change, checked_name
from laplacianshot.studio.exporting import count_of
from laplacianshot.studio.session import Session
from laplacianshot.studio.store import Action
from laplacianshot.studio.view import Query


def label(session: Session, indices: Sequence[int], class_id: int) -> Action:
    """Give items the label of a class."""
    items = session.items(indices)
    return session.act(
        "label",
        lambda book: book.labeling(items, class_id),
        lambda book, change: f"{count_of(change.n_items)}: {book.name_of(class_id)}",
    )


def label_by_name(session: Session, indices: Sequence[int], name: str) -> Action:
    """Give items the label of the class of that name, which is made if there is none."""
    items, wanted = session.items(indices), checked_name(name)
    return session.act(
        "label",
        lambda book: book.labeling_by_name(dict.fromkeys(items, wanted)),
        lambda book, change: f"{count_of(change.n_items)}: {wanted}",
    )


def clear(session: Session, indices: Sequence[int]) -> Action:
    """Take the given labels of items away."""
    items = session.items(indices)
    return session.act(
        "clear",
        lambda book: book.clearing(items),
        lambda book, change: f"{count_of(change.n_items)}: label taken away",
    )


def accept(session: Session, indices: Sequence[int]) -> Action:
    """Make the predictions of these items given labels."""
    session.items(indices)
    return _accept(session, np.unique(np.asarray(indices, dtype=np.int64)), "")


def accept_sure(session: Session, min_confidence: float, class_id: int | None) -> Action:
    """Make all predictions that are at least so sure given labels, of one class or of all."""
    with session.lock:
        if class_id is not None:
            session.store.book.name_of(class_id)
        classes = () if class_id is None else (class_id,)
        query = Query(classes=classes, origins=("predicted",), min_confidence=min_confidence)
        rows = session.catalog.select(session.view(), query)
        return _accept(session, rows, f", at least {100 * min_confidence:g}% sure")


def _accept(session: Session, rows: Ints, how: str) -> Action:
    def tell(book: Book, change: Change) -> str:
        names = sorted({book.name_of(one.after.class_id) for one in change.labels if one.after is not None})
        what = names[0] if len(names) == 1 else f"{len(names)} classes"
        return f"{count_of(change.n_items)} accepted: {what}{how}"

    return session.act("accept", session.accepted(rows), tell)


def add_class(session: Session, name: str) -> Action:
    """A new class."""
    return session.act("add-class", lambda book: book.adding(name), lambda book, change: f"New class: {_added(change)}")


def rename_class(session: Session, class_id: int, name: str) -> Action:
    """Another name for a class."""
    before = session.store.book.name_of(class_id)
    return session.act(
        "rename-class",
        lambda book: book.renaming(class_id, name),
        lambda book, change: f"{before} is now {_added(change)}",
    )


def merge_classes(session: Session, class_id: int, into: int) -> Action:
    """One class becomes part of another."""
    before = session.store.book.name_of(class_id)
    return session.act(
        "merge-classes",
        lambda book: book.merging(class_id, into),
        lambda book, change: f"{before} merged into {book.name_of(into)}: {count_of(change.n_items)}",
    )


def delete_class(session: Session, class_id: int) -> Action:
    """A class goes, and its labels."""
    before = session.store.book.name_of(class_id)
    return session.act(
        "delete-class",
        lambda book: book.deleting(class_id),
        lambda book, change: f"{before} deleted: {count_of(change.n_items)}",
    )


def _added(change: Change) -> str:
    return next(one.after.name for one in change.classes if one.after is not None)
