"""The paper's inference: transforms, prototypes, affinity, bound optimiser, recipes and the estimator around them."""

from laplacianshot.inference.affinity import knn_affinity, make_psd, normalize, psd_shift, symmetrize
from laplacianshot.inference.bound import BoundResult, bound_optimize
from laplacianshot.inference.estimator import LaplacianShot
from laplacianshot.inference.joint import JointResult, joint_optimize
from laplacianshot.inference.neighbors import Neighbors, cross_neighbors, nearest_neighbors
from laplacianshot.inference.prototypes import (
    RectifiedPrototypes,
    class_means,
    rectify_prototypes,
    squared_distances,
)
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.transforms import base_mean, transform_features

__all__ = [
    "BoundResult",
    "DefaultConstants",
    "JointResult",
    "LaplacianShot",
    "Neighbors",
    "RectifiedPrototypes",
    "base_mean",
    "bound_optimize",
    "class_means",
    "cross_neighbors",
    "joint_optimize",
    "knn_affinity",
    "make_psd",
    "nearest_neighbors",
    "normalize",
    "psd_shift",
    "rectify_prototypes",
    "squared_distances",
    "symmetrize",
    "transform_features",
]
