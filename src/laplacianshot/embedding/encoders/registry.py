"""Every encoder by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from laplacianshot.embedding.encoders.contract import Encoder, EncoderError, Kind
from laplacianshot.runtime.threads import available_threads

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

# The module that opens each; what it needs is loaded with it.
_HOMES = {
    "efficientnet-lite0": "lite0",
    "minilm-l6": "minilm",
    "onnx": "onnx_file",
    "checkpoint": "trained",
    "timm": "from_timm",
    "hf": "from_transformers",
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
    load: Callable[[str, Kind, int], Encoder] = import_module(f"laplacianshot.embedding.encoders.{_HOMES[family]}").load
    return load(what, kind, threads or available_threads())
