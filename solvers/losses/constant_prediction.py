"""The mean loss of the best constant prediction: what certified gaps are compared with.

    F_0 = min over b of sum_i weight_i phi(b, y_i) / sum_i weight_i

It says how large objectives are before anything is learnt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses.loss import Loss, slope, value

#: Halvings of the interval around the best constant: F_0 is a scale, not a result.
HALVINGS, LOOK, CLOSE = 48, 6, 1e-3
MOST_DOUBLINGS = 100
#: Least F_0 over the loss at 0: targets far from 0 leave no more digits of their differences.
ROUNDED = 1e-9


def constant_losses(
    loss: Loss, y: NDArray[np.float64], weight: NDArray[np.float64], *, intercept: bool
) -> tuple[float, ...]:
    """Return F_0 for the targets y (m,) with each row of weights (K, m), or at b = 0.

    Parameters
    ----------
    loss
        Its values and slopes take arrays.
    y
        Targets, as the loss takes them.
    weight
        Of each target in each of K models, at least 0; scaled here.
    intercept
        Whether there is a constant to choose.
    """
    share = weight / weight.sum(axis=1, keepdims=True)
    zero = np.zeros((len(share), 1))
    if not intercept:
        return tuple(_means(loss, zero, y, share).tolist())
    b = loss.best_constant((share * y).sum(axis=1, keepdims=True))
    b = _searched(loss, y, share) if b is None else b
    both = _means(loss, np.concatenate([zero, b]), y, np.concatenate([share, share]))
    at_zero, best = np.split(both, 2)
    return tuple(np.maximum(np.minimum(best, at_zero), ROUNDED * at_zero).tolist())


def _searched(
    loss: Loss, y: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where the mean slopes change their sign, (K, 1): they never fall."""
    low, high = (_beyond(loss, y, share, side) for side in (-1.0, 1.0))
    for halving in range(HALVINGS):
        middle = 0.5 * (low + high)
        slopes = _slopes(loss, middle, y, share)
        if halving % LOOK == LOOK - 1:  # by convexity no constant is better by more than this
            most = np.abs(slopes) * (high - low)
            if (most <= CLOSE * _means(loss, middle, y, share)[:, None]).all():
                return middle
        rising = slopes > 0.0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    return 0.5 * (low + high)


def _beyond(
    loss: Loss, y: NDArray[np.float64], share: NDArray[np.float64], side: float
) -> NDArray[np.float64]:
    """Return constants (K, 1) on one side of the best ones: +-1, +-2, +-4, ..."""
    b = np.full((len(share), 1), side)
    for _ in range(MOST_DOUBLINGS):
        short = side * _slopes(loss, b, y, share) < 0.0
        if not short.any():
            break
        b = np.where(short, 2.0 * b, b)
    return b


def _slopes(
    loss: Loss, b: NDArray[np.float64], y: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    means: NDArray[np.float64] = (share * slope(loss, b, y)).sum(axis=1, keepdims=True)
    return means


def _means(
    loss: Loss, b: NDArray[np.float64], y: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    means: NDArray[np.float64] = (share * value(loss, b, y)).sum(axis=1)
    return means
