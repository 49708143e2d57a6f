"""The paper's bound optimizer: Laplacian-regularized assignments by independent closed-form updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from laplacianshot.inference.affinity import check_affinity
from laplacianshot.inference.joint import hold_weight
from laplacianshot.runtime.types import Floats, Ints

StoppingRule: TypeAlias = Literal["paper", "reference"]

# Where each rule stops by itself.
PAPER_MAX_ITER = 1000
REFERENCE_MAX_ITER = 20
TOLERANCE = 1e-6
# A heavier graph term only rounds the unary away.
MAX_LAM = 1e6


@dataclass(frozen=True, repr=False)
class BoundResult:
    """What the bound optimizer found.

    Attributes
    ----------
    assignments : array of shape (N, C)
        Rows on the simplex.
    objective : array of shape (n_iter,)
        R (rule ``paper``) or E (rule ``reference``) after each update.
    bound : array of shape (n_iter,)
        The surrogate ``B_i(Y_{i+1})`` that each update lowered; ``R_{i+1} <= B_i <= R_i`` for symmetric W with
        ``W + delta I`` positive semi-definite.
    n_iter : int
    converged : bool
    """

    assignments: Floats
    objective: Floats
    bound: Floats
    n_iter: int
    converged: bool

    @property
    def labels(self) -> Ints:
        """``argmax_c y_qc`` for every row."""
        labels: Ints = self.assignments.argmax(axis=1)
        return labels

    def __repr__(self) -> str:
        n, c = self.assignments.shape
        state = "converged" if self.converged else "stopped"
        last = f", objective={self.objective[-1]:.6g}" if self.n_iter else ""
        return f"BoundResult({n} rows x {c} classes, {state} after {self.n_iter} updates{last})"


def bound_optimize(
    unary: ArrayLike,
    affinity: Any,
    lam: float,
    *,
    rule: StoppingRule = "paper",
    delta: float = 0.0,
    max_iter: int | None = None,
    tol: float = TOLERANCE,
) -> BoundResult:
    """Minimize the Laplacian-regularized objective over soft assignments.

    From ``Y_0 = softmax(-a)`` repeat ``Y <- softmax(-a + lam W Y)``, the minimum of an upper bound that is tight at the
    current Y. Each update costs O(N k C).

    Rule ``paper`` reports and stops on::

        R(Y)   = sum Y log Y + sum a Y - (lam/2) sum_qp w_qp y_q.y_p
        B_i(Y) = sum_q y_q.(log y_q + a_q - lam b_q) + (lam/2) sum_q y_q^i.b_q + (lam delta/2) |Y - Y^i|^2,   b = W Y^i

    when ``|B_i - B_{i-1}| <= tol |B_{i-1}|``. R never rises when W is symmetric and ``W + delta I`` is positive
    semi-definite. With ``delta = 0`` that is the paper's condition on W. With ``delta > 0`` an update holds on to the
    assignments it starts from::

        y_q ~ exp{ [ -a_q + lam b_q + r log y_q^i ] / (1 + r) },   r = max(0, (lam delta/2 - 1) / 2)

    *Proof.* Let ``d = Y^{i+1} - Y^i``. The graph term is quadratic and ``<d, W d> >= -delta |d|^2``, so
    ``R(Y) <= B_i(Y)`` everywhere, with equality at ``Y^i``. The update is the minimum of ``B_i`` with ``r KL(Y|Y^i)``
    in place of its last term, a sum of entropies and linear terms: there it gains ``(1 + r) KL(Y^i|Y^{i+1})``, and
    therefore ``B_i(Y^i) - B_i(Y^{i+1}) = (1 + r) KL(Y^i|Y^{i+1}) + r KL(Y^{i+1}|Y^i) - (lam delta/2) |d|^2``. By
    Pinsker's inequality ``KL(y'|y) >= |y' - y|_1^2 / 2``, which is at least ``|y' - y|^2`` as the entries of
    ``y' - y`` sum to zero: the difference is at least ``(1 + 2r - lam delta/2) |d|^2 >= 0``. A smaller r fails: with
    two classes and equal costs, a small difference from 1/2 along the eigenvector of ``-delta`` is multiplied by
    ``(r - lam delta/2) / (1 + r)``, which must not be below -1. r moves no fixed point, and is 0 up to
    ``lam delta = 2``.

    Rule ``reference`` is the authors' code: ``E = sum Y log Y + sum a Y - lam sum Y * (W Y)``, at least three updates,
    at most 20, stopping when ``|E_i - E_{i-1}| <= tol |E_{i-1}|``.

    Parameters
    ----------
    unary : array of shape (N, C)
        ``a_qc``, the cost of class c for row q. float32 or float64; anything else becomes float64.
    affinity : scipy sparse matrix of shape (N, N)
        Weights >= 0.
    lam : float
        Weight of the graph, >= 0. Zero is the nearest prototype.
    rule : {"paper", "reference"}
    delta : float
        At least minus the smallest eigenvalue of a symmetric W; its largest row sum is always enough.
    max_iter : int, optional
        1000 for ``paper``, 20 for ``reference``.
    tol : float
        Relative.

    Returns
    -------
    BoundResult

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from laplacianshot import bound_optimize
    >>> unary = np.array([[0.0, 2.0], [0.9, 1.0], [2.0, 0.0], [1.1, 1.0]])
    >>> chain = sp.csr_array(np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]))
    >>> bound_optimize(unary, chain, lam=0.0).labels
    array([0, 0, 1, 1])
    >>> bound_optimize(unary, chain, lam=1.0).labels
    array([0, 1, 1, 0])
    """
    a = check_unary(unary)
    found = minimize_bound(
        bound_update, a.astype(np.float64), affinity, lam, rule=rule, delta=delta, max_iter=max_iter, tol=tol
    )
    return replace(found, assignments=found.assignments.astype(a.dtype))


class StepWeights(NamedTuple):
    """Weights of an update: of the graph, of the assignments it starts from, and delta of :func:`bound_optimize`."""

    lam: float
    r: float
    delta: float


class BoundUpdate(NamedTuple):
    """One update from Y to Y', with ``b = W Y``.

    Attributes
    ----------
    assignments : array of shape (N, C)
        ``Y' = softmax(-a + V')``.
    V : array of shape (N, C)
        ``V' = (lam b + r V) / (1 + r)``, the part of the graph in the logits. As ``log y = -a + V`` up to a constant
        of the row, Y' is proportional to ``exp{ [ -a + lam b + r log y ] / (1 + r) }``.
    pairwise : float
        ``sum_q y_q.b_q``, at Y.
    smooth : float
        ``sum_q y'_q.(log y'_q + a_q)``.
    surrogate : float
        ``sum_q y'_q.(log y'_q + a_q - lam b_q) + (lam delta/2) |Y' - Y|^2``. With ``r = delta = 0`` it is minus the sum
        of the log-partitions.
    """

    assignments: Floats
    V: Floats
    pairwise: float
    smooth: float
    surrogate: float


def bound_update(a: Floats, W: sp.csr_array, weights: StepWeights, Y: Floats, V: Floats) -> BoundUpdate:
    """The update of :func:`bound_optimize` from assignments Y (N, C), in float64."""
    lam, r, delta = weights
    b = W @ Y
    V = (lam * b + r * V) / (1 + r)
    logits = V - a
    log_partitions = logsumexp(logits, axis=1, keepdims=True)
    updated = np.exp(logits - log_partitions)
    entropy = -float(log_partitions.sum())
    surrogate = entropy + float((updated * (V - lam * b)).sum()) + lam * delta / 2 * float(np.square(updated - Y).sum())
    return BoundUpdate(updated, V, float((Y * b).sum()), entropy + float((updated * V).sum()), surrogate)


def minimize_bound(
    update: Callable[[Floats, sp.csr_array, StepWeights, Floats, Floats], BoundUpdate],
    a: Floats,
    affinity: Any,
    lam: float,
    *,
    rule: StoppingRule,
    delta: float,
    max_iter: int | None,
    tol: float,
) -> BoundResult:
    """:func:`bound_optimize` by ``update(a, W, weights, Y, V)``, from unary terms in the dtype of the work."""
    lam, delta = check_lam(lam), float(delta)
    if not 0 <= delta < np.inf:
        raise ValueError(f"delta must be a finite number >= 0, got {delta!r}.")
    weights = StepWeights(lam, hold_weight(lam * delta, 0.0), delta)
    W = check_affinity(affinity, a.shape[0], name="affinity", nodes="rows of unary", dtype=a.dtype)
    if rule not in ("paper", "reference"):
        raise ValueError(f"rule must be 'paper' or 'reference', got {rule!r}.")
    limit = max_iter if max_iter is not None else (PAPER_MAX_ITER if rule == "paper" else REFERENCE_MAX_ITER)
    if limit < 1:
        raise ValueError(f"max_iter must be at least 1, got {limit}.")

    objective: list[float] = []
    bound: list[float] = []
    converged = False
    # An update's objective needs W Y at the new Y, which the next update forms anyway: one update more than iterations.
    step = update(a, W, weights, softmax(-a, axis=1), np.zeros_like(a))
    while True:
        bound.append(step.surrogate + lam / 2 * step.pairwise)
        Y, smooth = step.assignments, step.smooth
        step = update(a, W, weights, Y, step.V)
        objective.append(smooth - (lam / 2 if rule == "paper" else lam) * step.pairwise)
        trace = bound if rule == "paper" else objective
        i = len(objective) - 1
        if i > (0 if rule == "paper" else 1) and abs(trace[i] - trace[i - 1]) <= tol * abs(trace[i - 1]):
            converged = True
        if converged or len(objective) == limit:
            break
    return BoundResult(Y, np.array(objective), np.array(bound), len(objective), converged)


def check_lam(lam: float) -> float:
    """``lam`` as a float in [0, MAX_LAM], or an error that says so."""
    value = float(lam)
    if not 0 <= value <= MAX_LAM:
        raise ValueError(f"lam must be a number from 0 to {MAX_LAM:g}, got {lam!r}.")
    return value


def check_unary(unary: ArrayLike) -> Floats:
    """Finite costs (N, C) in float32 or float64, or an error."""
    a = np.asarray(unary)
    if a.ndim != 2 or a.shape[1] == 0:
        raise ValueError(f"unary must have shape (N, C) with at least one class, got shape {a.shape}.")
    a = np.ascontiguousarray(a, dtype=a.dtype if a.dtype in (np.float32, np.float64) else np.float64)
    if not np.all(np.isfinite(a)):
        raise ValueError("unary has NaN or infinite entries; every cost must be finite.")
    return a
