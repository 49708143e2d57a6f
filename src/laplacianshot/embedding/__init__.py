"""Pictures and sentences to vectors. None of these names needs torch before it is called."""

from laplacianshot.embedding.encoders import ENCODERS, open_encoder
from laplacianshot.embedding.networks import NETWORKS, build_network

__all__ = ["ENCODERS", "NETWORKS", "build_network", "open_encoder"]
