"""``python -m laplacianshot.embedding.networks`` prints the table of docs/guide/networks.md."""

from __future__ import annotations

import sys

from laplacianshot.runtime.extras import require

if __name__ == "__main__":
    try:
        require("torch", "train")
    except ModuleNotFoundError as error:
        sys.exit(f"error: {error}")
    from laplacianshot.embedding.networks.summary import table

    sys.stdout.write(table() + "\n")
