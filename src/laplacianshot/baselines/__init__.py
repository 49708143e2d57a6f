"""What LaplacianShot is compared with, all under one contract: ``fit(X, y)``, then ``transduction_``."""

from laplacianshot.baselines.bavardage import Bavardage
from laplacianshot.baselines.contract import Baseline, BatchedBaseline, Inductive, TaskBatch, TransductiveClassifier
from laplacianshot.baselines.ilpc import ILPC
from laplacianshot.baselines.label_spreading import LabelPropagation, PublishedLabelSpreading, tree_bandwidth
from laplacianshot.baselines.linear import EntropyTuning, LogisticRegression, MatchingAttention, RidgeRegression
from laplacianshot.baselines.mdl import EMDirichlet, Paddle
from laplacianshot.baselines.prototype import PTMAP, NearestPrototype, PseudoLabels, RectifiedPrototype
from laplacianshot.baselines.tim import TIM, AlphaTIM

__all__ = [
    "ILPC",
    "PTMAP",
    "TIM",
    "AlphaTIM",
    "Baseline",
    "BatchedBaseline",
    "Bavardage",
    "EMDirichlet",
    "EntropyTuning",
    "Inductive",
    "LabelPropagation",
    "LogisticRegression",
    "MatchingAttention",
    "NearestPrototype",
    "Paddle",
    "PseudoLabels",
    "PublishedLabelSpreading",
    "RectifiedPrototype",
    "RidgeRegression",
    "TaskBatch",
    "TransductiveClassifier",
    "tree_bandwidth",
]
