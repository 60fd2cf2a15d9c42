"""The losses: one file each, and one line of the registry."""

from fewpass.solvers.losses.hinge import Hinge
from fewpass.solvers.losses.logistic import Logistic
from fewpass.solvers.losses.loss import (
    Loss,
    Problem,
    bracket,
    conjugate,
    counted_slope,
    curvature_at,
    direction,
    dual_step,
    from_level,
    sgd_slope,
    slope,
    steps_exactly,
    value,
)
from fewpass.solvers.losses.smoothed_hinge import SmoothedHinge
from fewpass.solvers.losses.softmax import SoftmaxLoss
from fewpass.solvers.losses.squared import Squared
from fewpass.solvers.losses.squared_hinge import SquaredHinge
from fewpass.solvers.registry import LOSSES as _WORDS
from fewpass.solvers.registry import loss_class

_EVERY: dict[str, type[Loss]] = {word: loss_class(word) for word in _WORDS}
#: Every loss of one score by name.
LOSSES: dict[str, type[Loss]] = {word: kind for word, kind in _EVERY.items() if not kind.is_wide}
