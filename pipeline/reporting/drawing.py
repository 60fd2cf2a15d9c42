"""Whether there is what pictures are drawn with."""

from __future__ import annotations

from importlib.util import find_spec


def can_draw() -> bool:
    """Say whether matplotlib is installed (`fewpass[plots]`)."""
    return find_spec("matplotlib") is not None
