"""What is drift beyond the usual: a column's index against what its own indices were lately.

Nights differ by more than chance, and each column by a measure of its own: how far it usually moves
is the mean of its indices over the nights before.  The ratio to that mean is compared with a
quantile of Snedecor's F, so that one stable month in twenty has a false alarm.  Twelve degrees of
freedom of the mean, in place of one a night, allow for nights that are not normal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.models.refresh.drift_index import Index
from fewpass.pipeline.models.refresh.night_statistics import Vector

NIGHTS, SAME_WEEKDAY = 28, 4  # that a night is compared with, the newest
ENOUGH = 13  # nights before with an index, from which on they say what is usual
LEAST = 0.02  # of an index that is reported, without what chance makes
MOST_AT_FIRST = 0.25  # of a column's drift, while nobody knows what is usual
FALSE_ALARMS, MONTH = 0.05, 30.0  # months with one, nights
ROUNDING = 1e-12  # of an index
OF_THE_MEAN = 6  # halves of the degrees of freedom of the mean: 12


class Usual(NamedTuple):
    """What P columns and S shares are compared with, each (P + S,)."""

    moves: Vector  # the mean of theirs, or what chance makes, if more
    limit: Vector  # of an index; infinite while nobody knows what is usual

    @classmethod
    def of(cls, index: Index, mean: Vector | None) -> Usual:
        """Return what is usual by the mean of the nights before; None: there are too few."""
        usual = np.maximum(index.chance, ROUNDING if mean is None else np.maximum(mean, ROUNDING))
        if mean is None:
            return cls(usual, np.full(len(usual), np.inf))
        ever_moved = int(np.count_nonzero(usual > ROUNDING))  # others cannot raise a false alarm
        share = FALSE_ALARMS / (MONTH * max(1, ever_moved))
        freedom, of = np.unique(index.freedom, return_inverse=True)
        return cls(usual, usual * upper_quantile(share, freedom)[of])

    @property
    def is_estimated(self) -> bool:
        """Return whether enough nights say what is usual."""
        return bool(np.isfinite(self.limit[0]))

    def exceeds(self, index: Index) -> NDArray[np.bool_]:
        """Say which columns and shares moved further than they usually do; none if nobody knows."""
        return (index.moved > self.limit) & (index.beyond_chance > LEAST)

    def how_far(self, index: Index) -> Vector:
        """Return how far columns and shares moved, to be compared with each other."""
        return index.moved / self.limit if self.is_estimated else index.beyond_chance

    def times(self, index: Index, place: int) -> float | None:
        """Return how many times as far as usually one moved: indices are squares of distances."""
        ratio = float(index.moved[place] / self.moves[place])
        return math.sqrt(ratio) if self.is_estimated else None


def upper_quantile(tail: float, freedom: Vector) -> Vector:
    """Return what F with (freedom, 12) degrees of freedom exceeds with probability `tail`.

    With y = 12 / (12 + d F) it exceeds F with probability 1 - (1 - y)^a (1 + sum (a)_i y^i / i!)
    for a = d / 2 and i from 1 to 5, as 12 is even; y is bisected.
    """
    a = 0.5 * freedom
    i = np.arange(1.0, OF_THE_MEAN)
    coefficients = np.cumprod((a[:, None] + i - 1.0) / i, axis=1)
    low, high = np.zeros(len(a)), np.ones(len(a))
    for _ in range(80):
        y = 0.5 * (low + high)
        series = (coefficients * y[:, None] ** i).sum(axis=1)
        below = -np.expm1(a * np.log1p(-y) + np.log1p(series)) < tail
        low, high = np.where(below, y, low), np.where(below, high, y)
    quantile: Vector = OF_THE_MEAN * (1.0 - high) / (a * high)
    return quantile
