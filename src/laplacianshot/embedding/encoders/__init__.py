"""Pretrained encoders: pictures and texts to vectors, by name.

Neither this package nor the list of encoders loads any package of an extra.
"""

from laplacianshot.embedding.encoders.registry import DEFAULTS, ENCODERS, Encoder, EncoderError, Kind, open_encoder

__all__ = ["DEFAULTS", "ENCODERS", "Encoder", "EncoderError", "Kind", "open_encoder"]
