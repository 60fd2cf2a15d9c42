"""Sums of losses of given predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import PerRow
from fewpass.solvers.losses.loss import Loss, value


def loss_sum(
    loss: Loss, p: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> float:
    """Return the sum of weight_i phi(p_i, y_i)."""
    return float(weighted_losses(loss, p, y, weight))


@kernel
def weighted_losses(loss: Loss, p: PerRow, y: PerRow, weight: PerRow) -> float:
    """Return the weighted sum of the losses of predictions p."""
    total = 0.0
    for i in range(p.shape[0]):
        total += weight[i] * value(loss, p[i], y[i])
    return total
