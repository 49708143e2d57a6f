"""Copy, move and link single files without ever overwriting one."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
from pathlib import Path
from typing import Literal, TypeAlias

How: TypeAlias = Literal["copy", "move", "link"]

# A disk without hard links, or a file that may not get another name.
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

# Bytes of a file's name, on the usual systems.
_MAX_BYTES = 255


def place(how: How, source: Path, target: Path, partial: Path) -> None:
    """Copy, move or link ``source`` to ``target``; ``partial`` is a free name beside it for what is not yet whole.

    Raises
    ------
    FileExistsError
        There is something at ``target`` already. Nothing was changed.
    """
    if how == "link":
        target.symlink_to(source)
    elif how == "copy":
        _copy(source, target, partial, durable=False)
    elif source.is_symlink():
        # The text of a relative link would lead elsewhere from its new place.
        target.symlink_to(source.parent / source.readlink())
        source.unlink()
    else:
        _move(source, target, partial)


def _move(source: Path, target: Path, partial: Path) -> None:
    try:
        # Unlike a rename, a second name does not replace what is there.
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy(source, target, partial, durable=True)
    source.unlink()


def _copy(source: Path, target: Path, partial: Path, *, durable: bool) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    partial.unlink(missing_ok=True)
    try:
        shutil.copyfile(source, partial)
        if durable:
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
        # The last of it, as a picture that may not be written stays so.
        shutil.copystat(source, partial)
        try:
            os.link(partial, target)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Ours, as it must not have been there; then whole at once.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def is_placed(how: How, source: Path, target: Path) -> bool:
    """Whether ``target`` already is what :func:`place` would make of ``source``, which may still be there."""
    if how == "link":
        return target.is_symlink() and target.readlink() == source
    if how == "copy":
        return same_content(source, target)
    if not os.path.lexists(source):
        return os.path.lexists(target)
    return False


def same_file(one: Path, two: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return os.path.samestat(one.lstat(), two.lstat())
    except OSError:
        return False


def same_content(one: Path, two: Path) -> bool:
    """Whether two files hold the same bytes."""
    try:
        return one.is_file() and two.is_file() and filecmp.cmp(one, two, shallow=False)
    except OSError:
        return False


class FreeNames:
    """Names that are neither there nor handed out before, also where case does not count."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[tuple[Path, str], int] = {}

    def choose(self, folder: Path, name: str) -> Path:
        """A path in ``folder``: of that name, or with a number behind it."""
        key = folder, name.casefold()
        number = self._next.get(key, 1)
        while True:
            path = folder / numbered(name, number)
            number += 1
            if str(path).casefold() not in self._taken and not os.path.lexists(path):
                break
        # A folder may get thousands of pictures of one name.
        self._next[key] = number
        self._taken.add(str(path).casefold())
        return path


def numbered(name: str, number: int) -> str:
    """``name.jpg``, ``name-2.jpg``, ``name-3.jpg``, not longer than a name may be."""
    if number == 1:
        return name
    stem, ending = os.path.splitext(name)  # noqa: PTH122 - of a name, not a path
    mark = f"-{number}{ending}"
    room = _MAX_BYTES - len(os.fsencode(mark))
    with contextlib.suppress(UnicodeEncodeError):
        stem = stem.encode()[:room].decode(errors="ignore")
    return f"{stem}{mark}"
