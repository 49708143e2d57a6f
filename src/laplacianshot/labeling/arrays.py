"""Label the rows of an array or of a table in memory."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot import __version__
from laplacianshot.datasets.feature_set import checked_features
from laplacianshot.inference.labels import encode_labels
from laplacianshot.inference.priors import checked_names, checked_prior, join_classes
from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.labeling.disputes import doubt_of_labels
from laplacianshot.labeling.errors import LabelingError, one_line
from laplacianshot.labeling.model import LabelModel
from laplacianshot.labeling.result import ARRAYS, GIVEN, PREDICTED, REJECTED, UNLABELED, LabelResult, Stage
from laplacianshot.runtime.arrays import check_length
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.types import Floats, Transform


def label(
    X: Any,
    y: Any = None,
    *,
    names: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    class_shares: ArrayLike | Literal["equal"] | None = None,
    balanced: bool = False,
    suggest: int = 0,
    reject: float = 0.0,
    base_mean: ArrayLike | None = None,
    graph: Any = "auto",
    memory: float | str | None = None,
    transform: Transform | Literal["auto"] = "auto",
    watch: Watch | None = None,
) -> LabelResult:
    """Label all rows from the few that have a label, with calibrated confidence.

    The labels are those of :class:`~laplacianshot.LaplacianShot`. The result says how likely each is to be right, which
    given labels look wrong, which rows fit no class, which to label next, and has a model for new rows.

    Parameters
    ----------
    X : array or DataFrame of shape (n, D)
        Numbers, one vector per row. The index of a DataFrame gives the ids of the result; otherwise rows are numbered.
    y : array, Series or name of a column, of shape (n,), optional
        A label or, for unlabeled rows, -1 (numbers), None, NaN or "" (strings). A string names a column of X. None: no
        label at all, for ``names``, ``prior`` or first suggestions.
    names, classes, prior
        What else is known of the classes; see :meth:`LaplacianShot.fit <laplacianshot.LaplacianShot.fit>`.
    class_shares, balanced, base_mean, graph, memory, transform
        As of :class:`~laplacianshot.LaplacianShot`.
    suggest : int
        Number of rows to suggest for labeling next.
    reject : float
        Share of the unlabeled rows to leave without a label: those with the highest novelty.
    watch : callable, optional
        ``watch(stage)`` is called when a stage starts and returns a callback ``progress(done, total)``.

    Returns
    -------
    LabelResult
        Its probabilities and confidence are calibrated. ``to_frame()`` makes a DataFrame; ``model`` labels new rows.

    Raises
    ------
    LabelingError
        The input cannot be labeled; the message says why and what to do.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from laplacianshot import label
    >>> X, digits = load_digits(return_X_y=True)
    >>> y = digits.copy()
    >>> y[50:] = -1
    >>> result = label(X, y, suggest=5)
    >>> result
    LabelResult(1797 items, 10 classes: 50 given, 1747 predicted)
    >>> result.labels[:3], result.ids[:3]
    ((0, 1, 2), (0, 1, 2))
    """
    start = time.perf_counter()
    features, ids, labels = _table(X, y)
    options = LabelOptions(balanced, suggest, reject, base_mean, graph, memory, transform, class_shares=class_shares)
    known = names is not None or prior is not None
    with one_line():
        labels = np.full(len(features), -1) if labels is None else labels
        check_length(features, labels)
        encoded = encode_labels(labels, need_labels=False)
        if classes is not None and not known:
            raise LabelingError("classes says what the rows of names or columns of prior are for; give one of them.")
        if names is not None:
            vectors = checked_names(names, features.shape[1])
            encoded, places = join_classes(encoded, classes, len(vectors), "names")
            options = replace(options, names=vectors, named=places)
        if prior is not None:
            scores = checked_prior(prior, len(features))
            encoded, columns = join_classes(encoded, classes, scores.shape[1], "prior")
            if len(encoded.classes) > scores.shape[1]:
                raise LabelingError("prior has no column for some class of y or names; give one for every class.")
            options = replace(options, prior=scores[:, np.argsort(columns)])
            if options.names is not None:
                options = replace(options, names=options.names[np.argsort(places)])
    codes, n_classes = encoded.codes, len(encoded.classes)
    if not (codes >= 0).any() and not known and not suggest:
        raise LabelingError(
            "y has no labeled row; give some labels, names or prior, or ask for suggestions (suggest=10)."
        )
    if n_classes == 1:
        raise LabelingError(f"y has labels of one class only ({encoded.classes[0]}); label a row of a second class.")
    with one_line():
        found = label_vectors(features, codes, n_classes, options, watch=watch)
    labeled = tuple(encoded.classes.tolist())
    origins = np.where(codes >= 0, GIVEN, UNLABELED if found.model is None else PREDICTED)
    origins[found.rejected] = REJECTED
    model = LabelModel.of_labels(found, codes, labeled, "vectors", None)
    doubt = ""
    if found.model is not None:
        doubt = doubt_of_labels(found.probabilities, codes, found.model.solution_.answers)
    return LabelResult(
        ids=ids,
        classes=labeled,
        origins=tuple(origins.tolist()),
        **{name: getattr(found, name) for name in ARRAYS},
        notes=(doubt,) if doubt else (),
        objective=np.zeros(0) if found.model is None else found.model.objective_,
        converged=found.model is None or found.model.converged_,
        stages=(Stage("Labels", time.perf_counter() - start),),
        settings={
            "kind": "vectors",
            "balanced": balanced,
            "suggest": suggest,
            "reject": reject,
            "version": __version__,
        },
        rows=np.arange(len(features)),
        vectors=features,
        affinity=None if found.model is None else found.model.affinity_,
        center=None if found.model is None else found.model.center_,
        model=model,
    )


def _table(X: Any, y: Any) -> tuple[Floats, tuple[Any, ...], Any]:
    """Return rows (n, D), the id of each, and the labels."""
    if not hasattr(X, "columns"):
        if isinstance(y, str):
            raise LabelingError(f"y is {y!r}, which names a column, and X is not a DataFrame; give an array of labels.")
        with one_line("X"):
            features = checked_features(X)
        return features, tuple(range(len(features))), y
    if isinstance(y, str):
        if y not in X.columns:
            raise LabelingError(f"y is {y!r}, and X has no such column.")
        y, X = X[y], X.drop(columns=y)
    texts = [str(name) for name, kind in X.dtypes.items() if kind.kind not in "iufb"]
    if texts:
        raise LabelingError(
            f"X has columns without numbers, such as {texts[0]!r}; leave them out, or label texts with label_source."
        )
    with one_line("X"):
        features = checked_features(X.to_numpy(dtype=np.result_type(*X.dtypes, np.float32)))
    if not X.index.is_unique:
        raise LabelingError("X has an index with equal entries; call X.reset_index(drop=True).")
    return features, tuple(X.index.tolist()), y
