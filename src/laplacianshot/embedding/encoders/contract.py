"""What every encoder is: items of one kind to vectors of one length, under a key that says which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from laplacianshot.runtime.errors import InputError

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
        """As :func:`open_encoder` takes it."""
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
