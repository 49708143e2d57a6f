"""A model to take away: encoder, classifier and calibration in one object, which one file holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from laplacianshot import __version__
from laplacianshot.datasets.decoding import MAX_PICTURE_BYTES, decode, decoded
from laplacianshot.datasets.feature_set import checked_features
from laplacianshot.embedding.encoders import Encoder, EncoderError, open_encoder
from laplacianshot.embedding.encoding import Encoded, encode_items
from laplacianshot.labeling.classifier import Classifier
from laplacianshot.labeling.core import VectorLabels
from laplacianshot.labeling.errors import LabelingError, one_line
from laplacianshot.labeling.result import PREDICTED, LabelResult, Skipped
from laplacianshot.labeling.sources import Kind, Source, hash_of
from laplacianshot.runtime.files import read_input
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.types import Floats, Ints, Labels

if TYPE_CHECKING:
    from PIL.Image import Image

_EXPECTED: Mapping[Kind, str] = {
    "pictures": "paths, bytes, pictures of Pillow, or an array of vectors (m, D)",
    "texts": "strings, or an array of vectors (m, D)",
    "vectors": "an array of vectors (m, D)",
}


@dataclass(frozen=True)
class EncoderFacts:
    """Which encoder a model was made with."""

    name: str  # as open_encoder takes it
    dim: int
    key: str  # equal keys, equal vectors
    weights: str  # digest of the weights

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderFacts:
        """Return the facts on an opened encoder."""
        return cls(encoder.name, encoder.dim, encoder.key, encoder.weights)


@dataclass(frozen=True, repr=False)
class Predictions:
    """Predictions for m items from C classes."""

    codes: Ints  # (m,), class numbers
    confidence: Floats  # (m,), probability that the label is right
    probabilities: Floats  # (m, C), calibrated
    novelty: Floats  # (m,), from 0 to 1


@dataclass(frozen=True, repr=False, eq=False)
class LabelModel:
    """A classifier of new items: the encoder it needs, what was fitted, and the calibration of its confidence.

    ``label_source(...).model`` and ``label(X, y).model`` have all fitted rows. :meth:`save` writes the compact form, a
    few MB, or all rows on request.

    Attributes
    ----------
    classes : tuple of C labels
        In the order of the columns of :meth:`predict_proba`.
    kind : {"pictures", "texts", "vectors"}
        What the items are.
    encoder : EncoderFacts or None
        Name and digests of the encoder; None for vectors.
    classifier : Classifier
    facts : mapping of str to JSON values
        Versions, number of items and of labels.
    encoder_name : str, optional
        Where the encoder is on this machine, if it is elsewhere than on that of the fit.
    threads : int, optional
        Threads of the encoder; all cores by default.

    Examples
    --------
    >>> import numpy as np
    >>> from laplacianshot import label
    >>> X = np.repeat(np.eye(2, 8), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((100, 8))
    >>> y = np.full(100, -1)
    >>> y[[0, 50]] = 0, 1
    >>> model = label(X, y).model
    >>> model.predict(np.eye(2, 8)).tolist()
    [0, 1]
    """

    classes: tuple[Any, ...]
    kind: Kind
    encoder: EncoderFacts | None
    classifier: Classifier
    facts: Mapping[str, Any] = field(default_factory=dict)
    encoder_name: str | None = None
    threads: int | None = None

    @classmethod
    def of_labels(
        cls, found: VectorLabels, codes: Ints, classes: Sequence[Any], kind: Kind, encoder: Encoder | None
    ) -> LabelModel | None:
        """Return what labels new items as vectors were labeled, from class numbers (n,), -1 for unlabeled ones.

        None where nothing was known of the classes.
        """
        if found.model is None or found.calibration is None:
            return None
        classifier = Classifier.of_fit(found.model, codes, found.calibration, found.novelty)
        facts = {"laplacianshot": __version__, "items": len(codes), "labels": int(np.count_nonzero(codes >= 0))}
        return cls(tuple(classes), kind, None if encoder is None else EncoderFacts.of(encoder), classifier, facts)

    def predict(self, items: Any) -> Labels:
        """The most probable class of each item, (m,). For the items see :meth:`predict_proba`."""
        labels: Labels = np.array(self.classes)[self.predict_proba(items).argmax(axis=1)]
        return labels

    def predict_proba(self, items: Any) -> Floats:
        """Calibrated probabilities of each class for m items, (m, C); rows sum to one.

        Items are a list: of paths, bytes, pictures of Pillow or pixels for a model of pictures; of strings for one of
        texts. Vectors of the model's encoder, an array (m, D), are taken by every model.
        """
        return self.classifier.probabilities(self.vectors(items))

    def novelty(self, items: Any) -> Floats:
        """How little each of m items is like those of the fit, from 0 to 1, (m,).

        0.95: its three nearest fitted items are farther away, or fit their classes less, than is usual for 95% of the
        fitted items.
        """
        return self.classifier.novelty(self.vectors(items))

    def predictions(self, vectors: Floats) -> Predictions:
        """Everything that is known of vectors (m, D), checked as by :meth:`vectors`."""
        probabilities = self.classifier.probabilities(vectors)
        novelty = self.classifier.novelty(vectors)
        codes = probabilities.argmax(axis=1)
        return Predictions(codes, probabilities.max(axis=1, initial=0).astype(np.float64), probabilities, novelty)

    def vectors(self, items: Any) -> Floats:
        """The vectors of m items, (m, D). LabelingError names the first item that cannot be read."""
        if self.kind == "vectors" or _is_numbers(items):
            return self._checked(items)
        given = GivenItems(self.kind, _as_list(items, self.kind), self.opened.enough)
        encoded = encode_items(given, self.opened)
        if encoded.failed:
            place, reason = encoded.failed[0]
            raise LabelingError(f"items[{place}] cannot be read: {reason}.")
        return encoded.vectors

    def label(self, source: Source, *, cache: Path | None = None, progress: Progress | None = None) -> LabelResult:
        """Predict the label of every item of a source that can be read; vectors are kept in the folder ``cache``."""
        if source.kind != self.kind:
            raise LabelingError(f"{source.path} holds {source.kind}, and the model is for {self.kind}.")
        if source.vectors is not None:
            encoded = Encoded(self._checked(source.vectors), np.arange(len(source)))
        else:
            encoded = encode_items(source, self.opened, cache, progress=progress)
        found = self.predictions(encoded.vectors)
        m = len(encoded.rows)
        return LabelResult(
            ids=tuple(source.ids[row] for row in encoded.rows),
            classes=self.classes,
            codes=found.codes,
            origins=(PREDICTED,) * m,
            probabilities=found.probabilities,
            confidence=found.confidence,
            suggestions=np.zeros(m, np.int64),
            disputes=np.full(m, -1),
            novelty=found.novelty,
            skipped=(*source.skipped, *(Skipped(source.ids[i], reason) for i, reason in encoded.failed)),
            settings={"source": str(source.path), "kind": source.kind, "cached": encoded.n_cached},
            notes=encoded.notes,
            source=source,
            rows=encoded.rows,
            model=self,
        )

    @cached_property
    def opened(self) -> Encoder:
        """The encoder, opened; EncoderError if it gives other vectors than the one of the fit."""
        if self.encoder is None or self.kind == "vectors":
            raise LabelingError("this model is for vectors: it was fitted on an array, and has no encoder.")
        found = open_encoder(self.encoder_name or self.encoder.name, self.kind, threads=self.threads)
        if found.key != self.encoder.key:
            same = found.weights == self.encoder.weights
            why = "prepares its input in another way" if same else "has other weights"
            raise EncoderError(
                f"encoder {found.name!r} {why} than the one of the model (digest {found.key[:12]}, needed "
                f"{self.encoder.key[:12]}); use laplacianshot {self.facts.get('laplacianshot', '')} and the same files."
            )
        return found

    def warm_up(self) -> None:
        """Open the encoder and predict once, so that the first item does not wait for the network to be loaded."""
        if self.kind == "vectors":
            self.predictions(np.zeros((1, self.classifier.n_features), np.float32))
        else:
            gray = np.full((self.opened.enough or 64,) * 2, 127, np.uint8)
            self.predictions(self.vectors([gray if self.kind == "pictures" else "an example"]))

    def compact(self) -> LabelModel:
        """The same model with the prototypes and a core of the fitted rows: a few MB, and as fast for any fit."""
        return replace(self, classifier=self.classifier.compact())

    def save(self, path: str | PathLike[str], *, rows: Literal["core", "all"] = "core") -> None:
        """Write the model to one file, for its owner alone: complete, or the file before it stays.

        ``rows="all"`` keeps all fitted rows, in 4 bytes per number. The file is a zip of ``model.json`` and
        ``arrays.safetensors``; nothing in it is code.
        """
        from laplacianshot.labeling.model_file import write_model

        if rows not in ("core", "all"):
            raise LabelingError(f"rows is {rows!r}; write 'core' or 'all'.")
        write_model(self.compact() if rows == "core" else self, Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str], *, encoder: str | None = None, threads: int | None = None) -> LabelModel:
        """Read a model that :meth:`save` has written.

        ``encoder`` says where the encoder is, if it has another name on this machine, such as ``onnx:FILE``; it must
        have the same digest. It is opened when the first item needs it. LabelingError, in one line, for a file that is
        damaged, cut off, not a model, or of a newer version.
        """
        from laplacianshot.labeling.model_file import read_model

        return replace(read_model(Path(path)), encoder_name=encoder, threads=threads)

    def to_onnx(self, path: str | PathLike[str]) -> None:
        """Write the compact form as an ONNX file: ``vectors`` (m, D), float32, to ``probabilities`` (m, C).

        The encoder is not part of it. Needs the package onnx (extra label).
        """
        from laplacianshot.labeling.model_onnx import write_onnx

        write_onnx(self.compact(), Path(path))

    def _checked(self, items: Any) -> Floats:
        with one_line("items"):
            rows = checked_features(items)
        expected = self.classifier.n_features
        if rows.shape[1] != expected:
            raise LabelingError(f"items have {rows.shape[1]} columns; the model was fitted on vectors of {expected}.")
        return rows

    def __repr__(self) -> str:
        form = "compact" if self.classifier.is_compact else f"{self.classifier.n_rows:,} rows"
        encoder = "" if self.encoder is None else f", {self.encoder.name}"
        return f"LabelModel({len(self.classes)} classes of {self.kind}{encoder}, {form})"


def _is_numbers(items: Any) -> bool:
    """Whether items are an array of vectors (m, D), and not pixels."""
    return hasattr(items, "shape") and len(items.shape) == 2


def _as_list(items: Any, kind: Kind) -> list[Any]:
    """Return items as a list, each of a type that the model takes."""
    if isinstance(items, np.ndarray):
        # Strings, objects, or pixels of several pictures.
        is_several = (items.ndim == 1 and items.dtype.kind in "UOT") or (items.ndim == 4 and kind == "pictures")
    else:
        is_several = hasattr(items, "__iter__") and not isinstance(items, str | bytes | bytearray | os.PathLike)
    if not is_several or _is_picture(items):
        raise LabelingError(f"items must be a list of {_EXPECTED[kind]}; write [item] for a single one.")
    found = list(items)
    if not found:
        raise LabelingError(f"items are empty; give {_EXPECTED[kind]}.")
    allowed = {"texts": (str,), "pictures": (str, os.PathLike, bytes, bytearray, memoryview)}[kind]
    for place, item in enumerate(found):
        if not isinstance(item, allowed) and not (kind == "pictures" and _is_picture(item)):
            raise LabelingError(f"items[{place}] is a {type(item).__name__}; this model takes {_EXPECTED[kind]}.")
        if kind == "pictures" and isinstance(item, str) and "\0" in item:
            raise LabelingError(f"items[{place}] cannot be read: its name holds a zero byte.")
    return found


def _is_picture(item: Any) -> bool:
    """Whether an item is a picture of Pillow, or pixels (H, W) or (H, W, 3)."""
    if isinstance(item, np.ndarray):
        return item.dtype == np.uint8 and (item.ndim == 2 or (item.ndim == 3 and item.shape[2] == 3)) and item.size > 0
    return hasattr(item, "getexif") and hasattr(item, "convert")


@dataclass(frozen=True)
class GivenItems:
    """Items in memory or in files, for :func:`~laplacianshot.embedding.encoding.encode_items`."""

    kind: Kind
    items: Sequence[Any]
    enough: int | None = None  # as of the encoder

    def __len__(self) -> int:
        return len(self.items)

    def content_hash(self, i: int) -> bytes:
        """Return a hash of item i's content."""
        item = self.items[i]
        if self.kind == "texts":
            return hash_of(item.encode("utf-8", "surrogatepass"), self.kind)
        path = self.file(i)
        if path is not None:
            return hash_of(read_input(path, MAX_PICTURE_BYTES), self.kind)
        if isinstance(item, bytes | bytearray | memoryview):
            return hash_of(bytes(item), "bytes")
        # Pixels, and how they are read.
        about = f"{getattr(item, 'mode', '')}{getattr(item, 'size', '')}{getattr(item, 'shape', '')}{id(item)}"
        return hash_of(about.encode(), "memory")

    def load(self, i: int) -> Image | str:
        """Return item i: a picture or a text."""
        item = self.items[i]
        if self.kind == "texts":
            return str(item)
        size: Any = {} if self.enough is None else {"enough": self.enough}
        if isinstance(item, bytes | bytearray | memoryview):
            return decode(bytes(item), f"items[{i}]", **size, upright=True)
        return decoded(item, f"items[{i}]", **size, upright=True)

    def file(self, i: int) -> Path | None:
        """Return the file of item i, if it is one."""
        item = self.items[i]
        return Path(item) if self.kind == "pictures" and isinstance(item, str | os.PathLike) else None
