"""Array types used across the package, and the names of the feature transforms."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.integer[Any]]
Bools: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = NDArray[Any]
Transform: TypeAlias = Literal["none", "l2", "cl2", "power", "standard"]
# Transforms that take a center away, so that it lies at zero, and bring rows to length one about it.
CENTERED: tuple[Transform, ...] = ("cl2", "power")


def working_dtype(X: Floats) -> np.dtype[Any]:
    """float64 stays float64 and integers become float64; float16 and float32 are worked on in float32."""
    return np.dtype(np.float32) if X.dtype in (np.float16, np.float32) else np.dtype(np.float64)
