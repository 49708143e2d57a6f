"""A published setting from its pictures to its tables: train, extract, tune, evaluate, report.

Names are loaded when they are first used: the list of settings needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot.runtime.extras import lazy_names

if TYPE_CHECKING:
    from laplacianshot.reproduce.experiment import Experiment, Protocol, load_experiment, named_experiments
    from laplacianshot.reproduce.run import Outcome, reproduce

__all__ = ["Experiment", "Outcome", "Protocol", "load_experiment", "named_experiments", "reproduce"]

_HOMES = {
    "Experiment": "laplacianshot.reproduce.experiment",
    "Outcome": "laplacianshot.reproduce.run",
    "Protocol": "laplacianshot.reproduce.experiment",
    "load_experiment": "laplacianshot.reproduce.experiment",
    "named_experiments": "laplacianshot.reproduce.experiment",
    "reproduce": "laplacianshot.reproduce.run",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
