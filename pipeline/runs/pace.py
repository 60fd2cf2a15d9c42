"""How long a training may be silent, by its own pace: a stuck one differs from a slow one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

TIMES = 10.0  # the usual silence
FLOOR_S = 60.0  # a shorter silence is never too long
FEWEST = 3  # silences that a usual one is known from
NEWEST = 50  # that it is the median of


class Silence(NamedTuple):
    """How long a training has been silent, and how long it may be."""

    seconds: float
    usual: float  # seconds from one sign of progress to the next
    most: float

    @property
    def is_stalled(self) -> bool:
        """Whether it has been silent for longer than it may."""
        return self.seconds > self.most

    def sentence(self) -> str:
        """Say how long it has been silent, and what is usual."""
        return f"no progress for {self.seconds:.0f} s, where {self.usual:.1f} s are usual"


def silence(before: Sequence[float], seconds: float, floor: float = FLOOR_S) -> Silence | None:
    """Judge a silence by those before it; None while they are too few.

    Parameters
    ----------
    before
        Seconds between signs of progress, the newest last.
    seconds
        Since the last one.
    floor
        Seconds that any training may be silent.
    """
    if len(before) < FEWEST:
        return None
    usual = median(before[-NEWEST:])
    return Silence(seconds, usual, max(TIMES * usual, floor))
