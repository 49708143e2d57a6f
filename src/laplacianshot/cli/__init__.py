"""The command ``laplacianshot``: one file for each of its commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from laplacianshot.cli.terminal import BAD_INPUT, INTERRUPTED
from laplacianshot.runtime.extras import how_to_install

# Packages of the extra "cli".
_NEEDED = ("typer", "rich", "matplotlib")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script; leaves with the command's exit code."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(f"error: the command needs {', '.join(missing)}; {how_to_install('cli')}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    try:
        from laplacianshot.cli.app import run

        sys.exit(run(arguments))
    except KeyboardInterrupt:
        # While modules are imported; later the commands say it themselves.
        print("error: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
