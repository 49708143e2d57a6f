"""Networks in torch, whichever package they come from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.embedding.encoders.contract import EncoderError, Kind
from laplacianshot.embedding.encoders.sessions import encoder_key
from laplacianshot.embedding.store.key import arrays_hash
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.torch_threads import torch_threads

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats


@dataclass(frozen=True)
class TorchEncoder:
    """A torch module as an encoder: one call at a time, on all threads.

    Attributes
    ----------
    name : str
    kind : "pictures" or "texts"
    dim : int
    digest : str
        Which weights and which preparation.
    threads : int
    preparing : callable
        An item as an array.
    forward : callable
        A list of such arrays as a tensor (B, D), in inference mode.
    """

    name: str
    kind: Kind
    dim: int
    digest: str
    threads: int
    preparing: Callable[[Any], Any] = field(repr=False)
    forward: Callable[[list[Any]], Any] = field(repr=False)
    batch_size: int = 16
    enough: int | None = None
    parallel: int = 1

    @property
    def key(self) -> str:
        """SHA-256 over weights, preparation and version of the code."""
        return encoder_key(self.digest)

    def prepare(self, item: Any) -> Any:
        """An item as the array the network reads."""
        return self.preparing(item)

    def encode(self, prepared: Sequence[Any]) -> Floats:
        """Vectors (B, D)."""
        torch = require("torch", "label")
        with torch_threads(self.threads), torch.inference_mode():
            vectors = self.forward(list(prepared))
        return np.asarray(vectors.float().cpu().numpy())


def module_hash(module: Any, *about: str) -> str:
    """Which module: its weights, its class and what else decides the vectors."""
    kind = type(module)
    return arrays_hash(module.state_dict(), "\0".join((f"{kind.__module__}.{kind.__qualname__}", *about)))


@contextmanager
def loading(name: str, why: str) -> Iterator[None]:
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
