"""Encoders are for items of one kind."""

from __future__ import annotations

from laplacianshot.embedding.encoders.contract import EncoderError, Kind


def check_kind(name: str, asked: Kind, able: Kind) -> None:
    """Refuse an encoder for items of another kind."""
    if asked != able:
        raise EncoderError(f"encoder {name!r} is for {able}, and the items are {asked}; choose another one.")
