"""The range of targets seen, which predicted numbers are clipped to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.targets import Targeted
from fewpass.solvers.losses import Loss
from fewpass.storage.manifest import Labels

Bounds = tuple[float, float]


def range_with(seen: Bounds | None, targets: NDArray[np.float64]) -> Bounds:
    """Return the lowest and the highest of targets (n,) and of those seen before."""
    return union_of(seen, (float(targets.min()), float(targets.max())))


def union_of(one: Bounds | None, other: Bounds) -> Bounds:
    """Return the range of two."""
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


def with_zero(seen: Bounds) -> Bounds:
    """Return what predictions are clipped to: 0 is the lower bound where no target is below it."""
    return min(seen[0], 0.0), seen[1]


def range_of(data: Targeted, loss: Loss, positive: str | None) -> Bounds | None:
    """Return the range of the targets of a data set; None where no numbers are predicted."""
    if not loss.takes_numbers or positive is not None:
        return None
    targets = data.targets
    if isinstance(targets, Labels):
        numbers = [float(label) for label in targets.labels]
        return min(numbers), max(numbers)
    return targets.minimum, targets.maximum


def clipped(predictions: NDArray[np.float64], bounds: Bounds | None) -> NDArray[Any]:
    """Return predictions (n,) within bounds; as they are without."""
    return predictions if bounds is None else np.clip(predictions, *bounds)
