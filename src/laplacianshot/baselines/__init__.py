"""What LaplacianShot is compared with, all under one contract: ``fit(X, y)``, then ``transduction_``."""

from laplacianshot.baselines.contract import Baseline, BatchedBaseline, Inductive, TaskBatch, TransductiveClassifier
from laplacianshot.baselines.label_spreading import LabelPropagation, PublishedLabelSpreading, tree_bandwidth
from laplacianshot.baselines.linear import EntropyTuning, LogisticRegression, MatchingAttention, RidgeRegression
from laplacianshot.baselines.prototype import PTMAP, NearestPrototype, PseudoLabels, RectifiedPrototype
from laplacianshot.baselines.tim import TIM, AlphaTIM

__all__ = [
    "PTMAP",
    "TIM",
    "AlphaTIM",
    "Baseline",
    "BatchedBaseline",
    "EntropyTuning",
    "Inductive",
    "LabelPropagation",
    "LogisticRegression",
    "MatchingAttention",
    "NearestPrototype",
    "PseudoLabels",
    "PublishedLabelSpreading",
    "RectifiedPrototype",
    "RidgeRegression",
    "TaskBatch",
    "TransductiveClassifier",
    "tree_bandwidth",
]
