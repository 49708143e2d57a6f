"""Batches of pictures, made by threads while the network works on the batch before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from laplacianshot.datasets.pictures import Pictures
from laplacianshot.embedding.pictures.views import View, checked_counter, epoch_order
from laplacianshot.runtime.threads import Prefetch
from laplacianshot.runtime.types import Ints


class Batch(NamedTuple):
    """What a network is given at once."""

    images: torch.Tensor  # float32 (B, C, H, W)
    labels: torch.Tensor  # int64 (B,)
    rows: Ints  # row numbers of the pictures, (B,)


def batches(
    pictures: Pictures,
    rows: Sequence[int] | Ints,
    view: View,
    batch_size: int,
    *,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = False,
    workers: int = 1,
    start: int = 0,
    drop_last: bool = False,
    cache_bytes: int | None = None,
) -> Prefetch[Ints, Batch]:
    """The pictures of ``rows`` once, in batches.

    The order depends on (seed, epoch) alone, and so does each picture's view: any number of workers gives the same
    batches, and a run that starts at batch ``start`` sees what an uninterrupted one sees from there on.

    Parameters
    ----------
    pictures : Pictures
    rows : int array of shape (n,)
        Row numbers of ``pictures``.
    view : View
    batch_size : int
    seed, epoch : int
    shuffle : bool
        Take the rows in a random order instead of the given one.
    workers : int
        Threads that prepare batches ahead; 0 prepares each when it is needed. Decoding, resizing and color release
        the GIL.
    start : int
        Batches to leave out at the beginning; nothing of them is decoded.
    drop_last : bool
        Leave out a last batch that is not full.
    cache_bytes : int, optional
        Memory for decoded pictures, kept from epoch to epoch. By default 4 GiB, at most a quarter of the machine's.

    Returns
    -------
    iterator of Batch
        Also a context, whose end ends the threads.

    Raises
    ------
    CorruptPicture
        At the batch that holds a picture that cannot be read.
    """
    chosen: Ints = np.asarray(rows, dtype=np.int64)
    if chosen.ndim != 1 or (chosen.size and not (chosen.min() >= 0 and chosen.max() < len(pictures))):
        raise ValueError(f"rows must be row numbers from 0 to {len(pictures) - 1}.")
    for name, value, minimum in (("batch_size", batch_size, 1), ("workers", workers, 0), ("start", start, 0)):
        if value < minimum:
            raise ValueError(f"{name} must be at least {minimum}, got {value}.")
    seed, epoch = checked_counter(seed, "seed"), checked_counter(epoch, "epoch")
    if cache_bytes is not None:
        pictures.keep_decoded(cache_bytes)
    if shuffle:
        chosen = chosen[epoch_order(seed, epoch, len(chosen))]
    parts = [chosen[first : first + batch_size] for first in range(0, len(chosen), batch_size)]
    if drop_last and parts and len(parts[-1]) < batch_size:
        parts.pop()

    def make(part: Ints) -> Batch:
        images = view(pictures, part, seed=seed, epoch=epoch)
        return Batch(images, torch.from_numpy(pictures.labels[part]), part)

    return Prefetch(make, parts[start:], workers, 2 * workers + 1, "pictures")
