"""The weighted mean of numbers of rows, such as differences of losses, and its standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

NORMAL_975 = (
    1.959963984540054  # 95 % of a normal distribution are within this many standard deviations
)


class PairedMean(NamedTuple):
    """Sums over some rows; parts can be added.

    With numbers x_i and weights c_i the mean and the square of its standard error are

        m = sum c_i x_i / C,    e^2 = sum c_i^2 (x_i - m)^2 / C^2,    C = sum c_i
    """

    weight: float
    squares: float  # of weights
    total: Vector  # (...) weighted
    by_squares: Vector  # (...) by squared weights
    square_sums: Vector  # (...) squares, by squared weights

    @classmethod
    def of(cls, numbers: Vector, weight: Vector) -> PairedMean:
        """Return the sums of rows with numbers (..., n) and weights (n,)."""
        squared = weight**2
        sums = numbers @ weight, numbers @ squared, numbers**2 @ squared
        return cls(float(weight.sum()), float(squared.sum()), *sums)

    @property
    def mean(self) -> Vector:
        """The means (...)."""
        return self.total / self.weight

    @property
    def within(self) -> Vector:
        """Half-widths (...) of the 95 % intervals of the means."""
        mean = self.mean
        square = self.square_sums - 2.0 * mean * self.by_squares + mean**2 * self.squares
        half: Vector = NORMAL_975 * np.sqrt(np.maximum(square, 0.0)) / self.weight
        return half
