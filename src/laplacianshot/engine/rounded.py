"""Where the rounds of a large fit ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from laplacianshot.engine.checkpoint import StageFolder
from laplacianshot.runtime.types import Floats, Ints

_SPARSE = ("data", "indices", "indptr")


@dataclass(frozen=True, repr=False)
class Rounded:
    """Where the rounds ended, for all rows of X; names as in :class:`~laplacianshot.engine.solve.Fitted`."""

    distributions: Any
    labels: Ints
    prototypes: Floats
    objective: Floats
    converged: bool
    tau: float
    bias: Floats
    dropped: float

    def save(self, folder: StageFolder) -> None:
        """Keep it."""
        Y = self.distributions
        parts = {name: getattr(Y, name) for name in _SPARSE} if sp.issparse(Y) else {"distributions": Y}
        facts = {"converged": bool(self.converged), "tau": self.tau, "dropped": self.dropped, "shape": list(Y.shape)}
        arrays = {"labels": self.labels, "prototypes": self.prototypes, "objective": self.objective, "bias": self.bias}
        folder.save(facts, {**arrays, **parts})

    @classmethod
    def load(cls, folder: StageFolder) -> Rounded | None:
        """What was kept, or None."""
        kept = folder.load()
        if kept is None:
            return None
        facts, arrays = kept
        Y = arrays.get("distributions")
        if Y is None:
            Y = sp.csr_array(tuple(arrays[name] for name in _SPARSE), shape=tuple(facts["shape"]))
        return cls(
            Y,
            arrays["labels"],
            arrays["prototypes"],
            arrays["objective"],
            facts["converged"],
            facts["tau"],
            arrays["bias"],
            facts["dropped"],
        )
