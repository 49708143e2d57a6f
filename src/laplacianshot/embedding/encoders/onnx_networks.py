"""Networks in ONNX Runtime: sessions, and ONNX files of the user."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.embedding.encoders import Encoder, EncoderError, Kind, encoder_key
from laplacianshot.embedding.encoders.preparing import (
    Normalizing,
    PictureInput,
    open_tokenizer,
    readable,
    runs_of_equal_length,
)
from laplacianshot.embedding.vector_cache import file_hash
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import read_input, user_cache

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.runtime.types import Floats

# Side of the pictures, where the file takes any.
_SIDE = 224
# The crop as a share of the resized picture, as networks of ImageNet have it.
_CROP_SHARE = 0.875
_MAX_TOKENS = 256
# What the text sides of CLIP and its relatives read.
_MAX_PAIR_TOKENS = 77

_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_BYTES = "tensor(uint8)"


class Session:
    """An ONNX file, opened at its first use, and run by several threads at once, each on a core of its own.

    That is faster than one run on all cores, whose threads wait for one another after each layer, and leaves no core
    idle while another thread reads pictures.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._session: Any = None

    def open(self) -> Any:
        """The ``onnxruntime.InferenceSession``."""
        with self._lock:
            if self._session is None:
                runtime = require("onnxruntime", "label")
                options = runtime.SessionOptions()
                options.intra_op_num_threads = options.inter_op_num_threads = 1
                options.log_severity_level = 4
                try:
                    self._session = runtime.InferenceSession(
                        str(self.path), options, providers=["CPUExecutionProvider"]
                    )
                except Exception as error:
                    said = " ".join(str(error).split())
                    raise EncoderError(f"{self.path} cannot be run by onnxruntime: {said}") from error
            return self._session

    def vectors(self, feed: dict[str, Any]) -> Floats:
        """The first output of shape (B, D); else means over positions of the first output."""
        outputs = [np.asarray(output) for output in self.open().run(None, feed)]
        first = next((output for output in outputs if output.ndim == 2), outputs[0])
        if first.ndim not in (2, 3, 4):
            raise EncoderError(f"{self.path} gives shape {first.shape}; vectors must have shape (B, D).")
        axes = {2: (), 3: (1,), 4: (2, 3)}[first.ndim]
        return np.asarray(first.mean(axis=axes) if axes else first)


@dataclass(frozen=True)
class PictureReader:
    """Pictures as a network takes them. The repr is part of the key of an ONNX file's vectors."""

    name: str  # of the input
    view: PictureInput
    normalizing: Normalizing | None  # None: the network takes bytes
    channels_last: bool
    dtype: str
    batch: int  # the size of every batch; 0: any
    batch_size: int = 8

    @property
    def enough(self) -> int:
        """As of the view."""
        return self.view.enough

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
    """Texts as a network takes them: token numbers, and what other inputs it has. The repr is part of keys too."""

    names: tuple[str, ...]
    dtype: str
    tokenizer: Any = field(repr=False)
    batch_size: int = 256
    enough: None = None

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()
        return f"TextReader({self.names}, {self.dtype}, {digest})"

    def __call__(self, item: str) -> NDArray[np.int64]:
        """A text as token numbers (L,)."""
        return np.array(self.tokenizer.encode(readable(item)).ids, dtype=np.int64)

    def example(self) -> NDArray[np.int64]:
        """A short text."""
        return self("an example")

    def runs(self, prepared: Sequence[NDArray[np.int64]]) -> list[tuple[NDArray[np.int64], dict[str, Any]]]:
        """What to run: texts of equal length. None is padded, and none depends on the others or waits for them."""
        found = []
        for places in runs_of_equal_length(prepared):
            tokens = np.stack([prepared[place] for place in places]).astype(self.dtype)
            # No padding: the mask is all ones; one sentence: all types are zero.
            values = {"attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
            found.append((places, {name: values.get(name, tokens) for name in self.names}))
        return found


def onnx_encoder(
    name: str,
    kind: Kind,
    dim: int | None,
    key: str,
    session: Session,
    reader: PictureReader | TextReader,
    threads: int,
    weights: str,
) -> Encoder:
    """A session as an encoder; ``dim`` None is found by running an example, ``weights`` is their digest."""

    def encode(prepared: Sequence[NDArray[Any]]) -> Floats:
        parts = [(places, session.vectors(feed)) for places, feed in reader.runs(prepared)]
        vectors: Floats = np.empty((len(prepared), parts[0][1].shape[1]), dtype=np.float32)
        for places, found in parts:
            vectors[places] = found[: len(places)]
        return vectors

    if dim is None:
        try:
            dim = encode([reader.example()]).shape[1]
        except EncoderError:
            raise
        except Exception as error:
            raise EncoderError(f"encoder {name!r} fails on an example: {' '.join(str(error).split())}") from error
    return Encoder(
        name, kind, dim, key, reader, encode, reader.batch_size, threads, reader.enough, session.path, weights
    )


def open_onnx_file(what: str, kind: Kind, threads: int) -> Encoder:
    """The network in a file, for pictures or, with a ``tokenizer.json`` beside it, for texts."""
    if "," in what:
        pictures, texts, tokens = _pair(what)
        if kind == "texts":
            return _open_texts(f"onnx:{what}", texts, tokens, threads)
        return replace(open_onnx_file(str(pictures), kind, threads), name=f"onnx:{what}")
    path = Path(what).expanduser()
    if not path.is_file():
        raise EncoderError(f"encoder 'onnx:{what}': there is no file {str(path)!r}.")
    session, name = Session(path.resolve()), f"onnx:{what}"
    open_reader = _picture_reader if kind == "pictures" else _text_reader
    reader = open_reader(name, path, session.open().get_inputs())
    digest = _digest(path)
    return onnx_encoder(name, kind, None, encoder_key(digest, repr(reader)), session, reader, threads, digest)


def open_onnx_texts(name: str, what: str, threads: int) -> Encoder:
    """The text side of a pair of files, for names of the classes of pictures."""
    _, texts, tokens = _pair(what)
    return _open_texts(name, texts, tokens, threads)


def _pair(what: str) -> tuple[Path, Path, Path]:
    """The files of ``IMAGE.onnx,TEXT.onnx,TOKENIZER.json``."""
    files = tuple(Path(part.strip()).expanduser() for part in what.split(","))
    if len(files) != 3:
        raise EncoderError(f"encoder 'onnx:{what}': a pair is written onnx:IMAGE.onnx,TEXT.onnx,TOKENIZER.json.")
    for path in files:
        if not path.is_file():
            raise EncoderError(f"encoder 'onnx:{what}': there is no file {str(path)!r}.")
    return files


def _open_texts(name: str, path: Path, tokens: Path, threads: int) -> Encoder:
    session = Session(path.resolve())
    reader = _text_reader(name, path, session.open().get_inputs(), tokens, _MAX_PAIR_TOKENS)
    digest = _digest(path)
    return onnx_encoder(name, "texts", None, encoder_key(digest, repr(reader)), session, reader, threads, digest)


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
        settings = json.loads(read_input(path))
        size = settings.get("size", {})
        resize = size.get("shortest_edge", size.get("height")) if isinstance(size, dict) else size
        mean, std = settings.get("image_mean"), settings.get("image_std")
        normalizing = Normalizing(*(tuple(map(float, part)) for part in (mean, std))) if mean and std else Normalizing()
        filters = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box"}
        return normalizing, PictureInput(max(crop, int(resize or crop)), crop, filters[settings.get("resample", 3)])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EncoderError(f"{path} cannot be understood ({type(error).__name__}: {error}).") from error


def _text_reader(
    name: str, path: Path, inputs: Sequence[Any], tokens: Path | None = None, max_tokens: int = _MAX_TOKENS
) -> TextReader:
    names = tuple(given.name for given in inputs)
    if ("input_ids" not in names and len(names) > 1) or any(given.type not in _INTEGERS for given in inputs):
        found = ", ".join(f"{given.name} {given.type}" for given in inputs)
        raise EncoderError(f"encoder {name!r} takes {found}; texts need integers called input_ids.")
    tokens = path.with_name("tokenizer.json") if tokens is None else tokens
    if not tokens.is_file():
        raise EncoderError(f"encoder {name!r}: there is no tokenizer.json beside it, which texts need; put it there.")
    return TextReader(names, np.dtype(_INTEGERS[inputs[0].type]).str, open_tokenizer(tokens, max_tokens))


def _digest(path: Path) -> str:
    """Hash of the file and of those that hold its weights beside it."""
    folder = user_cache()[0] / "networks"
    others = [other for other in path.parent.iterdir() if other.name.startswith(path.name) and "data" in other.suffix]
    return " ".join(file_hash(file, folder).hex() for file in (path, *sorted(others)))
