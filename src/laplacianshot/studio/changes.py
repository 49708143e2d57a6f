"""What people do to the labels, as values: a change says what was before and what is after, so its inverse is known.

A :class:`Book` holds the classes and the given labels. Every action makes a :class:`Change`; the book after it is
``book.after(change)``, and ``book.after(change).after(change.inverse)`` is the book before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from laplacianshot.labeling.sources.values import label_of
from laplacianshot.runtime.errors import InputError

How: TypeAlias = Literal["person", "accepted", "imported", "source"]

# Characters of a class's name, at most.
LONGEST_NAME = 200
MOST_CLASSES = 1000


class ActionError(InputError):
    """What cannot be done, in one line. ``code`` is the status that the web gives it."""

    def __init__(self, message: str, code: int = 409) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


@dataclass(frozen=True, order=True)
class Given:
    """A given label: the number of its class, and how it came."""

    class_id: int
    how: How = "person"


@dataclass(frozen=True, order=True)
class ClassEntry:
    """A class: its name, and the number of its color."""

    name: str
    color: int


@dataclass(frozen=True)
class ClassChange:
    """A class before and after; None where it is not there."""

    id: int
    before: ClassEntry | None
    after: ClassEntry | None


@dataclass(frozen=True)
class LabelChange:
    """The label of some items before and after; None where they have none."""

    items: tuple[str, ...]
    before: Given | None
    after: Given | None


@dataclass(frozen=True)
class Change:
    """What one action does to a book."""

    classes: tuple[ClassChange, ...] = ()
    labels: tuple[LabelChange, ...] = ()

    @property
    def inverse(self) -> Change:
        """The change that takes this one back."""
        return Change(
            tuple(ClassChange(c.id, c.after, c.before) for c in reversed(self.classes)),
            tuple(LabelChange(c.items, c.after, c.before) for c in reversed(self.labels)),
        )

    @property
    def n_items(self) -> int:
        """Items whose label changes."""
        return sum(len(change.items) for change in self.labels)

    def __bool__(self) -> bool:
        return bool(self.classes or self.labels)


@dataclass
class Book:
    """Classes by number, in the order they were made, and given labels by item.

    Attributes
    ----------
    classes : dict of int to ClassEntry
    labels : dict of str to Given
    next_id : int
        Larger than the number of any class there ever was.
    """

    classes: dict[int, ClassEntry] = field(default_factory=dict)
    labels: dict[str, Given] = field(default_factory=dict)
    next_id: int = 1

    def apply(self, change: Change) -> None:
        """Change this book in place, if it is as the change expects it to be."""
        for one in change.classes:
            if self.classes.get(one.id) != one.before:
                raise ActionError(f"class {one.id} is no longer what it was when this was done.")
        for some in change.labels:
            if any(self.labels.get(item) != some.before for item in some.items):
                raise ActionError("labels are no longer what they were when this was done.")
        for one in change.classes:
            if one.after is None:
                del self.classes[one.id]
            else:
                self.classes[one.id] = one.after
            self.next_id = max(self.next_id, one.id + 1)
        if any(one.before is None for one in change.classes):
            # A class that comes back takes its old place.
            ordered = sorted(self.classes.items())
            self.classes.clear()
            self.classes.update(ordered)
        for some in change.labels:
            if some.after is None:
                for item in some.items:
                    del self.labels[item]
            else:
                self.labels.update(dict.fromkeys(some.items, some.after))

    def copy(self) -> Book:
        """A book of its own with the same content."""
        return Book(dict(self.classes), dict(self.labels), self.next_id)

    def after(self, change: Change) -> Book:
        """The book that the change makes of this one."""
        book = self.copy()
        book.apply(change)
        return book

    def class_named(self, name: str) -> int | None:
        """The number of the class of this name."""
        return next((id for id, entry in self.classes.items() if entry.name == name), None)

    def name_of(self, id: int) -> str:
        """The name of a class, or an error."""
        return self._entry(id).name

    # Actions: each gives the change it would make, or raises ActionError.

    def adding(self, name: str) -> Change:
        """A new class."""
        return Change(classes=(self._new_class(name),))

    def renaming(self, id: int, name: str) -> Change:
        """Another name for a class."""
        before, wanted = self._entry(id), checked_name(name)
        if wanted == before.name:
            raise ActionError(f"the class is called {wanted!r} already.")
        self._check_free(wanted)
        return Change(classes=(ClassChange(id, before, ClassEntry(wanted, before.color)),))

    def merging(self, id: int, into: int) -> Change:
        """All labels of a class become those of another one; the class goes."""
        entry = self._entry(id)
        self._entry(into)
        if id == into:
            raise ActionError("a class cannot be merged into itself.")
        wanted = {item: Given(into, label.how) for item, label in self.labels.items() if label.class_id == id}
        return Change((ClassChange(id, entry, None),), self._changed(wanted))

    def deleting(self, id: int) -> Change:
        """A class and its labels go."""
        entry = self._entry(id)
        taken = dict.fromkeys(item for item, label in self.labels.items() if label.class_id == id)
        return Change((ClassChange(id, entry, None),), self._changed(taken))

    def labeling(self, items: Iterable[str], class_id: int, how: How = "person") -> Change:
        """Items get the label of a class."""
        self._entry(class_id)
        return Change(labels=self._changed(dict.fromkeys(items, Given(class_id, how))))

    def labeling_by_name(self, wanted: Mapping[str, str], how: How = "person") -> Change:
        """Items get labels by the names of classes, which are made where there are none."""
        numbers = {entry.name: id for id, entry in self.classes.items()}
        made: list[ClassChange] = []
        for name in dict.fromkeys(wanted.values()):
            if name not in numbers:
                made.append(self._new_class(name, made))
                numbers[name] = made[-1].id
        return Change(tuple(made), self._changed({item: Given(numbers[name], how) for item, name in wanted.items()}))

    def clearing(self, items: Iterable[str]) -> Change:
        """Items lose their given labels."""
        return Change(labels=self._changed(dict.fromkeys(items)))

    def _entry(self, id: int) -> ClassEntry:
        if id not in self.classes:
            raise ActionError(f"there is no class {id}.", 404)
        return self.classes[id]

    def _new_class(self, name: str, beside: Iterable[ClassChange] = ()) -> ClassChange:
        wanted = checked_name(name)
        self._check_free(wanted)
        others = list(beside)
        if len(self.classes) + len(others) >= MOST_CLASSES:
            raise ActionError(f"there are {MOST_CLASSES} classes already; merge or delete some.")
        used = {entry.color for entry in self.classes.values()} | {c.after.color for c in others if c.after}
        color = next(number for number in range(len(used) + 1) if number not in used)
        return ClassChange(self.next_id + len(others), None, ClassEntry(wanted, color))

    def _check_free(self, name: str) -> None:
        if self.class_named(name) is not None:
            raise ActionError(f"there is a class {name!r} already; choose another name, or merge the two.")

    def _changed(self, wanted: Mapping[str, Given | None]) -> tuple[LabelChange, ...]:
        """The labels that differ from what they are, equal changes together."""
        groups: defaultdict[tuple[Given | None, Given | None], list[str]] = defaultdict(list)
        for item, after in wanted.items():
            before = self.labels.get(item)
            if before != after:
                groups[before, after].append(item)
        return tuple(LabelChange(tuple(items), before, after) for (before, after), items in groups.items())


def checked_name(name: str) -> str:
    """A name as it is kept: composed, without blanks around; an error where it cannot be one."""
    wanted = label_of(name)
    if wanted is None or wanted == "-1":
        raise ActionError(f"a class cannot be called {name!r}; give it a name.")
    if len(wanted) > LONGEST_NAME:
        raise ActionError(f"a class's name has at most {LONGEST_NAME} characters.")
    if any(ord(mark) < 32 or 0xD800 <= ord(mark) < 0xE000 or mark in "\x7f\ufffe\uffff" for mark in wanted):
        raise ActionError("a class's name holds no control characters.")
    return wanted


def to_json(change: Change) -> dict[str, Any]:
    """Plain values that :func:`from_json` reads."""
    return {
        "classes": [[c.id, _entry_list(c.before), _entry_list(c.after)] for c in change.classes],
        "labels": [[list(c.items), _given_list(c.before), _given_list(c.after)] for c in change.labels],
    }


def from_json(value: Mapping[str, Any]) -> Change:
    """The change that :func:`to_json` wrote."""
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
