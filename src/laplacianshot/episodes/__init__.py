"""Few-shot tasks: how they are drawn, run and summed up."""

from laplacianshot.episodes.statistics import MeanInterval, PairedDifference, mean_interval, paired_difference
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
    "Comparison",
    "MeanInterval",
    "PairedDifference",
    "Repeat",
    "Standing",
    "draw_labelled",
    "keep_labels",
    "mean_interval",
    "paired_difference",
    "run_repeat",
    "run_repeats",
]
