"""Arrays as text, every bit of them, for members of JSON documents."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def as_text(array: NDArray[Any]) -> str:
    """Return the bytes of an array in base64."""
    return base64.b64encode(array.tobytes()).decode()


def from_text(text: str, dtype: DTypeLike) -> NDArray[Any]:
    """Return the numbers (n,) of a type that `as_text` wrote; ValueError where they are none."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)
