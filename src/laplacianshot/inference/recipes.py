"""The three recipes, by name: every constant of each in one place.

``reference``  what the authors' public code does
``paper``      the paper as written, with steps for which its objective never rises
``default``    what we recommend; see :mod:`laplacianshot.inference.joint`
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

RecipeName: TypeAlias = Literal["default", "paper", "reference"]

# The paper's values for its main tables (1-shot lambda; k as the authors' code counts it).
PUBLISHED_LAM = 0.7
PUBLISHED_NEIGHBORS = 3

# Rounds of the default recipe, and what counts as no change of its objective.
ROUNDS = 20
ROUNDS_WITH_START = 40
START_ROUNDS = 6
STEADY_LAM = 2.0
TOLERANCE = 1e-6

# Temperature: tau times the squared distance of a typical pair of queries, and the least mean confidence in the
# nearest prototype on a scale from chance (0) to certainty (1).
PAIR_SPREAD = 15.0
MIN_CONFIDENCE = 0.6


# delta of the default recipe: the KL divergence of the class shares at which the pull to balance has faded to 1/e.
DELTA = 0.02
# gamma and delta where the class shares are known: they may be wrong by a factor of two.
KNOWN_GAMMA, KNOWN_DELTA = 2.0, 0.1
# Smallest share of the labels that reach a row along the graph whose logarithm is taken.
MIN_REACHED = 1e-6
# Queries a class, on average, from which on there is enough to learn from them before the task is solved: in few-shot
# episodes, where that would take most of the time; and in a table or a task of many queries.
RICH_QUERIES = 20
_ENOUGH_QUERIES = 5
_MANY_QUERIES = 500


class AbsenceConstants(NamedTuple):
    """Constants by which classes are found absent among the queries. Kernels take them as they are.

    See :func:`laplacianshot.inference.clues.absent_classes` for the letters.

    Attributes
    ----------
    sample_rows : int
        Queries that are looked at.
    min_classes : int
        Classes from which on some may be found absent: of a few, one that is merely rare would be.
    min_labels : int
        Labels from which on classes may be found absent.
    chance : float
        Standard deviations above 1/2 up to which a mean rank may be chance.
    most_left_out : float
        Largest weight w of the second nearest query.
    most : float
        Largest share f.
    power : float
        Ranks of absent classes are distributed as ``power r^(power - 1)``.
    least_rank : float
        Smallest rank whose logarithm is taken.
    close : float
        Distances count as equal if they differ by less than this, against the mean squared distance of two queries.
    push : float
        ``eta / f`` of large f.
    fade : float
        The f at which eta is half of ``push f``.
    small : float
        s against the mean share ``1 / ((1 - f) C)`` of the classes that are present.
    weight : float
        Weight of the log-probability that a class is present, against f.
    least_log : float
        Smallest log-probability.
    """

    sample_rows: int = 1024
    min_classes: int = 4
    min_labels: int = 8
    chance: float = 2.0
    most_left_out: float = 0.5
    most: float = 0.95
    power: float = 8.0
    least_rank: float = 1e-3
    close: float = 1e-5
    push: float = 6.0
    fade: float = 0.2
    small: float = 0.5
    weight: float = 0.7
    least_log: float = -6.0


ABSENCE = AbsenceConstants()


# Rows up to which a task that is not rich is a few-shot task: it is solved twice to find out whether its classes are
# equally frequent, this many rounds each, and they are taken to be if that costs less than this many times the
# logarithm of the number of queries, for each share that would have been free.
EPISODE_ROWS = 1200
FIRST_ROUNDS = 4
EQUAL_PRICE = 1 / 6
# Weight of the linear classifier of few-shot tasks against that of the distances it stands for.
RIDGE_WEIGHT = 10.0


def is_episode(n_support: int, n_query: int, n_classes: int, *, table: bool = False) -> bool:
    """Whether a task is a few-shot task: small, with too few queries to learn from before it is solved."""
    few = n_support + n_query <= EPISODE_ROWS and not is_rich(n_query, n_classes, table=table)
    return few and n_query > 0 and n_classes > 1


def ridge_share(n_classes: int) -> float:
    """Share ``w = max(0, 1/2 - 5/(2 C))`` of the distances in a few-shot task that a linear classifier stands for.

    Prototypes tell few classes apart as well as it does.
    """
    return max(0.0, 0.5 - 2.5 / n_classes)


def is_rich(n_query: int, n_classes: int, *, table: bool = False) -> bool:
    """Whether there are enough queries to learn from them before a task is solved; ``table``: its rows are of one."""
    needed = _ENOUGH_QUERIES if table or n_query >= _MANY_QUERIES else RICH_QUERIES
    return n_query >= needed * n_classes


class DefaultConstants(NamedTuple):
    """Constants of the default recipe for one task; none of them has a scale. Kernels take them as they are.

    Attributes
    ----------
    n_neighbors : int
        k, the row itself not counted.
    lam : float
        Weight of the graph (lambda1).
    start_lam : float
        Weight of the graph in the starting rounds (lambda0).
    start_rounds : int
        Rounds at ``start_lam``, outside the reported objective.
    max_rounds : int
        Rounds in all.
    e : float
        Weight of an edge to a labeled row against one between queries.
    beta : float
        Weight of a labeled row in its prototype against a query.
    kappa : float
        Weight of the origin in every prototype.
    gamma : float
        Weight of equal class shares.
    delta : float
        KL divergence of the shares at which that weight has faded to 1/e.
    pair_spread : float
        Minimum of tau times the mean squared distance of two queries.
    eta : float
        Price of a class that is used, where classes seem to be absent among the queries.
    small : float
        s, the share below which a class pays it.
    mu : float
        Weight of a linear classifier that is fitted anew in each round.
    """

    n_neighbors: int
    lam: float
    start_lam: float
    start_rounds: int
    max_rounds: int
    e: float
    beta: float
    kappa: float
    gamma: float
    delta: float
    pair_spread: float
    eta: float = 0.0
    small: float = 1.0
    mu: float = 0.0

    @classmethod
    def for_task(cls, n_support: int, n_query: int, n_classes: int, *, balanced: bool = False) -> DefaultConstants:
        """Constants for ``n_support`` labeled and ``n_query`` unlabeled rows of ``n_classes`` classes.

        With ``x = n_query / n_classes`` and ``rho = max(1, sqrt(x / 15))``::

            k = max(1, round(sqrt((n_support + n_query) / n_classes - 1)))
            lambda0 = 2 min(1, x / 3);  lambda1 = lambda0 rho;  e = max(1, ln C / ln 5) sqrt(rho)
            beta = max(3, x sqrt(n_support / n_classes) / 10);  kappa = beta / 2
            gamma = 2, delta = 0.02;  balanced: gamma = 3, delta = infinity
        """
        per_class = n_query / n_classes
        rho = max(1.0, math.sqrt(per_class / 15))
        start_lam = 2.0 * min(1.0, per_class / 3)
        beta = max(3.0, per_class * math.sqrt(n_support / n_classes) / 10)
        constants = cls(
            n_neighbors=max(1, round(math.sqrt(max(0.0, (n_support + n_query) / n_classes - 1)))),
            lam=start_lam * rho,
            start_lam=start_lam,
            start_rounds=0,
            max_rounds=ROUNDS,
            e=max(1.0, math.log(n_classes) / math.log(5)) * math.sqrt(rho),
            beta=beta,
            kappa=beta / 2,
            gamma=3.0 if balanced else 2.0,
            delta=math.inf if balanced else DELTA,
            pair_spread=PAIR_SPREAD / rho,
        )
        return constants.with_choices(lam=constants.lam)

    def with_known_shares(self) -> DefaultConstants:
        """The same where the shares of the classes are known: they keep their weight up to a larger divergence."""
        return self._replace(gamma=KNOWN_GAMMA, delta=KNOWN_DELTA)

    def with_graph_trust(self, trust: float) -> DefaultConstants:
        """The same with a part of the graph's weight."""
        lam = trust * self.lam
        return self._replace(lam=lam, start_lam=min(self.start_lam, lam))

    def with_absent(self, absent: float, n_classes: int) -> DefaultConstants:
        """The same with the price of a class that is used, where a share f = ``absent`` of the classes has no queries.

        ``eta = 6 f^2 / (f + 0.2)`` and ``s = 1 / (2 (1 - f) C)``; a higher price that is set already stays.
        """
        eta = ABSENCE.push * absent**2 / (absent + ABSENCE.fade) if absent > 0 else 0.0
        if eta <= self.eta:
            return self
        return self._replace(eta=eta, small=ABSENCE.small / ((1 - absent) * n_classes))

    def with_choices(
        self, *, lam: float | None = None, n_neighbors: int | None = None, max_rounds: int | None = None
    ) -> DefaultConstants:
        """The same with a user's own weight of the graph, neighbors or rounds; ``None`` keeps the recipe's.

        A graph of weight above 2 gets six starting rounds at ``start_lam`` and up to 40 in all, any other up to 20.
        """
        lam = self.lam if lam is None else float(lam)
        strong = lam > STEADY_LAM
        start_rounds = START_ROUNDS if strong else 0
        if max_rounds is None:
            max_rounds = ROUNDS_WITH_START if strong else ROUNDS
        else:
            max_rounds += start_rounds
        return self._replace(
            lam=lam,
            n_neighbors=self.n_neighbors if n_neighbors is None else n_neighbors,
            start_lam=min(self.start_lam, lam),
            start_rounds=start_rounds,
            max_rounds=max_rounds,
        )
