"""Pictures and sentences to vectors.

Names are loaded when they are first used: neither this package nor the list of networks needs torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
