"""What a store consists of."""

from __future__ import annotations

from pathlib import Path

from laplacianshot.runtime.locks import LOCK_NAME

VECTORS = "vectors.bin"
ITEM_KEYS = "item_keys.bin"
MANIFEST = "manifest.json"

# Arrays beside the vectors, each in a .npy file of its name.
SIDES = ("labels", "split", "class_names", "names")

# All that a store may consist of.
STORE_FILES = (MANIFEST, VECTORS, ITEM_KEYS, LOCK_NAME, *(f"{name}.npy" for name in SIDES))


def foreign_files(folder: Path) -> list[str]:
    """Names in a folder that no store has put there; hidden ones do not count, as file managers leave them about."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name not in STORE_FILES and not name.startswith(".")]
