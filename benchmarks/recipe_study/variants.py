"""What was tried on the default recipe: a name for each change."""

from __future__ import annotations

import numpy as np

from recipe_study.common import Array, l2
from recipe_study.recipe import RECIPE, Options, knn

#: name -> (preprocessing of the transformed rows, options); "recipe" is what all others are compared with
VARIANTS: dict[str, tuple[str, Options]] = {
    "recipe": ("", RECIPE),
    "A: linear rank": ("", Options(weights="linrank")),
    "B: delta 0.15 (C-1)/N": ("", Options(delta_few=0.15)),
    "C: confidence^(1-1/rho)": ("", Options(q_weight="confrho")),
    "A + B + C1": ("", Options(weights="linrank", delta_few=0.15, q_weight="conflarge")),
    "A + lambda shots 1/2": ("", Options(weights="linrank", lam_shots=0.5)),
    "A + tau x 0.85": ("", Options(weights="linrank", tau_scale=0.85)),
    "delta 0.05 (C-1)/N": ("", Options(delta_few=0.05)),
    "delta 0.10 (C-1)/N": ("", Options(delta_few=0.1)),
    "delta 0.20 (C-1)/N": ("", Options(delta_few=0.2)),
    "delta 0.25 (C-1)/N": ("", Options(delta_few=0.25)),
    "delta 0.375 (C-1)/N": ("", Options(delta_few=0.375)),
    "kappa (1/2 + 1/x)": ("", Options(kappa_few=1.0)),
    "B + kappa (1/2 + 1/x)": ("", Options(kappa_few=1.0, delta_few=0.15)),
    "k x 0.7": ("", Options(k_scale=0.7)),
    "k x 1.4": ("", Options(k_scale=1.4)),
    "k x 2": ("", Options(k_scale=2.0)),
    "W: selftuned": ("", Options(weights="selftune")),
    "W: selftuned, k x 2": ("", Options(weights="selftune", k_scale=2.0)),
    "W: rbf, k x 2": ("", Options(weights="rbf", k_scale=2.0)),
    "W: 1/rank": ("", Options(weights="rank")),
    "W: 1/rank, k x 2": ("", Options(weights="rank", k_scale=2.0)),
    "W: 1/sqrt rank": ("", Options(weights="sqrtrank")),
    "W: shared neighbors": ("", Options(norm="jaccard")),
    "W: shared neighbors, k x 2": ("", Options(norm="jaccard", k_scale=2.0)),
    "W: mutual, k x 2": ("", Options(norm="mutual", k_scale=2.0)),
    "W/2 + W^2/2": ("", Options(order2=0.5)),
    "W/2 + W^2/2, lambda x 1.4": ("", Options(order2=0.5, lam_scale=1.4)),
    "M: confidence weights": ("", Options(q_weight="conf")),
    "M: density weights": ("", Options(q_weight="dens")),
    "lambda x 0.7": ("", Options(lam_scale=0.7)),
    "lambda x 1.4": ("", Options(lam_scale=1.4)),
    "lambda x 2": ("", Options(lam_scale=2.0)),
    "tau x 0.5": ("", Options(tau_scale=0.5)),
    "tau x 0.7": ("", Options(tau_scale=0.7)),
    "conf 0.5": ("", Options(conf=0.5)),
    "beta x 0.5 (min 3)": ("", Options(beta_scale=0.5)),
    "beta x 2 (min 3)": ("", Options(beta_scale=2.0)),
    "beta min 2": ("", Options(beta_min=2.0)),
    "beta min 5": ("", Options(beta_min=5.0)),
    "beta min 10": ("", Options(beta_min=10.0)),
    "kappa = beta/4": ("", Options(kappa_scale=0.25)),
    "kappa = beta": ("", Options(kappa_scale=1.0)),
    "e x 0.7": ("", Options(e_scale=0.7)),
    "e x 1.5": ("", Options(e_scale=1.5)),
    "gamma 1": ("", Options(gamma=1.0)),
    "gamma 3": ("", Options(gamma=3.0)),
    "delta = 0.01": ("", Options(delta=0.01)),
    "delta = 0.05": ("", Options(delta=0.05)),
    "first rounds 0": ("", Options(rounds_low=0)),
    "first rounds 3": ("", Options(rounds_low=3)),
    "first rounds 12": ("", Options(rounds_low=12)),
    "rounds 50 or 100": ("", Options(rounds=50, rounds_high=100)),
    "shift nu 0": ("", Options(shift_nu=0.0)),
    "shift nu 0.5": ("", Options(shift_nu=0.5)),
    "shift nu 2": ("", Options(shift_nu=2.0)),
    "whiten pooled": ("pooled", RECIPE),
    "whiten neighbors": ("local", RECIPE),
    "whiten neighbors, half power": ("localhalf", RECIPE),
    "square root of rows >= 0": ("sqrt", RECIPE),
}


def whiten(x: Array, kind: str) -> Array:
    """Rows in a shared metric: (S shrunk towards a multiple of I by Ledoit and Wolf)^(-p/2), then unit length.

    pooled: S is the covariance of all rows. local: the scatter of differences to the nearest neighbors, a stand-in for
    the scatter within classes that needs no labels; localhalf: with half the power. Computed in the span of the
    differences, so that D may be much larger than the number of rows.
    """
    power = 0.5 if kind == "localhalf" else 1.0
    if kind == "pooled":
        z = x - x.mean(0)
    else:
        i, _ = knn(x, 3)
        z = (x[:, None] - x[i]).reshape(-1, x.shape[1]) / np.sqrt(2)
    n, d = z.shape
    mu = float((z**2).sum() / n / d)
    inner = z.T @ z / n if n > d else z @ z.T / n
    fro = float((inner**2).sum())
    r4 = float(((z**2).sum(1) ** 2).mean())
    a = min(1.0, max((r4 - fro) / n / max(fro - d * mu**2, 1e-30), 0.0))
    if n > d:
        values, vectors = np.linalg.eigh(inner)
        vt, lam = vectors.T, np.maximum(values, 0)
    else:
        _, sv, vt = np.linalg.svd(z, full_matrices=False)
        lam = sv**2 / n
    full = (1 - a) * lam + a * mu
    base = (a * mu if n <= d else full.min()) + 1e-12
    gain = (full + 1e-12) ** (-power / 2) * base ** (power / 2) - 1  # relative to the untouched complement
    return l2((x + ((x @ vt.T) * gain) @ vt).astype(x.dtype))
