"""Pictures to vectors, into a feature store, from where the last attempt stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from laplacianshot.embedding.store import (
    FeatureStore,
    Skipped,
    StoreError,
    StoreKey,
    StoreWriter,
    arrays_hash,
    view_text,
)
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.embedding.pictures import View
    from laplacianshot.runtime.types import Floats, Ints

# Images (B, C, H, W) to vectors (B, D).
Encoder: TypeAlias = "torch.nn.Module | Callable[[Floats], Floats]"

# Seconds of work that a kill may cost. A commit waits for the disk, so not after each batch.
COMMIT_SECONDS = 5.0


@dataclass(frozen=True)
class Extraction:
    """What became of an extraction.

    Attributes
    ----------
    store : FeatureStore
        Complete.
    found : int
        Pictures that were done before, by an attempt that was stopped or finished.
    encoded : int
        Pictures looked at now; those of ``store.skipped`` among them have no row.
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
    progress: Callable[[int, int], object] | None = None,
) -> Extraction:
    """Put a vector for each picture into a store: ``vectors[i] = encoder(view(pictures[i]))``.

    A store is kept under the key of weights, view and pictures. One of the same key is taken as it is if it is
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
        What tells the encoder from others; needed for a callable. For a module, the hash of its weights.
    on_error : "raise" or "skip"
        Whether a picture that cannot be read is an error, or is left out and listed in the store.
    workers : int
        Threads that read pictures ahead.
    overwrite : bool
        Replace a store of another key.
    commit_seconds : float
        What is done is put on the disk this often.
    progress : callable
        Called with the pictures done and all of them, at the beginning and after each batch.

    Returns
    -------
    Extraction

    Raises
    ------
    StaleStore
        The store there was made with other weights, another view or other pictures; the message says which.
    StoreInUse
        Another process is writing it.
    CorruptPicture
        A picture cannot be read, and ``on_error`` is ``"raise"``. What was done before it is kept.
    OSError
        The store cannot be written, as on a full disk. What was committed is kept.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}.")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    start = monotonic()
    key = StoreKey(weights or _weights_of(encoder), view_text(view), pictures.content_key())
    report = progress or (lambda done, total: None)
    store, found = _finished(path, key, dtype), len(pictures)
    if store is None:
        with FeatureStore.create(path, key, len(pictures), dtype=dtype, overwrite=overwrite) as writer:
            found = writer.items
            fill = _Fill(writer, pictures, view, on_error == "skip", commit_seconds, report)
            with _encoding(encoder) as encode:
                fill(encode, batch_size, workers)
            _finish(writer, pictures)
        store = FeatureStore.open(path, key)
    elif on_error == "raise" and store.skipped:
        raise _corrupt(store.skipped[0])
    return Extraction(store, found, len(pictures) - found, monotonic() - start)


@dataclass(frozen=True)
class _Fill:
    """Adds the missing rows to a store."""

    writer: StoreWriter
    pictures: Pictures
    view: View
    skip: bool
    commit_seconds: float
    report: Callable[[int, int], object]

    def __call__(self, encode: Callable[[Any], Floats], batch_size: int, workers: int) -> None:
        from laplacianshot.embedding.pictures import batches

        self.report(self.writer.items, len(self.pictures))
        if self.writer.skipped and not self.skip:
            raise _corrupt(self.writer.skipped[0])
        view = _ReadableView(self.view) if self.skip else self.view
        rows = np.arange(self.writer.items, len(self.pictures))
        committed = monotonic()
        with batches(self.pictures, rows, view, batch_size, workers=workers) as found:
            for batch in found:
                faults = view.faults if isinstance(view, _ReadableView) else {}
                kept = [i for i in batch.rows.tolist() if i not in faults]
                skipped = [faults[i] for i in batch.rows.tolist() if i in faults]
                vectors = self._vectors(encode, batch.images, kept) if kept else np.empty((0, 0), np.float32)
                self.writer.append(vectors, skipped=skipped)
                self.report(self.writer.items, len(self.pictures))
                if monotonic() - committed >= self.commit_seconds:
                    self.writer.commit()
                    committed = monotonic()

    def _vectors(self, encode: Callable[[Any], Floats], images: Any, rows: list[int]) -> Floats:
        vectors = np.asarray(encode(images))
        if vectors.ndim != 2 or len(vectors) != len(rows):
            raise ValueError(
                f"the encoder must give vectors of shape ({len(rows)}, D) for {len(rows)} pictures, "
                f"got shape {vectors.shape}."
            )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            name = str(self.pictures.names[rows[int(np.argmin(finite))]])
            raise ValueError(f"the encoder gives NaN or infinity for picture {name!r}; its weights are of no use.")
        return vectors


class _ReadableView:
    """A view that leaves out pictures that cannot be read, and says which in ``faults``."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.faults: dict[int, Skipped] = {}

    @property
    def channels(self) -> int:
        return self._view.channels

    def __call__(
        self, pictures: Pictures, indices: Sequence[int] | Ints, *, seed: int = 0, epoch: int = 0
    ) -> torch.Tensor:
        from laplacianshot.datasets.pictures import CorruptPicture

        try:
            return self._view(pictures, indices, seed=seed, epoch=epoch)
        except CorruptPicture:
            kept = [i for i in np.asarray(indices).tolist() if self._is_readable(pictures, i)]
            return self._view(pictures, kept, seed=seed, epoch=epoch)

    def _is_readable(self, pictures: Pictures, i: int) -> bool:
        from laplacianshot.datasets.pictures import CorruptPicture

        try:
            pictures.decoded(i)
        except CorruptPicture as error:
            self.faults[i] = Skipped(i, error.name, error.reason)
            return False
        return True


def _finish(writer: StoreWriter, pictures: Pictures) -> None:
    """Put labels, splits and names of the rows beside them."""
    if writer.rows == 0:
        first = f"; the first: {_corrupt(writer.skipped[0])}" if writer.skipped else ""
        raise ValueError(f"none of the {len(pictures)} pictures can be read{first}")
    kept = np.delete(np.arange(len(pictures)), [skipped.item for skipped in writer.skipped])
    writer.finish(
        labels=pictures.labels[kept],
        split=pictures.split[kept],
        class_names=pictures.class_names,
        names=pictures.names[kept],
    )


def _corrupt(skipped: Skipped) -> Exception:
    from laplacianshot.datasets.pictures import CorruptPicture

    return CorruptPicture(skipped.name, skipped.reason)


def _finished(path: str | PathLike[str], key: StoreKey, dtype: str) -> FeatureStore | None:
    """The store, if it is complete: then no lock is needed, and no right to write."""
    try:
        store = FeatureStore.open(path, key)
    except StoreError:
        return None
    return store if store.dtype == dtype else None


def _is_module(encoder: Encoder) -> bool:
    """Whether it is a torch module; torch is not imported for what cannot be one."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(encoder).__mro__)


def _weights_of(encoder: Any) -> str:
    if not _is_module(encoder):
        raise ValueError("weights: a callable must be told from others; give a text that changes whenever it does.")
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
