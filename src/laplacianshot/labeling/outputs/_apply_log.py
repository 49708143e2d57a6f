"""The log of sorting pictures into folders: what is about to be done stands on the disk before it is done."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.outputs._placing import How
from laplacianshot.runtime.files import sync_folder
from laplacianshot.runtime.locks import take_lock

_VERSION = 1


@dataclass
class Step:
    """One picture: from where to where.

    Attributes
    ----------
    id : str
    source, target : Path
        Absolute.
    size, mtime_ns : int
        Of the picture, when it was planned.
    link : str or None
        The text of the link, if the picture is one.
    """

    id: str
    source: Path
    target: Path
    size: int
    mtime_ns: int
    link: str | None = None


@dataclass
class Session:
    """What one run set out to do.

    Attributes
    ----------
    how : {"copy", "move", "link"}
    folders : list of Path
        Folders to be made, outer ones first.
    steps : list of Step
    token : str
        Part of the names of files that are not yet whole.
    planned, done : bool
        Whether the whole plan stands in the log, and whether all of it was done.
    undoing : bool
        Whether it is being undone, and so must not be finished.
    """

    how: How
    folders: list[Path] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    planned: bool = False
    done: bool = False
    undoing: bool = False

    @property
    def unfinished(self) -> bool:
        """Whether it was ended half-way and not taken back."""
        return self.planned and not self.done and not self.undoing

    def partial(self, number: int) -> Path:
        """Where step ``number`` keeps what is not yet whole."""
        return self.steps[number].target.parent / f".partial-{self.token}-{number}"


class ApplyLog:
    """A file of JSON lines to which runs are appended. Nothing is done before it is written here and on the disk.

    Held from ``with`` to its end: a second run with the same log is refused.

    Parameters
    ----------
    path : Path
    new : bool
        Whether the file may be made. One in which nothing was written is removed at the end.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._new = new

    def __enter__(self) -> Self:
        if not self._new and not self.path.is_file():
            raise LabelingError(f"{self.path}: there is no such log of sorting pictures.")
        # One handle for everything: closing any other would give up the system's lock.
        self._file = self.path.open("ab+")
        if not take_lock(self._file.fileno()):
            self._file.close()
            raise LabelingError(f"{self.path}: another run is sorting pictures with this log; wait for its end.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_empty = self._file.seek(0, os.SEEK_END) == 0
        self._file.close()
        if is_empty:
            self.path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all; the file goes at the end."""
        self._file.truncate(0)

    def write_plan(self, session: Session) -> None:
        """Append a whole plan. If it is cut short by a kill or a full disk, it counts as never written."""
        lines: list[dict[str, Any]] = [
            {"event": "plan", "version": _VERSION, "how": session.how, "token": session.token},
            *({"event": "folder", "path": str(folder)} for folder in session.folders),
        ]
        for step in session.steps:
            line: dict[str, Any] = {"event": "picture", "id": step.id, "from": str(step.source), "to": str(step.target)}
            line |= {"size": step.size, "mtime_ns": step.mtime_ns}
            lines.append(line if step.link is None else line | {"link": step.link})
        self._append(*lines, {"event": "planned"})
        session.planned = True

    def write_other_target(self, number: int, target: Path) -> None:
        """Step ``number`` goes elsewhere, as its target was taken meanwhile."""
        self._append({"event": "instead", "step": number, "to": str(target)})

    def write_done(self) -> None:
        """All steps of the last plan are done."""
        self._append({"event": "done"})

    def write_undoing(self) -> None:
        """All plans are being undone."""
        self._append({"event": "undoing"})

    def sessions(self) -> list[Session]:
        """Runs whose plan is whole, the first first.

        Raises
        ------
        LabelingError
            The file is no log.
        """
        self._file.seek(0)
        text = self._file.read().decode("utf-8", "replace")
        sessions: list[Session] = []
        n_events = 0
        for line in text.split("\n"):
            try:
                event = json.loads(line)
                newer = event["event"] == "plan" and event["version"] > _VERSION
                _take(event, sessions)
                n_events += 1
            # A line that was cut short: what it says was not begun.
            except (ValueError, KeyError, TypeError, IndexError):
                continue
            if newer:
                raise LabelingError(f"{self.path} was written by a newer laplacianshot; use that one.")
        if n_events == 0 and text.strip():
            raise LabelingError(f"{self.path} is no log of sorting pictures.")
        return [session for session in sessions if session.planned]

    def placed(self) -> dict[Path, Path]:
        """Where the runs of the log have put which picture."""
        kept = [session for session in self.sessions() if not session.undoing]
        return {step.source: step.target for session in kept for step in session.steps}

    def _append(self, *events: dict[str, Any]) -> None:
        # A mark at the beginning ends a line that a kill cut short.
        data = "\n" + "\n".join(json.dumps(event) for event in events) + "\n"
        self._file.write(data.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        sync_folder(self.path.parent)


def _take(event: dict[str, Any], sessions: list[Session]) -> None:
    """Add what a line says to the sessions."""
    match event["event"]:
        case "plan":
            sessions.append(Session(event["how"], token=event["token"]))
        case "folder":
            sessions[-1].folders.append(Path(event["path"]))
        case "picture":
            paths = Path(event["from"]), Path(event["to"])
            step = Step(event["id"], *paths, event["size"], event["mtime_ns"], event.get("link"))
            sessions[-1].steps.append(step)
        case "planned":
            sessions[-1].planned = True
        case "instead":
            sessions[-1].steps[event["step"]].target = Path(event["to"])
        case "done":
            sessions[-1].done = True
        case "undoing":
            for session in sessions:
                session.undoing = True
