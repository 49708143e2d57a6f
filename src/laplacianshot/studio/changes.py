"""Changes to the labels as values. A change contains the state before and after, so its inverse is known.

A :class:`LabelState` holds the classes and the given labels. Every action makes a :class:`Change`; the state after it
is ``state.after(change)``, and ``state.after(change).after(change.inverse)`` is the state before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from laplacianshot.labeling.tables import label_of
from laplacianshot.runtime.errors import InputError

How: TypeAlias = Literal["person", "accepted", "imported", "source"]

MAX_NAME_LENGTH = 200
MAX_CLASSES = 1000


class ActionError(InputError):
    """An action is not possible; the message is one line. ``code`` is the HTTP status."""

    def __init__(self, message: str, code: int = 409) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


@dataclass(frozen=True, order=True)
class Given:
    """A given label: the id of its class, and where it came from."""

    class_id: int
    how: How = "person"


@dataclass(frozen=True, order=True)
class ClassEntry:
    """A class: its name and the index of its color."""

    name: str
    color: int


@dataclass(frozen=True)
class ClassChange:
    """A class before and after; None where it does not exist."""

    id: int
    before: ClassEntry | None
    after: ClassEntry | None


@dataclass(frozen=True)
class LabelChange:
    """The label of some items before and after; None for no label."""

    items: tuple[str, ...]
    before: Given | None
    after: Given | None


@dataclass(frozen=True)
class Change:
    """What one action changes."""

    classes: tuple[ClassChange, ...] = ()
    labels: tuple[LabelChange, ...] = ()

    @property
    def inverse(self) -> Change:
        """The change that undoes this one."""
        return Change(
            tuple(ClassChange(c.id, c.after, c.before) for c in reversed(self.classes)),
            tuple(LabelChange(c.items, c.after, c.before) for c in reversed(self.labels)),
        )

    @property
    def n_items(self) -> int:
        """Number of items whose label changes."""
        return sum(len(change.items) for change in self.labels)

    def __bool__(self) -> bool:
        return bool(self.classes or self.labels)


@dataclass
class LabelState:
    """All classes, in the order they were added, and all given labels.

    Attributes
    ----------
    classes : dict of int to ClassEntry
        By class id.
    labels : dict of str to Given
        By item.
    next_id : int
        Larger than any class id ever used.
    """

    classes: dict[int, ClassEntry] = field(default_factory=dict)
    labels: dict[str, Given] = field(default_factory=dict)
    next_id: int = 1

    def apply(self, change: Change) -> None:
        """Apply a change in place; an error if the state is not what the change expects."""
        for one in change.classes:
            if self.classes.get(one.id) != one.before:
                raise ActionError(f"class {one.id} has changed since.")
        for some in change.labels:
            if any(self.labels.get(item) != some.before for item in some.items):
                raise ActionError("some of these labels have changed since.")
        for one in change.classes:
            if one.after is None:
                del self.classes[one.id]
            else:
                self.classes[one.id] = one.after
            self.next_id = max(self.next_id, one.id + 1)
        if any(one.before is None for one in change.classes):
            # A class that is restored takes its old place.
            ordered = sorted(self.classes.items())
            self.classes.clear()
            self.classes.update(ordered)
        for some in change.labels:
            if some.after is None:
                for item in some.items:
                    del self.labels[item]
            else:
                self.labels.update(dict.fromkeys(some.items, some.after))

    def copy(self) -> LabelState:
        """Return an independent copy."""
        return LabelState(dict(self.classes), dict(self.labels), self.next_id)

    def after(self, change: Change) -> LabelState:
        """Return the state after a change."""
        state = self.copy()
        state.apply(change)
        return state

    def class_named(self, name: str) -> int | None:
        """Return the id of the class of this name, or None."""
        return next((id for id, entry in self.classes.items() if entry.name == name), None)

    def name_of(self, id: int) -> str:
        """Return the name of a class; an error if it does not exist."""
        return self._entry(id).name

    # Actions: each returns its change, or raises ActionError.

    def adding(self, name: str) -> Change:
        """Add a class."""
        return Change(classes=(self._new_class(name),))

    def renaming(self, id: int, name: str) -> Change:
        """Rename a class."""
        before, new_name = self._entry(id), checked_name(name)
        if new_name == before.name:
            raise ActionError(f"the class is already called {new_name!r}.")
        self._check_free(new_name)
        return Change(classes=(ClassChange(id, before, ClassEntry(new_name, before.color)),))

    def merging(self, id: int, into: int) -> Change:
        """Move all labels of a class to another one and delete the class."""
        entry = self._entry(id)
        self._entry(into)
        if id == into:
            raise ActionError("a class cannot be merged into itself.")
        moved = {item: Given(into, label.how) for item, label in self.labels.items() if label.class_id == id}
        return Change((ClassChange(id, entry, None),), self._changed(moved))

    def deleting(self, id: int) -> Change:
        """Delete a class and its labels."""
        entry = self._entry(id)
        taken = dict.fromkeys(item for item, label in self.labels.items() if label.class_id == id)
        return Change((ClassChange(id, entry, None),), self._changed(taken))

    def labeling(self, items: Iterable[str], class_id: int, how: How = "person") -> Change:
        """Label items with a class."""
        self._entry(class_id)
        return Change(labels=self._changed(dict.fromkeys(items, Given(class_id, how))))

    def labeling_by_name(self, labels: Mapping[str, str], how: How = "person") -> Change:
        """Label items by class name; missing classes are added."""
        numbers = {entry.name: id for id, entry in self.classes.items()}
        made: list[ClassChange] = []
        for name in dict.fromkeys(labels.values()):
            if name not in numbers:
                made.append(self._new_class(name, made))
                numbers[name] = made[-1].id
        return Change(tuple(made), self._changed({item: Given(numbers[name], how) for item, name in labels.items()}))

    def clearing(self, items: Iterable[str]) -> Change:
        """Remove the given labels of items."""
        return Change(labels=self._changed(dict.fromkeys(items)))

    def _entry(self, id: int) -> ClassEntry:
        if id not in self.classes:
            raise ActionError(f"there is no class {id}.", 404)
        return self.classes[id]

    def _new_class(self, name: str, beside: Iterable[ClassChange] = ()) -> ClassChange:
        checked = checked_name(name)
        self._check_free(checked)
        others = list(beside)
        if len(self.classes) + len(others) >= MAX_CLASSES:
            raise ActionError(f"a project has at most {MAX_CLASSES} classes; merge or delete some.")
        used = {entry.color for entry in self.classes.values()} | {c.after.color for c in others if c.after}
        color = next(number for number in range(len(used) + 1) if number not in used)
        return ClassChange(self.next_id + len(others), None, ClassEntry(checked, color))

    def _check_free(self, name: str) -> None:
        if self.class_named(name) is not None:
            raise ActionError(f"a class {name!r} exists already; choose another name, or merge the two.")

    def _changed(self, labels: Mapping[str, Given | None]) -> tuple[LabelChange, ...]:
        """Group the labels that really change by their value before and after."""
        groups: defaultdict[tuple[Given | None, Given | None], list[str]] = defaultdict(list)
        for item, after in labels.items():
            before = self.labels.get(item)
            if before != after:
                groups[before, after].append(item)
        return tuple(LabelChange(tuple(items), before, after) for (before, after), items in groups.items())


def checked_name(name: str) -> str:
    """Return a valid class name in Unicode composed form, without surrounding blanks."""
    checked = label_of(name)
    if checked is None or checked == "-1":
        raise ActionError(f"{name!r} is not a valid class name.")
    if len(checked) > MAX_NAME_LENGTH:
        raise ActionError(f"a class name can have at most {MAX_NAME_LENGTH} characters.")
    if any(ord(mark) < 32 or 0xD800 <= ord(mark) < 0xE000 or mark in "\x7f\ufffe\uffff" for mark in checked):
        raise ActionError("a class name cannot contain control characters.")
    return checked


def to_json(change: Change) -> dict[str, Any]:
    """Convert a change to plain values for JSON."""
    return {
        "classes": [[c.id, _entry_list(c.before), _entry_list(c.after)] for c in change.classes],
        "labels": [[list(c.items), _given_list(c.before), _given_list(c.after)] for c in change.labels],
    }


def from_json(value: Mapping[str, Any]) -> Change:
    """Read a change that :func:`to_json` wrote."""
    return Change(
        tuple(
            ClassChange(
                id, None if before is None else ClassEntry(*before), None if after is None else ClassEntry(*after)
            )
            for id, before, after in value["classes"]
        ),
        tuple(
            LabelChange(
                tuple(items), None if before is None else Given(*before), None if after is None else Given(*after)
            )
            for items, before, after in value["labels"]
        ),
    )


def _entry_list(entry: ClassEntry | None) -> list[Any] | None:
    return None if entry is None else [entry.name, entry.color]


def _given_list(label: Given | None) -> list[Any] | None:
    return None if label is None else [label.class_id, label.how]
