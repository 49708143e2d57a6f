"""The folder that keeps the results of slow work for the next run."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

VARIABLE = "LAPLACIANSHOT_CACHE"


def usual_cache() -> Path:
    """Return where the cache should be: ``LAPLACIANSHOT_CACHE``, else the system's folder for caches of this user."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # a user without a home
        return Path(base).expanduser() / "laplacianshot"
    return _temporary()


def user_cache() -> tuple[Path, str]:
    """Return a folder that can be written, and a note where it is not the usual one.

    Returns
    -------
    folder : Path
    note : str
        Empty, or one line that says what is wrong with the usual folder and which one is used instead.
    """
    usual = usual_cache()
    fault = _fault(usual)
    if not fault:
        return usual, ""
    instead = _temporary()
    if _fault(instead):
        instead = Path(tempfile.mkdtemp(prefix="laplacianshot-"))
    return instead, f"{usual} cannot be written ({fault}); keeping vectors in {instead}. Set {VARIABLE} to a folder."


def _temporary() -> Path:
    """A folder for this user alone below the temporary one."""
    name = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"laplacianshot-{name}"


def _fault(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if hasattr(os, "getuid") and folder == _temporary():
            folder.chmod(0o700)  # fails where another user has taken the name
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)
