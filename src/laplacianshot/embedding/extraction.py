"""Pictures to vectors with a network of one's own, into a feature store; a stopped extraction continues."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from laplacianshot.datasets.decoding import CorruptPicture
from laplacianshot.datasets.feature_store import (
    FeatureStore,
    Manifest,
    Skipped,
    StoreError,
    StoreKey,
    lock_store,
    write_files,
)
from laplacianshot.embedding.encoders import Encoder
from laplacianshot.embedding.encoding import EncodingRun
from laplacianshot.embedding.vector_cache import VectorCache
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.keyed_folder import arrays_hash
from laplacianshot.runtime.progress import Progress

if TYPE_CHECKING:
    import torch

    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.embedding.pictures import View
    from laplacianshot.runtime.types import Floats

# Vectors of a store in the making, below its folder; removed when the store is complete.
_PROGRESS = ".progress"


@dataclass(frozen=True)
class Extraction:
    """Result of an extraction."""

    store: FeatureStore  # complete
    found: int  # pictures that were done before, by an extraction that was stopped or finished
    encoded: int  # pictures processed now; those of ``store.skipped`` among them have no row
    seconds: float


def extract(
    network: torch.nn.Module,
    pictures: Pictures,
    path: str | PathLike[str],
    *,
    view: View,
    batch_size: int = 64,
    dtype: str = "float32",
    on_error: Literal["raise", "skip"] = "raise",
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Extraction:
    """Put a vector for each picture into a store: ``vectors[i] = network(view(pictures[i]))``.

    A store is kept under the key of weights, view and pictures. One of the same key is used as it is if it is
    complete, and continued if it is not: stopped or killed at any moment, a second call with the same arguments ends
    with the same bytes as an uninterrupted one. One of another key is refused.

    Parameters
    ----------
    network : torch module
        Images (B, C, H, W) to vectors (B, D), or to a tuple that begins with them, as the networks of this package do.
        It works on its own device, in evaluation mode.
    pictures : Pictures
    path : path of the store's folder
    view : View
        A data class; its fields are part of the key.
    batch_size : int
        Pictures encoded together. Another one may change the last bits of a vector.
    dtype : "float32" or "float16"
    on_error : "raise" or "skip"
        Whether a picture that cannot be read is an error, or is left out and listed in the store.
    workers : int
        Threads that read pictures while the network computes.
    overwrite : bool
        Replace a store of another key.
    progress : callable
        Called with the pictures done and all of them, at the beginning and after each batch.

    Raises
    ------
    StoreError
        The store was made with other weights, another view or other pictures, or another process is writing it.
    CorruptPicture
        A picture cannot be read, and ``on_error`` is ``"raise"``. What was done before is kept.
    OSError
        The store cannot be written, as on a full disk. What was written before is kept.
    """
    if not is_dataclass(view):
        raise TypeError(f"view must be a data class whose fields are its parameters; got {view!r}.")
    start, n = monotonic(), len(pictures)
    kind = type(network)
    weights = arrays_hash(network.state_dict(), getattr(network, "name", f"{kind.__module__}.{kind.__qualname__}"))
    key = StoreKey(weights, repr(view), pictures.content_key())
    store, found = _finished(path, key, dtype), n
    if store is None:
        with lock_store(path, key, dtype, overwrite=overwrite) as folder, _evaluating(network) as vectors_of:
            rows, manifest = _Rows(pictures, view), Manifest(key, dtype, 0, n)
            work = _Extraction(folder, manifest, rows, vectors_of, batch_size, skip=on_error == "skip")
            found = work.run(workers, progress or (lambda done, total: None))
        store = FeatureStore.open(path, key)
    elif on_error == "raise" and store.skipped:
        raise CorruptPicture(store.skipped[0].name, store.skipped[0].reason)
    return Extraction(store, found, n - found, monotonic() - start)


@dataclass(frozen=True)
class _Rows:
    """Pictures as items: each is its number and its view (1, C, H, W).

    The vectors of an extraction are kept for this extraction alone, whose key covers the content of all pictures; so
    the number of a picture stands for its content, and no file is read twice.
    """

    pictures: Pictures
    view: View

    def __len__(self) -> int:
        return len(self.pictures)

    def content_hash(self, i: int) -> bytes:
        return hashlib.blake2b(str(i).encode(), digest_size=16).digest()

    def load(self, i: int) -> tuple[int, Any]:
        return i, self.view(self.pictures, [i])

    def file(self, i: int) -> Path | None:
        return None


@dataclass(frozen=True)
class _Extraction:
    """One extraction into a folder that is held."""

    folder: Path
    manifest: Manifest
    rows: _Rows
    vectors_of: Callable[[Any], Floats]
    batch_size: int
    skip: bool  # leave out pictures that cannot be read

    def run(self, workers: int, report: Progress) -> int:
        """Encode what is missing and write the store; returns how many pictures were done before."""
        pictures, manifest = self.rows.pictures, self.manifest
        key, dim = manifest.key.digest, self._dim()
        encoder = Encoder("of this extraction", "pictures", dim, key, lambda item: item, self._encode, self.batch_size)
        cache = VectorCache(self.folder / _PROGRESS, key, dim)
        before = len(cache)
        try:
            manifest.write(self.folder)
            encoded = EncodingRun(
                self.rows,
                encoder,
                cache,
                progress=lambda done, total: report(max(done, before), total),
                workers=1 + max(0, workers),
                on_saved=lambda: replace(manifest, items=len(cache)).write(self.folder),
                strict=True,
                skip=self.skip,
            ).encode()
            skipped = tuple(Skipped(i, str(pictures.names[i]), reason) for i, reason in encoded.failed)
            sides = {name: getattr(pictures, name)[encoded.rows] for name in ("labels", "split", "names")}
            sides["class_names"] = np.asarray(pictures.class_names)
            write_files(self.folder, replace(manifest, skipped=skipped), encoded.vectors, sides)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}; {len(cache)} of {len(pictures)} items are done and kept: mend this and run it "
                "again to go on",
                str(self.folder),
            ) from error
        finally:
            cache.close()
        shutil.rmtree(self.folder / _PROGRESS, ignore_errors=True)
        return before

    def _dim(self) -> int:
        """Length of a vector, learned from the first picture that can be read."""
        first = None
        for i in range(len(self.rows)):
            try:
                return int(self._encode([self.rows.load(i)]).shape[1])
            except CorruptPicture as fault:
                if not self.skip:
                    raise
                first = first or fault
        raise ValueError(f"none of the {len(self.rows)} pictures can be read; the first: {first}")

    def _encode(self, prepared: Sequence[tuple[int, Any]]) -> Floats:
        numbers = [number for number, _ in prepared]
        vectors = self.vectors_of([image for _, image in prepared])
        if vectors.ndim != 2 or len(vectors) != len(numbers):
            raise ValueError(
                f"the network must give vectors of shape ({len(numbers)}, D) for {len(numbers)} pictures, "
                f"got shape {vectors.shape}."
            )
        with np.errstate(over="ignore"):
            finite = np.isfinite(vectors.astype(self.manifest.dtype, copy=False)).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            name, largest = str(self.rows.pictures.names[numbers[row]]), np.abs(vectors[row]).max()
            if np.isfinite(largest):
                raise ValueError(
                    f"the network gives {largest:g} for picture {name!r}, which is too large for "
                    f"{self.manifest.dtype}; choose dtype float32."
                )
            raise ValueError(f"the network gives NaN or infinity for picture {name!r}; its weights are of no use.")
        return vectors


def _finished(path: str | PathLike[str], key: StoreKey, dtype: str) -> FeatureStore | None:
    """The store, if it is complete: then no lock is needed, and no right to write."""
    try:
        store = FeatureStore.open(path, key)
    except StoreError:
        return None
    return store if store.dtype == dtype else None


@contextmanager
def _evaluating(network: torch.nn.Module) -> Iterator[Callable[[list[Any]], Floats]]:
    """The network as a function of images (1, C, H, W), in evaluation mode until the end."""
    torch = require("torch", "train")
    first = next(iter(network.parameters()), None)
    device = torch.device("cpu") if first is None else first.device

    def encode(images: list[Any]) -> Floats:
        with torch.inference_mode():
            vectors = network(torch.cat(images).to(device))
        vectors = vectors[0] if isinstance(vectors, tuple) else vectors
        return np.asarray(vectors.float().cpu().numpy())

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield encode
    finally:
        for module, training in modes:
            module.training = training
