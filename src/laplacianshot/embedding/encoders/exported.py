"""Networks written as ONNX files once, in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from laplacianshot.embedding.encoders.contract import EncoderError
from laplacianshot.embedding.vector_cache import FileHashes, file_state
from laplacianshot.runtime.files import put_file, remove_partial
from laplacianshot.runtime.keyed_folder import ABANDONED_SECONDS
from laplacianshot.runtime.user_cache import VARIABLE, user_cache

# Raised by one whenever the same weights would give another graph.
GRAPH_VERSION = 2


def exported(name: str, weights: Path, export: Callable[[Path], bytes]) -> tuple[Path, str]:
    """The ONNX file of a network, written if it is not there, and a hash of its weights and version.

    Parameters
    ----------
    name : str
        What the file is called.
    weights : Path
    export : callable
        The content of the ONNX file from the file of weights.
    """
    folder = user_cache()[0] / "networks"
    digest = hashlib.sha256(f"{name} {GRAPH_VERSION} {file_hash(weights, folder).hex()}".encode()).hexdigest()
    path = folder / f"{name}-{digest[:16]}.onnx"
    if not path.exists():
        content = export(weights)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_partial(folder, older=ABANDONED_SECONDS)
            # Two processes may both come here; they write the same.
            put_file(path, lambda file: file.write(content))
        except OSError as error:
            why = error.strerror or error
            raise EncoderError(f"{path} cannot be written ({why}); set {VARIABLE} to a folder with room.") from error
    return path, digest


def file_hash(path: Path, folder: Path) -> bytes:
    """Hash of a file's content, 16 bytes; kept in ``folder`` while the file is unchanged."""
    hashes, state = FileHashes(folder), file_state(path)
    (known,) = hashes.get([state])
    if known is not None:
        return known
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    with contextlib.suppress(OSError):
        hashes.put([state], [found])
    hashes.close()
    return found
