"""The log of all actions, in SQLite: one transaction per action, so a saved label survives a crash.

The table ``actions`` is append-only. Each row contains its :class:`~laplacianshot.studio.changes.Change`. Undo and
redo are actions too: undo applies the inverse change, redo applies the change again. The tables ``classes`` and
``labels`` hold the state after the last action and are written in the same transaction. Replaying the log from the
start gives the same state (:meth:`ChangeLog.replayed`).
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
    Change,
    ClassEntry,
    Given,
    LabelState,
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
CREATE TABLE IF NOT EXISTS classes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, colour INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS labels (item TEXT PRIMARY KEY, class INTEGER NOT NULL, how TEXT NOT NULL) WITHOUT ROWID;
"""


class ProjectError(InputError):
    """A project cannot be opened; the message is one line."""


@dataclass(frozen=True)
class Action:
    """One action of the log.

    Attributes
    ----------
    version : int
        1, 2, 3, ...
    kind : str
    at : str
        Time in UTC, such as ``2026-11-16T07:30:00Z``.
    summary : str
        Description for people.
    target : int or None
        The action that an undo or redo refers to.
    undone : bool
        Whether the action is undone at the moment.
    """

    version: int
    kind: str
    at: str
    summary: str
    target: int | None = None
    undone: bool = False


class ChangeLog:
    """The current state and the log that led to it, in one SQLite file.

    Parameters
    ----------
    folder : Path
        Folder of the project; must exist.
    source : str
        Path of what is labeled. A project belongs to one source.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self._lock = RLock()
        self._version = 0
        self.path = folder / FILE_NAME
        try:
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
            # Write through to the disk at each commit, not only to the system's memory.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(_SCHEMA)
            self._check(source)
            self.state = self._read_book()
            self._read_log()
        except sqlite3.DatabaseError as error:
            raise ProjectError(
                f"{self.path} cannot be read ({error}); move it away to start again, or choose another --project."
            ) from error

    @property
    def version(self) -> int:
        """Number of the last action; 0 before the first."""
        return self._version

    def commit(self, kind: str, summary: str, change: Change, target: int | None = None) -> Action:
        """Apply a change and save it; it is on disk when this returns. An empty change is an error."""
        if not change:
            raise ActionError("nothing would change.")
        with self._lock:
            action = Action(self._version + 1, kind, _now(), summary, target)
            # A copy, as other threads may be reading the current state.
            after = self.state.copy()
            after.apply(change)
            with self._transaction() as database:
                database.execute(
                    "INSERT INTO actions VALUES (?, ?, ?, ?, ?, ?)",
                    (action.version, action.at, kind, summary, target, json.dumps(to_json(change))),
                )
                _write(database, change, after.next_id)
            self.state = after
            self._version = action.version
            self._log.append(action)
            self._follow(action)
            return action

    def undo(self) -> Action:
        """Undo the last action that is not undone."""
        with self._lock:
            if not self._done:
                raise ActionError("there is nothing to undo.")
            action = self._log[self._done[-1] - 1]
            return self.commit(
                "undo", f"Undo: {action.summary}", self.change_of(action.version).inverse, action.version
            )

    def redo(self) -> Action:
        """Redo the last undone action, if nothing else was done since."""
        with self._lock:
            if not self._undone:
                raise ActionError("there is nothing to redo.")
            action = self._log[self._undone[-1] - 1]
            return self.commit("redo", f"Redo: {action.summary}", self.change_of(action.version), action.version)

    @property
    def next_undo(self) -> Action | None:
        """The action that :meth:`undo` would undo."""
        with self._lock:
            return self._log[self._done[-1] - 1] if self._done else None

    @property
    def next_redo(self) -> Action | None:
        """The action that :meth:`redo` would redo."""
        with self._lock:
            return self._log[self._undone[-1] - 1] if self._undone else None

    def history(self, offset: int = 0, limit: int = 100) -> list[Action]:
        """Return actions, the newest first."""
        with self._lock:
            newest = self._log[::-1][offset : offset + limit]
            done = set(self._done)
            return [replace(a, undone=a.target is None and a.version not in done) for a in newest]

    def change_of(self, version: int) -> Change:
        """Return the change of an action."""
        with self._lock:
            row = self._database.execute("SELECT change FROM actions WHERE version = ?", (version,)).fetchone()
        return from_json(json.loads(row[0]))

    def replayed(self) -> LabelState:
        """Return the state that results from replaying the log from the start."""
        state = LabelState()
        for version in range(1, self._version + 1):
            state.apply(self.change_of(version))
        return state

    def setting(self, key: str) -> str | None:
        """Return a value of the table ``meta``."""
        with self._lock:
            row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the database."""
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
            raise ProjectError(
                f"{self.path} was written by another version of laplacianshot; choose another --project."
            )
        if found["source"] != source:
            raise ProjectError(f"{self.path} holds the labels of {found['source']}; choose another --project.")

    def _read_book(self) -> LabelState:
        # The third column is called colour, as in version 0.1, so that both versions read each other's files.
        classes = self._database.execute("SELECT * FROM classes ORDER BY id").fetchall()
        labels = self._database.execute("SELECT item, class, how FROM labels").fetchall()
        return LabelState(
            {id: ClassEntry(name, color) for id, name, color in classes},
            {item: Given(class_id, how) for item, class_id, how in labels},
            int(self.setting("next_id") or 1),
        )

    def _read_log(self) -> None:
        self._log: list[Action] = [
            Action(*row) for row in self._database.execute("SELECT version, kind, at, summary, target FROM actions")
        ]
        self._version = len(self._log)
        # Stacks of versions: the last one is what undo or redo takes next.
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
    """Update the tables. Old classes are deleted first, as names are unique at every moment."""
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
