"""Encoders by name: pictures and texts to vectors.

Neither this package nor the list of encoders loads any package of an extra.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from laplacianshot.runtime.errors import InputError, suggestion
from laplacianshot.runtime.threads import available_threads

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

Kind: TypeAlias = Literal["pictures", "texts"]

# Raised by one whenever the same network and input would give other vectors than before.
_CODE_VERSION = 1


class EncoderError(InputError):
    """An encoder that does not exist, does not fit the items, or cannot be loaded; one line that says what to do."""


@dataclass(frozen=True)
class Encoder:
    """Pictures or texts to vectors: ``encode([prepare(item), ...])`` is float32 (B, dim).

    An item is a ``PIL.Image`` or a str. Its vector depends on the item alone, not on what it is encoded with. Both
    functions may be called from several threads at once.
    """

    name: str  # as open_encoder takes it
    kind: Kind
    dim: int
    key: str  # of encoder_key: equal keys, equal vectors
    prepare: Callable[[Any], Any] = field(repr=False)  # an item as the array the network reads
    encode: Callable[[list[Any]], Floats] = field(repr=False)
    batch_size: int = 16  # items that are best encoded together
    parallel: int = 1  # calls of encode that are best under way at once, each on threads of its own
    enough: int | None = None  # shorter side in pixels beyond which files of pictures need not be decoded
    file: Path | None = None  # the ONNX file of the network, if it is one
    weights: str = ""  # digest of the weights, in hexadecimal


def encoder_key(*parts: str) -> str:
    """SHA-256, in hexadecimal, over what decides the vectors: weights, preparation and version of the code."""
    return hashlib.sha256("\0".join((str(_CODE_VERSION), *parts)).encode()).hexdigest()


def check_kind(name: str, kind: Kind, able: Kind) -> None:
    """Refuse an encoder for items of another kind."""
    if kind != able:
        raise EncoderError(f"encoder {name!r} is for {able}, and the items are {kind}; choose another one.")


ENCODERS: Mapping[str, str] = MappingProxyType(
    {
        "efficientnet-lite0": "EfficientNet-Lite0, trained on ImageNet, for pictures (1280-d); the default for them",
        "minilm-l6": "all-MiniLM-L6-v2 for texts in English (384-d); the default for them",
        "onnx:FILE": "an ONNX file of your own, for pictures; onnx:IMAGE.onnx,TEXT.onnx,TOKENIZER.json also for names",
        "clip:NAME": "CLIP or a relative of it in the package transformers, for pictures and names of their classes",
        "checkpoint:PATH": "a network that laplacianshot train has trained: its folder or a .safetensors file",
        "timm:NAME": "a pretrained network of the package timm, for pictures",
        "hf:NAME": "a model of the package transformers by its name on the hub or its folder, for pictures or texts",
    }
)

DEFAULTS: Mapping[Kind, str] = MappingProxyType({"pictures": "efficientnet-lite0", "texts": "minilm-l6"})

# The module and the function that open each; what they need is loaded with them.
_HOMES = {
    "efficientnet-lite0": ("pretrained", "open_lite0"),
    "minilm-l6": ("pretrained", "open_minilm"),
    "clip": ("torch_networks", "open_clip"),
    "onnx": ("onnx_networks", "open_onnx_file"),
    "checkpoint": ("torch_networks", "open_checkpoint"),
    "timm": ("torch_networks", "open_timm"),
    "hf": ("torch_networks", "open_transformers"),
}


# The function that opens the text side of an encoder of pictures.
_TEXT_SIDES = {
    "clip": ("torch_networks", "open_clip_texts"),
    "hf": ("torch_networks", "open_clip_texts"),
    "onnx": ("onnx_networks", "open_onnx_texts"),
}


def check_text_side(name: str | None) -> tuple[str, str, tuple[str, str]]:
    """Return the full name of an encoder of pictures, what comes after its colon, and who opens its text side.

    EncoderError if it has none; nothing is loaded.
    """
    full = DEFAULTS["pictures"] if name is None else name
    family, _, what = full.partition(":")
    home = _TEXT_SIDES.get(family)
    if home is None or (family == "onnx" and "," not in what):
        raise EncoderError(
            f"encoder {full!r} has no text side, so it cannot read names of classes; clip:NAME, hf:NAME of a model "
            "such as CLIP, and onnx:IMAGE.onnx,TEXT.onnx,TOKENIZER.json have one."
        )
    return full, what, home


def open_text_side(name: str | None, kind: Kind, *, threads: int | None = None) -> Encoder:
    """Open the encoder that turns texts into vectors of the same space: for texts itself, for pictures its text side.

    Parameters are those of :func:`open_encoder`, and so are the errors; one says which encoders have a text side.
    """
    if kind == "texts":
        return open_encoder(name, kind, threads=threads)
    full, what, home = check_text_side(name)
    load = getattr(import_module(f"laplacianshot.embedding.encoders.{home[0]}"), home[1])
    opened: Encoder = load(full, what, threads or available_threads())
    return opened


def open_encoder(name: str | None, kind: Kind, *, threads: int | None = None) -> Encoder:
    """Open an encoder.

    Parameters
    ----------
    name : str, optional
        One of :data:`ENCODERS`; what comes after a colon is a file, a folder or the name of a model. None: the default
        for the kind.
    kind : "pictures" or "texts"
    threads : int, optional
        Threads to compute on; all cores by default.

    Raises
    ------
    EncoderError
        There is no such encoder, it is for items of another kind, or it cannot be loaded.
    ModuleNotFoundError
        A package it needs is not installed; the message holds the command that installs it.
    """
    if kind not in DEFAULTS:
        raise ValueError(f"kind must be 'pictures' or 'texts', got {kind!r}.")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}.")
    full = DEFAULTS[kind] if name is None else name
    family, colon, what = full.partition(":")
    if family not in _HOMES or bool(colon) != any(known.startswith(f"{family}:") for known in ENCODERS):
        raise EncoderError(f"there is no encoder {full!r}; {suggestion(full, ENCODERS)}")
    if colon and not what:
        known = next(known for known in ENCODERS if known.startswith(f"{family}:"))
        raise EncoderError(f"encoder {full!r} lacks what comes after the colon; write {known}.")
    module, function = _HOMES[family]
    load: Callable[[str, Kind, int], Encoder] = getattr(
        import_module(f"laplacianshot.embedding.encoders.{module}"), function
    )
    return load(what, kind, threads or available_threads())
