"""Copy or link pictures into folders named after their labels, and undo it.

A log in the folder, a file of JSON lines, holds the whole plan before the first picture is copied. So
:func:`undo_sorting` finds everything that a run has made, however the run ended, and a run that was killed is finished
by running it again. Nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.result import Skipped
from laplacianshot.labeling.sources.base import Source
from laplacianshot.labeling.sources.pictures import UNLABELED_FOLDERS
from laplacianshot.runtime.files import sync_folder, take_lock
from laplacianshot.runtime.progress import Progress

How: TypeAlias = Literal["copy", "link"]

# Name of the log, in the folder that pictures are sorted into.
LOG_NAME = "laplacianshot-undo.jsonl"
_VERSION = 1

# Error codes of file systems without hard links, or of files that may not get a second name.
_NO_HARD_LINKS = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

# Bytes of a file name that file systems allow; of a class folder, to leave room for a number.
_MAX_FILE_NAME = 255
_MAX_FOLDER_NAME = 200

# Characters that have a meaning in Windows or in a path, and invisible ones: controls, marks of direction.
_FORBIDDEN = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]')

# Names of devices in Windows, with any ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


@dataclass(frozen=True)
class SortResult:
    """What was done to the pictures.

    Attributes
    ----------
    log : Path
    n_done : int
        Pictures copied or linked; or removed again, by :func:`undo_sorting`.
    n_present : int
        Pictures that were in their folder already.
    skipped : tuple of Skipped
        Pictures left alone, and why.
    """

    log: Path
    n_done: int
    n_present: int = 0
    skipped: tuple[Skipped, ...] = ()


def sort_pictures(
    source: Source,
    labels: Mapping[str, str],
    folder: str | PathLike[str],
    how: How,
    *,
    progress: Progress | None = None,
) -> SortResult:
    """Copy or link labeled pictures into folders named after their labels.

    A picture whose name is taken gets a number, ``name-2.jpg``. A picture that is in its folder already, with the same
    content or as the same link, is not put there again.

    Parameters
    ----------
    source : Source
        A source of pictures.
    labels : mapping of str to str
        Label of each picture to sort, by id.
    folder : path
        Where the class folders are made. It must not be inside the source.
    how : {"copy", "link"}
        ``link`` makes symbolic links to the absolute paths.
    progress : callable, optional
        Called with the number of pictures done and of all.

    Returns
    -------
    SortResult

    Raises
    ------
    LabelingError
        The source holds no pictures, or the folder cannot be used.
    OSError
        A picture cannot be written, for example because the disk is full. What was done stays in the log.
    """
    if how not in ("copy", "link"):
        raise LabelingError(f"pictures can be sorted by copy or link, not by {how!r}.")
    if source.kind != "pictures":
        raise LabelingError(f"{source.path}: only pictures can be sorted into folders, and these are {source.kind}.")
    # Absolute, but not resolved: that would write down where links lead today.
    root = Path(os.path.abspath(folder))  # noqa: PTH100
    names = folder_names(sorted(set(labels.values())))
    _check_folders(source, root, names.values())
    new_folders = _missing_folders([root])
    root.mkdir(parents=True, exist_ok=True)
    n_done, failed = 0, list[Skipped]()
    with _Log(root / LOG_NAME, create=True) as log:
        runs = log.runs()
        for run in runs:
            run.remove_partial_files()
        run, n_present, missing = _plan(source, labels, {label: root / names[label] for label in names}, how, runs)
        if run.steps:
            run.folders[:0] = new_folders
            log.write_plan(run)
            n_done, failed = _execute(log, run, progress)
    if not run.steps:
        _remove_empty(new_folders)
    return SortResult(log.path, n_done, n_present, (*missing, *failed))


def undo_sorting(path: str | PathLike[str], *, progress: Progress | None = None) -> SortResult:
    """Undo all runs of :func:`sort_pictures` into a folder: remove the copies and links, and the folders they made.

    A copy that was changed since is left alone and reported; the log then stays. Otherwise it is removed at the end.
    Pictures that version 0.1 moved go back to where they were.

    Parameters
    ----------
    path : path
        The folder, or the log in it.
    progress : callable, optional
        Called with the number of pictures seen and of all.
    """
    where = Path(path) / LOG_NAME if Path(path).is_dir() else Path(path)
    n_done, kept = 0, list[Skipped]()
    with _Log(where) as log:
        runs = log.runs()
        if not all(run.undone for run in runs):
            log.write({"event": "undoing"})
        steps = [(run, step) for run in reversed(runs) for step in reversed(run.steps)]
        for run in runs:
            run.remove_partial_files()
        for n_seen, (run, step) in enumerate(steps, start=1):
            reason = _why_kept(run.how, step)
            if reason is None:
                n_done += _undo_step(run.how, step)
            else:
                kept.append(Skipped(step.id, reason))
            if progress is not None:
                progress(n_seen, len(steps))
        if not kept:
            log.clear()
    for run in reversed(runs):
        _remove_empty(run.folders)
    return SortResult(where, n_done, skipped=tuple(kept))


def folder_names(classes: Iterable[str]) -> dict[str, str]:
    """Return a folder name for each class, all different even on systems that ignore case.

    Characters that a system may not accept become ``_``. Classes that would share a folder, or whose folder would be
    read as hidden or as unlabeled pictures, get a number.

    >>> folder_names(["cat", "Cat", "a/b", ".."])
    {'cat': 'cat', 'Cat': 'Cat-2', 'a/b': 'a_b', '..': '_'}
    """
    names: dict[str, str] = {}
    used = set(UNLABELED_FOLDERS)
    for label in classes:
        safe = _safe_name(label)
        name, number = safe, 1
        while name.casefold() in used:
            number += 1
            name = f"{safe}-{number}"
        used.add(name.casefold())
        names[label] = name
    return names


def _safe_name(label: str) -> str:
    name = _FORBIDDEN.sub("_", label).strip(" ").rstrip(". ")
    if name.startswith((".", "__MACOSX")):
        name = f"_{name[1:]}"
    if not name:
        return "_"
    if name.partition(".")[0].rstrip().casefold() in _DEVICES:
        name = f"{name}_" if "." not in name else f"_{name}"
    if len(name.encode()) > _MAX_FOLDER_NAME:
        mark = hashlib.blake2b(label.encode(), digest_size=4).hexdigest()
        name = f"{name.encode()[: _MAX_FOLDER_NAME - 9].decode(errors='ignore').rstrip('. ')}-{mark}"
    return name


@dataclass
class _Step:
    """One picture: where it is and where it goes, absolute; ``link`` is its text if the picture is a link."""

    id: str
    source: Path
    target: Path
    size: int
    mtime_ns: int
    link: str | None = None


@dataclass
class _Run:
    """One run: folders to make, outer ones first, and pictures to place. ``token`` names its partial files."""

    how: str
    folders: list[Path] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    planned: bool = False
    done: bool = False
    undone: bool = False

    def partial(self, number: int) -> Path:
        """Where step ``number`` is copied to before it gets its name."""
        return self.steps[number].target.parent / f".partial-{self.token}-{number}"

    def remove_partial_files(self) -> None:
        """Remove what a killed run left of a copy; version 0.1 also copied back to the source."""
        for number, step in enumerate([] if self.done and not self.undone else self.steps):
            partial = self.partial(number)
            for path in (partial, step.source.parent / partial.name):
                with contextlib.suppress(OSError):
                    path.unlink()


class _Log:
    """The log of all runs into a folder. It is locked from ``with`` to its end, and removed there if it is empty."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._create = create

    def __enter__(self) -> Self:
        if not self._create and not self.path.is_file():
            raise LabelingError(f"{self.path}: log of sorted pictures not found.")
        # One handle for everything: closing any other would give up the system's lock.
        self._file = self.path.open("ab+")
        if not take_lock(self._file.fileno()):
            self._file.close()
            raise LabelingError(f"{self.path}: another run is sorting pictures with this log; wait until it has ended.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_empty = self._file.seek(0, os.SEEK_END) == 0
        self._file.close()
        if is_empty:
            self.path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all runs."""
        self._file.truncate(0)

    def write_plan(self, run: _Run) -> None:
        """Append a run. A plan that a kill or a full disk cut short counts as never written."""
        lines: list[dict[str, Any]] = [
            {"event": "plan", "version": _VERSION, "how": run.how, "token": run.token},
            *({"event": "folder", "path": str(folder)} for folder in run.folders),
        ]
        for step in run.steps:
            line: dict[str, Any] = {"event": "picture", "id": step.id, "from": str(step.source), "to": str(step.target)}
            lines.append(line | {"size": step.size, "mtime_ns": step.mtime_ns})
        self.write(*lines, {"event": "planned"})

    def write(self, *events: dict[str, Any]) -> None:
        """Append lines, and wait until they are on the disk."""
        # The newline at the beginning ends a line that a kill cut short.
        data = "\n" + "\n".join(json.dumps(event) for event in events) + "\n"
        self._file.write(data.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        sync_folder(self.path.parent)

    def runs(self) -> list[_Run]:
        """Return the runs whose plan is complete, in order."""
        self._file.seek(0)
        text = self._file.read().decode("utf-8", "replace")
        runs: list[_Run] = []
        n_events = 0
        for line in text.split("\n"):
            try:
                event = json.loads(line)
                newer = event["event"] == "plan" and event["version"] > _VERSION
                _read_event(event, runs)
                n_events += 1
            # A line that was cut short: what it says was not begun.
            except (ValueError, KeyError, TypeError, IndexError):
                continue
            if newer:
                raise LabelingError(f"{self.path} was written by a newer laplacianshot; use that one.")
        if n_events == 0 and text.strip():
            raise LabelingError(f"{self.path} is not a log of sorting pictures.")
        return [run for run in runs if run.planned]


def _read_event(event: dict[str, Any], runs: list[_Run]) -> None:
    """Add one line of the log to the runs."""
    match event["event"]:
        case "plan":
            runs.append(_Run(event["how"], token=event["token"]))
        case "folder":
            runs[-1].folders.append(Path(event["path"]))
        case "picture":
            paths = Path(event["from"]), Path(event["to"])
            runs[-1].steps.append(_Step(event["id"], *paths, event["size"], event["mtime_ns"], event.get("link")))
        case "planned":
            runs[-1].planned = True
        case "instead":
            runs[-1].steps[event["step"]].target = Path(event["to"])
        case "done":
            runs[-1].done = True
        case "undoing":
            for run in runs:
                run.undone = True


def _plan(
    source: Source, labels: Mapping[str, str], folders: Mapping[str, Path], how: How, runs: list[_Run]
) -> tuple[_Run, int, list[Skipped]]:
    """Return what is to be done, how many pictures are in their folder already, and which cannot be found."""
    base = Path(os.path.abspath(source.path))  # noqa: PTH100 - not resolved, as above
    earlier = {step.source: step.target for run in runs if not run.undone for step in run.steps}
    run = _Run(how, folders=_missing_folders(sorted(folders.values())))
    n_present, missing, free = 0, list[Skipped](), _FreeNames()
    for name, label in labels.items():
        picture, folder = base / name, folders[label]
        before = earlier.get(picture)
        # The earlier place first: the folder may hold thousands of pictures of one name.
        if before is not None and before.parent == folder and _is_placed(how, picture, before):
            n_present += 1
            continue
        try:
            status = picture.lstat()
        except OSError as error:
            missing.append(Skipped(name, error.strerror or type(error).__name__))
            continue
        if _is_in_folder(how, picture, folder):
            n_present += 1
            continue
        target = free.choose(folder, picture.name)
        run.steps.append(_Step(name, picture, target, status.st_size, status.st_mtime_ns))
    return run, n_present, missing


def _check_folders(source: Source, root: Path, names: Iterable[str]) -> None:
    """Raise for class folders that cannot be made, or whose pictures the next run would find in the source."""
    if root.exists() and not root.is_dir():
        raise LabelingError(f"{root} is a file; name a folder to sort the pictures into.")
    own = Path(os.path.realpath(source.path))
    for name in names:
        if Path(os.path.realpath(root / name)).is_relative_to(own):
            raise LabelingError(
                f"{root} is inside the pictures of {source.path}, where the next run would find every picture twice; "
                "choose a folder elsewhere."
            )
        if os.path.lexists(root / name) and not (root / name).is_dir():
            raise LabelingError(f"{root / name} is a file, and a class needs a folder of this name; rename it.")


def _missing_folders(folders: Iterable[Path]) -> list[Path]:
    """Return the folders that do not exist, with their parents, outer ones first."""
    return list(
        dict.fromkeys(path for folder in folders for path in (*reversed(folder.parents), folder) if not path.exists())
    )


def _remove_empty(folders: list[Path]) -> None:
    """Remove the folders that are empty, inner ones first."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _execute(log: _Log, run: _Run, progress: Progress | None) -> tuple[int, list[Skipped]]:
    """Place all pictures of a run; return how many were placed, and those that are gone."""
    for folder in run.folders:
        folder.mkdir(exist_ok=True)
    n_done, failed = 0, list[Skipped]()
    for number, step in enumerate(run.steps):
        try:
            _place(log, run, number)
            n_done += 1
        except FileNotFoundError as error:
            if not step.target.parent.is_dir():
                raise
            failed.append(Skipped(step.id, error.strerror or "it is gone"))
        if progress is not None:
            progress(number + 1, len(run.steps))
    log.write({"event": "done"})
    return n_done, failed


def _place(log: _Log, run: _Run, number: int) -> None:
    """Copy or link one picture; under another name if its name was taken since the plan was made."""
    step = run.steps[number]
    while True:
        try:
            if run.how == "link":
                step.target.symlink_to(step.source)
            else:
                _copy(step.source, step.target, run.partial(number))
            return
        except FileExistsError:
            step.target = _FreeNames().choose(step.target.parent, step.source.name)
            log.write({"event": "instead", "step": number, "to": str(step.target)})


def _copy(source: Path, target: Path, partial: Path) -> None:
    """Copy a file to ``partial`` and give it the name ``target``, so that no half copy ever has this name."""
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    partial.unlink(missing_ok=True)
    try:
        shutil.copyfile(source, partial)
        shutil.copystat(source, partial)
        try:
            # Unlike a rename, a second name does not replace what is there.
            os.link(partial, target)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # The new, empty file is ours, so it can be replaced.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _is_placed(how: str, source: Path, target: Path) -> bool:
    """Whether ``target`` is what copying or linking ``source`` gives."""
    if how == "link":
        return target.is_symlink() and target.readlink() == source
    return _same_content(source, target)


def _same_content(one: Path, two: Path) -> bool:
    try:
        return one.is_file() and two.is_file() and filecmp.cmp(one, two, shallow=False)
    except OSError:
        return False


def _is_in_folder(how: How, picture: Path, folder: Path) -> bool:
    """Whether a picture is in its class folder already, under its own name or with a number."""
    number = 1
    while os.path.lexists(path := folder / _numbered(picture.name, number)):
        if _is_placed(how, picture, path):
            return True
        number += 1
    return False


def _why_kept(how: str, step: _Step) -> str | None:
    """Why a step cannot be undone; None if it can, or was not done."""
    exists = os.path.lexists(step.target)
    if how == "move":
        if not os.path.lexists(step.source):
            return None if exists else f"it is neither at {step.target} nor at {step.source}"
        return None if not exists or _is_half_moved(step) else f"another file is at {step.source}"
    if not exists:
        return None
    if how == "link":
        return None if _is_placed(how, step.source, step.target) else f"{step.target} is another file now"
    status = step.target.lstat()
    unchanged = (status.st_size, status.st_mtime_ns) == (step.size, step.mtime_ns)
    return None if unchanged or _same_content(step.source, step.target) else f"{step.target} was changed"


def _undo_step(how: str, step: _Step) -> bool:
    """Undo one step that :func:`_why_kept` allows; False if it was not done."""
    if not os.path.lexists(step.target):
        return False
    if how != "move" or os.path.lexists(step.source):
        step.target.unlink()
        return True
    step.source.parent.mkdir(parents=True, exist_ok=True)
    if step.link is not None:
        step.source.symlink_to(step.link)
        step.target.unlink()
    else:
        shutil.move(step.target, step.source)
    return True


def _is_half_moved(step: _Step) -> bool:
    """Whether a move of version 0.1 was killed while the picture had both names."""
    if step.link is not None:
        return step.target.is_symlink() and step.source.is_symlink()
    return step.source.samefile(step.target) or (
        step.target.lstat().st_mtime_ns == step.mtime_ns and _same_content(step.source, step.target)
    )


class _FreeNames:
    """Names that neither exist nor were chosen before, also on systems that ignore case."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[tuple[Path, str], int] = {}

    def choose(self, folder: Path, name: str) -> Path:
        """Return a path in ``folder``: of that name, or with a number behind it."""
        key = folder, name.casefold()
        number = self._next.get(key, 1)
        while True:
            path = folder / _numbered(name, number)
            number += 1
            if str(path).casefold() not in self._taken and not os.path.lexists(path):
                break
        # A folder may get thousands of pictures of one name.
        self._next[key] = number
        self._taken.add(str(path).casefold())
        return path


def _numbered(name: str, number: int) -> str:
    """``name.jpg``, ``name-2.jpg``, ``name-3.jpg``, cut to the length that a name may have."""
    if number == 1:
        return name
    stem, ending = os.path.splitext(name)  # noqa: PTH122 - of a name, not a path
    mark = f"-{number}{ending}"
    room = _MAX_FILE_NAME - len(os.fsencode(mark))
    with contextlib.suppress(UnicodeEncodeError):
        stem = stem.encode()[:room].decode(errors="ignore")
    return f"{stem}{mark}"
