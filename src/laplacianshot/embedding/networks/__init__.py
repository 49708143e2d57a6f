"""Networks of the paper: pictures in, features and class scores out.

This package and its list of names import without torch; building a network needs the extra ``train``.
"""

from laplacianshot.embedding.networks.registry import NETWORKS, build_network

__all__ = ["NETWORKS", "build_network"]
