"""A folder that every machine of a cluster sees, whose files are whole or not there."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file


def file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of a path or URL, and the path in it."""
    fs, path = require("fsspec.core", "ray").url_to_fs(url)
    return fs, path


def is_local(fs: Any) -> bool:
    """Whether paths of a file system are paths of this machine."""
    kinds = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return "file" in kinds or "local" in kinds


# What belongs to a run in a folder of labels: readers of Parquet pass over names that begin with an underscore.
RUN = "_run"


@dataclass(frozen=True)
class RunFolder:
    """Files of a run under a path or a URL (``s3://``, ``gs://``) that fsspec knows.

    Attributes
    ----------
    url : str
    """

    url: str

    @classmethod
    def of(cls, url: str) -> RunFolder:
        """A folder that is there and can be written; local paths made absolute."""
        fs, path = file_system(url)
        fs.makedirs(path, exist_ok=True)
        return cls(str(path) if is_local(fs) else str(fs.unstrip_protocol(path)))

    def below(self, name: str) -> RunFolder:
        """A folder in this one."""
        return RunFolder.of(f"{self.url.rstrip('/')}/{name}")

    def path(self, name: str) -> str:
        """The path or URL of a file."""
        return f"{self.url.rstrip('/')}/{name}"

    def has(self, name: str) -> bool:
        """Whether a file is there, and so whole."""
        fs, path = file_system(self.path(name))
        return bool(fs.exists(path))

    def put(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Let ``write`` fill a file, which is there once it is whole."""
        fs, path = file_system(self.path(name))
        if is_local(fs):
            put_file(Path(path), write)
            return
        # Object stores show an object when its upload is complete.
        with fs.open(path, "wb") as file:
            write(file)

    def names(self) -> list[str]:
        """The files that are directly in the folder, sorted."""
        fs, path = file_system(self.url)
        return sorted(one["name"].rpartition("/")[2] for one in fs.ls(path, detail=True) if one["type"] == "file")

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""
        fs, path = file_system(self.path(name))
        if fs.exists(path):
            fs.rm(path)

    def put_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Plain values as JSON."""
        self.put(name, lambda file: file.write(json.dumps(values).encode()))

    def json(self, name: str) -> dict[str, Any]:
        """What :meth:`put_json` wrote."""
        fs, path = file_system(self.path(name))
        values: dict[str, Any] = json.loads(fs.cat_file(path))
        return values

    def put_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Arrays by name as ``.npz``."""

        def write(file: IO[bytes]) -> None:
            np.savez(file, **arrays)

        self.put(name, write)

    def arrays(self, name: str) -> Mapping[str, Any]:
        """What :meth:`put_arrays` wrote; each array is read when it is asked for."""
        fs, path = file_system(self.path(name))
        source: Any = path if is_local(fs) else io.BytesIO(fs.cat_file(path))
        loaded: Mapping[str, Any] = np.load(source, allow_pickle=False)
        return loaded
