"""Copy or link pictures into folders named after their labels, and undo it.

A log in the folder, a file of JSON lines, holds the whole plan before the first picture is copied, and then the
beginning of each copy. So :func:`undo_sorting` finds everything that a run has made, also if it was killed, and nothing
that others made; a run that was killed is finished by running it again. Nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import json
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count, takewhile
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.result import Skipped
from laplacianshot.labeling.sources import UNLABELED_FOLDERS, Source
from laplacianshot.runtime.files import sync_folder, take_lock
from laplacianshot.runtime.progress import Progress

How: TypeAlias = Literal["copy", "link"]

# Name of the log, in the folder that pictures are sorted into.
LOG_NAME = "laplacianshot-undo.jsonl"
_VERSION = 1

# Maximum length of a file name in bytes, and of a class folder's, which may get a number.
_MAX_FILE_NAME = 255
_MAX_FOLDER_NAME = 200

# Characters that have a meaning in Windows or in a path, and invisible ones: controls, marks of direction.
_FORBIDDEN = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]')

# Names of devices in Windows, with any ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


@dataclass(frozen=True)
class SortResult:
    """What was done to the pictures."""

    log: Path
    n_done: int  # copied or linked; or removed again, by undo_sorting
    n_present: int = 0  # in their folder already
    skipped: tuple[Skipped, ...] = ()  # left alone, and why
    folders: dict[str, int] = field(default_factory=dict)  # pictures that each class folder got


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
    content or as the same link, is not put there again. Links are symbolic, to the absolute paths.

    ``labels`` holds the label of each picture to sort, by its id in the source of pictures. Class folders are made in
    ``folder``, which must not be inside the source; LabelingError if it cannot be used. An OSError, for example of a
    full disk, ends the run; what was done stays in the log. ``progress(done, total)`` counts pictures.
    """
    if how not in ("copy", "link"):
        raise LabelingError(f"pictures can be sorted by copy or link, not by {how!r}.")
    if source.kind != "pictures":
        raise LabelingError(f"{source.path}: only pictures can be sorted into folders, and these are {source.kind}.")
    # Absolute, but not resolved: that would write down where links lead today.
    root = Path(os.path.abspath(folder))  # noqa: PTH100
    folders = {label: root / name for label, name in folder_names(sorted(set(labels.values()))).items()}
    _check_folders(source, root, folders.values())
    new_folders = _missing_folders([root, *folders.values()])
    root.mkdir(parents=True, exist_ok=True)
    n_done, skipped, placed = 0, list[Skipped](), Counter[str]()
    with _opened(root / LOG_NAME, create=True) as log:
        steps, n_present = _plan(source, {name: folders[label] for name, label in labels.items()}, how, log, skipped)
        if steps:
            log.write_plan(how, new_folders, steps)
            for path in new_folders:
                path.mkdir(exist_ok=True)
        for number, step in enumerate(steps):
            try:
                _place(log, step, number)
                n_done += 1
                placed[step.target.parent.name] += 1
            except FileNotFoundError as error:
                if not step.target.parent.is_dir():
                    raise
                skipped.append(Skipped(step.id, error.strerror or "it is gone"))
            if progress is not None:
                progress(number + 1, len(steps))
    if not steps:
        _remove_empty(new_folders)
    return SortResult(root / LOG_NAME, n_done, n_present, tuple(skipped), dict(placed))


def undo_sorting(path: str | PathLike[str], *, progress: Progress | None = None) -> SortResult:
    """Undo all runs of :func:`sort_pictures` into a folder: remove the copies and links, and the folders they made.

    ``path`` is the folder or the log in it. A copy that was changed since is left alone and reported; the log then
    stays. Otherwise it is removed at the end. Pictures that version 0.1 moved go back to where they were.
    """
    where = Path(path) / LOG_NAME if Path(path).is_dir() else Path(path)
    n_done, kept = 0, dict[int, Skipped]()
    with _opened(where) as log:
        for number, step in reversed(list(enumerate(log.steps))):
            was_placed = os.path.lexists(step.target)
            if reason := _undo(step):
                kept[number] = Skipped(step.id, reason)
            else:
                n_done += was_placed
            if progress is not None:
                progress(len(log.steps) - number, len(log.steps))
        if kept:
            # What was removed is not ours any more: the user may put a file of that name there.
            log.write({"event": "undone", "left": sorted(kept)})
        else:
            log.file.truncate(0)
    _remove_empty(log.folders)
    return SortResult(where, n_done, skipped=tuple(kept.values()))


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
    """One picture: where it is and where it goes, absolute."""

    id: str
    source: Path
    target: Path
    size: int
    mtime_ns: int
    how: str  # "copy" or "link"; "move" in logs of version 0.1
    partial: str  # what its copy is called until it is complete; holds the token of its plan, so no other file has it
    link: str | None = None  # where the picture led if it was a link that version 0.1 moved


class _Log:
    """All runs into a folder: the folders they made, outer ones first, and the pictures they began to place."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.folders: list[Path] = []
        self.steps: list[_Step] = []
        self.token = secrets.token_hex(8)
        file.seek(0)
        lines = [line for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
        events = []
        for line in lines:
            # A line that a kill cut short: what it says was not begun.
            with contextlib.suppress(ValueError):
                events.append(json.loads(line))
        try:
            self._read(events)
        except (KeyError, TypeError, IndexError):
            events = []
        if lines and not events:
            raise LabelingError(f"{file.name} is not a log of sorting pictures.")

    def _read(self, events: list[dict[str, Any]]) -> None:
        plan: dict[str, Any] = {}
        planned: list[_Step] = []
        for event in events:
            match event["event"]:
                case "plan":
                    if event["version"] > _VERSION:
                        raise LabelingError(f"{self.file.name} was written by a newer laplacianshot; use that one.")
                    plan, planned = event, []
                case "folder":
                    self.folders.append(Path(event["path"]))
                case "picture":
                    paths = Path(event["from"]), Path(event["to"])
                    partial = f".partial-{plan['token']}-{len(planned)}"
                    status = event["size"], event["mtime_ns"]
                    planned.append(_Step(event["id"], *paths, *status, plan["how"], partial, event.get("link")))
                    if not plan.get("begins"):  # version 0.1 did not write when it began a picture
                        self.steps.append(planned[-1])
                case "instead":
                    planned[event["step"]].target = Path(event["to"])
                case "begin":
                    self.steps.append(planned[event["step"]])
                case "undone":
                    self.steps = [self.steps[i] for i in event["left"]]

    def write(self, *events: dict[str, Any], sync: bool = True) -> None:
        """Append lines, and wait until they are on the disk, or else with the system."""
        # The newline at the beginning ends a line that a kill cut short.
        self.file.write(("\n" + "\n".join(json.dumps(event) for event in events) + "\n").encode())
        self.file.flush()
        if sync:
            os.fsync(self.file.fileno())
            sync_folder(Path(self.file.name).parent)

    def write_plan(self, how: How, folders: list[Path], steps: list[_Step]) -> None:
        """Append the plan of a run; version 0.1 needs its end to read it."""
        made = [{"event": "folder", "path": str(folder)} for folder in folders]
        placed = [
            {"event": "picture", "id": step.id, "from": str(step.source), "to": str(step.target)}
            | {"size": step.size, "mtime_ns": step.mtime_ns}
            for step in steps
        ]
        plan = {"event": "plan", "version": _VERSION, "how": how, "token": self.token, "begins": True}
        self.write(plan, *made, *placed, {"event": "planned"})


@contextlib.contextmanager
def _opened(path: Path, *, create: bool = False) -> Iterator[_Log]:
    """Lock and read a log, and remove what a killed run left of a copy. An empty log is removed at the end."""
    if not create and not path.is_file():
        raise LabelingError(f"{path}: log of sorted pictures not found.")
    # One handle for everything: closing any other would give up the system's lock.
    with path.open("ab+") as file:
        if not take_lock(file.fileno()):
            raise LabelingError(f"{path}: another run is sorting pictures with this log; wait until it has ended.")
        try:
            log = _Log(file)
            for step in log.steps:
                (step.target.parent / step.partial).unlink(missing_ok=True)
            yield log
        finally:
            if file.seek(0, os.SEEK_END) == 0:
                path.unlink(missing_ok=True)


def _plan(
    source: Source, folders: Mapping[str, Path], how: How, log: _Log, missing: list[Skipped]
) -> tuple[list[_Step], int]:
    """Return what to do and how many pictures are in their folder already; add those that cannot be found."""
    base = Path(os.path.abspath(source.path))  # noqa: PTH100 - not resolved, as above
    earlier = {step.source: step.target for step in log.steps}
    steps, n_present = list[_Step](), 0
    # Names that were chosen, for systems that ignore case, and those still to try: many pictures may have one name.
    taken: set[str] = set()
    names: dict[Path, Iterator[Path]] = {}
    for name, folder in folders.items():
        picture = base / name
        try:
            status = picture.lstat()
        except OSError as error:
            missing.append(Skipped(name, error.strerror or type(error).__name__))
            continue
        # The place in the log first, as it is one of many.
        before = [earlier[picture]] if picture in earlier and earlier[picture].parent == folder else []
        existing = takewhile(os.path.lexists, _candidates(folder, picture.name))
        if any(_is_placed(how, picture, path) for path in chain(before, existing)):
            n_present += 1
            continue
        untried = names.setdefault(folder / picture.name, _candidates(folder, picture.name))
        target = next(path for path in untried if str(path).casefold() not in taken and not os.path.lexists(path))
        taken.add(str(target).casefold())
        partial = f".partial-{log.token}-{len(steps)}"
        steps.append(_Step(name, picture, target, status.st_size, status.st_mtime_ns, how, partial))
    return steps, n_present


def _check_folders(source: Source, root: Path, folders: Iterable[Path]) -> None:
    """Raise for class folders that cannot be made, or whose pictures the next run would find in the source."""
    if root.exists() and not root.is_dir():
        raise LabelingError(f"{root} is a file; name a folder to sort the pictures into.")
    own = Path(os.path.realpath(source.path))
    for folder in folders:
        if Path(os.path.realpath(folder)).is_relative_to(own):
            raise LabelingError(
                f"{root} is inside the pictures of {source.path}, where the next run would find every picture twice; "
                "choose a folder elsewhere."
            )
        if os.path.lexists(folder) and not folder.is_dir():
            raise LabelingError(f"{folder} is a file, and a class needs a folder of this name; rename it.")


def _missing_folders(folders: Iterable[Path]) -> list[Path]:
    """Return the folders that do not exist, with their parents, outer ones first."""
    paths = (path for folder in folders for path in (*reversed(folder.parents), folder) if not path.exists())
    return list(dict.fromkeys(paths))


def _remove_empty(folders: list[Path]) -> None:
    """Remove the folders that are empty, inner ones first."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _place(log: _Log, step: _Step, number: int) -> None:
    """Copy or link one picture; under another name if its name was taken since the plan was made."""
    for attempt in count():
        if os.path.lexists(step.target):
            names = _candidates(step.target.parent, step.source.name)
            step.target = next(path for path in names if not os.path.lexists(path))
            log.write({"event": "instead", "step": number, "to": str(step.target)})
        if attempt == 0:
            # Only now that the name is free: a file that somebody else put there is never taken for ours.
            log.write({"event": "begin", "step": number}, sync=False)
        with contextlib.suppress(FileExistsError):
            if step.how == "link":
                step.target.symlink_to(step.source)
            else:
                _copy(step)
            return


def _copy(step: _Step) -> None:
    """Copy a file under another name and then give it its own, so that no half copy ever has this name."""
    partial = step.target.parent / step.partial
    try:
        shutil.copyfile(step.source, partial)
        shutil.copystat(step.source, partial)
        try:
            # Unlike a rename, a second name does not replace an existing file.
            os.link(partial, step.target)
        except FileExistsError:
            raise
        except OSError:
            # A file system without hard links. The new, empty file is ours, so it can be replaced.
            os.close(os.open(step.target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            partial.replace(step.target)
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


def _undo(step: _Step) -> str:
    """Undo one step if it was done; return why it has to stay, ``""`` if it does not."""
    source, target = step.source, step.target
    was_moved = step.how == "move" and not os.path.lexists(source)
    if not os.path.lexists(target):
        return f"it is neither at {target} nor at {source}" if was_moved else ""
    if was_moved:
        source.parent.mkdir(parents=True, exist_ok=True)
        if step.link is None:
            shutil.move(target, source)
            return ""
        source.symlink_to(step.link)
    elif step.how == "move":
        # A move that was killed left both; otherwise somebody put another picture there.
        if not _same_content(source, target):
            return f"another file is at {source}"
    elif step.how == "link":
        if not _is_placed("link", source, target):
            return f"{target} is another file now"
    else:
        status = target.lstat()
        unchanged = (status.st_size, status.st_mtime_ns) == (step.size, step.mtime_ns)
        if not unchanged and not _same_content(source, target):
            return f"{target} was changed"
    target.unlink()
    return ""


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    """Yield ``name.jpg``, ``name-2.jpg``, ``name-3.jpg``, ... in a folder, cut to the length that a name may have."""
    yield folder / name
    stem, ending = os.path.splitext(name)  # noqa: PTH122 - of a name, not a path
    for number in count(2):
        mark = f"-{number}{ending}"
        with contextlib.suppress(UnicodeEncodeError):
            stem = stem.encode()[: _MAX_FILE_NAME - len(os.fsencode(mark))].decode(errors="ignore")
        yield folder / f"{stem}{mark}"
