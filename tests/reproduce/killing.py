"""A run that is killed again and again: ``python -m tests.reproduce.killing STRIDE ARGUMENT...``, in its folder.

Each attempt is a child forked from this process, which has loaded torch but computed nothing: only so can several
begin within seconds.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from pathlib import Path

import laplacianshot.reproduce.run  # noqa: F401 - loaded once for all children
from laplacianshot.cli.app import run

# Where each attempt is killed: when this file is about to be put in its place for the given number of times.
DEATHS = (
    ("train/begun.json", 1),
    ("train/last.safetensors", 2),
    ("train/step.json", 1),
    ("extract/features/manifest.json", 2),
    ("tune/laplacianshot-paper*.npz", 1),
    ("evaluate/transforms*.npz", 1),
    ("report/index.html", 1),
)


def killed_at(pattern: str, count: int) -> None:
    """End this process, as SIGKILL does, before a file that matches is there for the ``count``-th time."""
    replace, left = Path.replace, count

    def deadly(self: Path, target: Path) -> Path:
        nonlocal left
        left -= Path(target).match(pattern)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    Path.replace = deadly


def attempt(arguments: list[str], death: tuple[str, int] | None) -> int:
    """Run the command in a child; how that ended, as os.waitpid tells it. A child that hangs says where."""
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(240, exit=True)
        if death is not None:
            killed_at(*death)
        os._exit(run(arguments))
    return os.waitpid(pid, 0)[1]


if __name__ == "__main__":
    stride, *arguments = sys.argv[1:]
    for place in DEATHS[1 :: int(stride)] if int(stride) > 1 else DEATHS:
        status = attempt(arguments, place)
        assert os.WIFSIGNALED(status), f"the run was to be killed at {place}, and ended with {status}"
    assert attempt(arguments, None) == 0
