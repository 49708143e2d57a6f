"""Sets beyond one machine, on Ray: the same recipe over shards, with the same labels.

Nothing here is imported with :mod:`laplacianshot`, and Ray itself (extra ``ray``) only when it is used.
"""

from laplacianshot.runtime.extras import lazy_names

__all__ = ["ClusterError", "RayEngine", "RayFit", "Shard", "connected", "open_shards", "ray_fit"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ClusterError": "laplacianshot.ray.cluster",
        "RayEngine": "laplacianshot.ray.engine",
        "RayFit": "laplacianshot.ray.result",
        "Shard": "laplacianshot.ray.shards",
        "connected": "laplacianshot.ray.cluster",
        "open_shards": "laplacianshot.ray.shards",
        "ray_fit": "laplacianshot.ray.fit",
    },
)
