"""Pictures and texts to vectors on a cluster: workers that keep an encoder, and a file of vectors for each shard."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

import numpy as np

from laplacianshot.embedding.encoders import Encoder, Kind, open_encoder
from laplacianshot.embedding.encoding import Encoded, Items, SomeItems, encode_items
from laplacianshot.ray.cluster import connected
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.runtime.progress import Progress

# Maximum number of items per file of vectors, and minimum number of files per CPU.
_MAX_SHARD_ITEMS = 20_000
_SHARDS_PER_CPU = 2


@lru_cache(maxsize=1)
def _opened(encoder: str | None, kind: Kind) -> Encoder:
    """The encoder of this worker."""
    return open_encoder(encoder, kind, threads=1)


def encode_shard(
    items: Items, encoder: str | None, kind: Kind, folder: KeyedFolder, number: int, start: int, stop: int
) -> int:
    """Encode items ``start..stop`` into a file, on a worker; return their number."""
    if not folder.has(_name(number)):
        encoded = encode_items(SomeItems(items, range(start, stop)), _opened(encoder, kind))
        positions, reasons = zip(*encoded.failed, strict=True) if encoded.failed else ((), ())
        arrays = {"vectors": encoded.vectors, "rows": encoded.rows + start}
        faults = {"failed": np.array(positions, np.int64) + start, "reasons": np.array(reasons, str)}
        folder.put_arrays(_name(number), arrays | faults)
    return stop - start


def ray_encode(
    items: Items,
    encoder: str | None,
    kind: Kind,
    *,
    folder: str,
    address: str | None = None,
    shards: int | None = None,
    progress: Progress | None = None,
) -> Encoded:
    """Encode items like :func:`~laplacianshot.embedding.encoding.encode_items`, on the workers of a cluster.

    Every node must be able to read the files of the items; the list itself is sent to each node. ``folder`` is a path
    or URL that every node can write to. Shards that were encoded before are taken from there.
    """
    # Open it here first, so that a fault of the encoder is reported by the driver.
    key = open_encoder(encoder, kind, threads=1).key
    n = len(items)
    with connected(address) as cluster:
        count = min(n, shards or max(_SHARDS_PER_CPU * max(1, cluster.cpus()), -(-n // _MAX_SHARD_ITEMS)))
        bounds = [n * part // count for part in range(count + 1)]
        contents = b"\0".join(_content(items, i) for i in range(n))
        place = KeyedFolder.of(KeyedFolder.create(folder).url, "vectors", key, bounds, contents)
        missing = [number for number in range(count) if not place.has(_name(number))]
        n_cached = done = n - sum(bounds[number + 1] - bounds[number] for number in missing)
        shared = cluster.share(items)
        calls = [(shared, encoder, kind, place, number, bounds[number], bounds[number + 1]) for number in missing]
        for encoded in chain([0], cluster.stream(encode_shard, calls)):
            done += encoded
            if progress is not None:
                progress(done, n)
        parts = [place.arrays(_name(number)) for number in range(count)]
    failed = [
        (int(position), str(reason))
        for part in parts
        for position, reason in zip(part["failed"], part["reasons"], strict=True)
    ]
    vectors, rows = (np.concatenate([part[name] for part in parts]) for name in ("vectors", "rows"))
    return Encoded(vectors, rows, tuple(failed), n_cached=n_cached)


def _content(items: Items, i: int) -> bytes:
    """A hash of an item, or the reason why it cannot be read."""
    try:
        return items.content_hash(i)
    except ValueError as error:
        return str(error).encode()


def _name(number: int) -> str:
    return f"vectors-{number:05}.npz"
