"""What a command says when it cannot go on."""

from __future__ import annotations

from laplacianshot.cli import BAD_INPUT
from laplacianshot.runtime.errors import LaplacianShotError


class CommandError(LaplacianShotError):
    """One line for the user and the exit code that goes with it."""

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code
