"""The loss of base training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy summed over a batch, with smoothed targets.

    ``sum_b [ -(1 - s) log p_b[t_b] - (s/K) sum_c log p_b[c] ]``, p = softmax(logits): the target keeps 1 - s of its
    weight, and all K classes share s.

    Parameters
    ----------
    logits : Tensor of shape (B, K)
        Of any floating-point type; the loss is computed in float32 at least.
    targets : int Tensor of shape (B,)
    smoothing : float
        s, at least 0 and below 1.

    Returns
    -------
    Tensor of shape ()
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return cross_entropy(wide, targets, label_smoothing=smoothing, reduction="sum")
