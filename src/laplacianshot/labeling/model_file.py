"""The file of a model: a zip of ``model.json`` and ``arrays.safetensors``, both stored without compression.

Whatever a file holds, reading it runs no code, and takes no more memory than a few times its size.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
import scipy.sparse as sp

from laplacianshot import __version__
from laplacianshot.inference.induction import InductiveRule
from laplacianshot.labeling.classifier import Classifier, ConfidenceRule, CoreSearch, Nearness
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.evidence import COLUMNS, TaskEvidence
from laplacianshot.labeling.model import EncoderFacts, LabelModel
from laplacianshot.labeling.sources import Kind
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import open_input, put_file
from laplacianshot.runtime.types import Transform

# Raised by one when a file could not be read by a version that is out.
VERSION = 1
FORMAT = "laplacianshot model"
_FACTS, _ARRAYS = "model.json", "arrays.safetensors"
# Bytes of the facts, which name the classes; the arrays are as large as the file says, and it is read whole.
_MAX_FACTS = 64 << 20
_MAX_FILE = 16 << 30
# The earliest time that a zip can hold: the same model gives the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def write_model(model: LabelModel, path: Path) -> None:
    """Write a model, in the form that it has."""
    if not path.parent.is_dir():
        raise LabelingError(f"{path}: there is no folder {path.parent}; make it first.")
    facts, arrays = _taken_apart(model)
    content = require("safetensors.numpy", "label").save(arrays)
    facts["arrays"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    text = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in ((_FACTS, text), (_ARRAYS, content)):
                info = zipfile.ZipInfo(name, _TIME)
                info.external_attr = 0o600 << 16
                archive.writestr(info, data)

    put_file(path, write, private=True)


def _taken_apart(model: LabelModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what JSON holds of a model, and its arrays."""
    classifier = model.classifier.complete()
    rule, confidence, nearness = classifier.rule, classifier.confidence, classifier.nearness
    assert nearness is not None
    search = nearness.search
    arrays: dict[str, Any] = {
        "center": classifier.center,
        "scale": classifier.scale,
        "prototypes": rule.prototypes,
        "bias": rule.bias,
        "shift": rule.shift,
        "first": confidence.first,
        "shares": confidence.task.shares,
        "core.rows": search.rows,
        "core.directions": search.directions,
        "core.origin": search.origin,
        "core.novelty": nearness.novelties,
        "core.limits": nearness.limits,
    }
    if sp.issparse(rule.assignments):
        votes = rule.assignments
        arrays["votes.values"] = votes.data.astype(np.float16) if classifier.is_compact else votes.data
        arrays |= {"votes.classes": votes.indices.astype(np.int32), "votes.ends": votes.indptr.astype(np.int64)}
    else:
        arrays["votes"] = rule.assignments
    if not classifier.is_compact:
        # Blocks of large sets are formed here, all of them.
        arrays |= {"rows": np.asarray(rule.points[:]), "weights": rule.weights}
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "form": "compact" if classifier.is_compact else "full",
        "kind": model.kind,
        "encoder": None if model.encoder is None else asdict(model.encoder),
        "classes": list(model.classes),
        "facts": {"laplacianshot": __version__, "python": platform.python_version(), "numpy": np.__version__}
        | dict(model.facts),
        "transform": classifier.transform,
        "rule": {"lam": float(rule.lam), "tau": float(rule.tau), "n_neighbors": int(rule.n_neighbors)},
        "confidence": {
            "weights": {name: list(values) for name, values in confidence.weights.items()},
            "intercept": float(confidence.intercept),
            "shift": float(confidence.shift),
            "shared": [float(value) for value in confidence.task.shared],
            "tau": float(confidence.tau),
        },
        "core": {"scale": float(search.scale)},
    }
    return facts, {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}


class _Unreadable(Exception):
    """Why a file is not a model that can be used."""


def read_model(path: Path) -> LabelModel:
    """Read a model; LabelingError, in one line, if the file is not one or cannot be trusted."""
    try:
        with open_input(path) as file:
            facts, content = _read_members(file)
        return _put_together(facts, content)
    except FileNotFoundError as error:
        raise LabelingError(f"{path}: file not found; laplacianshot label SOURCE --save {path} writes one.") from error
    except OSError as error:
        raise LabelingError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (_Unreadable, LabelingError) as error:
        raise LabelingError(f"{path}: {error}") from error
    except (MemoryError, ModuleNotFoundError):
        raise
    except Exception as error:  # what zipfile, json and safetensors raise for damaged files may be nearly anything
        why = " ".join(str(error).split()) or type(error).__name__
        raise LabelingError(f"{path} is damaged, cut off or not a model of laplacianshot ({why}).") from error


def _read_members(file: Any) -> tuple[dict[str, Any], bytes]:
    size = file.seek(0, 2)
    if size > _MAX_FILE:
        raise _Unreadable(f"it has {size:,} bytes, more than the {_MAX_FILE:,} allowed.")
    with zipfile.ZipFile(file) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if set(members) != {_FACTS, _ARRAYS} or len(archive.infolist()) != 2:
            raise _Unreadable("this zip is not a model of laplacianshot.")
        for name, limit in ((_FACTS, _MAX_FACTS), (_ARRAYS, size)):
            # Nothing is compressed, so nothing can be larger than the file.
            info = members[name]
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > limit or info.file_size > size:
                raise _Unreadable(f"{name} is compressed or too large; it was not written by laplacianshot.")
        facts = json.loads(archive.read(members[_FACTS]).decode("utf-8", "surrogatepass"))
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise _Unreadable("this zip is not a model of laplacianshot.")
        version, made_by = facts.get("version"), _mapping(facts, "facts").get("laplacianshot", "?")
        if not isinstance(version, int) or version < 1:
            raise _Unreadable("it does not say its version; it is damaged.")
        if version > VERSION:
            raise _Unreadable(
                f"it is of version {version}, written by laplacianshot {made_by}, and this is laplacianshot "
                f"{__version__}, which reads version {VERSION}; update laplacianshot."
            )
        content = archive.read(members[_ARRAYS])
    if hashlib.sha256(content).hexdigest() != _mapping(facts, "arrays").get("sha256"):
        raise _Unreadable("its arrays do not have the digest that it names; it is damaged or was changed.")
    return facts, content


def _mapping(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = facts.get(name)
    if not isinstance(found, dict):
        raise _Unreadable(f"it lacks {name!r}; it is damaged.")
    return found


def _put_together(facts: dict[str, Any], content: bytes) -> LabelModel:
    """Return the model, after a check of all sizes and numbers: a wrong one is an error here, not at a prediction."""
    kind, transform, compact = facts["kind"], facts["transform"], facts["form"] == "compact"
    _check(kind in get_args(Kind), "kind")
    _check(transform in get_args(Transform), "transform")
    _check(facts["form"] in ("compact", "full"), "form")
    classes = facts["classes"]
    _check(isinstance(classes, list) and len(classes) >= 2 and len({*map(str, classes)}) == len(classes), "classes")
    _check(all(isinstance(name, str | int | float | bool) for name in classes), "classes")
    encoder = facts["encoder"]
    _check((encoder is None) == (kind == "vectors"), "encoder")
    arrays = _Arrays(require("safetensors.numpy", "label").load(content))
    n_classes = len(classes)
    width = arrays.wide("prototypes").shape[1]
    prototypes = arrays.floats("prototypes", (n_classes, width))
    optional = {name: arrays.optional(name, (width,)) for name in ("center", "scale", "shift", "core.origin")}
    _check((optional["center"] is not None) == (transform in ("cl2", "power", "standard")), "center")
    _check((optional["scale"] is not None) == (transform == "standard"), "scale")
    search = _search(arrays, optional["core.origin"], _number(_mapping(facts, "core"), "scale"), width)
    m = len(search.rows)
    nearness = Nearness(search, arrays.floats("core.novelty", (m,)), arrays.floats("core.limits", (2, None)))
    n = m if compact else arrays.wide("rows").shape[0]
    numbers = _mapping(facts, "rule")
    neighbors = numbers["n_neighbors"]
    _check(isinstance(neighbors, int) and 0 <= neighbors <= max(n, 1 << 20), "n_neighbors")
    rule = InductiveRule(
        prototypes=prototypes,
        points=None if compact else arrays.floats("rows", (n, width)),
        assignments=arrays.matrix("votes", n, n_classes, np.float32 if compact else None),
        weights=np.ones(n) if compact else arrays.floats("weights", (n,)),
        n_neighbors=neighbors,
        lam=_number(numbers, "lam"),
        tau=_number(numbers, "tau"),
        bias=arrays.floats("bias", (n_classes,)),
        shift=optional["shift"],
        search=search if compact else None,
    )
    first, shares = arrays.floats("first", (n_classes, width)), arrays.floats("shares", (n_classes,))
    confidence = _confidence(_mapping(facts, "confidence"), str(facts["facts"].get("laplacianshot")), first, shares)
    classifier = Classifier(transform, optional["center"], optional["scale"], rule, confidence, nearness)
    known = (
        None if encoder is None else EncoderFacts(**{key: encoder[key] for key in ("name", "dim", "key", "weights")})
    )
    _check(known is None or known.dim == width, "encoder")
    return LabelModel(tuple(classes), kind, known, classifier, dict(facts["facts"]))


def _search(arrays: _Arrays, origin: Any, scale: float, width: int) -> CoreSearch:
    rows, directions = arrays.wide("core.rows"), arrays.optional("core.directions", (width, None))
    if directions is None:
        return CoreSearch(arrays.floats("core.rows", (None, width)))
    _check(rows.dtype == np.int8 and rows.shape[1] == directions.shape[1] and origin is not None, "core.rows")
    return CoreSearch(rows, directions, origin, scale)


def _confidence(given: Mapping[str, Any], made_by: str, first: Any, shares: Any) -> ConfidenceRule:
    weights, shared = given["weights"], given["shared"]
    _check(isinstance(weights, dict) and isinstance(shared, list), "confidence")
    if tuple(weights) != COLUMNS:
        raise _Unreadable(
            f"its calibration uses other evidence than laplacianshot {__version__}; load it with {made_by}."
        )
    table = {name: (float(w), float(low), float(high)) for name, (w, low, high) in weights.items()}
    task = TaskEvidence(tuple(float(value) for value in shared), shares)
    _check(all(map(math.isfinite, (*task.shared, *(v for row in table.values() for v in row)))), "confidence")
    intercept, shift, tau = (_number(given, name) for name in ("intercept", "shift", "tau"))
    return ConfidenceRule(table, intercept, shift, task, first, tau)


def _number(given: Mapping[str, Any], name: str) -> float:
    value = given[name]
    _check(isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value), name)
    return float(value)


def _check(right: bool, name: str) -> None:
    if not right:
        raise _Unreadable(f"its {name!r} is not valid; it is damaged, or was not written by laplacianshot.")


class _Arrays:
    """The arrays of a file by name."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays

    def _array(self, name: str, n_axes: int) -> Any:
        found = self._arrays.get(name, np.zeros(()))
        _check(found.ndim == n_axes, name)
        return found

    def wide(self, name: str) -> Any:
        """Return an array of two dimensions, with at least one row and column."""
        found = self._array(name, 2)
        _check(found.size > 0, name)
        return found

    def floats(self, name: str, shape: tuple[int | None, ...]) -> Any:
        """Return an array of finite numbers of this shape; None is any size."""
        found = self._array(name, len(shape))
        _check(all(size in (None, n) for size, n in zip(shape, found.shape, strict=True)), name)
        _check(found.dtype in (np.float32, np.float64) and bool(np.isfinite(found).all()), name)
        return found

    def optional(self, name: str, shape: tuple[int | None, ...]) -> Any:
        """Return the same, or None if there is no such array."""
        return self.floats(name, shape) if name in self._arrays else None

    def matrix(self, name: str, n: int, n_classes: int, dtype: Any) -> Any:
        """Return a matrix (n, C), dense or sparse with values as ``dtype`` or as they are."""
        if name in self._arrays:
            return self.floats(name, (n, n_classes))
        values, columns, ends = (self._array(f"{name}.{part}", 1) for part in ("values", "classes", "ends"))
        _check(values.dtype.kind == "f" and columns.dtype == np.int32 and ends.dtype == np.int64, name)
        _check(len(values) == len(columns) and len(ends) == n + 1, name)
        _check(ends[0] == 0 and ends[-1] == len(values) and bool((np.diff(ends) >= 0).all()), name)
        _check(bool(np.isfinite(values).all()) and bool(((columns >= 0) & (columns < n_classes)).all()), name)
        return sp.csr_array((values if dtype is None else values.astype(dtype), columns, ends), shape=(n, n_classes))


def model_bytes(model: LabelModel) -> bytes:
    """Return the content of the file of a model's compact form."""
    # Written to a folder of its own: there is one way to write a model.
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lshot"
        model.save(path)
        return path.read_bytes()
