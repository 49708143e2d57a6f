"""A published setting from its pictures to its tables: train, extract, tune, evaluate, report.

The run is loaded when it is first used: the list of settings needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot.reproduce.experiment import Experiment, Protocol, load_experiment, named_experiments
from laplacianshot.runtime.extras import lazy_names

if TYPE_CHECKING:
    from laplacianshot.reproduce.run import Outcome, reproduce

__all__ = ["Experiment", "Outcome", "Protocol", "load_experiment", "named_experiments", "reproduce"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("Outcome", "reproduce"), "laplacianshot.reproduce.run"))
