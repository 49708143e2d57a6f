"""Results kept in a folder under a key of what they were made from, so that a stopped run can continue."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file, remove_partial

# Written last by `save`: a folder with this file is complete.
FACTS = "facts.json"
# Seconds after which a half-written file of another process counts as abandoned.
ABANDONED_SECONDS = 3600.0
_HASHED_ROWS = 16384


def content_key(*made_from: Any) -> str:
    """Hash of everything that a result depends on: bytes, arrays and plain JSON values, a version of the code among it.

    >>> content_key(1, "neighbors", {"k": 10}) == content_key(1, "neighbors", {"k": 10})
    True
    >>> content_key(1, "neighbors", {"k": 10}) == content_key(2, "neighbors", {"k": 10})
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in made_from:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(part.nbytes.to_bytes(8, "big"))
            rows = np.atleast_1d(part)
            # In blocks: large arrays may be memory-mapped.
            for start in range(0, len(rows), _HASHED_ROWS):
                digest.update(rows[start : start + _HASHED_ROWS].tobytes())
            continue
        content = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.hexdigest()


def arrays_hash(arrays: Mapping[str, Any], about: str = "") -> str:
    """Return the SHA-256 of named arrays: of names, dtypes, shapes and bytes, in the order of the names.

    ``arrays`` are numpy arrays or torch tensors, such as the ``state_dict`` of a network; ``about`` is what else
    decides the output, such as the name of the network.
    """
    total = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"\0{name}\0{array.dtype}\0{tuple(array.shape)}\0".encode())
        total.update(_bytes_of(array))
    return total.hexdigest()


def _bytes_of(tensor: Any) -> Any:
    """The content of an array or tensor, without a copy where that is possible."""
    if isinstance(tensor, np.ndarray):
        return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    import torch

    # By way of bytes, as numpy has no bfloat16.
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


@dataclass(frozen=True)
class KeyedFolder:
    """A folder whose files are complete or absent, however a run ends."""

    url: str  # a local path, or a URL that fsspec knows, such as s3://bucket/folder

    @classmethod
    def of(cls, parent: str | Path, kind: str, *made_from: Any) -> KeyedFolder:
        """Return the folder of a result, named by its kind and the :func:`content_key` of what it is made from.

        Start ``made_from`` with a version number that is raised by one whenever the same input would give another
        result.
        """
        return cls(str(parent)).below(f"{kind}-{content_key(*made_from)}")

    @classmethod
    def create(cls, url: str) -> KeyedFolder:
        """Make a folder if it does not exist; local paths become absolute."""
        fs, path = _file_system(url)
        if fs is None:
            folder = Path(path).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            return cls(str(folder))
        fs.makedirs(path, exist_ok=True)
        return cls(str(fs.unstrip_protocol(path)))

    def below(self, name: str) -> KeyedFolder:
        """Return a folder inside this one; it is made when a file is put there."""
        return KeyedFolder(self.path(name))

    @property
    def is_local(self) -> bool:
        """Whether the folder is on this machine's file system."""
        return _file_system(self.url)[0] is None

    def path(self, name: str) -> str:
        """Path or URL of a file."""
        return f"{self.url.rstrip('/')}/{name}"

    def has(self, name: str) -> bool:
        """Whether a file exists; it is then complete."""
        fs, path = _file_system(self.path(name))
        return Path(path).exists() if fs is None else bool(fs.exists(path))

    def names(self) -> list[str]:
        """Names of the files directly in the folder, sorted."""
        fs, path = _file_system(self.url)
        if fs is None:
            return sorted(one.name for one in Path(path).iterdir() if one.is_file()) if Path(path).is_dir() else []
        if not fs.exists(path):
            return []
        return sorted(one["name"].rpartition("/")[2] for one in fs.ls(path, detail=True) if one["type"] == "file")

    def put(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Let ``write`` fill a file, which appears once it is complete."""
        fs, path = _file_system(self.path(name))
        if fs is None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            put_file(Path(path), write)
            return
        # An object store shows an object when its upload is complete.
        with fs.open(path, "wb") as file:
            write(file)

    def read(self, name: str) -> bytes:
        """Content of a file."""
        fs, path = _file_system(self.path(name))
        return Path(path).read_bytes() if fs is None else bytes(fs.cat_file(path))

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        fs, path = _file_system(self.path(name))
        if fs is None:
            Path(path).unlink(missing_ok=True)
        elif fs.exists(path):
            fs.rm(path)

    def put_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Put plain values as JSON."""
        text = json.dumps(values, indent=2, allow_nan=False) + "\n"
        self.put(name, lambda file: file.write(text.encode()))

    def json(self, name: str) -> dict[str, Any]:
        """Read what :meth:`put_json` wrote."""
        return dict(json.loads(self.read(name)))

    def put_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Put arrays by name as ``.npz``."""
        self.put(name, lambda file: np.savez(file, **arrays))

    def arrays(self, name: str) -> Mapping[str, Any]:
        """Open what :meth:`put_arrays` wrote; each array is read when it is used."""
        loaded: Mapping[str, Any] = np.load(self._source(name), allow_pickle=False)
        return loaded

    def _source(self, name: str) -> Any:
        """What numpy reads a file from: arrays on this machine are not held in memory twice."""
        fs, path = _file_system(self.path(name))
        return path if fs is None else io.BytesIO(fs.cat_file(path))

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return facts and arrays that :meth:`save` put here; None where they are absent or damaged."""
        try:
            facts = self.json(FACTS)
            arrays = {name: np.load(self._source(f"{name}.npy"), allow_pickle=False) for name in facts["arrays"]}
            if self.is_local:
                (Path(self.url) / FACTS).touch()
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return None
        return facts, arrays

    def save(self, facts: Mapping[str, Any], arrays: Mapping[str, Any], *, keep: int | None = None) -> None:
        """Keep a result, its arrays first and its facts last. A full disk costs a warning, not the run.

        In a local folder, only the ``keep`` results of this kind that were used last stay (default: all).
        """
        try:
            if self.is_local:
                remove_partial(Path(self.url), older=ABANDONED_SECONDS)
            for name, array in arrays.items():
                self.put(f"{name}.npy", lambda file, array=array: np.save(file, array))  # type: ignore[misc]
            self.put_json(FACTS, {**facts, "arrays": list(arrays)})
        except OSError as error:
            why = error.strerror or error
            warnings.warn(f"a finished stage could not be kept in {self.url} ({why}).", stacklevel=2)
            if self.is_local:
                shutil.rmtree(self.url, ignore_errors=True)
        if keep is not None and self.is_local:
            self._forget_others(keep)

    def _forget_others(self, keep: int) -> None:
        folder = Path(self.url)
        kind = folder.name.rpartition("-")[0]
        used: list[tuple[float, Path]] = []
        for other in folder.parent.glob(f"{kind}-*"):
            with suppress(OSError):
                # A folder without facts may be another run's work in progress.
                used.append(((other / FACTS).stat().st_mtime, other))
        for _, other in sorted(used)[:-keep]:
            shutil.rmtree(other, ignore_errors=True)


def _file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, or None for a local path; and the path in it."""
    if "://" not in url:
        return None, url
    fs, path, is_local = file_system(url)
    return None if is_local else fs, path


def file_system(url: str) -> tuple[Any, str, bool]:
    """The fsspec file system of a path or URL, the path in it, and whether it is a path of this machine."""
    fs, path = require("fsspec.core", "ray").url_to_fs(url)
    kinds = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return fs, path, "file" in kinds or "local" in kinds
