"""Few-shot tasks: how they are drawn, run and summed up."""

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.evaluation import evaluate, trace_convergence, validation_score
from laplacianshot.episodes.methods import METHODS, Method, make_method
from laplacianshot.episodes.results import (
    Convergence,
    Evaluation,
    Evaluations,
    MeanInterval,
    PairedDifference,
    Setting,
    Tuning,
    mean_interval,
    paired_difference,
)
from laplacianshot.episodes.tasks import PROTOCOLS, Tasks, draw_tasks
from laplacianshot.episodes.tuning import LAMS, NEIGHBORS, tune
from laplacianshot.episodes.whole_set import draw_labeled, evaluate_whole_set, keep_labels

__all__ = [
    "LAMS",
    "METHODS",
    "NEIGHBORS",
    "PROTOCOLS",
    "Convergence",
    "Evaluation",
    "Evaluations",
    "FeatureSet",
    "MeanInterval",
    "Method",
    "PairedDifference",
    "Setting",
    "Tasks",
    "Tuning",
    "draw_labeled",
    "draw_tasks",
    "evaluate",
    "evaluate_whole_set",
    "keep_labels",
    "make_method",
    "mean_interval",
    "paired_difference",
    "trace_convergence",
    "tune",
    "validation_score",
]
