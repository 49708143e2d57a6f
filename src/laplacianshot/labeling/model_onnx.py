"""The compact form of a model as an ONNX file: vectors in, calibrated probabilities out.

Node by node the formulas of :class:`~laplacianshot.labeling.classifier.Classifier`; a test compares the two to 1e-4.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot import __version__
from laplacianshot.embedding.encoders.onnx_graph import OnnxGraph
from laplacianshot.inference.transforms import MAX_STANDARD
from laplacianshot.labeling.calibration import MAX_CONFIDENCE, REST_POWER
from laplacianshot.labeling.classifier import Classifier, ConfidenceRule, CoreSearch
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.evidence import MAX_ODDS, MIN_ASSIGNMENT, MIN_SHARE
from laplacianshot.labeling.model import LabelModel
from laplacianshot.runtime.files import put_file
from laplacianshot.runtime.types import Floats

# Far below every logit, and finite.
_NEVER = -1e30


def write_onnx(model: LabelModel, path: Path) -> None:
    """Write a compact model; its classes, encoder and versions are in the metadata of the file."""
    if not path.parent.is_dir():
        raise LabelingError(f"{path}: there is no folder {path.parent}; make it first.")
    encoder = {} if model.encoder is None else {"encoder": model.encoder.name, "encoder_key": model.encoder.key}
    facts = {"classes": json.dumps(list(model.classes)), "kind": model.kind, "laplacianshot": __version__, **encoder}
    content = onnx_bytes(model.classifier, facts)
    put_file(path, lambda file: file.write(content), private=True)


def onnx_bytes(classifier: Classifier, facts: dict[str, str]) -> bytes:
    """Return the content of the file: ``vectors`` float32 (m, D) to ``probabilities`` float32 (m, C)."""
    rule, search = classifier.rule, classifier.rule.search
    if not isinstance(search, CoreSearch):
        raise LabelingError("only the compact form of a model is written as ONNX; call compact() first.")
    graph = _Formulas("laplacianshot")
    rows = graph.transformed(classifier)
    prototypes = graph.distances(rows, rule.prototypes)
    logits = graph.node("Mul", prototypes, graph.number(-rule.tau))
    logits = graph.node("Add", logits, graph.constant(rule.bias.astype(np.float64), wide=True))
    if rule.lam > 0 and rule.n_neighbors > 0:
        votes = graph.votes(rows, search, rule.assignments.toarray(), rule.n_neighbors)
        logits = graph.node("Add", logits, graph.node("Mul", votes, graph.number(rule.lam)))
    # As the rule returns them.
    assignments = graph.cast(graph.node("Softmax", logits, axis=-1), "FLOAT")
    probabilities = graph.calibrated(rows, assignments, classifier.confidence)
    width, n_classes = classifier.n_features, len(rule.prototypes)
    return graph.to_bytes(
        ("vectors", "FLOAT", ("batch", width)),
        (probabilities, ("batch", n_classes)),
        output="probabilities",
        facts=facts,
    )


class _Formulas(OnnxGraph):
    """The formulas of a classifier as nodes; logits and what follows from them in float64, as in numpy."""

    def number(self, value: float) -> str:
        """A float64 number."""
        return self.constant(np.float64(value), wide=True)

    def transformed(self, classifier: Classifier) -> str:
        """As :func:`~laplacianshot.inference.transforms.transform_features`."""
        x, transform = "vectors", classifier.transform
        if transform == "power":
            root = self.node("Sqrt", self.node("Abs", x))
            x = self._unit(self.node("Mul", self.node("Sign", x), root), 0.0)
        negligible = 0.0
        if classifier.center is not None:
            x = self.node("Sub", x, self.constant(classifier.center.astype(np.float64)))
            negligible = 8 * float(np.finfo(np.float32).eps) * float(np.linalg.norm(classifier.center))
        if classifier.scale is not None:
            x = self.node("Mul", x, self.constant(classifier.scale.astype(np.float64)))
            return self.node(
                "Clip", x, self.constant(np.float64(-MAX_STANDARD)), self.constant(np.float64(MAX_STANDARD))
            )
        return x if transform == "none" else self._unit(x, negligible)

    def _unit(self, x: str, negligible: float) -> str:
        """Rows divided by their norms; those of a norm up to ``negligible`` become zero."""
        norms = self.node("ReduceL2", x, axes=[-1], keepdims=1)
        known = self.node("Greater", norms, self.constant(np.float64(negligible)))
        divided = self.node("Div", x, self.node("Where", known, norms, self.constant(np.float64(1))))
        return self.node("Where", known, divided, self.constant(np.float64(0)))

    def distances(self, rows: str, prototypes: Floats) -> str:
        """``|x - m_c|^2`` (m, C), about the mean of the prototypes, where little cancels."""
        middle = prototypes.mean(axis=0)
        near = (prototypes - middle).astype(np.float64)
        moved = self.cast(self.node("Sub", rows, self.constant(middle.astype(np.float64))), "DOUBLE")
        products = self.node("MatMul", moved, self.constant(-2 * near.T, wide=True))
        own = self.node("ReduceSumSquare", moved, axes=[-1], keepdims=1)
        squares = self.constant(np.einsum("cd,cd->c", near, near), wide=True)
        return self.node("Add", self.node("Add", products, squares), own)

    def votes(self, rows: str, search: CoreSearch, votes: Floats, k: int) -> str:
        """The sum of the votes (m, C) of the nearest core rows."""
        x = rows
        if search.directions is not None and search.origin is not None:
            x = self.node("Sub", x, self.constant(search.origin))
            x = self.node("MatMul", x, self.constant(search.directions))
            x = self.node("Div", x, self.constant(np.float64(search.scale)))
        x = self.cast(x, "DOUBLE")
        core = search.own.astype(np.float64)
        # |p|^2 - 2 x.p orders the core rows as distances do. Bytes are kept as such in the file.
        points = (
            self.cast(self.constant(search.rows), "DOUBLE")
            if search.rows.dtype == np.int8
            else self.constant(core, wide=True)
        )
        products = self.node("MatMul", x, self.node("Transpose", points, perm=[1, 0]))
        doubled = self.node("Mul", products, self.number(-2.0))
        squares = self.node("Add", doubled, self.constant(np.einsum("nd,nd->n", core, core), wide=True))
        _, near = self.nodes("TopK", 2, squares, self.constant(np.array([k])), axis=-1, largest=0, sorted=1)
        taken = self.node("Gather", self.constant(votes.astype(np.float32)), near, axis=0)
        summed = self.node("ReduceSum", taken, self.constant(np.array([1])), keepdims=0)
        return self.cast(summed, "DOUBLE")

    def calibrated(self, rows: str, assignments: str, rule: ConfidenceRule) -> str:
        """As :class:`~laplacianshot.labeling.classifier.ConfidenceRule`."""
        n_classes = len(rule.first)
        wide = self.cast(assignments, "DOUBLE")
        # One at the label, the first of the largest entries, and zero elsewhere.
        label = self.node("ArgMax", assignments, axis=-1, keepdims=1, select_last_index=0)
        is_label = self.node("Equal", label, self.constant(np.arange(n_classes)))
        logits = self.node("Log", self.node("Max", wide, self.number(MIN_ASSIGNMENT)))
        a = self._signed_log(self._odds(logits, is_label))
        of_first = self.node("Mul", self.distances(rows, rule.first), self.number(-rule.tau))
        f = self._signed_log(self._odds(of_first, is_label))
        shares = np.log(np.maximum(rule.task.shares * n_classes, MIN_SHARE))
        own = self._sum(self._where(is_label, self.constant(shares, wide=True), 0.0))
        columns: list[Any] = [a, f, self.node("Mul", a, a), self.node("Mul", f, f), self.node("Mul", a, f), own]
        z = self.number(rule.intercept + rule.shift)
        for (weight, low, high), column in zip(rule.weights.values(), [*columns, *rule.task.shared], strict=True):
            if isinstance(column, str):
                clipped = self.node("Min", self.node("Max", column, self.number(low)), self.number(high))
                z = self.node("Add", z, self.node("Mul", clipped, self.number(weight)))
            else:
                z = self.node("Add", z, self.number(weight * min(max(column, low), high)))
        powers = self.node(
            "Pow", self.node("Max", wide, self.number(float(np.finfo(np.float32).tiny))), self.number(REST_POWER)
        )
        others = self._where(is_label, self.number(0.0), powers)
        others = self.node("Div", others, self._sum(others))
        best = self.node("ReduceMax", others, axes=[-1], keepdims=1)
        least = self.node("Div", self.node("Add", best, self.number(1e-6)), self.node("Add", best, self.number(1.0)))
        sure = self.node(
            "Div", self.number(1.0), self.node("Add", self.node("Exp", self.node("Neg", z)), self.number(1.0))
        )
        sure = self.node("Min", self.node("Max", sure, least), self.number(MAX_CONFIDENCE))
        rest = self.node("Mul", others, self.node("Sub", self.number(1.0), sure))
        return self.cast(self.node("Where", is_label, sure, rest), "FLOAT")

    def _odds(self, logits: str, is_label: str) -> str:
        """``log p_c / (1 - p_c)`` at the label, (m, 1), clipped."""
        own = self._sum(self._where(is_label, logits, 0.0))
        rest = self.node("Where", is_label, self.number(_NEVER), logits)
        top = self.node("ReduceMax", rest, axes=[-1], keepdims=1)
        others = self.node("Log", self._sum(self.node("Exp", self.node("Sub", rest, top))))
        found = self.node("Sub", self.node("Sub", own, top), others)
        return self.node("Min", self.node("Max", found, self.number(-MAX_ODDS)), self.number(MAX_ODDS))

    def _signed_log(self, x: str) -> str:
        logs = self.node("Log", self.node("Add", self.node("Abs", x), self.number(1.0)))
        return self.node("Mul", self.node("Sign", x), logs)

    def _sum(self, x: str) -> str:
        return self.node("ReduceSum", x, self.constant(np.array([-1])), keepdims=1)

    def _where(self, mask: str, yes: str, no: Any) -> str:
        return self.node("Where", mask, yes, no if isinstance(no, str) else self.number(no))
