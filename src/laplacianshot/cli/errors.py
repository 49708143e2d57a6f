"""Exit codes, and the error that commands raise."""

from __future__ import annotations

from laplacianshot.runtime.errors import LaplacianShotError

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130


class CommandError(LaplacianShotError):
    """One line for the user, and the exit code."""

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code
