"""Texts as token numbers, and networks that read them in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.embedding.encoders.contract import EncoderError, Kind
from laplacianshot.embedding.encoders.sessions import Session, encoder_key
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

# Tokens of one run of the network: what lies between two layers then fits the processor's cache.
_RUN_TOKENS = 1024

# Tokenizers go through the whole of a text before they cut it.
_MAX_CHARACTERS = 50_000


def open_tokenizer(path: Path, max_tokens: int) -> Any:
    """The tokenizer of a ``tokenizer.json``, which cuts long texts and does not pad."""
    try:
        tokenizer = require("tokenizers", "label").Tokenizer.from_file(str(path))
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise EncoderError(f"{path} cannot be read as a tokenizer: {' '.join(str(error).split())}") from error
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


def readable(text: str) -> str:
    """A text without what no tokenizer takes: half characters of a pair; and not longer than any network reads."""
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def token_numbers(tokenizer: Any, text: str) -> NDArray[np.int64]:
    """A text as token numbers (L,)."""
    return np.array(tokenizer.encode(readable(text)).ids, dtype=np.int64)


def runs_of_equal_length(texts: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Places of texts that are run together: equally many tokens, not too many in all."""
    lengths = np.array([len(tokens) for tokens in texts])
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        step = max(1, _RUN_TOKENS // max(1, int(length)))
        for start in range(0, len(places), step):
            yield places[start : start + step]


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
        """One run a thread."""
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
