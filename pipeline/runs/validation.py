"""Scores of held-out rows after every epoch, and when they end a training."""

from __future__ import annotations

import math
from typing import NamedTuple

from fewpass.solvers.protocol import Certificate

#: A held-out loss counts as lower where it is so by this share: the last digits always move.
LEAST_GAIN = 1e-4


class ValidationPoint(NamedTuple):
    """Scores of the model after some passes."""

    passes: float
    loss: float  # mean
    error: float | None = None  # None for numbers
    #: Of the metric asked for, lower is better; None: the loss, also where it has no meaning.
    cost: float | None = None

    @property
    def criterion(self) -> float:
        """Return the figure that points are compared by: the lower the better."""
        return self.loss if self.cost is None else self.cost


class Validation(NamedTuple):
    """The curve so far, with what belongs to the model of its lowest point."""

    curve: tuple[ValidationPoint, ...]
    sweeps: int  # done when held-out rows were last read
    waited: int  # points since the loss fell by more than `LEAST_GAIN`
    level: float  # the loss that it has to fall below by that
    certified: Certificate | None = None  # what is proven of the best model

    @property
    def best(self) -> ValidationPoint:
        """The lowest point, of equal ones the first."""
        return min(self.curve, key=lambda point: point.criterion)

    @property
    def is_at_best(self) -> bool:
        """Return whether the last point is the lowest."""
        return self.best is self.curve[-1]

    def is_over(self, n_iter_no_change: int) -> bool:
        """Return whether the loss has not fallen for N points."""
        return self.waited >= n_iter_no_change


def extended(
    before: Validation | None, point: ValidationPoint, sweeps: int, certified: Certificate | None
) -> Validation:
    """Return the curve with one more point, whose model has this certificate."""
    if before is None:
        return Validation((point,), sweeps, 0, point.criterion, certified)
    gain = LEAST_GAIN * abs(before.level) if math.isfinite(before.level) else 0.0
    fell = point.criterion < before.level - gain
    made = before._replace(
        curve=(*before.curve, point),
        sweeps=sweeps,
        waited=0 if fell else before.waited + 1,
        level=point.criterion if fell else before.level,
    )
    return made._replace(certified=certified) if made.is_at_best else made
