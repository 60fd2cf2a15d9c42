"""Predictions of a linear function."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, count, dot_vector
from fewpass.solvers.kernels.shapes import PerColumn, PerRow


def scores(coef: NDArray[np.float64], intercept: float, rows: Rows) -> NDArray[np.float64]:
    """Return x_i . coef + intercept of every row, (n,)."""
    p: NDArray[np.float64] = all_dots(rows, np.ascontiguousarray(coef))
    p += intercept
    return p


class Ranking(NamedTuple):
    """The best of several linear functions for each row, all arrays (n,)."""

    best: NDArray[np.int64]  # the function with the highest score
    score: NDArray[np.float64]  # its score


def rank(
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    rows: Rows,
    tell: Callable[[int, NDArray[np.float64]], None] = lambda _k, _p: None,
) -> Ranking:
    """Return every row's best of K functions, coef (K, d) and intercept (K,).

    `tell` is called with each function's number and its scores of all rows (n,).
    """
    n = count(rows)
    best, score = np.zeros(n, np.int64), np.full(n, -np.inf)
    for k in range(len(coef)):
        p = scores(coef[k], float(intercept[k]), rows)
        tell(k, p)
        best[p > score] = k
        np.maximum(score, p, out=score)
    return Ranking(best, score)


@kernel
def all_dots(rows: Rows, w: PerColumn) -> PerRow:
    """Return the dot products of all rows with w, (n,)."""
    p = np.empty(count(rows))
    for i in range(count(rows)):
        p[i] = dot_vector(rows, i, w)
    return p
