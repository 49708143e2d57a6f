"""Few-shot tasks: how they are drawn, run and summed up."""

from laplacianshot.episodes.feature_set import FeatureSet
from laplacianshot.episodes.statistics import MeanInterval, PairedDifference, mean_interval, paired_difference
from laplacianshot.episodes.tasks import PROTOCOLS, Tasks, draw_tasks
from laplacianshot.episodes.whole_set import (
    Comparison,
    Repeat,
    Standing,
    draw_labelled,
    keep_labels,
    run_repeat,
    run_repeats,
)

__all__ = [
    "PROTOCOLS",
    "Comparison",
    "FeatureSet",
    "MeanInterval",
    "PairedDifference",
    "Repeat",
    "Standing",
    "Tasks",
    "draw_labelled",
    "draw_tasks",
    "keep_labels",
    "mean_interval",
    "paired_difference",
    "run_repeat",
    "run_repeats",
]
