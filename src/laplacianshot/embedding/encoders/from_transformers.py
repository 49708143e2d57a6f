"""Models of the package transformers, by their name on the hub or in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.embedding.encoders.contract import Encoder, Kind
from laplacianshot.embedding.encoders.texts import readable, runs_of_equal_length
from laplacianshot.embedding.encoders.torch_networks import TorchEncoder, loading, module_hash
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image

_WHY = "give the name of a model on the hub, which is downloaded once, or a folder of one"
_POOLING = "1_Pooling/config.json"


def load(what: str, kind: Kind, threads: int) -> Encoder:
    """A model for pictures or texts; its vectors have length 1.

    Pictures: the projected features of models such as CLIP, else the pooled output, else the mean over positions.
    Texts: the projected features, else the first token where the model was trained so, else the mean over tokens.
    """
    return _pictures(what, threads) if kind == "pictures" else _texts(what, threads)


def _pictures(what: str, threads: int) -> Encoder:
    name = f"hf:{what}"
    transformers, torch = require("transformers", "hf"), require("torch", "label")
    with loading(name, _WHY):
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
    with loading(name, _WHY), torch.inference_mode():
        dim = forward([prepare(blank)]).shape[1]
    digest = module_hash(model, processor.to_json_string())
    return TorchEncoder(name, "pictures", dim, digest, threads, prepare, forward)


def _texts(what: str, threads: int) -> Encoder:
    name = f"hf:{what}"
    transformers, torch = require("transformers", "hf"), require("torch", "label")
    with loading(name, _WHY):
        tokenizer = transformers.AutoTokenizer.from_pretrained(what)
        model = transformers.AutoModel.from_pretrained(what).eval()
        by_first = _pools_first_token(transformers, what)
    longest = min(512, tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 512))

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

    with loading(name, _WHY), torch.inference_mode():
        dim = forward([prepare("an example")]).shape[1]
    digest = module_hash(model, str(longest), str(by_first), json.dumps(sorted(tokenizer.get_vocab().items())))
    return TorchEncoder(name, "texts", dim, digest, threads, prepare, forward, batch_size=64)


def _pools_first_token(transformers: Any, what: str) -> bool:
    """Whether a sentence model says that its first token stands for the whole."""
    path = transformers.utils.cached_file(what, _POOLING, _raise_exceptions_for_missing_entries=False)
    told = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return bool(told.get("pooling_mode_cls_token")) and not told.get("pooling_mode_mean_tokens")


def _tensor(torch: Any, features: Any) -> Any:
    """Newer versions give an output with more in it."""
    return features if isinstance(features, torch.Tensor) else features.pooler_output


def _unit(torch: Any, vectors: Any) -> Any:
    return torch.nn.functional.normalize(vectors.float(), dim=1)
