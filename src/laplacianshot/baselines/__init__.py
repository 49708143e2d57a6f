"""What LaplacianShot is compared with, all under one contract: ``fit(X, y)``, then ``transduction_``."""

from laplacianshot.baselines.attention import MatchingAttention
from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.baselines.contract import Baseline, BatchedBaseline, TransductiveClassifier
from laplacianshot.baselines.entropy import EntropyTuning
from laplacianshot.baselines.inductive import Inductive
from laplacianshot.baselines.label_spreading import PublishedLabelSpreading, tree_bandwidth
from laplacianshot.baselines.linear import LogisticRegression, RidgeRegression
from laplacianshot.baselines.propagation import LabelPropagation
from laplacianshot.baselines.prototype import NearestPrototype, RectifiedPrototype
from laplacianshot.baselines.pseudo_labels import PseudoLabels
from laplacianshot.baselines.pt_map import PTMAP
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
