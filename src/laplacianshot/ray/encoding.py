"""Pictures and texts to vectors by Ray Data: actors that hold an encoder, and a file of vectors for each shard."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot.embedding.encoders import Kind, open_encoder
from laplacianshot.embedding.encoding import Encoded, Items, encode_items
from laplacianshot.ray.cluster import connected
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.runtime.progress import Progress

# Maximum number of items per file of vectors, and minimum number of files per CPU.
_MAX_SHARD_ITEMS = 20_000
_SHARDS_PER_CPU = 2


@dataclass(frozen=True)
class _Part:
    """A range ``start..stop`` of items."""

    items: Items
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def content_hash(self, i: int) -> bytes:
        return self.items.content_hash(self.start + i)

    def load(self, i: int) -> Any:
        return self.items.load(self.start + i)

    def file(self, i: int) -> Path | None:
        return self.items.file(self.start + i)


class EncodeShards:
    """Ray Data actor: open the encoder once, then encode one shard after the other into files."""

    def __init__(self, items: Any, encoder: str | None, kind: Kind, folder: KeyedFolder) -> None:
        self._items: Items = require("ray", "ray").get(items[0])
        self._encoder = open_encoder(encoder, kind, threads=1)
        self._folder = folder

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Encode the shards of a batch; return their numbers of items."""
        done = []
        for number, start, stop in zip(batch["number"], batch["start"], batch["stop"], strict=True):
            if not self._folder.has(_name(number)):
                encoded = encode_items(_Part(self._items, int(start), int(stop)), self._encoder)
                positions, reasons = zip(*encoded.failed, strict=True) if encoded.failed else ((), ())
                arrays = {"vectors": encoded.vectors, "rows": encoded.rows + start}
                faults = {"failed": np.array(positions, np.int64) + start, "reasons": np.array(reasons, str)}
                self._folder.put_arrays(_name(number), arrays | faults)
            done.append(stop - start)
        return {"items": np.array(done)}


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
    ray = require("ray", "ray")
    data = require("ray.data", "ray")
    # Open it here first, so that a fault of the encoder is reported by the driver.
    key = open_encoder(encoder, kind, threads=1).key
    n = len(items)
    with connected(address) as cluster:
        cpus = max(1, cluster.cpus())
        count = min(n, shards or max(_SHARDS_PER_CPU * cpus, -(-n // _MAX_SHARD_ITEMS)))
        bounds = [n * part // count for part in range(count + 1)]
        contents = b"\0".join(_content(items, i) for i in range(n))
        place = KeyedFolder.of(KeyedFolder.create(folder).url, "vectors", key, bounds, contents)
        calls = [
            {"number": number, "start": bounds[number], "stop": bounds[number + 1]}
            for number in range(count)
            if not place.has(_name(number))
        ]
        done = n - sum(call["stop"] - call["start"] for call in calls)
        if progress is not None:
            progress(done, n)
        if calls:
            data.DataContext.get_current().enable_progress_bars = False
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            dataset = data.from_items(calls, override_num_blocks=len(calls)).map_batches(
                EncodeShards,
                batch_size=1,
                num_cpus=1,
                compute=data.ActorPoolStrategy(min_size=1, max_size=min(cpus, len(calls))),
                fn_constructor_args=([ray.put(items)], encoder, kind, place),
            )
            for batch in dataset.iter_batches(batch_size=1):
                done += int(batch["items"].sum())
                if progress is not None:
                    progress(done, n)
        parts = [place.arrays(_name(number)) for number in range(count)]
    failed = [
        (int(position), str(reason))
        for part in parts
        for position, reason in zip(part["failed"], part["reasons"], strict=True)
    ]
    vectors, rows = (np.concatenate([part[name] for part in parts]) for name in ("vectors", "rows"))
    return Encoded(vectors, rows, tuple(failed), n_cached=n - sum(call["stop"] - call["start"] for call in calls))


def _content(items: Items, i: int) -> bytes:
    """A hash of an item, or the reason why it cannot be read."""
    try:
        return items.content_hash(i)
    except ValueError as error:
        return str(error).encode()


def _name(number: int) -> str:
    return f"vectors-{number:05}.npz"
