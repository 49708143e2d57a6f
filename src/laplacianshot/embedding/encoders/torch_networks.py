"""Networks in torch: of timm, of transformers, and those that ``laplacianshot train`` has trained."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from laplacianshot.embedding.encoders import Encoder, EncoderError, Kind, check_kind, encoder_key
from laplacianshot.embedding.encoders.preparing import Normalizing, PictureInput, readable, runs_of_equal_length
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.keyed_folder import arrays_hash
from laplacianshot.runtime.threads import torch_threads

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.runtime.types import Floats

# An item as the array the network reads, and a list of such arrays as a tensor (B, D).
_Prepare: TypeAlias = Callable[[Any], Any]
_Forward: TypeAlias = Callable[[list[Any]], Any]

_WHY = "give the name of a model on the hub, which is downloaded once, or a folder of one"
_POOLING = "1_Pooling/config.json"


def _encoder(
    name: str, kind: Kind, dim: int, digest: str, threads: int, prepare: _Prepare, forward: _Forward, **options: Any
) -> Encoder:
    """A torch module as an encoder: one call at a time, on all threads.

    ``forward`` turns a list of prepared arrays into a tensor (B, D), in inference mode.
    """

    def encode(prepared: list[Any]) -> Floats:
        import torch

        with torch_threads(threads), torch.inference_mode():
            vectors = forward(list(prepared))
        return np.asarray(vectors.float().cpu().numpy())

    return Encoder(name, kind, dim, encoder_key(digest), prepare, encode, weights=digest, **options)


def _module_hash(module: Any, *about: str) -> str:
    """Which module: its weights, its class and what else decides the vectors."""
    kind = type(module)
    return arrays_hash(module.state_dict(), "\0".join((f"{kind.__module__}.{kind.__qualname__}", *about)))


@contextmanager
def _loading(name: str, why: str) -> Iterator[None]:
    """Whatever a package raises while it loads a model, in one line."""
    noisy = [logging.getLogger(package) for package in ("timm", "transformers", "huggingface_hub", "httpx")]
    levels = [logger.level for logger in noisy]
    for logger in noisy:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    except (EncoderError, ModuleNotFoundError):
        raise
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        short = said if len(said) <= 300 else f"{said[:300]}..."
        raise EncoderError(f"encoder {name!r} cannot be loaded: {short} ({why})") from error
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)


def open_timm(what: str, kind: Kind, threads: int) -> Encoder:
    """The pooled features of a network of timm, with its own size, crop, filter and normalization."""
    name = f"timm:{what}"
    check_kind(name, kind, "pictures")
    timm, torch = require("timm", "timm"), require("torch", "timm")
    with _loading(name, "timm.list_pretrained() lists the names; weights are downloaded once"):
        network = timm.create_model(what, pretrained=True, num_classes=0).eval()
        settings = timm.data.resolve_model_data_config(network)
    crop = int(settings["input_size"][-1])
    view = PictureInput(max(crop, int(crop / settings["crop_pct"])), crop, settings["interpolation"])
    normalizing = Normalizing(tuple(settings["mean"]), tuple(settings["std"]))

    def forward(pixels: list[Any]) -> Any:
        return network(torch.from_numpy(normalizing(pixels)))

    digest = _module_hash(network, repr(view), repr(normalizing))
    return _encoder(name, "pictures", network.num_features, digest, threads, view, forward, enough=view.enough)


def open_transformers(what: str, kind: Kind, threads: int) -> Encoder:
    """A model for pictures or texts; its vectors have length 1.

    Pictures: the projected features of models such as CLIP, else the pooled output, else the mean over positions.
    Texts: the projected features, else the first token where the model was trained so, else the mean over tokens.
    """
    return _transformers_pictures(what, threads) if kind == "pictures" else _transformers_texts(what, threads)


def open_clip(what: str, kind: Kind, threads: int) -> Encoder:
    """The pictures or texts of a model such as CLIP, which puts both into one space."""
    name = f"clip:{what}"
    if kind == "texts":
        return open_clip_texts(name, what, threads)
    return replace(_transformers_pictures(what, threads), name=name)


def open_clip_texts(name: str, what: str, threads: int) -> Encoder:
    """The text side of a model such as CLIP, for names of the classes of pictures."""
    transformers = require("transformers", "hf")
    with _loading(name, _WHY):
        kind = transformers.AutoConfig.from_pretrained(what)
    if not hasattr(kind, "text_config") or not hasattr(kind, "vision_config"):
        raise EncoderError(
            f"encoder {name!r} has no text side, so it cannot read names of classes; clip:NAME, hf:NAME of a model "
            "such as CLIP, and onnx:IMAGE.onnx,TEXT.onnx,TOKENIZER.json have one."
        )
    return replace(_transformers_texts(what, threads), name=name)


def _transformers_pictures(what: str, threads: int) -> Encoder:
    name = f"hf:{what}"
    transformers, torch = require("transformers", "hf"), require("torch", "hf")
    with _loading(name, _WHY):
        processor = transformers.AutoImageProcessor.from_pretrained(what)
        model = transformers.AutoModel.from_pretrained(what).eval()

    def prepare(picture: Image) -> Any:
        return processor(images=picture.convert("RGB"), return_tensors="np")["pixel_values"][0]

    def forward(pixels: list[Any]) -> Any:
        batch = torch.from_numpy(np.stack(pixels))
        if hasattr(model, "get_image_features"):
            return _unit(torch, _tensor(torch, model.get_image_features(pixel_values=batch)))
        output = model(pixel_values=batch)
        pooled = getattr(output, "pooler_output", None)
        if pooled is None:
            state = output.last_hidden_state
            pooled = state.mean(dim=(2, 3)) if state.ndim == 4 else state.mean(dim=1)
        return _unit(torch, pooled.flatten(1))

    blank = require("PIL.Image", "label").new("RGB", (64, 64))
    with _loading(name, _WHY), torch.inference_mode():
        dim = forward([prepare(blank)]).shape[1]
    digest = _module_hash(model, processor.to_json_string())
    return _encoder(name, "pictures", dim, digest, threads, prepare, forward)


def _transformers_texts(what: str, threads: int) -> Encoder:
    name = f"hf:{what}"
    transformers, torch = require("transformers", "hf"), require("torch", "hf")
    with _loading(name, _WHY):
        tokenizer = transformers.AutoTokenizer.from_pretrained(what)
        model = transformers.AutoModel.from_pretrained(what).eval()
        by_first = _pools_first_token(transformers, what)
    settings = getattr(model.config, "text_config", model.config)
    longest = min(512, tokenizer.model_max_length, getattr(settings, "max_position_embeddings", 512))

    def prepare(text: str) -> Any:
        return np.array(tokenizer(readable(text), truncation=True, max_length=longest)["input_ids"], dtype=np.int64)

    def run(tokens: Any) -> Any:
        batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        if hasattr(model, "get_text_features"):
            return _tensor(torch, model.get_text_features(**batch))
        state = model(**batch).last_hidden_state
        return state[:, 0] if by_first else state.mean(dim=1)

    def forward(texts: list[Any]) -> Any:
        # Texts of equal length together: none is padded.
        order, parts = [], []
        for places in runs_of_equal_length(texts):
            order.append(places)
            parts.append(run(torch.from_numpy(np.stack([texts[place] for place in places]))))
        back = torch.from_numpy(np.argsort(np.concatenate(order)))
        return _unit(torch, torch.cat(parts)[back])

    with _loading(name, _WHY), torch.inference_mode():
        dim = forward([prepare("an example")]).shape[1]
    digest = _module_hash(model, str(longest), str(by_first), json.dumps(sorted(tokenizer.get_vocab().items())))
    return _encoder(name, "texts", dim, digest, threads, prepare, forward, batch_size=64)


def _pools_first_token(transformers: Any, what: str) -> bool:
    """Whether a sentence model says that its first token stands for the whole."""
    path = transformers.utils.cached_file(what, _POOLING, _raise_exceptions_for_missing_entries=False)
    settings = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return bool(settings.get("pooling_mode_cls_token")) and not settings.get("pooling_mode_mean_tokens")


def _tensor(torch: Any, features: Any) -> Any:
    """Newer versions give an output with more in it."""
    return features if isinstance(features, torch.Tensor) else features.pooler_output


def _unit(torch: Any, vectors: Any) -> Any:
    return torch.nn.functional.normalize(vectors.float(), dim=1)


def open_checkpoint(what: str, kind: Kind, threads: int) -> Encoder:
    """The features of a trained network, for pictures seen as in its validation."""
    name = f"checkpoint:{what}"
    check_kind(name, kind, "pictures")
    torch = require("torch", "train")
    # Training stands after embedding; it is called by name for this one encoder, which only its users need.
    training = import_module("laplacianshot.training.checkpoint")
    plan = import_module("laplacianshot.training.plan")
    path = Path(what).expanduser()
    try:
        checkpoint = training.Checkpoint.read(path / training.BEST if path.is_dir() else path)
    except ValueError as error:
        raise EncoderError(f"encoder {name!r}: {error}") from error
    network, view = checkpoint.network(), plan.eval_view(checkpoint.config)
    normalizing = Normalizing(view.mean, view.std)

    def prepare(picture: Image) -> Any:
        return np.asarray(view.cut(picture)).reshape(view.crop, view.crop, view.channels)

    def forward(pixels: list[Any]) -> Any:
        return network.embed(torch.from_numpy(normalizing(pixels)))

    digest = _module_hash(network, network.name, repr(view))
    # As many pixels are decoded as in training.
    return _encoder(name, "pictures", network.feature_dim, digest, threads, prepare, forward, batch_size=32)
