"""Sets beyond one machine, on Ray: the same recipe over shards, with the same labels.

Nothing here is imported with :mod:`laplacianshot`, and Ray itself (extra ``ray``) only when it is used.
"""

from laplacianshot._lazy import lazy_names

__all__ = [
    "ClusterError",
    "RayEngine",
    "RayFit",
    "RayOptions",
    "RunFolder",
    "Shard",
    "connected",
    "open_shards",
    "ray_fit",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ClusterError": "laplacianshot.scale.ray.cluster",
        "RayEngine": "laplacianshot.scale.ray.engine",
        "RayOptions": "laplacianshot.scale.ray.options",
        "RayFit": "laplacianshot.scale.ray.result",
        "RunFolder": "laplacianshot.scale.ray.folder",
        "Shard": "laplacianshot.scale.ray.shards",
        "connected": "laplacianshot.scale.ray.cluster",
        "open_shards": "laplacianshot.scale.ray.shards",
        "ray_fit": "laplacianshot.scale.ray.fit",
    },
)
