"""The losses: one file each, and a line of the registry."""

from solvers.losses.hinge import Hinge
from solvers.losses.logistic import Logistic
from solvers.losses.loss import (
    Loss,
    Problem,
    conjugate,
    curvature_at,
    direction,
    dual_step,
    sgd_slope,
    slope,
    steps_exactly,
    value,
)
from solvers.losses.smoothed_hinge import SmoothedHinge
from solvers.losses.squared import Squared
from solvers.losses.squared_hinge import SquaredHinge
from solvers.registry import LOSSES as _WORDS
from solvers.registry import loss_class

#: Every loss by its word.
LOSSES: dict[str, type[Loss]] = {word: loss_class(word) for word in _WORDS}

__all__ = [
    "LOSSES",
    "Hinge",
    "Logistic",
    "Loss",
    "Problem",
    "SmoothedHinge",
    "Squared",
    "SquaredHinge",
    "conjugate",
    "curvature_at",
    "direction",
    "dual_step",
    "sgd_slope",
    "slope",
    "steps_exactly",
    "value",
]
