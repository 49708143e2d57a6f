"""Random numbers by counter: each picture of each epoch has a stream of its own."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from laplacianshot.runtime.types import Floats, Ints

# Highest word of the counter of the stream that orders an epoch; pictures have their own number there.
_ORDER = 2**64 - 1


def stream(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The stream of picture ``index`` in ``epoch``: Philox with key (seed, epoch) and the index in its counter.

    Streams of different pictures never meet: each has 2^192 numbers before the next one begins.
    """
    key, counter = np.array([seed, epoch], dtype=np.uint64), np.array([0, 0, 0, index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def epoch_order(seed: int, epoch: int, n: int) -> Ints:
    """A permutation of 0..n - 1 that depends on the seed, the epoch and n only."""
    # Sorted draws: numpy promises the bits of Philox for ever, but not the method of its shuffles.
    return np.argsort(stream(seed, epoch, _ORDER).random(n), kind="stable")


def uniforms(seed: int, epoch: int, indices: Ints, count: int) -> Floats:
    """``count`` uniform numbers of [0, 1) for each picture, (B, count)."""
    return np.array([stream(seed, epoch, int(i)).random(count) for i in indices]).reshape(len(indices), count)


def checked_counter(value: int, name: str) -> int:
    """``value`` as an int of 64 bits without sign, or an error that names the argument."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise ValueError(f"{name} must be an integer from 0 to 2^64 - 1, got {value!r}.")
    return int(value)
