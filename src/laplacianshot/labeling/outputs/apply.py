"""Pictures sorted into class folders, with a log that undoes it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.outputs._apply_log import ApplyLog, Session, Step
from laplacianshot.labeling.outputs._apply_plan import check_folders, make_plan, missing_folders
from laplacianshot.labeling.outputs._placing import (
    FreeNames,
    How,
    is_placed,
    place,
    same_content,
    same_file,
)
from laplacianshot.labeling.result import LabelResult, Skipped
from laplacianshot.labeling.sources.base import Source
from laplacianshot.runtime.progress import Progress

# The log's name in the folder that pictures are sorted into.
LOG_NAME = "laplacianshot-undo.jsonl"


@dataclass(frozen=True)
class Applied:
    """What was done to the pictures.

    Attributes
    ----------
    log : Path
    n_done : int
        Pictures copied, moved, linked, or put back.
    n_there : int
        Pictures that were where they belong already.
    left : tuple of Skipped
        Pictures left alone, and why.
    """

    log: Path
    n_done: int
    n_there: int = 0
    left: tuple[Skipped, ...] = ()


def apply_labels(
    result: LabelResult,
    source: Source,
    folder: str | PathLike[str],
    how: How,
    log: str | PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
) -> Applied:
    """Sort the labeled pictures into folders named after their classes.

    Nothing is overwritten: a picture whose name is taken gets a number, ``name-2.jpg``. A picture that is there
    already, with the same content or as the same link, is not put there again. Pictures without a label stay where
    they are. The whole plan is written to the log, and is on the disk, before the first picture is touched; a run that
    was killed is finished by calling this again, by :func:`finish`, or taken back by :func:`undo`.

    Parameters
    ----------
    result : LabelResult
    source : Source
        The pictures that ``result`` is about.
    folder : path
        Where the class folders are, or are made. It may be the source itself, or in it, for ``"move"``.
    how : {"copy", "move", "link"}
        ``link`` makes symbolic links to the absolute paths.
    log : path, optional
        ``laplacianshot-undo.jsonl`` in the folder if not given. Further runs are appended to it.
    progress : callable, optional
        Called with the number of pictures done and of all.

    Returns
    -------
    Applied

    Raises
    ------
    LabelingError
        The source holds no pictures, the folder is a file, or copies would land among the pictures themselves.
    OSError
        A picture cannot be written, for example because the disk is full. What was done stays in the log.
    """
    if how not in ("copy", "move", "link"):
        raise LabelingError(f"pictures can be sorted by copy, move or link, not by {how!r}.")
    if source.kind != "pictures":
        raise LabelingError(f"{source.path}: only pictures can be sorted into folders, and these are {source.kind}.")
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve would write down where links lead today
    check_folders(result, source, root, how)
    where = root / LOG_NAME if log is None else Path(os.path.abspath(log))  # noqa: PTH100
    folders = missing_folders([root])
    where.parent.mkdir(parents=True, exist_ok=True)
    with ApplyLog(where, new=True) as book:
        before = _finish(book, None)
        session, n_there, left = make_plan(result, source, root, how, book.placed())
        made = Applied(where, 0)
        if session.steps:
            session.folders[:0] = folders
            book.write_plan(session)
            made = _run(book, session, progress)
    if not session.steps:
        _remove_if_empty(folders)
    n_there = max(0, n_there - before.n_done)
    return Applied(where, before.n_done + made.n_done, n_there, (*before.left, *left, *made.left))


def unfinished(log: str | PathLike[str]) -> bool:
    """Whether a log, if it is there, tells of a run that was ended half-way."""
    path = Path(log)
    if not path.is_file():
        return False
    with ApplyLog(path) as book:
        return any(session.unfinished for session in book.sessions())


def finish(log: str | PathLike[str], *, progress: Progress | None = None) -> Applied:
    """Do what is left of a run that was ended half-way."""
    with ApplyLog(Path(log)) as book:
        return _finish(book, progress)


def undo(log: str | PathLike[str], *, progress: Progress | None = None) -> Applied:
    """Take back all that a log tells of, the last first: copies and links are removed, moved pictures go back.

    A copy that was changed since, and a picture whose old place is taken, are left alone and reported; the log then
    stays. Otherwise it is removed at the end. Undoing may itself be killed and called again.
    """
    path = Path(log)
    with ApplyLog(path) as book:
        sessions = book.sessions()
        if not all(session.undoing for session in sessions):
            book.write_undoing()
        undone = _undo(path, sessions, progress)
        if not undone.left:
            book.clear()
    for session in reversed(sessions):
        _remove_if_empty(session.folders)
    return undone


def _finish(book: ApplyLog, progress: Progress | None) -> Applied:
    n_done, left = 0, list[Skipped]()
    for session in book.sessions():
        if session.unfinished:
            made = _run(book, session, progress)
            n_done += made.n_done
            left += made.left
    return Applied(book.path, n_done, left=tuple(left))


def _undo(path: Path, sessions: list[Session], progress: Progress | None) -> Applied:
    steps = [(session, number) for session in sessions for number in range(len(session.steps))]
    n_done, left = 0, list[Skipped]()
    for n_seen, (session, number) in enumerate(reversed(steps), start=1):
        _forget_partial(session, number)
        reason = _cannot_undo(session.how, session.steps[number])
        if reason is None:
            n_done += _take_back(session, number)
        else:
            left.append(Skipped(session.steps[number].id, reason))
        if progress is not None:
            progress(n_seen, len(steps))
    return Applied(path, n_done, left=tuple(left))


def _run(book: ApplyLog, session: Session, progress: Progress | None) -> Applied:
    """Do the steps of a plan that are not done yet."""
    for folder in session.folders:
        folder.mkdir(exist_ok=True)
    n_done, left = 0, list[Skipped]()
    for number, step in enumerate(session.steps):
        try:
            n_done += _do(book, session, number)
        except FileNotFoundError as error:
            if not step.target.parent.is_dir():
                raise
            left.append(Skipped(step.id, error.strerror or "it is gone"))
        if progress is not None:
            progress(number + 1, len(session.steps))
    book.write_done()
    return Applied(book.path, n_done, left=tuple(left))


def _do(book: ApplyLog, session: Session, number: int) -> bool:
    """Do one step; False if it had been done."""
    step = session.steps[number]
    if is_placed(session.how, step.source, step.target):
        _forget_partial(session, number)
        return False
    if session.how == "move" and _half_moved(step):
        _forget_partial(session, number)
        step.source.unlink()
        return True
    while True:
        try:
            place(session.how, step.source, step.target, session.partial(number))
            return True
        except FileExistsError:
            step.target = FreeNames().choose(step.target.parent, step.source.name)
            book.write_other_target(number, step.target)


def _half_moved(step: Step) -> bool:
    """Whether a move was ended between its two halves, when the picture has both names."""
    if step.link is not None:
        return step.target.is_symlink() and step.source.is_symlink()
    if same_file(step.source, step.target):
        return True
    try:
        whole = step.target.lstat().st_mtime_ns == step.mtime_ns
    except OSError:
        return False
    return whole and same_content(step.source, step.target)


def _cannot_undo(how: How, step: Step) -> str | None:
    """Why a step cannot be taken back; None if it can, or was not done."""
    there = os.path.lexists(step.target)
    if how == "link":
        return None if not there or is_placed(how, step.source, step.target) else f"{step.target} is another file now"
    if how == "copy":
        return None if not there or _is_unchanged(step) else f"{step.target} was changed"
    if not os.path.lexists(step.source):
        return None if there else f"it is neither at {step.target} nor at {step.source}"
    return None if not there or _half_moved(step) else f"another file is at {step.source}"


def _is_unchanged(step: Step) -> bool:
    status = step.target.lstat()
    as_planned = (status.st_size, status.st_mtime_ns) == (step.size, step.mtime_ns)
    return as_planned or same_content(step.source, step.target)


def _take_back(session: Session, number: int) -> bool:
    """Take one step back; False if it was not done."""
    step = session.steps[number]
    if not os.path.lexists(step.target):
        return False
    if session.how != "move" or os.path.lexists(step.source):
        step.target.unlink()
        return True
    step.source.parent.mkdir(parents=True, exist_ok=True)
    if step.link is not None:
        step.source.symlink_to(step.link)
        step.target.unlink()
        return True
    place("move", step.target, step.source, step.source.parent / session.partial(number).name)
    return True


def _forget_partial(session: Session, number: int) -> None:
    """Remove what a kill left of a copy, here or on the way back."""
    partial, step = session.partial(number), session.steps[number]
    for path in (partial, step.source.parent / partial.name):
        with contextlib.suppress(OSError):
            path.unlink()


def _remove_if_empty(folders: list[Path]) -> None:
    """Remove folders that were made, inner ones first, if nothing is in them."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
