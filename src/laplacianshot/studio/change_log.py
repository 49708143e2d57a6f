"""The labels of a project, the changes that people make to them, and the log of all actions in SQLite.

A :class:`LabelState` holds the classes and the given labels. Every action makes a :class:`Change`, which contains the
state before and after, so its inverse is known: ``state.after(change).after(change.inverse)`` is ``state``.

A :class:`ChangeLog` saves one transaction per action, so a saved label survives a crash. The table ``actions`` is
append-only. Undo and redo are actions too: undo applies the inverse change, redo applies the change again. The tables
``classes`` and ``labels`` hold the state after the last action and are written in the same transaction.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NamedTuple, TypeAlias

from laplacianshot.labeling.tables import encodable, label_of
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.files import PRIVATE_FILE, check_input

How: TypeAlias = Literal["person", "accepted", "imported", "source"]
Kind: TypeAlias = Literal[
    "label", "accept", "clear", "add-class", "name-classes", "rename-class", "merge-classes", "delete-class", "import",
    "undo", "redo",
]  # fmt: skip

FILE_NAME = "labels.sqlite"
MAX_NAME_LENGTH = 200
_MAX_CLASSES = 1000
_FORMAT = "1"
# The third column of classes is called colour, as in version 0.1, so that both versions read each other's files. For
# the same reason names have a table of their own, and a class that has none is written as before.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS actions (
  version INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, summary TEXT NOT NULL, target INTEGER,
  change TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS classes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, colour INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS names (class INTEGER PRIMARY KEY, said TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS labels (item TEXT PRIMARY KEY, class INTEGER NOT NULL, how TEXT NOT NULL) WITHOUT ROWID;
"""


class ActionError(InputError):
    """An action is not possible; the message is one line. ``code`` is the HTTP status."""

    def __init__(self, message: str, code: int = 409) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


class ProjectError(InputError):
    """A project cannot be opened; the message is one line."""


class Given(NamedTuple):
    """A given label: the id of its class, and where it came from."""

    class_id: int
    how: How = "person"


class ClassEntry(NamedTuple):
    """A class: its name, the index of its color, and what its name counts for.

    ``said`` are the descriptions that predictions start from, none of them if the name itself is; None if neither is.
    """

    name: str
    color: int
    said: tuple[str, ...] | None = None

    @classmethod
    def read(cls, written: Sequence[Any] | None) -> ClassEntry | None:
        """Read what JSON holds in place of an entry; older versions wrote a name and a color."""
        if written is None:
            return None
        name, color, *said = written
        return cls(name, color, tuple(said[0]) if said else None)

    @property
    def written(self) -> tuple[Any, ...]:
        """The entry for JSON."""
        return self[:2] if self.said is None else tuple(self)


class ClassChange(NamedTuple):
    """A class before and after; None where it does not exist."""

    id: int
    before: ClassEntry | None
    after: ClassEntry | None


class LabelChange(NamedTuple):
    """The label of some items before and after; None for no label."""

    items: tuple[str, ...]
    before: Given | None
    after: Given | None


@dataclass(frozen=True)
class Change:
    """What one action changes, the kind of the action, and its description for people."""

    classes: tuple[ClassChange, ...] = ()
    labels: tuple[LabelChange, ...] = ()
    kind: Kind = field(default="label", compare=False)
    summary: str = field(default="", compare=False)

    @property
    def inverse(self) -> Change:
        """The change that undoes this one."""
        return Change(
            tuple(ClassChange(c.id, c.after, c.before) for c in reversed(self.classes)),
            tuple(LabelChange(c.items, c.after, c.before) for c in reversed(self.labels)),
            "undo",
            f"Undo: {self.summary}",
        )

    def __bool__(self) -> bool:
        return bool(self.classes or self.labels)

    def to_json(self) -> str:
        """Write down what changes; tuples become lists."""
        classes = [(one.id, one.before and one.before.written, one.after and one.after.written) for one in self.classes]
        return json.dumps({"classes": classes, "labels": self.labels})

    @classmethod
    def from_json(cls, text: str, kind: Kind = "label", summary: str = "") -> Change:
        """Read what :meth:`to_json` wrote."""
        value = json.loads(text)
        return cls(
            tuple(ClassChange(id, ClassEntry.read(a), ClassEntry.read(b)) for id, a, b in value["classes"]),
            tuple(LabelChange(tuple(items), a and Given(*a), b and Given(*b)) for items, a, b in value["labels"]),
            kind,
            summary,
        )


@dataclass
class LabelState:
    """All classes by id, in the order they were added, and all given labels by item.

    ``next_id`` is larger than any class id ever used. Each of the methods that end in -ing returns the change of one
    action, or raises :class:`ActionError`.
    """

    classes: dict[int, ClassEntry] = field(default_factory=dict)
    labels: dict[str, Given] = field(default_factory=dict)
    next_id: int = 1

    def after(self, change: Change) -> LabelState:
        """Return the state after a change; an error if this state is not what the change expects."""
        classes, labels, next_id = dict(self.classes), dict(self.labels), self.next_id
        for one in change.classes:
            if classes.get(one.id) != one.before:
                raise ActionError(f"class {one.id} has changed since.")
            if one.after is None:
                del classes[one.id]
            else:
                classes[one.id] = one.after
            next_id = max(next_id, one.id + 1)
        for some in change.labels:
            if any(labels.get(item) != some.before for item in some.items):
                raise ActionError("some of these labels have changed since.")
            if some.after is None:
                for item in some.items:
                    del labels[item]
            else:
                labels.update(dict.fromkeys(some.items, some.after))
        # Sorted, so that a class that is restored takes its old place.
        return LabelState(dict(sorted(classes.items())), labels, next_id)

    @cached_property
    def n_from_source(self) -> int:
        """The number of labels that the source itself holds. A state does not change once it is made."""
        return sum(label.how == "source" for label in self.labels.values())

    def class_named(self, name: str) -> int | None:
        """Return the id of the class of this name, or None."""
        return next((id for id, entry in self.classes.items() if entry.name == name), None)

    def name_of(self, id: int) -> str:
        """Return the name of a class; an error if it does not exist."""
        return self._entry(id).name

    def adding(self, name: str) -> Change:
        """Add a class."""
        checked = checked_name(name)
        return Change((self._new_class(checked),), (), "add-class", f"New class: {checked}")

    def naming(self, classes: Mapping[str, tuple[str, ...]], *, counted: bool = True) -> Change:
        """Add classes by name, with their descriptions; names are what predictions start from, where ``counted``.

        Classes that exist keep their labels. Nothing may change at all.
        """
        numbers = {entry.name: id for id, entry in self.classes.items()}
        changed: list[ClassChange] = []
        made: list[ClassChange] = []
        for given, texts in classes.items():
            name, said = checked_name(given), tuple(texts) if counted else None
            before = self.classes.get(numbers.get(name, 0))
            if before is None:
                made.append(self._new_class(name, made, said))
            elif counted and before.said != said:
                changed.append(ClassChange(numbers[name], before, before._replace(said=said)))
        return Change((*changed, *made), (), "name-classes", f"Classes by name: {_listed([*classes])}")

    def renaming(self, id: int, name: str) -> Change:
        """Rename a class."""
        before, new_name = self._entry(id), checked_name(name)
        if new_name == before.name:
            raise ActionError(f"the class is already called {new_name!r}.")
        self._check_free(new_name)
        changed = ClassChange(id, before, before._replace(name=new_name))
        return Change((changed,), (), "rename-class", f"{before.name} is now {new_name}")

    def merging(self, id: int, into: int) -> Change:
        """Move all labels of a class to another one and delete the class."""
        entry, name = self._entry(id), self.name_of(into)
        if id == into:
            raise ActionError("a class cannot be merged into itself.")
        moved = {item: Given(into, label.how) for item, label in self.labels.items() if label.class_id == id}
        summary = f"{entry.name} merged into {name}: {_count(len(moved))}"
        return Change((ClassChange(id, entry, None),), self._changed(moved), "merge-classes", summary)

    def deleting(self, id: int) -> Change:
        """Delete a class and its labels."""
        entry = self._entry(id)
        taken = dict.fromkeys(item for item, label in self.labels.items() if label.class_id == id)
        summary = f"{entry.name} deleted: {_count(len(taken))}"
        return Change((ClassChange(id, entry, None),), self._changed(taken), "delete-class", summary)

    def labeling(self, items: Iterable[str], class_id: int) -> Change:
        """Label items with a class."""
        name = self.name_of(class_id)
        labels = self._changed(dict.fromkeys(items, Given(class_id)))
        return Change((), labels, "label", f"{_n_items(labels)}: {name}")

    def labeling_by_name(self, labels: Mapping[str, str], how: How = "person", imported: str = "") -> Change:
        """Label items by class name; missing classes are added. ``imported`` says where the labels come from."""
        names = {name: checked_name(name) for name in dict.fromkeys(labels.values())}
        numbers = {entry.name: id for id, entry in self.classes.items()}
        made: list[ClassChange] = []
        for name in names.values():
            if name not in numbers:
                made.append(self._new_class(name, made))
                numbers[name] = made[-1].id
        changed = self._changed({item: Given(numbers[names[name]], how) for item, name in labels.items()})
        if imported:
            return Change(tuple(made), changed, "import", f"{imported}: {_n_items(changed)}")
        return Change(tuple(made), changed, "label", f"{_n_items(changed)}: {_listed(names.values())}")

    def accepting(self, predicted: Mapping[str, int], which: str) -> Change:
        """Accept predictions, class ids by item; ``which`` says in words how they were chosen.

        Nobody has looked at them one by one, so they are kept apart from labels that people give.
        """
        names = sorted({self.name_of(class_id) for class_id in predicted.values()})
        labels = self._changed({item: Given(class_id, "accepted") for item, class_id in predicted.items()})
        return Change((), labels, "accept", f"{_n_items(labels)} accepted: {_listed(names)}{which}")

    def clearing(self, items: Iterable[str]) -> Change:
        """Remove the given labels of items."""
        labels = self._changed(dict.fromkeys(items))
        return Change((), labels, "clear", f"{_n_items(labels)}: label removed")

    def freeing(self) -> Change:
        """Remove the labels that the source itself holds, and the classes that have no other."""
        items = [item for item, label in self.labels.items() if label.how == "source"]
        kept = {label.class_id for label in self.labels.values() if label.how != "source"}
        emptied = sorted({self.labels[item].class_id for item in items} - kept)
        classes = tuple(ClassChange(id, self.classes[id], None) for id in emptied)
        labels = self._changed(dict.fromkeys(items))
        return Change(classes, labels, "clear", f"{_n_items(labels)}: label of the source removed")

    def _entry(self, id: int) -> ClassEntry:
        if id not in self.classes:
            raise ActionError(f"there is no class {id}.", 404)
        return self.classes[id]

    def _new_class(
        self, name: str, others: Sequence[ClassChange] = (), said: tuple[str, ...] | None = None
    ) -> ClassChange:
        """Return a class of this name, added after others that are new; its name counts where others do."""
        self._check_free(name)
        if said is None and any(entry.said is not None for entry in self.classes.values()):
            said = ()
        if len(self.classes) + len(others) >= _MAX_CLASSES:
            raise ActionError(f"a project has at most {_MAX_CLASSES} classes; merge or delete some.")
        used = {entry.color for entry in self.classes.values()} | {c.after.color for c in others if c.after}
        color = next(number for number in range(len(used) + 1) if number not in used)
        return ClassChange(self.next_id + len(others), None, ClassEntry(name, color, said))

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
    checked = label_of(name) if encodable(name) else "\ufffe"
    if checked is None or checked == "-1":
        raise ActionError(f"{name!r} is not a valid class name.")
    if len(checked) > MAX_NAME_LENGTH:
        raise ActionError(f"a class name can have at most {MAX_NAME_LENGTH} characters.")
    if any(ord(mark) < 32 or mark in "\x7f\ufffe\uffff" for mark in checked):
        raise ActionError("a class name cannot contain control characters.")
    return checked


@dataclass(frozen=True)
class Action:
    """One action of the log: its number from 1, its time in UTC, and the action that an undo or redo refers to."""

    version: int
    kind: Kind
    at: str
    summary: str
    target: int | None = None
    undone: bool = False


class ChangeLog:
    """The current state and the log that led to it, in one SQLite file of a project's folder.

    A project belongs to one source, the path of what is labeled.
    """

    # Replaced after each action, never changed, as other threads may be reading it.
    state: LabelState
    _actions: list[Action]

    def __init__(self, folder: Path, source: str) -> None:
        self._lock = RLock()
        self.path = folder / FILE_NAME
        try:
            # For its owner alone, and so are the files that SQLite puts beside it. A pipe would hold us up.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), PRIVATE_FILE))
            check_input(self.path)
            with contextlib.suppress(OSError):  # of another user
                self.path.chmod(PRIVATE_FILE)
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
            # Write through to the disk at each commit, not only to the system's memory.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(_SCHEMA)
            self._read(source)
        except ProjectError:
            raise
        except (sqlite3.Error, OSError, LookupError, ValueError, TypeError) as error:
            # A damaged file may hold anything in place of what was written.
            what = error if isinstance(error, sqlite3.Error) else f"damaged: {error}"
            raise ProjectError(
                f"{self.path} cannot be read ({what}); move it away to start again, or choose another --project."
            ) from error

    @property
    def version(self) -> int:
        """Number of the last action; 0 before the first."""
        return len(self._actions)

    def commit(self, change: Change, target: int | None = None) -> Action:
        """Apply a change and save it; it is on disk when this returns. An empty change is an error."""
        if not change:
            raise ActionError("nothing would change.")
        with self._lock:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            action = Action(self.version + 1, change.kind, now, change.summary, target)
            after = self.state.after(change)
            # Committed at the end of the block, or rolled back.
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                database.execute(
                    "INSERT INTO actions VALUES (?, ?, ?, ?, ?, ?)",
                    (action.version, action.at, action.kind, action.summary, target, change.to_json()),
                )
                _write(database, change, after.next_id)
            self.state = after
            self._actions.append(action)
            self._follow(action)
            return action

    def undo(self) -> Action:
        """Undo the last action that is not undone."""
        with self._lock:
            if self.next_undo is None:
                raise ActionError("there is nothing to undo.")
            return self.commit(self.change_of(self.next_undo.version).inverse, self.next_undo.version)

    def redo(self) -> Action:
        """Redo the last undone action, if nothing else was done since."""
        with self._lock:
            if self.next_redo is None:
                raise ActionError("there is nothing to redo.")
            change = self.change_of(self.next_redo.version)
            again = replace(change, kind="redo", summary=f"Redo: {change.summary}")
            return self.commit(again, self.next_redo.version)

    @property
    def next_undo(self) -> Action | None:
        """The action that :meth:`undo` would undo."""
        with self._lock:
            return self._done[-1] if self._done else None

    @property
    def next_redo(self) -> Action | None:
        """The action that :meth:`redo` would redo."""
        with self._lock:
            return self._undone[-1] if self._undone else None

    def history(self, offset: int = 0, limit: int = 100) -> list[Action]:
        """Return actions, the newest first."""
        with self._lock:
            newest = self._actions[::-1][offset : offset + limit]
            done = {action.version for action in self._done}
            return [replace(a, undone=a.target is None and a.version not in done) for a in newest]

    def change_of(self, version: int) -> Change:
        """Return the change of an action."""
        with self._lock:
            query = "SELECT change, kind, summary FROM actions WHERE version = ?"
            try:
                return Change.from_json(*self._database.execute(query, (version,)).fetchone())
            except (LookupError, ValueError, TypeError) as error:
                raise ActionError(f"action {version} in {self.path} is damaged and cannot be undone.") from error

    def confirmed(self) -> dict[str, Given]:
        """Return labels that people accepted one at a time, looking at each, by item.

        Until version 0.2 these were saved as ``accepted``, like those that were accepted by their confidence.
        """
        query = "SELECT change FROM actions WHERE kind = 'accept' AND summary LIKE '1 item accepted: %'"
        with self._lock:
            rows = self._database.execute(f"{query} AND summary NOT LIKE '%, confidence %'").fetchall()
        return {
            item: some.after
            for (text,) in rows
            for some in Change.from_json(text).labels
            for item in some.items
            if some.after is not None
        }

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def _read(self, source: str) -> None:
        """Read everything, after a check that this is the project of this source."""
        meta = dict(self._database.execute("SELECT key, value FROM meta").fetchall())
        if not meta:
            meta = {"format": _FORMAT, "source": source, "next_id": "1"}
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        if meta.get("format") != _FORMAT:
            raise ProjectError(
                f"{self.path} was written by another version of laplacianshot; choose another --project."
            )
        if meta["source"] != source:
            raise ProjectError(f"{self.path} holds the labels of {meta['source']}; choose another --project.")
        classes = self._database.execute("SELECT id, name, colour FROM classes ORDER BY id").fetchall()
        said = {id: tuple(map(str, json.loads(text))) for id, text in self._database.execute("SELECT * FROM names")}
        labels = self._database.execute("SELECT item, class, how FROM labels").fetchall()
        self.state = LabelState(
            {id: ClassEntry(checked_name(name), int(color), said.get(id)) for id, name, color in classes},
            {str(item): Given(class_id, how) for item, class_id, how in labels},
            int(meta["next_id"]),
        )
        unknown = {label.class_id for label in self.state.labels.values()} - set(self.state.classes)
        if unknown or self.state.next_id <= max(self.state.classes, default=0):
            raise ValueError("labels and classes do not fit together")
        actions = self._database.execute("SELECT version, kind, at, summary, target FROM actions ORDER BY version")
        self._actions = [Action(*row) for row in actions]
        if [action.version for action in self._actions] != list(range(1, len(self._actions) + 1)):
            raise ValueError("actions are missing")
        # Stacks: the last one is what undo or redo takes next.
        self._done: list[Action] = []
        self._undone: list[Action] = []
        for action in self._actions:
            self._follow(action)

    def _follow(self, action: Action) -> None:
        if action.kind == "undo":
            self._undone.append(self._done.pop())
        elif action.kind == "redo":
            self._done.append(self._undone.pop())
        else:
            self._done.append(action)
            self._undone.clear()


def _write(database: sqlite3.Connection, change: Change, next_id: int) -> None:
    """Update the tables. Old classes are deleted first, as names are unique at every moment."""
    for one in change.classes:
        database.execute("DELETE FROM classes WHERE id = ?", (one.id,))
        database.execute("DELETE FROM names WHERE class = ?", (one.id,))
    for one in change.classes:
        if one.after is not None:
            database.execute("INSERT INTO classes VALUES (?, ?, ?)", (one.id, *one.after[:2]))
            if one.after.said is not None:
                database.execute("INSERT INTO names VALUES (?, ?)", (one.id, json.dumps(one.after.said)))
    for some in change.labels:
        if some.after is None:
            database.executemany("DELETE FROM labels WHERE item = ?", ((item,) for item in some.items))
        else:
            rows = ((item, *some.after) for item in some.items)
            database.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", rows)
    database.execute("INSERT OR REPLACE INTO meta VALUES ('next_id', ?)", (str(next_id),))


def _count(n: int) -> str:
    return "1 item" if n == 1 else f"{n:,} items"


def _n_items(labels: Iterable[LabelChange]) -> str:
    return _count(sum(len(change.items) for change in labels))


def _listed(names: Collection[str]) -> str:
    return next(iter(names)) if len(names) == 1 else f"{len(names)} classes"
