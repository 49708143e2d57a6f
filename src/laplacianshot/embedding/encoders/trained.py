"""Networks that ``laplacianshot train`` has trained."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.embedding.encoders.contract import Encoder, EncoderError, Kind
from laplacianshot.embedding.encoders.kinds import check_kind
from laplacianshot.embedding.encoders.normalizing import Normalizing
from laplacianshot.embedding.encoders.torch_networks import TorchEncoder, module_hash
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image


def load(what: str, kind: Kind, threads: int) -> Encoder:
    """The features of a trained network, for pictures seen as in its validation."""
    name = f"checkpoint:{what}"
    check_kind(name, kind, "pictures")
    torch = require("torch", "label")
    # Training stands after embedding; it is called by name for this one encoder, which only its users need.
    training = import_module("laplacianshot.training.checkpoint")
    views = import_module("laplacianshot.training.plan")
    geometry = import_module("laplacianshot.embedding.pictures.geometry")
    path = Path(what).expanduser()
    try:
        checkpoint = training.Checkpoint.read(path / training.BEST if path.is_dir() else path)
    except ValueError as error:
        raise EncoderError(f"encoder {name!r}: {error}") from error
    network, view = checkpoint.network(), views.eval_view(checkpoint.config)
    normalizing = Normalizing(view.mean, view.std)
    mode = "RGB" if view.channels == 3 else "L"

    def prepare(picture: Image) -> Any:
        plain = picture if picture.mode == mode else picture.convert(mode)
        cut = geometry.resized_center(plain, view.resize, view.crop)
        return np.asarray(cut).reshape(view.crop, view.crop, view.channels)

    def forward(pixels: list[Any]) -> Any:
        return network.embed(torch.from_numpy(normalizing(pixels)))

    digest = module_hash(network, network.name, repr(view))
    # As many pixels are decoded as in training.
    return TorchEncoder(name, "pictures", network.feature_dim, digest, threads, prepare, forward, batch_size=32)
