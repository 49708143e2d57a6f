"""The recipe *default* of docs/method/recipes.md, written apart from the package, with switches for what was tried.

``Options()`` is the recipe itself, but that k is rounded half up.

One solver serves a batch of small tasks (Gram matrices, dense graphs) and one large task (features, sparse graph).
All that the recipe needs of the features is ``G @ coef`` with G the Gram matrix of the rows [support; query; o]; the
prototypes are linear combinations of those rows, so their coefficients are all that is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Constants of the recipe, and the switches of what was tried (each neutral by default)."""

    balanced: bool = False
    gamma: float = 2.0
    delta: float = 0.02
    delta_few: float = 0.0  #: delta = max(delta, delta_few (C - 1)/N): chance alone gives a KL of about (C - 1)/(2N)
    rounds_low: int = 6
    rounds: int = 20
    rounds_high: int = 40
    tol: float = 1e-6
    k_scale: float = 1.0
    beta_min: float = 3.0
    beta_scale: float = 1.0
    kappa_scale: float = 0.5
    kappa_few: float = 0.0  #: kappa = beta (kappa_scale + kappa_few/x)
    lam_scale: float = 1.0
    lam_shots: float = 0.0  #: lambda1 = lambda0 (1 + (rho - 1) (n_s/C)^lam_shots)
    tau_scale: float = 1.0
    conf: float = 0.6
    e_scale: float = 1.0
    weights: str = "binary"  #: of edges: binary, selftune, rbf, or by rank: rank, linrank, sqrtrank
    norm: str = "sym"  #: sym, mutual, jaccard
    order2: float = 0.0  #: weight of the second-order graph W^2
    shift_nu: float | None = None  #: a shift b of all queries is a variable of F, with penalty tau nu N |b|^2
    #: weight of a query in the unary and the M step, mean 1: conf (its first confidence), conflarge (the same if
    #: rho > 1), confrho (to the power 1 - 1/rho), dens (its density)
    q_weight: str = ""


RECIPE = Options()


@dataclass
class Problem:
    """Transformed rows of B tasks of equal shape, ready to be solved under any options."""

    g: Array | None  #: (B, V+1, V+1) Gram matrix of [support; query; o], or None (large)
    x: Array | None  #: (V+1, D) rows, large tasks only
    sq: Array  #: (B, V+1) squared norms
    ys: Array  #: (B, n_s, C) one-hot
    n_s: int
    n: int
    c: int
    mean_sq: Array  #: (B,) mean squared distance over query pairs q != p
    nbr: Ints  #: (B, V, kmax) nearest rows, nearest first, self excluded
    nbr_d: Array  #: their squared distances
    cache: dict[Any, Any] = field(default_factory=dict)

    def gm(self, coef: Array) -> Array:
        """G @ coef, (B, V+1, C)."""
        if self.g is not None:
            return self.g @ coef
        assert self.x is not None
        return (self.x @ (coef[0].T @ self.x).T)[None]


def _neighbors(d: Array, k: int) -> tuple[Ints, Array]:
    i = np.argpartition(d, k - 1, axis=-1)[..., :k]
    v = np.take_along_axis(d, i, -1)
    o = np.argsort(v, -1, kind="stable")
    return np.take_along_axis(i, o, -1), np.take_along_axis(v, o, -1)


def knn(x: Array, k: int, block: int = 1024) -> tuple[Ints, Array]:
    """Exact nearest rows of x among x, self excluded, by blocked products."""
    n = len(x)
    sq = np.einsum("ij,ij->i", x, x)
    idx, val = np.empty((n, k), np.int64), np.empty((n, k), x.dtype)
    for a in range(0, n, block):
        d = sq[a : a + block, None] + sq - 2 * x[a : a + block] @ x.T
        d[np.arange(len(d)), np.arange(a, a + len(d))] = np.inf
        idx[a : a + block], val[a : a + block] = _neighbors(d, k)
    return idx, np.maximum(val, 0)


def default_k(n_s: int, n: int, c: int) -> int:
    """k = max(1, round(sqrt((n_s + N)/C - 1))), half up."""
    return max(1, int(np.floor(np.sqrt(max((n_s + n) / c - 1, 0)) + 0.5)))


def prepare(
    x: Array, ys: Ints, c: int, o: Array | None = None, k_max: int | None = None, nn: tuple[Ints, Array] | None = None
) -> Problem:
    """Problem of transformed rows x: (B, V, D) for episodes or (V, D) for one large task; o: origin, zero if None."""
    large = x.ndim == 2
    xb = x[None] if large else x
    b, v, dim = xb.shape
    yb = ys[None] if ys.ndim == 1 else ys
    n_s = yb.shape[1]
    n = v - n_s
    hot = (yb[..., None] == np.arange(c)).astype(x.dtype)
    zero = np.zeros((b, 1, dim), x.dtype) if o is None else o.reshape(b, 1, dim).astype(x.dtype)
    xa = np.concatenate([xb, zero], 1)
    sq = np.einsum("bvd,bvd->bv", xa, xa)
    q = xb[:, n_s:]
    var = (q * q).sum((1, 2)) / n - (q.mean(1) ** 2).sum(-1)
    mean_sq = 2 * var * n / max(n - 1, 1)
    k = min(k_max or 2 * default_k(n_s, n, c) + 1, v - 1)
    if large:
        i, d = nn if nn is not None else knn(x, k)
        return Problem(None, xa[0], sq, hot, n_s, n, c, mean_sq, i[None], d[None])
    g = xa @ xa.transpose(0, 2, 1)
    d = np.maximum(sq[:, :v, None] + sq[:, None, :v] - 2 * g[:, :v, :v], 0)
    d[:, np.arange(v), np.arange(v)] = np.inf
    i, dv = _neighbors(d, k)
    return Problem(g, None, sq, hot, n_s, n, c, mean_sq, i, dv)


def graph(p: Problem, k: int, opt: Options) -> Any:
    """W = D^-1/2 ((A + A^T)/2) D^-1/2 over support and queries: dense (B, V, V) or sparse (V, V)."""
    key = (k, opt.weights, opt.order2, opt.norm)
    if key in p.cache:
        return p.cache[key]
    i, d = p.nbr[..., :k], np.maximum(p.nbr_d[..., :k], 0)
    b, v, k = i.shape
    if opt.weights == "binary":
        w = np.ones_like(d)
    elif opt.weights == "selftune":  # local scale: distance to the k-th neighbor (Zelnik-Manor and Perona)
        s = np.maximum(d[..., -1], 1e-12)
        st = np.take_along_axis(s, i.reshape(b, -1), 1).reshape(i.shape)
        w = np.exp(-d / np.sqrt(s[..., None] * st))
    elif opt.weights == "rank":
        w = np.broadcast_to((1 / np.arange(1, k + 1)).astype(d.dtype), d.shape)
    elif opt.weights == "linrank":
        w = np.broadcast_to(((k - np.arange(k)) / k).astype(d.dtype), d.shape)
    elif opt.weights == "sqrtrank":
        w = np.broadcast_to((1 / np.sqrt(np.arange(1, k + 1))).astype(d.dtype), d.shape)
    elif opt.weights == "rbf":  # one scale a task: mean squared distance to the k-th neighbor
        w = np.exp(-d / np.maximum(d[..., -1].mean(-1), 1e-12)[:, None, None])
    else:
        raise ValueError(opt.weights)
    if p.g is not None:
        a = np.zeros((b, v, v), d.dtype)
        np.put_along_axis(a, i, np.ascontiguousarray(w), -1)
        if opt.norm == "mutual":
            s_ = np.sqrt(a * a.transpose(0, 2, 1)) + 1e-3 * (a + a.transpose(0, 2, 1))
        else:
            s_ = (a + a.transpose(0, 2, 1)) / 2
        if opt.norm == "jaccard":  # edges reweighted by shared neighbors (self counted)
            an = a + np.eye(v, dtype=a.dtype)
            s_ = s_ * (an @ an.transpose(0, 2, 1)) / (k + 1)
        r = 1 / np.sqrt(np.maximum(s_.sum(-1), 1e-12))
        out: Any = s_ * r[:, :, None] * r[:, None, :]
        if opt.order2:
            o2 = out @ out
            out = (1 - opt.order2) * out + opt.order2 * o2
    else:
        rows = np.repeat(np.arange(v), k)
        m = sp.csr_matrix((np.ascontiguousarray(w)[0].ravel(), (rows, i[0].ravel())), (v, v))
        if opt.norm == "mutual":
            ss = m.multiply(m.T).sqrt() + 1e-3 * (m + m.T)
        else:
            ss = (m + m.T) / 2
        if opt.norm == "jaccard":
            an = m + sp.eye(v, dtype=m.dtype, format="csr")
            ss = ss.multiply(an @ an.T) / (k + 1)
        r = 1 / np.sqrt(np.maximum(np.asarray(ss.sum(1)).ravel(), 1e-12))
        out = sp.csr_matrix(sp.diags(r) @ ss @ sp.diags(r)).astype(m.dtype)
        if opt.order2:
            out = ((1 - opt.order2) * out + opt.order2 * (out @ out)).tocsr()
    p.cache[key] = out
    return out


def _softmax(z: Array) -> tuple[Array, Array]:
    z = z - z.max(-1, keepdims=True)
    lse = np.log(np.exp(z).sum(-1, keepdims=True))
    return np.exp(z - lse), z - lse


def tau_confident(a: Array, target: float, steps: int = 60) -> Array:
    """tau with mean_q max_c softmax(-tau a) = target, by bisection on log tau, one per task."""
    z = a - a.min(-1, keepdims=True)
    scale = np.maximum(z.mean((1, 2)), 1e-30)
    lo, hi = np.log(1e-4 / scale), np.log(1e6 / scale)
    for _ in range(steps):
        mid = (lo + hi) / 2
        conf = (1 / np.exp(-np.exp(mid)[:, None, None] * z).sum(-1)).mean(-1)
        up = conf < target
        lo, hi = np.where(up, mid, lo), np.where(up, hi, mid)
    return np.exp((lo + hi) / 2)


@dataclass
class Result:
    """Assignments and prototypes (as coefficients over [support; query; o]) with the trace of F."""

    y: Array
    coef: Array
    trace: list[Array]
    tau: Array
    k: int
    lam1: float
    n_rounds: Ints


def nearest_prototype(p: Problem) -> Ints:
    """Argmin of squared distance to the plain support means (not re-normalized)."""
    coef = np.zeros((p.ys.shape[0], p.n_s + p.n + 1, p.c), p.ys.dtype)
    coef[:, : p.n_s] = p.ys / p.ys.sum(1, keepdims=True)
    return _distances(p, coef)[:, p.n_s : -1].argmin(-1)


def _distances(p: Problem, coef: Array) -> Array:
    gc = p.gm(coef)
    mm = (coef * gc).sum(1, keepdims=True)
    return p.sq[..., None] - 2 * gc + mm


def solve(p: Problem, opt: Options = RECIPE) -> Result:
    """Run the recipe. Round: M step, Y step, F at the new (Y, M). F[0] is at the start of the reported phase."""
    n_s, n, c = p.n_s, p.n, p.c
    x_pc = n / c
    rho = max(1.0, (x_pc / 15) ** 0.5)
    k = min(max(1, int(np.floor(opt.k_scale * np.sqrt(max((n_s + n) / c - 1, 0)) + 0.5))), p.nbr.shape[-1])
    lam0 = 2 * min(1.0, x_pc / 3) * opt.lam_scale
    lam1 = lam0 * (1 + (rho - 1) * (n_s / c) ** opt.lam_shots)
    e = max(1.0, np.log(c) / np.log(5)) * np.sqrt(rho) * opt.e_scale
    beta = max(opt.beta_min, opt.beta_scale * x_pc * np.sqrt(n_s / c) / 10)
    kappa = beta * (opt.kappa_scale + opt.kappa_few / x_pc)
    gamma, delta = (3.0, np.inf) if opt.balanced else (opt.gamma, max(opt.delta, opt.delta_few * (c - 1) / n))
    w = graph(p, k, opt)
    bsz = p.ys.shape[0]
    dt = p.ys.dtype
    counts = p.ys.sum(1)  # (B, C)

    vq: Array | None = None
    shift = np.zeros((bsz, n_s + n + 1, 1), dt)  # coefficients of b over the rows; queries are x_q + b

    def mstep(y: Array | None) -> Array:
        den = beta * counts + kappa + (0 if y is None else (y if vq is None else vq * y).sum(1))
        coef = np.zeros((bsz, n_s + n + 1, c), dt)
        coef[:, :n_s] = beta * p.ys
        if y is not None:
            coef[:, n_s:-1] = y if vq is None else vq * y
            if opt.shift_nu is not None:
                coef += shift * y.sum(1)[:, None, :]
        coef[:, -1] += kappa
        return (coef / den[:, None, :]).astype(dt)

    def bstep(y: Array, coef: Array, nu: float) -> Array:
        """Minimizer of sum y |x_q + b - m_c|^2 + nu N |b|^2 over b, as coefficients."""
        out = (coef * y.sum(1)[:, None, :]).sum(-1, keepdims=True)
        out[:, n_s:-1] -= 1
        return (out / (n * (1 + nu))).astype(dt)

    def dist(coef: Array) -> Array:
        """Squared distances of every row, the queries shifted."""
        d = _distances(p, coef)
        if opt.shift_nu is not None:
            d[:, n_s:-1] = _distances(p, coef - shift)[:, n_s:-1]
        return d

    if p.g is not None:
        wqs_y = w[:, n_s:, :n_s] @ p.ys
        wqq = np.ascontiguousarray(w[:, n_s:, n_s:])

        def gmul(y: Array) -> Array:
            return wqq @ y
    else:
        wqs_y = (w[n_s:, :n_s] @ p.ys[0])[None]
        wqq = w[n_s:, n_s:]

        def gmul(y: Array) -> Array:
            return (wqq @ y[0])[None]

    coef = mstep(None)
    da = _distances(p, coef)
    a = da[:, n_s:-1]
    tau = (15 / rho) / np.maximum(p.mean_sq, 1e-30)
    tau = np.maximum(tau, tau_confident(a.astype(np.float64), 1 / c + opt.conf * (1 - 1 / c)))
    tau = (tau * opt.tau_scale).astype(dt)
    t3 = tau[:, None, None]
    y, ly = _softmax(-t3 * a)
    if opt.q_weight == "conf":
        vq = y.max(-1, keepdims=True)
    elif opt.q_weight == "confrho" and rho > 1:
        vq = y.max(-1, keepdims=True) ** (1 - 1 / rho)
    elif opt.q_weight == "conflarge" and rho > 1:
        vq = y.max(-1, keepdims=True)
    elif opt.q_weight == "dens":
        vq = 1 / np.sqrt(np.maximum(p.nbr_d[:, n_s:, k - 1 : k], 1e-6))
    if vq is not None:
        vq = (vq / vq.mean(1, keepdims=True)).astype(dt)

    def objective(y: Array, ly: Array, da: Array, wy: Array, lam: float) -> Array:
        ent = (y * ly).sum((1, 2), dtype=np.float64)
        fit = ((y if vq is None else vq * y) * da[:, n_s:-1]).sum((1, 2), dtype=np.float64)
        fit += beta * (p.ys * da[:, :n_s]).sum((1, 2), dtype=np.float64)
        fit += kappa * da[:, -1].sum(-1, dtype=np.float64)
        lap = e * (y * wqs_y).sum((1, 2), dtype=np.float64) + 0.5 * (y * wy).sum((1, 2), dtype=np.float64)
        if opt.shift_nu is not None:
            fit += n * opt.shift_nu * (shift * p.gm(shift)).sum((1, 2), dtype=np.float64)
        f = ent + tau * fit - lam * lap
        kl = _kl(y)
        bal = n * gamma * (kl if np.isinf(delta) else delta * (1 - np.exp(-kl / delta)))
        return f + bal

    def _kl(y: Array) -> Array:
        pr = y.mean(1, dtype=np.float64)
        return (pr * np.log(np.maximum(pr, 1e-300) * c)).sum(-1)

    two = lam1 > 2
    total = opt.rounds_high if two else opt.rounds
    low = opt.rounds_low if two else 0
    lam = lam0 if low else lam1
    wy = gmul(y)
    trace: list[Array] = []
    prev: Array | None = None
    live = np.ones(bsz, bool)
    n_rounds = np.zeros(bsz, np.int64)
    if not low:
        prev = objective(y, ly, da, wy, lam)
        trace.append(prev)
    for t in range(total):
        if low and t == low:
            lam = lam1
            prev = objective(y, ly, da, wy, lam)
            trace.append(prev)
        coef_n = mstep(y)
        if opt.shift_nu is not None:
            shift = np.where(live[:, None, None], bstep(y, coef_n, opt.shift_nu), shift)
            coef_n = mstep(y)
        da_n = dist(coef_n)
        pr = y.mean(1, dtype=np.float64)
        g = np.full(bsz, gamma) if np.isinf(delta) else gamma * np.exp(-_kl(y) / delta)
        r = np.maximum(0, (lam / 2 - 1 - g) / 2)
        g3, r3 = g[:, None, None].astype(dt), r[:, None, None].astype(dt)
        lp = np.log(np.maximum(pr, 1e-300))[:, None, :].astype(dt)
        un = da_n[:, n_s:-1] if vq is None else vq * da_n[:, n_s:-1]
        z = (-t3 * un + lam * (e * wqs_y + wy) + (g3 + r3) * ly - g3 * lp) / (1 + g3 + r3)
        y_n, ly_n = _softmax(z)
        m = live[:, None, None]
        y, ly = np.where(m, y_n, y), np.where(m, ly_n, ly)
        coef, da = np.where(m, coef_n, coef), np.where(m, da_n, da)
        wy = gmul(y)
        n_rounds[live] += 1
        if t >= low:
            f = objective(y, ly, da, wy, lam)
            trace.append(f)
            assert prev is not None
            live = live & ~(np.abs(f - prev) <= opt.tol * np.abs(prev))
            prev = f
            if not live.any():
                break
    return Result(y, coef, trace, tau, k, lam1, n_rounds)
