"""laplacianshot: label a handful of examples, and the graph labels the rest.

Names are loaded when they are first used, so that ``import laplacianshot`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot.runtime.extras import lazy_names

if TYPE_CHECKING:
    from laplacianshot.datasets.feature_set import FeatureSet
    from laplacianshot.engine.passes import bound_optimize
    from laplacianshot.episodes.evaluation import evaluate
    from laplacianshot.episodes.folds import SemiSupervisedKFold
    from laplacianshot.episodes.results import Evaluation, Evaluations, Tuning
    from laplacianshot.episodes.tuning import tune
    from laplacianshot.estimator import LaplacianShot
    from laplacianshot.inference.bound import BoundResult
    from laplacianshot.labeling import LabelModel, LabelResult, label, label_source

__version__ = "0.2.0"

__all__ = [
    "BoundResult",
    "Evaluation",
    "Evaluations",
    "FeatureSet",
    "LabelModel",
    "LabelResult",
    "LaplacianShot",
    "SemiSupervisedKFold",
    "Tuning",
    "__version__",
    "bound_optimize",
    "evaluate",
    "label",
    "label_source",
    "tune",
]

_HOMES = {
    "BoundResult": "laplacianshot.inference.bound",
    "Evaluation": "laplacianshot.episodes.results",
    "Evaluations": "laplacianshot.episodes.results",
    "FeatureSet": "laplacianshot.datasets.feature_set",
    "LabelModel": "laplacianshot.labeling.model",
    "LabelResult": "laplacianshot.labeling.result",
    "LaplacianShot": "laplacianshot.estimator",
    "SemiSupervisedKFold": "laplacianshot.episodes.folds",
    "Tuning": "laplacianshot.episodes.results",
    "bound_optimize": "laplacianshot.engine.passes",
    "evaluate": "laplacianshot.episodes.evaluation",
    "label": "laplacianshot.labeling.arrays",
    "label_source": "laplacianshot.labeling.run",
    "tune": "laplacianshot.episodes.tuning",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
