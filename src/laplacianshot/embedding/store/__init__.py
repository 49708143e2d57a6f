"""The feature store: vectors on disk under the key of what they were made from, so that a stale one is never used."""

from laplacianshot.embedding.store.errors import IncompleteStore, StaleStore, StoreError, StoreInUse
from laplacianshot.embedding.store.key import StoreKey, item_key, view_text
from laplacianshot.embedding.store.manifest import Skipped
from laplacianshot.embedding.store.reader import FeatureStore
from laplacianshot.embedding.store.writer import StoreWriter
from laplacianshot.runtime.keyed_folder import arrays_hash

__all__ = [
    "FeatureStore",
    "IncompleteStore",
    "Skipped",
    "StaleStore",
    "StoreError",
    "StoreInUse",
    "StoreKey",
    "StoreWriter",
    "arrays_hash",
    "item_key",
    "view_text",
]
