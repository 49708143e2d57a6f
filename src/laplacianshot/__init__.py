"""laplacianshot: label a handful of examples, and the graph labels the rest.

Names are loaded when they are first used, so that ``import laplacianshot`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot._lazy import lazy_names

if TYPE_CHECKING:
    from laplacianshot.episodes import Evaluation, Evaluations, FeatureSet, Tuning, evaluate, tune
    from laplacianshot.inference import BoundResult, LaplacianShot, bound_optimize
    from laplacianshot.labeling import LabelResult, label_source

__version__ = "0.1.0"

__all__ = [
    "BoundResult",
    "Evaluation",
    "Evaluations",
    "FeatureSet",
    "LabelResult",
    "LaplacianShot",
    "Tuning",
    "__version__",
    "bound_optimize",
    "evaluate",
    "label_source",
    "tune",
]

_HOMES = {
    "BoundResult": "laplacianshot.inference.bound",
    "Evaluation": "laplacianshot.episodes.results",
    "Evaluations": "laplacianshot.episodes.results",
    "FeatureSet": "laplacianshot.episodes.feature_set",
    "LabelResult": "laplacianshot.labeling.result",
    "LaplacianShot": "laplacianshot.inference.estimator",
    "Tuning": "laplacianshot.episodes.results",
    "bound_optimize": "laplacianshot.inference.bound",
    "evaluate": "laplacianshot.episodes.evaluation",
    "label_source": "laplacianshot.labeling.run",
    "tune": "laplacianshot.episodes.tuning",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
