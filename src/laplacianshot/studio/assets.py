"""The files of the page, all of them in the package: nothing is loaded from elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "page"

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class Asset:
    """A file of the page: its bytes, media type and tag."""

    content: bytes
    media_type: str
    tag: str


class Assets:
    """Files by their path below the folder of the page, listed once: no other path leads anywhere."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES and path.is_file() and not path.is_symlink()
        }

    def get(self, name: str) -> Asset | None:
        """The file of that name, None if there is none."""
        path = self._files.get(name)
        if path is None:
            return None
        content = path.read_bytes()
        return Asset(content, _TYPES[path.suffix], hashlib.blake2b(content, digest_size=8).hexdigest())
