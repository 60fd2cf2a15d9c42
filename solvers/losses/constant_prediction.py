"""The best constant prediction: where the intercept is charged from, and what gaps compare with.

    F_0 = min over b of sum_i weight_i phi(b, y_i) / sum_i weight_i

F_0 says how large objectives are before anything is learnt, and b_0, its b, where scores are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses.loss import Loss, slope, value

#: Halvings of the interval around the best constant: F_0 is a scale, not a result.
HALVINGS, LOOK, CLOSE = 48, 6, 1e-3
MOST_DOUBLINGS = 100
#: Of b_0: targets so far from 0 leave no more digits of their differences, and F_0 is no less than
#: the loss of a constant so far off.
ROUNDED = 1e-9


LEAST_ROWS = 0.5  # that a class without rows counts as: its log odds would have no end


class BestConstants(NamedTuple):
    """Best constants of each of K models."""

    scores: tuple[float, ...]  # b_0
    losses: tuple[float, ...]  # F_0


def some_of_each(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights of labels, none of which is 0."""
    return np.maximum(weight, LEAST_ROWS)


def best_constants(
    loss: Loss,
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    *,
    intercept: bool,
    close: float = CLOSE,
) -> BestConstants:
    """Return b_0 and F_0 for the targets y (m,) with each row of weights (K, m), or of b = 0.

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
    close
        How good it is, relative to F_0, where it is searched for; 0: to rounding.
    """
    share = weight / weight.sum(axis=1, keepdims=True)
    zero = np.zeros((len(share), 1))
    at_zero = _means(loss, zero, y, share)
    if not intercept:
        return BestConstants((0.0,) * len(share), tuple(at_zero.tolist()))
    b = loss.best_constant((share * y).sum(axis=1, keepdims=True))
    b = _searched(loss, y, share, close) if b is None else b
    best = np.maximum(
        *(_means(loss, b * side, y, share) for side in (1.0 - ROUNDED, 1.0 + ROUNDED))
    )
    return BestConstants(tuple(b[:, 0].tolist()), tuple(np.minimum(best, at_zero).tolist()))


def _searched(
    loss: Loss, y: NDArray[np.float64], share: NDArray[np.float64], close: float
) -> NDArray[np.float64]:
    """Return where the mean slopes change their sign, (K, 1): they never fall."""
    low, high = (_beyond(loss, y, share, side) for side in (-1.0, 1.0))
    for halving in range(HALVINGS):
        middle = 0.5 * (low + high)
        slopes = _slopes(loss, middle, y, share)
        if halving % LOOK == LOOK - 1:  # by convexity no constant is better by more than this
            most = np.abs(slopes) * (high - low)
            if (most <= close * _means(loss, middle, y, share)[:, None]).all():
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
