"""Every encoder by name, and what all of them can do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.threads import available_threads

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

Kind: TypeAlias = Literal["pictures", "texts"]


class EncoderError(InputError):
    """An encoder that does not exist, does not fit the items, or cannot be loaded; one line that says what to do."""


class Encoder(Protocol):
    """Pictures or texts to vectors: ``encode([prepare(item), ...])`` is (B, dim).

    The vector of an item depends on the item alone, not on what it is encoded with. Both methods may be called from
    several threads at once.
    """

    @property
    def name(self) -> str:
        """Name that :func:`open_encoder` takes."""
        ...

    @property
    def kind(self) -> Kind:
        """What it encodes."""
        ...

    @property
    def dim(self) -> int:
        """Length D of a vector."""
        ...

    @property
    def key(self) -> str:
        """SHA-256 over weights, preparation and version of the code: equal keys, equal vectors."""
        ...

    @property
    def batch_size(self) -> int:
        """Items that are best encoded together."""
        ...

    @property
    def parallel(self) -> int:
        """Calls of ``encode`` that are best under way at once, each on threads of its own."""
        ...

    @property
    def enough(self) -> int | None:
        """A shorter side in pixels beyond which files of pictures need not be decoded; None: as usual."""
        ...

    def prepare(self, item: Any) -> Any:
        """A ``PIL.Image`` (pictures) or str (texts) as the array the network reads."""
        ...

    def encode(self, prepared: list[Any]) -> Floats:
        """Vectors, float32 (B, D)."""
        ...


def check_kind(name: str, asked: Kind, able: Kind) -> None:
    """Refuse an encoder for items of another kind."""
    if asked != able:
        raise EncoderError(f"encoder {name!r} is for {able}, and the items are {asked}; choose another one.")


ENCODERS: Mapping[str, str] = MappingProxyType(
    {
        "efficientnet-lite0": "EfficientNet-Lite0, trained on ImageNet, for pictures (1280-d); the default for them",
        "minilm-l6": "all-MiniLM-L6-v2 for texts in English (384-d); the default for them",
        "onnx:FILE": "an ONNX file of your own, for pictures",
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
    "onnx": ("onnx_networks", "open_onnx_file"),
    "checkpoint": ("torch_networks", "open_checkpoint"),
    "timm": ("torch_networks", "open_timm"),
    "hf": ("torch_networks", "open_transformers"),
}


def open_encoder(name: str | None, kind: Kind, *, threads: int | None = None) -> Encoder:
    """An encoder, ready to work.

    Parameters
    ----------
    name : str, optional
        One of :data:`ENCODERS`; what comes after a colon is a file, a folder or the name of a model. None: the default
        for the kind.
    kind : "pictures" or "texts"
    threads : int, optional
        Threads to compute on; all cores by default.

    Returns
    -------
    Encoder

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
        near = difflib.get_close_matches(full, list(ENCODERS), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ENCODERS)}."
        raise EncoderError(f"there is no encoder {full!r}; {hint}")
    if colon and not what:
        known = next(known for known in ENCODERS if known.startswith(f"{family}:"))
        raise EncoderError(f"encoder {full!r} lacks what comes after the colon; write {known}.")
    module, function = _HOMES[family]
    load: Callable[[str, Kind, int], Encoder] = getattr(
        import_module(f"laplacianshot.embedding.encoders.{module}"), function
    )
    return load(what, kind, threads or available_threads())
