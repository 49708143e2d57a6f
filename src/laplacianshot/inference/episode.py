"""Few-shot tasks: are the classes equally frequent? And a linear classifier where there are many of them.

A task with a few queries per class is often balanced on purpose, and knowing it is worth one to four points; taking
for granted what is not so costs ten to twenty. So the task is solved both ways for a few rounds, with free shares and
with equal ones. Equal shares have their cost: let ``d`` be how much larger F, without its balance, is with them. They
are taken to be equal if that is less than free shares are worth::

    d < (C - 1)/6 log N

which is a third of what the Bayesian information criterion gives a model for C - 1 free numbers. What is known of the
balance by the user needs no such trial.

The chosen solution is where the last descent starts. With ``w = max(0, 1/2 - 5/(2 C))`` of the distances, a linear
classifier of all rows takes their place there (:class:`~laplacianshot.inference.joint.Ridge`), with weight
``mu = 10 w``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference.joint import Clues, balance_cost, joint_optimize
from laplacianshot.inference.recipes import (
    EQUAL_PRICE,
    FIRST_ROUNDS,
    RIDGE_WEIGHT,
    ROUNDS,
    DefaultConstants,
    ridge_share,
)
from laplacianshot.inference.solution import Solution
from laplacianshot.runtime.types import Floats, Ints


class Stages(NamedTuple):
    """Constants of the stages of a few-shot task. Kernels take them as they are.

    Attributes
    ----------
    free, equal : DefaultConstants
        Of the trials with free and with equal shares.
    last_free, last_equal : DefaultConstants
        Of the last descent.
    weight : float
        w: what the linear classifier stands for in the last descent.
    price : float
        What equal shares may cost.
    """

    free: DefaultConstants
    equal: DefaultConstants
    last_free: DefaultConstants
    last_equal: DefaultConstants
    weight: float
    price: float

    @classmethod
    def of(cls, constants: DefaultConstants, n_query: int, n_classes: int) -> Stages:
        """For a task with these constants, number of queries and of classes."""
        weight = ridge_share(n_classes)
        rounds = constants.max_rounds - constants.start_rounds
        first = constants._replace(max_rounds=constants.start_rounds + FIRST_ROUNDS)
        last = constants._replace(mu=RIDGE_WEIGHT * weight)
        if weight > 0 or not math.isinf(constants.delta):
            # It goes on from a trial. Both count in the recipe's own number of rounds, and not in a user's.
            left = rounds - 2 * FIRST_ROUNDS if rounds == ROUNDS else rounds
            last = last._replace(start_rounds=0, max_rounds=left)
        price = EQUAL_PRICE * (n_classes - 1) * math.log(max(n_query, 1))
        return cls(first, _equal(first), last, _equal(last), weight, price)


def _equal(constants: DefaultConstants) -> DefaultConstants:
    return constants._replace(gamma=math.inf, delta=math.inf, eta=0.0)


def episode_optimize(
    support: Floats,
    labels: Ints,
    query: Floats,
    affinity: sp.csr_array,
    origin: Floats,
    n_classes: int,
    constants: DefaultConstants,
    *,
    clues: Clues,
    tol: float,
) -> Solution:
    """Minimize F in stages; arguments and result as in :func:`~laplacianshot.inference.joint.joint_optimize`.

    ``constants`` with infinite delta say that classes are known to be equally frequent. The objective is that of the
    last stage.
    """
    task = (support, labels, query, affinity, origin, n_classes)
    stages = Stages.of(constants, len(query), n_classes)
    known = math.isinf(constants.delta)
    equal, first = known, None
    if stages.weight > 0 or not known:
        candidates = {True: stages.equal} if known else {False: stages.free, True: stages.equal}
        trials = {shares: joint_optimize(*task, each, clues=clues, tol=tol) for shares, each in candidates.items()}
        if not known:
            equal = _without_balance(trials[True]) - _without_balance(trials[False]) < stages.price
        first = trials[equal].assignments
    last = stages.last_equal if equal else stages.last_free
    clues = replace(clues, weight=stages.weight)
    return joint_optimize(*task, last, clues=clues, first=first, tol=tol)


def _without_balance(trial: Solution) -> float:
    """The last F of a trial, less what its shares cost."""
    Y = trial.assignments
    return float(trial.objective[-1]) - len(Y) * balance_cost(Y.mean(axis=0, dtype=np.float64), trial.constants)
