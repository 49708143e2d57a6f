"""What LaplacianShot is compared with, all under one contract: ``fit(X, y)``, then ``transduction_``."""

from laplacianshot.baselines.contract import Baseline, TransductiveClassifier
from laplacianshot.baselines.inductive import Inductive
from laplacianshot.baselines.label_spreading import PublishedLabelSpreading, tree_bandwidth
from laplacianshot.baselines.prototype import NearestPrototype
from laplacianshot.baselines.registry import BASELINES, baseline

__all__ = [
    "BASELINES",
    "Baseline",
    "Inductive",
    "NearestPrototype",
    "PublishedLabelSpreading",
    "TransductiveClassifier",
    "baseline",
    "tree_bandwidth",
]
