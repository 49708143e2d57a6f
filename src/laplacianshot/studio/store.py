"""Actions on the disk: one transaction each, so that what was acknowledged is there after a kill.

The table ``actions`` only grows. Each row holds its :class:`~laplacianshot.studio.changes.Change`; undo and redo are
actions too, whose change is the inverse of the one they take back, or that one again. The tables ``classes`` and
``labels`` hold the book after the last action and change in the same transaction: reading the log from its start gives
the same book (:meth:`Store.replayed`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock

from laplacianshot.runtime.errors import InputError
from laplacianshot.studio.changes import (
    ActionError,
    Book,
    Change,
    ClassEntry,
    Given,
    from_json,
    to_json,
)

FILE_NAME = "labels.sqlite"
FORMAT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS actions (
  version INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, summary TEXT NOT NULL, target INTEGER,
  change TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS classes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, color INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS labels (item TEXT PRIMARY KEY, class INTEGER NOT NULL, how TEXT NOT NULL) WITHOUT ROWID;
"""


class StoreError(InputError):
    """A project that cannot be opened, in one line."""


@dataclass(frozen=True)
class Action:
    """One row of the log.

    Attributes
    ----------
    version : int
        From 1, one more than that of the action before.
    kind : str
    at : str
        Time in UTC, as ``2026-11-16T07:30:00Z``.
    summary : str
        What was done, for people.
    target : int or None
        Of undo and redo: the action that was taken back or done again.
    undone : bool
        Whether it is taken back at this time.
    """

    version: int
    kind: str
    at: str
    summary: str
    target: int | None = None
    undone: bool = False


class Store:
    """A book and its log, in a file.

    Parameters
    ----------
    folder : Path
        Of the project; there.
    source : str
        What is labeled. A project belongs to one source for good.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self._lock = RLock()
        self._version = 0
        self.path = folder / FILE_NAME
        try:
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
            # A transaction is on the disk when it is acknowledged, not only in the system's memory.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(_SCHEMA)
            self._check(source)
            self.book = self._read_book()
            self._read_log()
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{self.path} cannot be read ({error}); move it away to begin anew, or name another --project."
            ) from error

    @property
    def version(self) -> int:
        """Number of the last action, 0 before the first."""
        return self._version

    def commit(self, kind: str, summary: str, change: Change, target: int | None = None) -> Action:
        """Apply a change and keep it; it is on the disk when this returns. What changes nothing is refused."""
        if not change:
            raise ActionError("nothing would change.")
        with self._lock:
            action = Action(self._version + 1, kind, _now(), summary, target)
            # Whoever reads the book meanwhile keeps the one before.
            after = self.book.copy()
            after.apply(change)
            with self._transaction() as database:
                database.execute(
                    "INSERT INTO actions VALUES (?, ?, ?, ?, ?, ?)",
                    (action.version, action.at, kind, summary, target, json.dumps(to_json(change))),
                )
                _write(database, change, after.next_id)
            self.book = after
            self._version = action.version
            self._log.append(action)
            self._follow(action)
            return action

    def undo(self) -> Action:
        """Take back the last action that is not taken back."""
        with self._lock:
            if not self._done:
                raise ActionError("there is nothing to undo.")
            action = self._log[self._done[-1] - 1]
            return self.commit(
                "undo", f"Undo: {action.summary}", self.change_of(action.version).inverse, action.version
            )

    def redo(self) -> Action:
        """Do again what was taken back last, if nothing else was done since."""
        with self._lock:
            if not self._undone:
                raise ActionError("there is nothing to redo.")
            action = self._log[self._undone[-1] - 1]
            return self.commit("redo", f"Redo: {action.summary}", self.change_of(action.version), action.version)

    @property
    def next_undo(self) -> Action | None:
        """What :meth:`undo` would take back."""
        with self._lock:
            return self._log[self._done[-1] - 1] if self._done else None

    @property
    def next_redo(self) -> Action | None:
        """What :meth:`redo` would do again."""
        with self._lock:
            return self._log[self._undone[-1] - 1] if self._undone else None

    def history(self, offset: int = 0, limit: int = 100) -> list[Action]:
        """Actions, the newest first."""
        with self._lock:
            newest = self._log[::-1][offset : offset + limit]
            done = set(self._done)
            return [replace(a, undone=a.target is None and a.version not in done) for a in newest]

    def change_of(self, version: int) -> Change:
        """What an action changed."""
        with self._lock:
            row = self._database.execute("SELECT change FROM actions WHERE version = ?", (version,)).fetchone()
        return from_json(json.loads(row[0]))

    def replayed(self) -> Book:
        """The book that the log gives when it is read from its start."""
        book = Book()
        for version in range(1, self._version + 1):
            book.apply(self.change_of(version))
        return book

    def setting(self, key: str) -> str | None:
        """A value kept beside the labels."""
        with self._lock:
            row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def keep_setting(self, key: str, value: str) -> None:
        """Keep a value beside the labels."""
        with self._lock, self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def close(self) -> None:
        """Nothing can be kept after this."""
        with self._lock:
            self._database.close()

    def _check(self, source: str) -> None:
        found = dict(self._database.execute("SELECT key, value FROM meta").fetchall())
        if not found:
            with self._transaction() as database:
                database.executemany(
                    "INSERT INTO meta VALUES (?, ?)", [("format", str(FORMAT)), ("source", source), ("next_id", "1")]
                )
            return
        if found.get("format") != str(FORMAT):
            raise StoreError(f"{self.path} was written by another version of laplacianshot; name another --project.")
        if found["source"] != source:
            raise StoreError(f"{self.path} holds the labels of {found['source']}; name another --project.")

    def _read_book(self) -> Book:
        classes = self._database.execute("SELECT id, name, color FROM classes ORDER BY id").fetchall()
        labels = self._database.execute("SELECT item, class, how FROM labels").fetchall()
        return Book(
            {id: ClassEntry(name, color) for id, name, color in classes},
            {item: Given(class_id, how) for item, class_id, how in labels},
            int(self.setting("next_id") or 1),
        )

    def _read_log(self) -> None:
        self._log: list[Action] = [
            Action(*row) for row in self._database.execute("SELECT version, kind, at, summary, target FROM actions")
        ]
        self._version = len(self._log)
        # Versions that undo and redo would take next, from the end.
        self._done: list[int] = []
        self._undone: list[int] = []
        for action in self._log:
            self._follow(action)

    def _follow(self, action: Action) -> None:
        if action.kind == "undo":
            self._undone.append(self._done.pop())
        elif action.kind == "redo":
            self._done.append(self._undone.pop())
        else:
            self._done.append(action.version)
            self._undone.clear()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise


def _write(database: sqlite3.Connection, change: Change, next_id: int) -> None:
    """The tables after a change. Classes go before others come: names are unique at every moment."""
    for one in change.classes:
        database.execute("DELETE FROM classes WHERE id = ?", (one.id,))
    for one in change.classes:
        if one.after is not None:
            database.execute("INSERT INTO classes VALUES (?, ?, ?)", (one.id, one.after.name, one.after.color))
    for some in change.labels:
        if some.after is None:
            database.executemany("DELETE FROM labels WHERE item = ?", ((item,) for item in some.items))
        else:
            label = (some.after.class_id, some.after.how)
            database.executemany(
                "INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", ((item, *label) for item in some.items)
            )
    database.execute("INSERT OR REPLACE INTO meta VALUES ('next_id', ?)", (str(next_id),))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
