"""Pretrained networks of the package timm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laplacianshot.embedding.encoders.contract import Encoder, Kind
from laplacianshot.embedding.encoders.kinds import check_kind
from laplacianshot.embedding.encoders.normalizing import Normalizing
from laplacianshot.embedding.encoders.picture_input import PictureInput
from laplacianshot.embedding.encoders.torch_networks import TorchEncoder, loading, module_hash
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image


def load(what: str, kind: Kind, threads: int) -> Encoder:
    """The pooled features of a network of timm, with its own size, crop, filter and normalization."""
    name = f"timm:{what}"
    check_kind(name, kind, "pictures")
    timm, torch = require("timm", "timm"), require("torch", "label")
    with loading(name, "timm.list_pretrained() lists the names; weights are downloaded once"):
        network = timm.create_model(what, pretrained=True, num_classes=0).eval()
        told = timm.data.resolve_model_data_config(network)
    crop = int(told["input_size"][-1])
    view = PictureInput(max(crop, int(crop / told["crop_pct"])), crop, told["interpolation"])
    normalizing = Normalizing(tuple(told["mean"]), tuple(told["std"]))

    def prepare(picture: Image) -> Any:
        return view(picture)

    def forward(pixels: list[Any]) -> Any:
        return network(torch.from_numpy(normalizing(pixels)))

    digest = module_hash(network, repr(view), repr(normalizing))
    return TorchEncoder(name, "pictures", network.num_features, digest, threads, prepare, forward, enough=view.enough)
