"""Pictures to vectors with a network of one's own, into a feature store; a stopped extraction continues."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from laplacianshot.datasets.decoding import CorruptPicture
from laplacianshot.datasets.feature_store import (
    DTYPES,
    FeatureStore,
    Manifest,
    Skipped,
    StoreError,
    StoreKey,
    as_stored,
    lock_store,
    view_text,
    write_files,
)
from laplacianshot.embedding.encoding import EncodingRun
from laplacianshot.embedding.vector_cache import VectorCache
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.keyed_folder import arrays_hash
from laplacianshot.runtime.progress import Progress

if TYPE_CHECKING:
    import torch

    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.embedding.pictures import View
    from laplacianshot.runtime.types import Floats, Labels

# Images (B, C, H, W) to vectors (B, D).
Encoder: TypeAlias = "torch.nn.Module | Callable[[Floats], Floats]"

# Seconds of work that a kill may cost.
COMMIT_SECONDS = 5.0

# Vectors of a store in the making, below its folder; removed when the store is complete.
PROGRESS = ".progress"


@dataclass(frozen=True)
class Extraction:
    """Result of an extraction.

    Attributes
    ----------
    store : FeatureStore
        Complete.
    found : int
        Pictures that were done before, by an extraction that was stopped or finished.
    encoded : int
        Pictures processed now; those of ``store.skipped`` among them have no row.
    seconds : float
    """

    store: FeatureStore
    found: int
    encoded: int
    seconds: float


def extract(
    encoder: Encoder,
    pictures: Pictures,
    path: str | PathLike[str],
    *,
    view: View,
    batch_size: int = 64,
    dtype: str = "float32",
    weights: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: int = 1,
    overwrite: bool = False,
    commit_seconds: float = COMMIT_SECONDS,
    progress: Progress | None = None,
) -> Extraction:
    """Put a vector for each picture into a store: ``vectors[i] = encoder(view(pictures[i]))``.

    A store is kept under the key of weights, view and pictures. One of the same key is used as it is if it is
    complete, and continued if it is not: stopped or killed at any moment, a second call with the same arguments ends
    with the same bytes as an uninterrupted one. One of another key is refused.

    Parameters
    ----------
    encoder : torch module or callable
        A module gives vectors (B, D), or a tuple that begins with them, as the networks of this package do; it works
        on its own device, in evaluation mode. Any other callable takes and gives numpy arrays.
    pictures : Pictures
    path : path of the store's folder
    view : View
        A data class; its fields are part of the key.
    batch_size : int
        Pictures encoded together. Another one may change the last bits of a vector.
    dtype : "float32" or "float16"
    weights : str, optional
        What tells the encoder from others; required for a callable. Default for a module: the hash of its weights.
    on_error : "raise" or "skip"
        Whether a picture that cannot be read is an error, or is left out and listed in the store.
    workers : int
        Threads that read pictures while the encoder computes.
    overwrite : bool
        Replace a store of another key.
    commit_seconds : float
        How often finished vectors are written to the disk.
    progress : callable
        Called with the pictures done and all of them, at the beginning and after each batch.

    Returns
    -------
    Extraction

    Raises
    ------
    StaleStore
        The store was made with other weights, another view or other pictures; the message says which.
    StoreInUse
        Another process is writing it.
    CorruptPicture
        A picture cannot be read, and ``on_error`` is ``"raise"``. What was done before is kept.
    OSError
        The store cannot be written, as on a full disk. What was written before is kept.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}.")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    start, n = monotonic(), len(pictures)
    key = StoreKey(weights or _weights_of(encoder), view_text(view), pictures.content_key())
    store, found = _finished(path, key, dtype), n
    if store is None:
        with lock_store(path, key, dtype, n, overwrite=overwrite) as folder, _encoding(encoder) as encode:
            rows = _Rows(pictures, view, skip=on_error == "skip")
            job = _Job(folder, Manifest(key, dtype, 0, n), rows, encode, batch_size)
            found = job.run(workers, commit_seconds, progress or (lambda done, total: None))
        store = FeatureStore.open(path, key)
    elif on_error == "raise" and store.skipped:
        raise CorruptPicture(store.skipped[0].name, store.skipped[0].reason)
    return Extraction(store, found, n - found, monotonic() - start)


class _Unreadable(Exception):
    """Ends an extraction at a picture that cannot be read."""

    def __init__(self, fault: CorruptPicture) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True)
class _Rows:
    """Pictures as items: each is its number and its view (1, C, H, W).

    The vectors of an extraction are kept for this extraction alone, whose key covers the content of all pictures; so
    the number of a picture stands for its content, and no file is read twice.
    """

    pictures: Pictures
    view: View
    skip: bool

    def __len__(self) -> int:
        return len(self.pictures)

    def content_hash(self, i: int) -> bytes:
        return hashlib.blake2b(str(i).encode(), digest_size=16).digest()

    def load(self, i: int) -> tuple[int, Any]:
        try:
            return i, self.view(self.pictures, [i])
        except CorruptPicture as fault:
            if self.skip:
                raise
            raise _Unreadable(fault) from fault

    def file(self, i: int) -> Path | None:
        return None


@dataclass
class _Encoder:
    """A network as :class:`EncodingRun` takes encoders."""

    key: str
    batch_size: int
    dtype: str
    names: Labels
    network: Callable[[Any], Floats]
    dim: int = 0
    name: str = "of this extraction"
    kind: Literal["pictures"] = "pictures"
    parallel: int = 1
    enough: None = None
    # The first batch is encoded before the run, to learn D; it is not encoded twice.
    first: tuple[list[int], Floats] | None = None

    def prepare(self, item: Any) -> Any:
        return item

    def encode(self, prepared: Sequence[tuple[int, Any]]) -> Floats:
        rows = [row for row, _ in prepared]
        if self.first is not None and rows == self.first[0]:
            return self.first[1]
        vectors = np.asarray(self.network(require("torch", "train").cat([image for _, image in prepared])))
        if vectors.ndim != 2 or len(vectors) != len(rows):
            raise ValueError(
                f"the encoder must give vectors of shape ({len(rows)}, D) for {len(rows)} pictures, "
                f"got shape {vectors.shape}."
            )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            name = self.names[rows[int(np.argmin(finite))]]
            raise ValueError(f"the encoder gives NaN or infinity for picture {str(name)!r}; its weights are of no use.")
        as_stored(vectors, self.dtype, rows[0])
        return vectors.astype(np.float32, copy=False)


@dataclass
class _Job:
    """One extraction into a folder that is held."""

    folder: Path
    manifest: Manifest
    rows: _Rows
    network: Callable[[Any], Floats]
    batch_size: int

    def run(self, workers: int, commit_seconds: float, report: Progress) -> int:
        """Encode what is missing and write the store; returns how many pictures were done before."""
        pictures, n, manifest = self.rows.pictures, len(self.rows), self.manifest
        encoder = _Encoder(manifest.key.digest, self.batch_size, manifest.dtype, pictures.names, self.network)
        before = 0
        cache = None
        try:
            self._probe(encoder)
            cache = VectorCache(self.folder / PROGRESS, encoder.key, encoder.dim)
            before = len(cache)
            manifest.write(self.folder)
            run = EncodingRun(
                self.rows,
                encoder,
                cache,
                progress=lambda done, total: report(max(done, before), total),
                workers=1 + max(0, workers),
                save_seconds=commit_seconds,
                on_saved=lambda: self._note(len(cache)),
                must_save=True,
            )
            encoded = run.encode()
            skipped = tuple(Skipped(i, str(pictures.names[i]), reason) for i, reason in encoded.failed)
            kept = encoded.rows
            sides = {"labels": pictures.labels[kept], "split": pictures.split[kept], "names": pictures.names[kept]}
            sides["class_names"] = np.asarray(pictures.class_names)
            write_files(self.folder, replace(manifest, skipped=skipped), encoded.vectors, sides)
        except _Unreadable as error:
            raise error.fault from None
        except OSError as error:
            done = 0 if cache is None else len(cache)
            raise OSError(
                error.errno,
                f"{error.strerror}; {done} of {n} items are done and kept: mend this and run it again to go on",
                str(self.folder),
            ) from error
        finally:
            if cache is not None:
                cache.close()
        shutil.rmtree(self.folder / PROGRESS, ignore_errors=True)
        return before

    def _note(self, done: int) -> None:
        """Say in the manifest how much is done."""
        replace(self.manifest, items=done).write(self.folder)

    def _probe(self, encoder: _Encoder) -> None:
        """Encode the first batch that has a readable picture, and so learn D."""
        faults: list[CorruptPicture] = []
        for start in range(0, len(self.rows), self.batch_size):
            prepared = []
            for i in range(start, min(start + self.batch_size, len(self.rows))):
                try:
                    prepared.append(self.rows.load(i))
                except CorruptPicture as fault:
                    faults.append(fault)
            if prepared:
                vectors = encoder.encode(prepared)
                encoder.dim, encoder.first = vectors.shape[1], ([row for row, _ in prepared], vectors)
                return
        first = f"; the first: {faults[0]}" if faults else ""
        raise ValueError(f"none of the {len(self.rows)} pictures can be read{first}")


def _finished(path: str | PathLike[str], key: StoreKey, dtype: str) -> FeatureStore | None:
    """The store, if it is complete: then no lock is needed, and no right to write."""
    try:
        store = FeatureStore.open(path, key)
    except StoreError:
        return None
    return store if store.dtype == dtype else None


def _is_module(encoder: Any) -> bool:
    """Whether it is a torch module; torch is not imported for what cannot be one."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(encoder).__mro__)


def _weights_of(encoder: Any) -> str:
    if not _is_module(encoder):
        raise ValueError("weights: a callable needs a text that tells it from others and changes whenever it does.")
    name = getattr(encoder, "name", f"{type(encoder).__module__}.{type(encoder).__qualname__}")
    return arrays_hash(encoder.state_dict(), name)


@contextmanager
def _encoding(encoder: Any) -> Iterator[Callable[[Any], Floats]]:
    """The encoder on tensors, for the time being in evaluation mode."""
    if not _is_module(encoder):
        yield lambda images: encoder(images.numpy())
        return
    torch = require("torch", "train")
    first = next(iter(encoder.parameters()), None)
    device = torch.device("cpu") if first is None else first.device

    def encode(images: Any) -> Floats:
        with torch.inference_mode():
            vectors = encoder(images.to(device))
        vectors = vectors[0] if isinstance(vectors, tuple) else vectors
        found: Floats = vectors.float().cpu().numpy()
        return found

    modes = [(module, module.training) for module in encoder.modules()]
    encoder.eval()
    try:
        yield encode
    finally:
        for module, training in modes:
            module.training = training
