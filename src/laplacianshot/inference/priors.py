"""What a user knows of the classes besides labels: their names, another model's scores, their shares.

The vectors t_c of the names lie in the space of the rows. A row is of class c with probability
``z_qc = softmax_c(s cos(x_q, t_c))``, with s by the confidence rule of the temperature. The scores of another model are
probabilities already. Both are a prior over the classes of a row, and F of :mod:`laplacianshot.inference.joint` takes
them in three places:

1. ``- omega sum_qc y_qc log z_qc``. For names this is linear in the rows, so it costs nothing and holds for new rows.
2. Prototypes are drawn to ``o_c``, the mean of the rows that the prior gives to class c.
3. A class that is used has its price if few of them seem to be present.

*Which classes are present?* The shares p that explain the prior best are found first, by expectation maximization::

    p_c = mean_q r_qc,    r_q = softmax_c(3 log z_qc + log p_c)

With ``K = KL(p|u)``, less its mean under equal shares, ``w = 1 - exp(-(K/0.8)^2)`` says how far to believe them: not at
all as long as they are about equal. Names that nobody answers to would else take rows from those that are present.

*How far are they to be trusted?* Labels tell: their likelihood under ``z^a`` is largest at a trust a from 0 to 1. From
two labels per class on, z has to add something to what the other labels say of a label that is held back
(:func:`trust_beside`). What they hardly speak for is left out. And where neighbors mostly have different names, there
is little to learn from neighbors: omega rises from 0.5 to at most 8, and distances to prototypes count less.

Everything is found from the labeled rows and at most 1,024 others (:func:`read_hints`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, logsumexp

from laplacianshot.inference.affinity import knn_affinity
from laplacianshot.inference.clues import Answers, confident_scale, gather_clues
from laplacianshot.inference.joint import Clues
from laplacianshot.inference.labels import EncodedLabels, encode_labels
from laplacianshot.inference.prototypes import class_means
from laplacianshot.inference.recipes import ABSENCE, DefaultConstants
from laplacianshot.inference.temperature import divergence
from laplacianshot.inference.transforms import before_center, transform_features
from laplacianshot.runtime.arrays import refuse_masked
from laplacianshot.runtime.types import Floats, Ints, Labels, Transform

# Weight of the prior, and the largest where neighbors contradict it; the share of neighbors that agree below which it
# grows.
_OMEGA, _MAX_OMEGA = 0.5, 8.0
_AGREEING = 0.5
# Weight of an anchor in its prototype, in labels where each class has one.
_PULL = 3.0
# Rows that a name itself counts for in its anchor, where classes seem to be absent.
_NAME_ROWS = 1.0
# Power of the prior from which class shares are learned, and how often they are updated.
_SHARPNESS = 3.0
_SHARE_ROUNDS = 50
# KL divergence of the class shares from equal ones at which they are believed by 1 - 1/e.
_ABSENT_SCALE = 0.8
# Weight of the log-shares where classes are surely absent, and the smallest of them.
_SHARE_WEIGHT, _MIN_LOG_SHARE = 0.5, -7.0
# Absence from which on it is reported.
_SURELY = 0.2
# Labels that a prior is trusted by before there are any; and log-odds by which the labels of a class must speak against
# its name for the name to be doubted.
_FREE_LABELS = 2.0
_DOUBT = 2.0
# Trust below which names, or a prior, are left out where every class has a label.
_MIN_TRUST = 0.2
# Smallest and largest powers of what is said of held-back labels, and labels that are held back at most.
_MIN_POWER, _MAX_POWER = 0.05, 3.0
_MAX_HELD = 500
# Largest power that a prior is raised to.
_MAX_SHARPENING = 10.0
# Largest share of the distances that is left out where neighbors contradict one another.
_MAX_FAINT = 0.95
# Smallest probability of a given prior, and how far the sum of a row may be from one.
_MIN_PRIOR = 1e-3
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, repr=False)
class Knowledge:
    """What a user knows besides labels, of n rows and C classes.

    Attributes
    ----------
    names : array of shape (C, D), optional
        Unit vectors of the names, zero for classes without one.
    prior : array of shape (n, C), optional
        Probabilities, NaN in rows without any.
    shares : array of shape (C,), optional
        Class shares among the queries.
    """

    names: Floats | None = None
    prior: Floats | None = None
    shares: Floats | None = None

    @property
    def of_rows(self) -> bool:
        """Whether something is known of the classes of rows."""
        return self.names is not None or self.prior is not None

    @property
    def key(self) -> tuple[bytes, ...]:
        """The content, for results that are kept by what they depend on; nothing if nothing is known."""
        parts = (self.names, self.prior, self.shares)
        given = any(part is not None for part in parts)
        return tuple(b"" if part is None else part.tobytes() for part in parts) if given else ()

    @property
    def named(self) -> NDArray[np.bool_]:
        """Which classes have a name, (C,)."""
        assert self.names is not None
        found: NDArray[np.bool_] = np.any(self.names != 0, axis=1)
        return found


NOTHING_KNOWN = Knowledge()


def checked_names(names: ArrayLike, n_features: int) -> Floats:
    """Vectors of names (C, D) as unit vectors, or an error that says what is wrong with them."""
    rows = _numbers(names, "names")
    if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] != n_features:
        raise ValueError(
            f"names has shape {rows.shape}, expected (C, {n_features}): a vector per class, as long as X's."
        )
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"names has NaN or infinite entries, first in row {_first(~np.isfinite(rows).all(axis=1))}.")
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if np.any(largest == 0):
        raise ValueError(f"names has a row of zeros, row {_first(largest == 0)}; leave out classes without a name.")
    # Twice: squares of very large or small entries have no length.
    rows = rows / largest
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def checked_prior(prior: ArrayLike, n: int) -> Floats:
    """Probabilities (n, C), NaN in rows without any, or an error that says what is wrong with them."""
    P = _numbers(prior, "prior")
    if P.ndim != 2 or len(P) != n or P.shape[1] < 1:
        raise ValueError(f"prior has shape {P.shape}, expected ({n}, C): a probability per row of X and class.")
    missing = np.isnan(P)
    known = ~missing.any(axis=1)
    if np.any(missing.any(axis=1) & ~missing.all(axis=1)):
        row = _first(missing.any(axis=1) & ~missing.all(axis=1))
        raise ValueError(f"prior is NaN in a part of row {row}; a row has a number for each class, or NaN only.")
    if np.any(P[known] < 0) or np.any(np.isinf(P[known])):
        raise ValueError(f"prior has negative or infinite entries, first in row {_first((P < 0) | np.isinf(P))}.")
    sums = P.sum(axis=1)
    off = known & (np.abs(sums - 1) > _SUM_TOLERANCE)
    if np.any(off):
        raise ValueError(f"prior must have rows that sum to one; row {_first(off)} sums to {sums[off][0]:.4g}.")
    return P / np.where(known, sums, 1.0)[:, None]


def checked_shares(shares: ArrayLike, n_classes: int) -> Floats:
    """Class shares (C,) that sum to one, or an error that says what is wrong with them."""
    u = _numbers(shares, "class_shares")
    if u.shape != (n_classes,):
        raise ValueError(
            f"class_shares has shape {u.shape}, expected ({n_classes},): a share per class, in sorted order."
        )
    if not np.all(np.isfinite(u)) or np.any(u <= 0):
        raise ValueError(f"class_shares must be above 0 and finite, got {u[~(u > 0) | ~np.isfinite(u)][0]:g}.")
    shares_of_one: Floats = u / u.sum()
    return shares_of_one


def _numbers(given: ArrayLike, name: str) -> Floats:
    refuse_masked(given, name)
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}.")
    return array.astype(np.float64)


def _first(where: Any) -> int:
    return int(np.flatnonzero(where.any(axis=1) if where.ndim == 2 else where)[0])


def join_classes(
    found: EncodedLabels, classes: ArrayLike | None, width: int, argument: str
) -> tuple[EncodedLabels, Ints]:
    """Labels of y and of a table with ``width`` classes, as one list of classes; and where the latter are in it.

    ``argument`` is the name of the table: a row of ``names`` or a column of ``prior`` is for each class. Without
    ``classes`` they are those of y, sorted, or 0, 1, 2... if y has no label.
    """
    if classes is None:
        if len(found.classes) not in (0, width):
            raise ValueError(
                f"{argument} is for {width} classes, and y has labels of {len(found.classes)}; say with classes= "
                "which label each of them is for."
            )
        listed: Labels = found.classes if len(found.classes) else np.arange(width)
    else:
        given = encode_labels(classes, argument="classes")
        if len(given.codes) != width:
            shape = given.codes.shape
            raise ValueError(f"classes has shape {shape}, expected ({width},): a label for each of {argument}.")
        if given.codes.min() < 0:
            raise ValueError(f"classes has no label at position {_first(given.codes < 0)}; each class has one.")
        listed = given.classes[given.codes]
        if len(given.classes) < width:
            raise ValueError("classes has a label twice; each class has one.")
    if len(found.classes) and _type_of(found.classes) != _type_of(listed):
        raise TypeError(f"classes has labels such as {listed[0]!r}, and y such as {found.classes[0]!r}; use one type.")
    # In a type that holds both.
    joined = np.unique(np.concatenate([found.classes, listed]) if len(found.classes) else listed)
    position = {label: number for number, label in enumerate(joined.tolist())}
    codes = found.codes
    if len(found.classes):
        # -1 stays, as the last entry.
        codes = np.array([*(position[label] for label in found.classes.tolist()), -1])[found.codes]
    return EncodedLabels(joined, codes), np.array([position[label] for label in listed.tolist()])


def _type_of(labels: Labels) -> str:
    return {"U": "string", "O": "string", "b": "bool"}.get(labels.dtype.kind, "number")


@dataclass(frozen=True, repr=False)
class Hints:
    """What names and another model's scores say of a task; see :func:`read_hints`.

    Attributes
    ----------
    knowledge : Knowledge
    scale : float
        s of the names, times their trust.
    prior_scale : float
        Power of the prior, times its trust.
    trust : (float, float)
        a of the names and of the prior; 1 without labels.
    belief : array of shape (C,)
        How far the name of each class is believed, from 0 (or without a name) to 1.
    hits : ((int, int), (int, int))
        Labels that the names, and the prior, find on their own, and how many there were to find.
    absence : float
        w, from 0 to 1: how surely classes are absent.
    shares : array of shape (C,)
        p.
    log_shares : array of shape (C,)
        ``w log(C p)``.
    responsibilities : array of shape (m, C)
        ``softmax(log z + w log p)`` of the sample; zero in rows of which nothing is known.
    places : array of shape (C, D)
        Where the names are, among the rows before any transform: moved by the gap between names and rows.
    norm : float
        Mean length of the rows.
    moments : (array of shape (D,), float)
        Mean and mean square of the sampled rows before any transform.
    n_labels : int
    some_unlabeled : bool
        Whether some class has no label.
    omega : float
        Weight of ``log z``.
    agreement : float
        Share of the neighbors that have the same first choice.
    faint : float
        Share of the distances that is left out, as neighbors contradict one another.
    """

    knowledge: Knowledge
    scale: float
    prior_scale: float
    trust: tuple[float, float]
    belief: Floats
    hits: tuple[tuple[int, int], tuple[int, int]]
    absence: float
    shares: Floats
    log_shares: Floats
    responsibilities: Floats
    places: Floats
    norm: float
    moments: tuple[Floats, float]
    n_labels: int
    some_unlabeled: bool
    omega: float = _OMEGA
    agreement: float = 1.0
    faint: float = 0.0

    def pull(self, n_query: int) -> Floats:
        """Weight (C,) of each anchor: that of three labels, where every class has one, as far as it is trusted."""
        n_classes = len(self.log_shares)
        weight = _PULL * DefaultConstants.for_task(n_classes, n_query, n_classes).beta
        if self.knowledge.prior is None:
            return weight * self.trust[0] * self.belief
        # A class that the prior gives no row to has no anchor of its own.
        mass = self.responsibilities.sum(axis=0)
        pull: Floats = weight * np.maximum(self.trust[0] * self.belief, self.trust[1] * mass / (1 + mass))
        return pull

    def class_means(self, sample: Floats, places: Floats) -> Floats:
        """Anchors (C, D): means of sampled rows (m, D) by their prior, and of places (C, D) of classes not present."""
        r = self.responsibilities
        mass = r.sum(axis=0)[:, None]
        # A class that has no rows at all is where its name is.
        rows = _NAME_ROWS * self.absence + 1e-6
        means: Floats = (r.T @ sample + rows * places) / (mass + rows)
        return means

    def center(
        self, pooled: Floats, sample: Floats, support: Floats, labels: Ints, transform: Transform = "cl2"
    ) -> Floats:
        """The center (D,) where not every class has a label: from the mean of all rows to that of the anchors.

        As :func:`~laplacianshot.inference.transforms.blended_center`, with anchors in place of class means where no
        label is, and w in place of ``KL(p|u)``.
        """
        sample, support, places = (before_center(rows, transform) for rows in (sample, support, self.places))
        means = self.class_means(sample.astype(np.float64), places)
        for c in np.unique(labels):
            means[c] = support[labels == c].mean(axis=0, dtype=np.float64)
        center: Floats = pooled + self.absence * (means.mean(axis=0) - pooled)
        return center

    def clues(
        self, sample: Floats, n_query: int, transform: Transform, center: Floats | None, constants: DefaultConstants
    ) -> tuple[DefaultConstants, Clues, Hints]:
        """What F takes of them, for transformed rows.

        Parameters
        ----------
        sample : array of shape (m, D)
            Transformed queries, those of :func:`read_hints`.
        n_query : int
            How many there are in all.
        transform : {"none", "l2", "cl2", "power"}
        center : array of shape (D,), for ``cl2`` and ``power``
        constants : DefaultConstants
            Of the whole task.

        Returns
        -------
        constants : DefaultConstants
            With the price eta of a class that is used.
        clues : Clues
        hints : Hints
            With omega.
        """
        agreement = self._agreement(sample)
        omega = min(_MAX_OMEGA, _OMEGA * max(1.0, (_AGREEING / max(agreement, 1e-3)) ** 2))
        faint = min(_MAX_FAINT, max(0.0, 1 - agreement / _AGREEING))
        if not self.some_unlabeled:
            # Labels have been asked how they compare with names; a prior is of the rows themselves.
            faint *= self.trust[1]
        hints = replace(self, omega=omega, agreement=agreement, faint=faint)
        places = transform_features(self.places, transform, center)
        slopes = bias = None
        if self.knowledge.names is not None:
            slopes, bias = self._linear(sample, transform, center, omega)
        shares = _SHARE_WEIGHT * self.log_shares
        clues = Clues(
            slopes=slopes,
            bias=shares if bias is None else bias + shares,
            anchors=self.class_means(sample.astype(np.float64), places),
            pull=self.pull(n_query),
            shares=self.knowledge.shares,
        )
        if math.isfinite(constants.delta):
            # The square: poor names of classes that are all present make shares unequal too, if less.
            constants = constants.with_absent(min(self.absence**2, ABSENCE.most), len(self.shares))
        return constants, clues, hints

    def _agreement(self, sample: Floats) -> float:
        """Share of the edges between sampled rows (m, D) that join rows with the same first choice."""
        known = np.flatnonzero(self.responsibilities.any(axis=1))
        if len(known) < 3:
            return 1.0
        n_classes = self.responsibilities.shape[1]
        k = DefaultConstants.for_task(0, len(known), n_classes).n_neighbors
        edges = knn_affinity(sample[known], k).tocoo()
        first = self.responsibilities[known].argmax(axis=1)
        total = float(edges.data.sum())
        return float(edges.data @ (first[edges.row] == first[edges.col])) / total if total else 1.0

    def _linear(
        self, sample: Floats, transform: Transform, center: Floats | None, omega: float
    ) -> tuple[Floats, Floats]:
        """Slopes v (C, D) and bias (C,) with ``v_c.x' + h_c = omega s cos(x, t_c)``, up to what all classes share.

        Of a transformed row ``x' = (x - center) / |x - center|``, x is ``center + length x'``; the mean length stands
        for all. A class whose name is not believed gets the mean of all others, and is as likely as the mean of them.
        """
        names = self.knowledge.names
        assert names is not None
        scale, belief = self.scale / self.norm, self.belief
        length, middle = self.norm if transform == "l2" else 1.0, np.zeros(names.shape[1])
        if center is not None:
            middle = np.asarray(center, np.float64)
            length = math.sqrt(max(0.0, self._spread_about(middle)))
        slopes, bias = scale * length * names, scale * (names @ middle)
        if np.any(belief < 1):
            logits = sample @ slopes.T.astype(sample.dtype) + bias
            share = belief / max(belief.sum(), 1e-12)
            ahead = float((_mean_logit(logits, belief) - logits @ share).mean())
            slopes = belief[:, None] * slopes + (1 - belief)[:, None] * (share @ slopes)
            bias = belief * bias + (1 - belief) * (share @ bias + ahead)
        return omega * slopes, omega * (bias - bias.mean())

    def _spread_about(self, center: Floats) -> float:
        """``mean_q |x_q - center|^2`` of the sampled rows before any transform."""
        mean, square = self.moments
        return float(square - 2 * mean @ center + center @ center)

    @property
    def worth(self) -> Knowledge:
        """The knowledge without what the labels refute: a task is then solved as if it had not been given.

        Only where every class has a label; else names and prior are all that some classes have.
        """
        if self.some_unlabeled:
            return self.knowledge
        names, prior = (trust >= _MIN_TRUST for trust in self.trust)
        return replace(
            self.knowledge,
            names=self.knowledge.names if names else None,
            prior=self.knowledge.prior if prior else None,
        )

    def left_out(self) -> list[str]:
        """What is not :attr:`worth` anything and why, in a sentence each."""
        given, kept = self.knowledge, self.worth
        pairs = (("Names", given.names, kept.names), ("Prior", given.prior, kept.prior))
        return [
            f"{what}: left out, as labels are explained as well without; {found} of {asked} are found that way alone."
            for (what, before, after), (found, asked) in zip(pairs, self.hits, strict=True)
            if before is not None and after is None
        ]

    def report(self) -> list[str]:
        """What names and prior counted for, in a few sentences."""
        lines = []
        if self.knowledge.names is not None:
            named = np.count_nonzero(self.knowledge.named)
            lines.append(_counts(f"Names of {named} classes", self.trust[0], self.hits[0]))
        if self.knowledge.prior is not None:
            lines.append(_counts("Prior", self.trust[1], self.hits[1]))
        if self.omega > _OMEGA:
            times = f"{self.omega / _OMEGA:.1f} times"
            lines.append(f"Only {self.agreement:.0%} of neighbors agree by them, so they weigh {times} as much.")
        if self.absence > _SURELY:
            present = math.exp(-divergence(self.shares))
            lines.append(f"By them about {present:.0%} of the classes are present among the unlabeled rows.")
        return lines

    def row_logits(self, rows: Ints) -> Floats | None:
        """``omega log P`` (m, C) of these rows of X, zero where nothing is known; None without a prior."""
        if self.knowledge.prior is None:
            return None
        weight = np.float32(self.omega * self.prior_scale)
        return weight * _log_prior(self.knowledge.prior[rows]).astype(np.float32)


def _counts(what: str, trust: float, hits: tuple[int, int]) -> str:
    """What one of them counts, and why."""
    found, asked = hits
    if not asked:
        return f"{what}: counted in full, as no label speaks for or against."
    return f"{what}: counted {trust:.0%}, as {found} of {asked} labels are found that way alone."


def read_hints(
    knowledge: Knowledge,
    sample: Floats,
    sampled: Ints,
    support: Floats,
    labeled: Ints,
    labels: Ints,
    n_classes: int,
) -> Hints:
    """What names and a prior say of a task.

    Parameters
    ----------
    knowledge : Knowledge
        With names or a prior.
    sample : array of shape (m, D)
        Queries at :func:`~laplacianshot.inference.clues.sample_rows`, before any transform.
    sampled : int array of shape (m,)
        Which rows of X these are.
    support : array of shape (n_s, D)
        Labeled rows before any transform.
    labeled : int array of shape (n_s,)
        Which rows of X these are.
    labels : int array of shape (n_s,)
        Their classes.
    n_classes : int
    """
    logs, trusted = np.zeros((2, len(sample), n_classes))
    known = np.zeros(len(sample), bool)
    scale = prior_scale = covered = 0.0
    # Of what they say by themselves, and beside what labels say.
    alone, trust, hits = [0.0, 0.0], [0.0, 0.0], [(0, 0), (0, 0)]
    belief: Floats = np.zeros(n_classes) if knowledge.names is None else knowledge.named.astype(np.float64)
    rows = np.asarray(sample, np.float64)
    norm = float(np.linalg.norm(rows, axis=1).mean()) if len(rows) else 1.0
    norm = norm if norm > 0 else 1.0
    if knowledge.names is not None:
        named = knowledge.named
        cosines, of_labels = (_cosines(np.asarray(X, np.float64), knowledge.names) for X in (rows, support))
        scale = confident_scale(cosines[:, named]) if len(rows) and named.sum() > 1 else 1.0
        found = np.where(named, of_labels, -np.inf).argmax(axis=1)
        hits[0] = int(np.count_nonzero(found == labels)), int(np.count_nonzero(named[labels]))
        of_labels = _of_all(scale * of_labels, belief)
        # Of all names: those that are believed were chosen by the same labels.
        alone[0] = trust_of(of_labels, labels, _of_all(scale * cosines, belief))
        trust[0] = trust_beside(alone[0], of_labels, labels, support, n_classes)
        belief = believed(of_labels, labels, belief)
        logs += _of_all(scale * cosines, belief)
        trusted += trust[0] * logs
        scale *= trust[0]
        known[:] = True
    if knowledge.prior is not None:
        given, of_labels = _log_prior(knowledge.prior[sampled]), _log_prior(knowledge.prior[labeled])
        scored: Any = given.any(axis=1)
        asked = np.flatnonzero(of_labels.any(axis=1))
        prior_scale = min(_MAX_SHARPENING, confident_scale(given[scored])) if scored.any() else 1.0
        if scored.any():
            said = prior_scale * of_labels[asked]
            alone[1] = trust_of(said, labels[asked], prior_scale * given[scored])
            trust[1] = trust_beside(alone[1], said, labels[asked], support[asked], n_classes)
        hits[1] = int(np.count_nonzero(of_labels[asked].argmax(axis=1) == labels[asked])), len(asked)
        logs += prior_scale * given
        prior_scale *= trust[1]
        trusted += prior_scale * given
        known |= scored
        covered = float(scored.mean()) if len(scored) else 0.0
    some_unlabeled = len(np.unique(labels)) < n_classes
    if not some_unlabeled and len(rows):
        own = _label_logits(rows, np.asarray(support, np.float64), labels, n_classes)
        logs += own
        trusted += own
    # Shares that are learned from hardly any evidence run away: from all of it, and trusted less.
    # Nobody can say who is absent among classes that have no name or a wrong one, or from a part of the rows.
    by_names, by_prior = (min(pair) for pair in zip(alone, trust, strict=True))
    sure = max(by_names * float(belief.min()), by_prior * max(0.0, 2 * covered - 1))
    absence, log_shares, shares = _presence(log_softmax(logs[known], axis=1), sure, n_classes)
    responsibilities = np.exp(log_softmax(trusted + log_shares, axis=1)) * known[:, None]
    mean = rows.mean(axis=0) if len(rows) else np.zeros(sample.shape[1])
    places = np.tile(mean, (n_classes, 1))
    if knowledge.names is not None:
        near = norm * knowledge.names
        weights = shares * knowledge.named
        places = np.where(knowledge.named[:, None], near + mean - weights @ near / max(weights.sum(), 1e-12), mean)
    square = float(np.einsum("nd,nd->n", rows, rows).mean()) if len(rows) else 0.0
    return Hints(
        knowledge, scale, prior_scale, (trust[0], trust[1]), belief, (hits[0], hits[1]), absence, shares, log_shares,
        responsibilities, places, norm, (mean, square), len(labels), some_unlabeled,
    )  # fmt: skip


def informed(
    support: Floats,
    labels: Ints,
    sample: Floats,
    origin: Floats,
    n_query: int,
    n_classes: int,
    constants: DefaultConstants,
    *,
    knowledge: Knowledge,
    hints: Hints | None,
    transform: Transform,
    center: Floats | None,
    table: bool = False,
    along: bool = True,
    shift: Floats | None = None,
) -> tuple[DefaultConstants, Clues, Answers]:
    """:func:`~laplacianshot.inference.clues.gather_clues` with what the user knows besides labels.

    Where some classes have no label, names and prior are all that is asked. Transformed rows may have moved by
    ``-shift`` (D,).
    """
    known = Clues(shares=knowledge.shares)
    if hints is not None:
        moved = sample if shift is None else sample + shift
        constants, known, hints = hints.clues(moved, n_query, transform, center, constants)
        known = known if shift is None else known.moved(-shift)
        if hints.some_unlabeled:
            return constants, replace(known, weight=hints.faint), Answers(hints=hints, known=known)
    constants, clues, answers = gather_clues(
        support, labels, sample, origin, n_query, n_classes, constants, table=table, along=along, known=known
    )
    if hints is not None and hints.faint > 0:
        clues = _fainter(clues, known, hints.faint)
    return constants, clues, replace(answers, hints=hints)


def _fainter(clues: Clues, known: Clues, faint: float) -> Clues:
    """The clues with a share ``faint`` taken from all that labels and distances say; what is known stays."""
    slopes, bias = clues.slopes, clues.bias
    if slopes is not None:
        slopes = (1 - faint) * slopes if known.slopes is None else slopes - faint * (slopes - known.slopes)
    if bias is not None:
        bias = (1 - faint) * bias if known.bias is None else bias - faint * (bias - known.bias)
    weight = 1 - (1 - faint) * (1 - clues.weight)
    return replace(clues, weight=weight, slopes=slopes, bias=bias, along=(1 - faint) * clues.along)


def trust_of(of_labels: Floats, labels: Ints, of_rows: Floats) -> float:
    """How far logits are to be trusted, from 0 to 1: the power a at which they explain labels best.

    a is where this is largest, for the logits l of labeled rows (n_s, C) and of others (m, C)::

        L(a) = sum_i log softmax(a l_i)_{y_i} + 2 mean_q softmax(l_q).log softmax(a l_q)

    The second part stands for two labels that agree: before any label speaks against them, logits are taken at their
    word. What explains labels hardly better than chance counts less: ``a (1 - exp(L(0) - L(a)))``.
    """
    if len(labels) == 0:
        return 1.0
    own = np.exp(log_softmax(of_rows, axis=1))
    at = np.arange(len(labels))

    def cost(a: float) -> float:
        value = -float(log_softmax(a * of_labels, axis=1)[at, labels].sum())
        if len(own):
            value -= _FREE_LABELS * float((own * log_softmax(a * of_rows, axis=1)).sum(axis=1).mean())
        return value

    best = minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3})
    return float(best.x * -math.expm1(min(0.0, best.fun - cost(0.0))))


def trust_beside(alone: float, of_labels: Floats, labels: Ints, support: Floats, n_classes: int) -> float:
    """How far logits are to be trusted beside what labels themselves say, from 0 to 1.

    From two labels per class on, each labeled row i (n_s, D) is held back in turn. With o_i the logits of cosines to
    the class means of the others, and l_i those of the names (n_s, C), the powers a and b are where this is largest::

        L(a, b) = sum_i log softmax(a l_i + b o_i)_{y_i}

    Prototypes of labels have b = 1, so the names have a/b, at most 1; what hardly adds to the labels counts less, by
    ``1 - exp(max_b L(0, b) - L(a, b))``. With fewer labels, or if they are hardly trusted ``alone``, it stays at that.
    """
    counts = np.bincount(labels, minlength=n_classes)
    if alone < _MIN_TRUST or counts.min() < 2:
        return alone
    own = _left_out_logits(np.asarray(support, np.float64), labels, counts)
    some = np.random.default_rng(0).permutation(len(labels))[:_MAX_HELD]
    both, at, held = np.stack([of_labels[some], own[some]]), np.arange(len(some)), labels[some]

    def cost(powers: Floats) -> tuple[float, Floats]:
        logs = log_softmax(np.tensordot(powers, both, axes=1), axis=1)
        slopes = np.einsum("nc,knc->k", np.exp(logs), both) - both[:, at, held].sum(axis=1)
        return -float(logs[at, held].sum()), slopes

    limits = {"jac": True, "method": "L-BFGS-B"}
    best = minimize(cost, [0.5, 0.5], bounds=[(0.0, _MAX_POWER), (_MIN_POWER, _MAX_POWER)], **limits)
    without = minimize(cost, [0.0, 0.5], bounds=[(0.0, 0.0), (_MIN_POWER, _MAX_POWER)], **limits)
    a, b = best.x
    return float(min(1.0, a / b) * -math.expm1(min(0.0, best.fun - without.fun)))


def _left_out_logits(support: Floats, labels: Ints, counts: Ints) -> Floats:
    """Logits (n_s, C) of labeled rows by cosines to the class means (C, D), of the own class without the row."""
    means = class_means(support, labels, len(counts))
    middle = means.mean(axis=0)
    rows, toward = _unit(support - middle), means - middle
    logits: Floats = rows @ _unit(toward).T
    n_own = counts[labels][:, None]
    others = (n_own * toward[labels] - (support - middle)) / (n_own - 1)
    logits[np.arange(len(labels)), labels] = np.einsum("nd,nd->n", rows, _unit(others))
    return confident_scale(logits) * logits


def learned_shares(logs: Floats) -> Floats:
    """Class shares p (C,) that explain ``3 log z`` (m, C) best, by expectation maximization from equal ones."""
    n_classes = logs.shape[1]
    sharp = np.exp(_SHARPNESS * (logs - logs.max(axis=1, keepdims=True)))
    p: Floats = np.full(n_classes, 1 / n_classes)
    for _ in range(_SHARE_ROUNDS):
        # p (sharp / (sharp p)): the mean of r, with two products.
        p = p * (sharp.T @ (1 / np.maximum(sharp @ p, 1e-300))) / len(sharp)
    shares: Floats = p / p.sum()
    return shares


def _presence(logs: Floats, trust: float, n_classes: int) -> tuple[float, Floats, Floats]:
    """w, ``w log(C p)`` (C,) and the shares p (C,) learned from ``log z`` (m, C)."""
    if len(logs) == 0:
        return 0.0, np.zeros(n_classes), np.full(n_classes, 1 / n_classes)
    p = learned_shares(logs)
    # By chance shares of m rows differ from equal ones by (C - 1) / 2m.
    excess = max(0.0, divergence(p) - (n_classes - 1) / (2 * len(logs)))
    w = -trust * math.expm1(-((excess / _ABSENT_SCALE) ** 2))
    return w, w * np.maximum(np.log(np.maximum(n_classes * p, 1e-300)), _MIN_LOG_SHARE), p


def _label_logits(rows: Floats, support: Floats, labels: Ints, n_classes: int) -> Floats:
    """What labels say of rows (m, D) where every class has k or more: logits (m, C) of the cosines to class means.

    About the mean of the class means, as confident as the recipe wants and times ``k / (k + 1)``: a class with a wrong
    name is present if its labels are near.
    """
    means = class_means(support, labels, n_classes)
    middle = means.mean(axis=0)
    toward = means - middle
    cosines = _cosines(rows - middle, _unit(toward))
    per_class = len(labels) / n_classes
    return per_class / (per_class + 1) * confident_scale(cosines) * cosines


def _cosines(rows: Floats, names: Floats) -> Floats:
    cosines: Floats = _unit(rows) @ names.T
    return cosines


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Floats = rows / np.where(lengths > 0, lengths, 1.0)
    return found


def believed(logits: Floats, labels: Ints, belief: Floats) -> Floats:
    """How far the name of each class is believed, (C,), given that of classes without labels.

    ``min(1, exp(2 + sum_i log(C z_ic)))`` over the labeled rows (n_s, C) of class c: nobody answers to a wrong name.
    """
    n_classes = logits.shape[1]
    evidence = log_softmax(logits, axis=1)[np.arange(len(labels)), labels] + math.log(n_classes)
    total = np.bincount(labels, evidence, n_classes)
    found: Floats = belief * np.exp(np.minimum(0.0, _DOUBT + total))
    return found


def _of_all(logits: Floats, belief: Floats) -> Floats:
    """Logits (m, C) where a class whose name is not believed is as likely as the mean of those whose is."""
    if np.all(belief == 1) or not belief.any() or len(logits) == 0:
        return logits
    mixed: Floats = belief * logits + (1 - belief) * _mean_logit(logits, belief)[:, None]
    return mixed


def _mean_logit(logits: Floats, belief: Floats) -> Floats:
    """``log(sum_c b_c exp(l_c) / sum_c b_c)`` of each row (m, C)."""
    total = max(float(belief.sum()), 1e-12)
    found: Floats = logsumexp(logits, axis=1, b=np.maximum(belief / total, 1e-300))
    return found


def _log_prior(prior: Floats) -> Floats:
    """``log P`` (m, C) of probabilities, 0 in rows of NaN."""
    logs: Floats = np.log(np.maximum(np.nan_to_num(prior, nan=1.0), _MIN_PRIOR))
    return logs
