"""Pictures and sentences to vectors.

Names are loaded when they are first used: neither this package nor the list of networks needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot.runtime.extras import lazy_names

if TYPE_CHECKING:
    from laplacianshot.datasets.feature_store import FeatureStore
    from laplacianshot.embedding.encoders import ENCODERS, open_encoder
    from laplacianshot.embedding.encoding import Encoded, encode_items
    from laplacianshot.embedding.extraction import Extraction, extract
    from laplacianshot.embedding.networks import NETWORKS, build_network

__all__ = [
    "ENCODERS",
    "NETWORKS",
    "Encoded",
    "Extraction",
    "FeatureStore",
    "build_network",
    "encode_items",
    "extract",
    "open_encoder",
]

_HOMES = {
    "ENCODERS": "laplacianshot.embedding.encoders",
    "NETWORKS": "laplacianshot.embedding.networks",
    "Encoded": "laplacianshot.embedding.encoding",
    "Extraction": "laplacianshot.embedding.extraction",
    "FeatureStore": "laplacianshot.datasets.feature_store",
    "build_network": "laplacianshot.embedding.networks",
    "encode_items": "laplacianshot.embedding.encoding",
    "extract": "laplacianshot.embedding.extraction",
    "open_encoder": "laplacianshot.embedding.encoders",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
