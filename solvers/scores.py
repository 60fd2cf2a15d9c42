"""Predictions of a linear function, and the loss of given predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispatch import kernel
from solvers.losses import Loss, value
from solvers.rows import Rows, count, dot_vector


def scores(coef: NDArray[np.float64], intercept: float, rows: Rows) -> NDArray[np.float64]:
    """Return x_i . coef + intercept for every row, (n,)."""
    p: NDArray[np.float64] = all_dots(rows, coef)
    p += intercept
    return p


def loss_sum(
    loss: Loss, p: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> float:
    """Return the sum of weight_i phi(p_i, y_i)."""
    return float(weighted_losses(loss, p, y, weight))


@kernel
def all_dots(rows: Any, w: Any) -> Any:
    """Dot products of all rows with w."""
    p = np.empty(count(rows))
    for i in range(count(rows)):
        p[i] = dot_vector(rows, i, w)
    return p


@kernel
def weighted_losses(loss: Any, p: Any, y: Any, weight: Any) -> Any:
    """Weighted sum of the losses of given predictions."""
    total = 0.0
    for i in range(p.shape[0]):
        total += weight[i] * value(loss, p[i], y[i])
    return total
