"""The one result of a fit, from the solvers to the estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.runtime.types import Floats, Ints, Transform

if TYPE_CHECKING:
    from laplacianshot.inference.clues import Answers
    from laplacianshot.inference.joint import Clues, Prior


# The value of fields that a recipe or a stage of the work does not have.
_ABSENT: Any = None


@dataclass(frozen=True, repr=False)
class Solution:
    """A recipe's solution of one task.

    Attributes
    ----------
    assignments : array or csr_array of shape (N, C) or (n, C)
        Rows on the simplex: of the queries from :func:`~laplacianshot.inference.joint.joint_optimize`, of all rows of X
        (certainty for labeled ones) from a fit.
    labels : int array of shape (n,)
        The class of every row of X, after a fit.
    prototypes : array of shape (C, D)
        In transformed space.
    objective : array of shape (n_iter,)
        What the recipe minimizes, after each update: F (default), R (paper) or E (reference).
    converged : bool
    lam : float
        Weight of the graph.
    tau : float
        Temperature of the unary terms; 1 for paper and reference.
    bias : array of shape (C,), default recipe
        ``-g log p`` at the solution, where ``y_q = softmax(-tau a_q + lam (e W_qs Y_s + W_qq Y)_q + bias)``: a new row
        is classified in the same way.
    constants : DefaultConstants, default recipe
        As used, with the user's choices.
    prior : Prior, default recipe
        What support and origin say of the prototypes; ``prior.means`` are the first prototypes.
    clues : Clues, default recipe
        What was known of the classes besides.
    answers : Answers, default recipe
        How that was found out.
    origin : array of shape (D,), default recipe
        What every prototype is drawn to.
    bound : array of shape (n_iter,), paper and reference
        The bound that each update lowered.
    unary : array of shape (N, C), paper and reference
    transform : {"none", "l2", "cl2", "power", "standard"}
    center : array of shape (D,), for ``cl2``, ``power`` and ``standard``
    scale : array of shape (D,), for ``standard``
    graph : csr_array, or an object with the attribute ``affinity``
        Over all rows of X (default) or over the queries (paper, reference).
    rule : callable
        Transformed rows (m, D) that come after the fit to assignments (m, C).
    graph_report : GraphReport, large sets
        How neighbors were found.
    graph_recall : float
        Share of the true neighbors that the graph has.
    dropped_mass : float
        Largest mean mass, over the updates, that a row lost to entries not kept.
    """

    assignments: Any
    prototypes: Floats
    objective: Floats
    converged: bool
    lam: float
    labels: Ints = _ABSENT
    tau: float = 1.0
    bias: Floats = _ABSENT
    constants: DefaultConstants = _ABSENT
    prior: Prior = _ABSENT
    clues: Clues = _ABSENT
    answers: Answers | None = None
    origin: Floats = _ABSENT
    bound: Floats | None = None
    unary: Floats | None = None
    transform: Transform = "none"
    center: Floats | None = None
    scale: Floats | None = None
    graph: Any = None
    rule: Any = None
    graph_report: Any = None
    graph_recall: float = 1.0
    dropped_mass: float = 0.0

    @property
    def n_iter(self) -> int:
        """Updates; the starting rounds of the default recipe come before them."""
        return len(self.objective)

    @property
    def affinity(self) -> Any:
        """The graph as a csr_array."""
        return getattr(self.graph, "affinity", self.graph)

    def of_all_rows(self, codes: Ints) -> Solution:
        """The same with assignments of all rows: given classes (n,) in ``0..C-1``, -1 for the queries."""
        labeled, queries = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        assignments = np.zeros((len(codes), self.assignments.shape[1]), self.assignments.dtype)
        assignments[labeled, codes[labeled]] = 1
        assignments[queries] = self.assignments
        return replace(self, assignments=assignments, labels=assignments.argmax(axis=1))

    def __repr__(self) -> str:
        n, c = self.assignments.shape
        state = "converged" if self.converged else "stopped"
        last = f", objective={self.objective[-1]:.6g}" if self.n_iter else ""
        return f"Solution({n} rows x {c} classes, {state} after {self.n_iter} iterations{last})"
