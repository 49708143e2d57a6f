"""The paper's bound optimizer: Laplacian-regularized assignments by independent closed-form updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.engine._update_kernels import bound_rows
from laplacianshot.inference.affinity import check_affinity
from laplacianshot.runtime.softmax import softmax
from laplacianshot.runtime.threads import Workers, even_blocks
from laplacianshot.runtime.types import Floats, Ints

StoppingRule: TypeAlias = Literal["paper", "reference"]

# Where each rule stops by itself.
PAPER_MAX_ITER = 1000
REFERENCE_MAX_ITER = 20
TOLERANCE = 1e-6
# A heavier graph term only rounds the unary away.
LARGEST_LAM = 1e6

_BLOCK_ROWS = 256
_MOST_BLOCKS = 64


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
        The surrogate ``B_i(Y_{i+1})`` that each update minimized; ``R_{i+1} <= B_i <= R_i`` on a symmetric PSD graph.
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
    max_iter: int | None = None,
    tol: float = TOLERANCE,
) -> BoundResult:
    """Minimize the Laplacian-regularized objective over soft assignments.

    From ``Y_0 = softmax(-a)`` repeat ``Y <- softmax(-a + lam W Y)``, the minimum of an upper bound that is tight at the
    current Y. Each update costs O(N k C).

    Rule ``paper`` reports and stops on::

        R(Y)   = sum Y log Y + sum a Y - (lam/2) sum_qp w_qp y_q.y_p
        B_i(Y) = sum_q y_q.(log y_q + a_q - lam b_q) + (lam/2) sum_q y_q^i.b_q,   b = W Y^i

    when ``|B_i - B_{i-1}| <= tol |B_{i-1}|``. R never rises when W is symmetric and positive semi-definite
    (:func:`~laplacianshot.inference.affinity.make_psd`).

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
    a = _check_unary(unary)
    lam = check_lam(lam)
    W = check_affinity(affinity, a.shape[0], name="affinity", nodes="rows of unary", dtype=a.dtype)
    if rule not in ("paper", "reference"):
        raise ValueError(f"rule must be 'paper' or 'reference', got {rule!r}.")
    limit = max_iter if max_iter is not None else (PAPER_MAX_ITER if rule == "paper" else REFERENCE_MAX_ITER)
    if limit < 1:
        raise ValueError(f"max_iter must be at least 1, got {limit}.")

    blocks = even_blocks(a.shape[0], _BLOCK_ROWS, _MOST_BLOCKS)
    partial = np.zeros((max(1, len(blocks)), 3))
    current, updated = softmax(-a), np.empty_like(a)
    objective: list[float] = []
    bound: list[float] = []
    converged = False
    # An update's objective needs W Y at the new Y, which the next pass forms anyway: one pass more than updates.
    with Workers((W.nnz + a.shape[0]) * a.shape[1]) as workers:

        def update() -> tuple[float, float, float]:
            source, target = current, updated
            args = (a, W.indptr, W.indices, W.data, lam, source, target)
            workers.run(lambda i, start, stop: bound_rows(*args, partial[i], start, stop), blocks)
            pairwise, smooth, surrogate = partial.sum(axis=0)
            return float(pairwise), float(smooth), float(surrogate)

        pairwise, smooth, surrogate = update()
        while True:
            bound.append(surrogate + lam / 2 * pairwise)
            current, updated = updated, current
            pairwise, next_smooth, surrogate = update()
            objective.append(smooth - (lam / 2 if rule == "paper" else lam) * pairwise)
            smooth = next_smooth
            trace = bound if rule == "paper" else objective
            i = len(objective) - 1
            if i > (0 if rule == "paper" else 1) and abs(trace[i] - trace[i - 1]) <= tol * abs(trace[i - 1]):
                converged = True
            if converged or len(objective) == limit:
                break
    return BoundResult(current, np.array(objective), np.array(bound), len(objective), converged)


def check_lam(lam: float) -> float:
    """``lam`` as a float in [0, LARGEST_LAM], or an error that says so."""
    value = float(lam)
    if not 0 <= value <= LARGEST_LAM:
        raise ValueError(f"lam must be a number from 0 to {LARGEST_LAM:g}, got {lam!r}.")
    return value


def _check_unary(unary: ArrayLike) -> Floats:
    a = np.asarray(unary)
    if a.ndim != 2 or a.shape[1] == 0:
        raise ValueError(f"unary must have shape (N, C) with at least one class, got shape {a.shape}.")
    a = np.ascontiguousarray(a, dtype=a.dtype if a.dtype in (np.float32, np.float64) else np.float64)
    if not np.all(np.isfinite(a)):
        raise ValueError("unary has NaN or infinite entries; every cost must be finite.")
    return a
