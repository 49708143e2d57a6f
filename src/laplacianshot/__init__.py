"""laplacianshot: label a handful of examples, and the graph labels the rest.

Names are loaded when they are first used, so that ``import laplacianshot`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laplacianshot.episodes import Evaluation, Evaluations, FeatureSet, Tuning, evaluate, tune
    from laplacianshot.inference import BoundResult, LaplacianShot, bound_optimize

__version__ = "0.1.0"

__all__ = [
    "BoundResult",
    "Evaluation",
    "Evaluations",
    "FeatureSet",
    "LaplacianShot",
    "Tuning",
    "__version__",
    "bound_optimize",
    "evaluate",
    "tune",
]

_HOMES = {
    "BoundResult": "laplacianshot.inference.bound",
    "Evaluation": "laplacianshot.episodes.results",
    "Evaluations": "laplacianshot.episodes.results",
    "FeatureSet": "laplacianshot.episodes.feature_set",
    "LaplacianShot": "laplacianshot.inference.estimator",
    "Tuning": "laplacianshot.episodes.results",
    "bound_optimize": "laplacianshot.inference.bound",
    "evaluate": "laplacianshot.episodes.evaluation",
    "tune": "laplacianshot.episodes.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
