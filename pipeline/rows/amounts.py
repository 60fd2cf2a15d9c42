"""Test of whether numbers from 0 are predicted better as amounts, whose effects multiply.

The squared loss and that of amounts (poisson) have the mean for their best prediction, so models
of both are compared by the squared errors of their predictions.  Where few large targets decide
these, and they do not tell the models apart, the deviance of the loss of amounts does, which counts
errors in proportion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import value
from fewpass.solvers.registry import LOSS_OF_AMOUNTS, loss_class

Vector = NDArray[np.float64]

LEAST_ROWS = 100
VARIES = 0.2  # of the mean: of targets that differ less a logarithm is nearly a line
LOWER = 0.01  # squared errors by which it is worth a logarithm
MUCH, SURE = 0.1, 2.0  # deviance, and standard errors of it, where squared errors do not tell
FLOOR = 0.01  # of the mean target: a prediction of 0 is infinitely far from any other target


class AmountsAgainstNumbers(NamedTuple):
    """Errors of models of amounts above those of models of numbers, as shares of the latter."""

    square: float  # of squared errors
    square_error: float  # its standard error
    deviance: float
    deviance_error: float

    @property
    def are_nearer(self) -> bool:
        """True if models of amounts predict better."""
        lower = self.square <= -max(LOWER, self.square_error)
        unsure = abs(self.square) <= self.square_error
        return lower or (unsure and self.deviance <= -max(MUCH, SURE * self.deviance_error))


def may_multiply(least: float, mean: float, variance: float) -> bool:
    """Return whether targets are numbers from 0 that differ by a fifth of their mean."""
    return least >= 0.0 and variance >= (VARIES * mean) ** 2 > 0.0


def prediction_errors(predicted: Vector, y: Vector, mean: float) -> Vector:
    """Return the squared errors of predictions (n,), and their loss as amounts: (2, n)."""
    scores = np.log(np.maximum(predicted, FLOOR * mean))
    of_amounts = value(loss_class(LOSS_OF_AMOUNTS)(), scores, y)
    return np.array([np.square(predicted - y), of_amounts])
