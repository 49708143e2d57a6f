"""Networks in ONNX Runtime: sessions, and ONNX files of the user."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.embedding.encoders.preparing import (
    Normalizing,
    PictureInput,
    open_tokenizer,
    runs_of_equal_length,
    token_numbers,
)
from laplacianshot.embedding.encoders.registry import Encoder, EncoderError, Kind
from laplacianshot.embedding.vector_cache import file_hash
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import user_cache

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.runtime.types import Floats

# Raised by one whenever the same network and input would give other vectors than before.
CODE_VERSION = 1


@dataclass
class Session:
    """An ONNX file, opened at its first use, and run by several threads at once, each on a core of its own.

    That is faster than one run on all cores, whose threads wait for one another after each layer, and leaves no core
    idle while another thread reads pictures.

    Attributes
    ----------
    path : Path
    threads : int
        Runs that are best under way at once.
    """

    path: Path
    threads: int
    _lock: Lock = field(default_factory=Lock, repr=False)

    @cached_property
    def _session(self) -> Any:
        runtime = require("onnxruntime", "label")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            return runtime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise EncoderError(f"{self.path} cannot be run by onnxruntime: {' '.join(str(error).split())}") from error

    @property
    def session(self) -> Any:
        """The ``onnxruntime.InferenceSession``."""
        with self._lock:
            return self._session

    def vectors(self, batch: NDArray[Any]) -> Floats:
        """The first output, for a batch under the name of the first input."""
        session = self.session
        (output, *_) = session.run(None, {session.get_inputs()[0].name: batch})
        return np.asarray(output)


@dataclass(frozen=True)
class PictureSession:
    """A network for pictures in ONNX Runtime: bytes (B, H, W, 3) to vectors (B, D).

    Pictures are run one by one: what lies between two layers then stays in the processor's cache, which saves more
    than a larger run would. EfficientNet-Lite0 takes 15% less time so than in runs of 32, and a fifth of the memory.
    """

    name: str
    view: PictureInput
    dim: int
    digest: str
    session: Session
    kind: Kind = "pictures"
    batch_size: int = 8

    @property
    def key(self) -> str:
        """SHA-256 over network, view and version of the code."""
        return encoder_key(self.digest, repr(self.view))

    @property
    def parallel(self) -> int:
        """One run per thread."""
        return self.session.threads

    @property
    def enough(self) -> int:
        """As the view has it."""
        return self.view.enough

    def prepare(self, item: Image) -> NDArray[np.uint8]:
        """A picture as bytes (H, W, 3)."""
        return self.view(item)

    def encode(self, prepared: Sequence[NDArray[np.uint8]]) -> Floats:
        """Vectors (B, D)."""
        return np.concatenate([self.session.vectors(pixels[np.newaxis]) for pixels in prepared])


def encoder_key(*parts: str) -> str:
    """One SHA-256 over what decides the vectors, in hexadecimal."""
    return hashlib.sha256("\0".join((str(CODE_VERSION), *parts)).encode()).hexdigest()


@dataclass(frozen=True)
class TextSession:
    """A network for texts in ONNX Runtime: tokens (B, L) to vectors (B, D).

    Only texts of the same number of tokens are run together, so none is padded, none waits for a longer one, and the
    vector of a text does not depend on the others.
    """

    name: str
    dim: int
    digest: str
    session: Session
    tokenizer: Any = field(repr=False)
    kind: Kind = "texts"
    batch_size: int = 256
    enough: None = None

    @property
    def key(self) -> str:
        """SHA-256 over network, tokenizer and version of the code."""
        return encoder_key(self.digest, self.tokenizer.to_str())

    @property
    def parallel(self) -> int:
        """One run per thread."""
        return self.session.threads

    def prepare(self, item: str) -> NDArray[np.int64]:
        """A text as token numbers (L,)."""
        return token_numbers(self.tokenizer, item)

    def encode(self, prepared: Sequence[NDArray[np.int64]]) -> Floats:
        """Vectors (B, D)."""
        vectors: Floats = np.empty((len(prepared), self.dim), dtype=np.float32)
        for places in runs_of_equal_length(prepared):
            vectors[places] = self.session.vectors(np.stack([prepared[place] for place in places]))
        return vectors


# Side of the pictures, where the file takes any.
_SIDE = 224
# The crop as a share of the resized picture, as networks of ImageNet have it.
_CROP_SHARE = 0.875
_MAX_TOKENS = 256

_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_BYTES = "tensor(uint8)"


def open_onnx_file(what: str, kind: Kind, threads: int) -> Encoder:
    """The network in a file, for pictures or, with a ``tokenizer.json`` beside it, for texts."""
    path = Path(what).expanduser()
    if not path.is_file():
        raise EncoderError(f"encoder 'onnx:{what}': there is no file {str(path)!r}.")
    session, name = Session(path.resolve(), threads), f"onnx:{what}"
    reader = _picture_reader if kind == "pictures" else _text_reader
    read = reader(name, path, session.session.get_inputs())
    encoder = OnnxFile(name, kind, 0, _digest(path), session, read)
    # What it gives for an item of no matter says how long its vectors are.
    try:
        return replace(encoder, dim=encoder.encode([read.example()]).shape[1])
    except EncoderError:
        raise
    except Exception as error:
        raise EncoderError(f"encoder {name!r} fails on an example: {' '.join(str(error).split())}") from error


@dataclass(frozen=True)
class PictureReader:
    """Pictures as a network wants them.

    Attributes
    ----------
    name : str
        Of the input.
    view : PictureInput
    normalizing : Normalizing or None
        None: the network takes bytes.
    channels_last : bool
    dtype : str
    batch : int
        The size of every batch, 0 if any will do.
    """

    name: str
    view: PictureInput
    normalizing: Normalizing | None
    channels_last: bool
    dtype: str
    batch: int
    batch_size: int = 8

    def __call__(self, item: Image) -> NDArray[np.uint8]:
        """A picture as bytes (H, W, 3)."""
        return self.view(item)

    def example(self) -> NDArray[np.uint8]:
        """A gray picture."""
        return np.full((self.view.crop, self.view.crop, 3), 127, dtype=np.uint8)

    def runs(self, prepared: Sequence[NDArray[np.uint8]]) -> list[tuple[NDArray[np.int64], dict[str, Any]]]:
        """What to run: places of the batch's pictures, and the input, which repeats the last to a fixed size."""
        size = self.batch or len(prepared)
        found = []
        for start in range(0, len(prepared), size):
            places = np.arange(start, min(start + size, len(prepared)))
            taken = [prepared[min(start + i, len(prepared) - 1)] for i in range(size)]
            pixels: Any = np.stack(taken).transpose(0, 3, 1, 2) if self.normalizing is None else self.normalizing(taken)
            pixels = pixels.transpose(0, 2, 3, 1) if self.channels_last else pixels
            found.append((places, {self.name: np.ascontiguousarray(pixels, dtype=self.dtype)}))
        return found


@dataclass(frozen=True)
class TextReader:
    """Texts as a network wants them: token numbers, and what other inputs it has."""

    names: tuple[str, ...]
    dtype: str
    tokenizer: Any = field(repr=False)
    tokenizer_text: str = field(repr=False)
    batch_size: int = 256

    def __repr__(self) -> str:
        return f"TextReader({self.names}, {self.dtype}, {hashlib.sha256(self.tokenizer_text.encode()).hexdigest()})"

    def __call__(self, item: str) -> NDArray[np.int64]:
        """A text as token numbers (L,)."""
        return token_numbers(self.tokenizer, item)

    def example(self) -> NDArray[np.int64]:
        """A short text."""
        return self("an example")

    def runs(self, prepared: Sequence[NDArray[np.int64]]) -> list[tuple[NDArray[np.int64], dict[str, Any]]]:
        """What to run: texts of equal length, none of them padded."""
        found = []
        for places in runs_of_equal_length(prepared):
            tokens = np.stack([prepared[place] for place in places]).astype(self.dtype)
            # No padding: the mask is all ones; one sentence: all types are zero.
            values = {"attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
            found.append((places, {name: values.get(name, tokens) for name in self.names}))
        return found


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file as an encoder. Its first output of shape (B, D) is taken; else means over positions of the first."""

    name: str
    kind: Kind
    dim: int
    digest: str
    session: Session
    reader: PictureReader | TextReader

    @property
    def key(self) -> str:
        """SHA-256 over file, preparation and version of the code."""
        return encoder_key(self.digest, repr(self.reader))

    @property
    def batch_size(self) -> int:
        """As the reader likes it."""
        return self.reader.batch_size

    @property
    def parallel(self) -> int:
        """One run per thread."""
        return self.session.threads

    @property
    def enough(self) -> int | None:
        """As the view of pictures has it."""
        return self.reader.view.enough if isinstance(self.reader, PictureReader) else None

    def prepare(self, item: Any) -> NDArray[Any]:
        """A picture as bytes (H, W, 3), or a text as token numbers (L,)."""
        return self.reader(item)

    def encode(self, prepared: Sequence[NDArray[Any]]) -> Floats:
        """Vectors (B, D)."""
        parts = [(places, self._vectors(feed)) for places, feed in self.reader.runs(prepared)]
        vectors: Floats = np.empty((len(prepared), parts[0][1].shape[1]), dtype=np.float32)
        for places, found in parts:
            vectors[places] = found[: len(places)]
        return vectors

    def _vectors(self, feed: dict[str, Any]) -> Floats:
        outputs = [np.asarray(output) for output in self.session.session.run(None, feed)]
        flat = next((output for output in outputs if output.ndim == 2), None)
        if flat is not None:
            return flat
        first = outputs[0]
        if first.ndim == 3:
            return np.asarray(first.mean(axis=1))
        if first.ndim == 4:
            return np.asarray(first.mean(axis=(2, 3)))
        raise EncoderError(f"encoder {self.name!r} gives shape {first.shape}; vectors must have shape (B, D).")


def _picture_reader(name: str, path: Path, inputs: Sequence[Any]) -> PictureReader:
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in {*_FLOATS, _BYTES}:
        found = ", ".join(f"{given.name} {given.type} {given.shape}" for given in inputs)
        raise EncoderError(f"encoder {name!r} takes {found}; it must take one input of pictures (B, 3, H, W).")
    batch, *shape = inputs[0].shape
    channels_last = shape[2] == 3 and shape[0] != 3
    height, width = shape[:2] if channels_last else shape[1:]
    if isinstance(height, int) and isinstance(width, int) and height != width:
        raise EncoderError(f"encoder {name!r} takes pictures of {height} x {width} pixels; only squares are supported.")
    crop = next((side for side in (height, width) if isinstance(side, int)), _SIDE)
    normalizing, view = Normalizing(), PictureInput(round(crop / _CROP_SHARE), crop)
    described = path.with_name("preprocessor_config.json")
    if described.is_file():
        normalizing, view = _described(described, crop)
    kind = inputs[0].type
    return PictureReader(
        inputs[0].name, view, None if kind == _BYTES else normalizing, channels_last,
        np.dtype(_FLOATS.get(kind, np.uint8)).str, batch if isinstance(batch, int) else 0,
    )  # fmt: skip


def _described(path: Path, crop: int) -> tuple[Normalizing, PictureInput]:
    """Preparation as ``preprocessor_config.json`` beside the network says."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        size = settings.get("size", {})
        resize = size.get("shortest_edge", size.get("height")) if isinstance(size, dict) else size
        mean, std = settings.get("image_mean"), settings.get("image_std")
        normalizing = (
            Normalizing(*(tuple(float(x) for x in part) for part in (mean, std))) if mean and std else Normalizing()
        )
        filters = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box"}
        return normalizing, PictureInput(max(crop, int(resize or crop)), crop, filters[settings.get("resample", 3)])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EncoderError(f"{path} cannot be understood ({type(error).__name__}: {error}).") from error


def _text_reader(name: str, path: Path, inputs: Sequence[Any]) -> TextReader:
    names = tuple(given.name for given in inputs)
    if ("input_ids" not in names and len(names) > 1) or any(given.type not in _INTEGERS for given in inputs):
        found = ", ".join(f"{given.name} {given.type}" for given in inputs)
        raise EncoderError(f"encoder {name!r} takes {found}; texts need integers called input_ids.")
    tokens = path.with_name("tokenizer.json")
    if not tokens.is_file():
        raise EncoderError(f"encoder {name!r}: there is no tokenizer.json beside it, which texts need; put it there.")
    tokenizer = open_tokenizer(tokens, _MAX_TOKENS)
    return TextReader(names, np.dtype(_INTEGERS[inputs[0].type]).str, tokenizer, tokenizer.to_str())


def _digest(path: Path) -> str:
    """Hash of the file and of those that hold its weights beside it."""
    folder = user_cache()[0] / "networks"
    others = sorted(
        other for other in path.parent.iterdir() if other.name.startswith(path.name) and "data" in other.suffix
    )
    return " ".join(file_hash(file, folder).hex() for file in (path, *others))
