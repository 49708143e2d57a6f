"""Pictures and sentences to vectors.

Names are loaded when they are first used: neither this package nor the list of networks needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot._lazy import lazy_names

if TYPE_CHECKING:
    from laplacianshot.embedding.extraction import Extraction, extract
    from laplacianshot.embedding.networks import NETWORKS, build_network
    from laplacianshot.embedding.store import FeatureStore

__all__ = ["NETWORKS", "Extraction", "FeatureStore", "build_network", "extract"]

_HOMES = {
    "NETWORKS": "laplacianshot.embedding.networks.registry",
    "Extraction": "laplacianshot.embedding.extraction",
    "FeatureStore": "laplacianshot.embedding.store",
    "build_network": "laplacianshot.embedding.networks.registry",
    "extract": "laplacianshot.embedding.extraction",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
