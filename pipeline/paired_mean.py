"""Weighted means of numbers of rows, such as differences of losses, and their standard errors.

With numbers x_i and weights c_i, the mean and the square of its standard error are

    m = sum c_i x_i / C,    e^2 = sum c_i^2 (x_i - m)^2 / C^2,    C = sum c_i

What the rows have in common cancels in a difference, which is known far better than a loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

#: 95 % of a normal distribution are within this many standard deviations.
NORMAL_975 = 1.959963984540054


class PairedMean(NamedTuple):
    """Sums over some rows; parts can be added."""

    weight: float
    squares: float  # of weights
    total: Vector  # (...) weighted
    by_squares: Vector  # (...) by squared weights
    square_sums: Vector  # (...) squares, by squared weights

    @classmethod
    def none(cls, *shape: int) -> PairedMean:
        """Return the sums of no rows."""
        return cls(0.0, 0.0, *np.zeros((3, *shape)))

    @classmethod
    def of(cls, numbers: Vector, weight: Vector) -> PairedMean:
        """Return the sums of rows with numbers (..., n) and weights (n,)."""
        squared = weight**2
        with np.errstate(over="ignore", invalid="ignore"):  # losses may be infinite
            sums = numbers @ weight, numbers @ squared, numbers**2 @ squared
        return cls(float(weight.sum()), float(squared.sum()), *sums)

    @property
    def mean(self) -> Vector:
        """The means (...)."""
        return self.total / self.weight

    @property
    def standard_error(self) -> Vector:
        """The standard errors (...) of the means."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean
            square = self.square_sums - 2.0 * mean * self.by_squares + mean**2 * self.squares
            error: Vector = np.sqrt(np.maximum(square, 0.0)) / self.weight
        return error

    @property
    def within(self) -> Vector:
        """Half-widths (...) of the 95 % intervals of the means."""
        return NORMAL_975 * self.standard_error


class JointMeans(NamedTuple):
    """The same of M numbers of each row, with the covariance of their means.

    It tells the error of any difference of them, also where which ones comes later.
    """

    rows: int
    weight: float
    squares: float  # of weights
    total: Vector  # (M,) weighted
    by_squares: Vector  # (M,) by squared weights
    products: Vector  # (M, M) of pairs, by squared weights

    @classmethod
    def of(cls, numbers: Vector, weight: Vector) -> JointMeans:
        """Return the sums of rows with numbers (M, n) and weights (n,)."""
        squared = weight**2
        return cls(
            len(weight), float(weight.sum()), float(squared.sum()), numbers @ weight,
            numbers @ squared, (numbers * squared) @ numbers.T,
        )  # fmt: skip

    @property
    def mean(self) -> Vector:
        """The means (M,)."""
        return self.total / self.weight

    @property
    def covariance(self) -> Vector:
        """The covariance (M, M) of the means: sum c_i^2 (x_i - m)(x_i - m)' / C^2."""
        both = np.outer(self.mean, self.by_squares)
        square = self.products - both - both.T + self.squares * np.outer(self.mean, self.mean)
        return square / self.weight**2

    def errors_from(self, k: int) -> Vector:
        """Return the standard errors (M,) of how far the means are from that of number k."""
        V = self.covariance
        own = np.diagonal(V)
        error: Vector = np.sqrt(np.maximum(own - 2.0 * V[:, k] + own[k], 0.0))
        return error
