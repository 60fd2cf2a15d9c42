"""The largest eigenvalue of mean x x^T: a measure of how parallel the rows are.

It determines the step size of mini-batches: with b rows it may be b / beta_b times as long,
beta_b = 1 + (b - 1) sigma^2 / R^2 between 1 (orthogonal rows) and b (equal rows).

Differs from (11) of Takac et al. 2013, which has (n sigma^2 - 1)/(n - 1) for sigma^2 at R = 1: ours
is larger, by at most (b - 1)/n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector
from fewpass.solvers.kernels.shapes import Order, PerColumn, PerRow

MOST_ROWS = 1000  # of a sample: its eigenvalue is some percent too high, hardly ever too low
ITERATIONS = 30
CONVERGED = 1e-3  # relative change at which the iteration ends
SAMPLED_TOO_LOW = 1.05  # the power iteration ends slightly below the eigenvalue


def sigma_square(
    rows: Rows, weight: NDArray[np.float64], d: int, order: NDArray[np.int64]
) -> float:
    """Return the largest eigenvalue of (1/m) sum weight_i x_i x_i^T over order's first 1000 rows.

    Power iteration to about 0.1 %, from below.
    """
    return largest_eigenvector(rows, weight, d, order)[0]


def largest_eigenvector(
    rows: Rows, weight: NDArray[np.float64], d: int, order: NDArray[np.int64], column: float = 0.0
) -> tuple[float, NDArray[np.float64]]:
    """Return the same eigenvalue and its vector, (d + 1,) of length 1, or 0 if all rows are 0.

    Every row ends in a constant, `column`.  The iteration starts at a positive vector, which suits
    rows without negative numbers.
    """
    sample = order[:MOST_ROWS]
    u = np.random.default_rng(0).uniform(0.5, 1.5, d + 1)
    u[d] *= column != 0.0
    eigenvalue = 0.0
    for _ in range(ITERATIONS):
        v = np.zeros(d + 1)
        before, eigenvalue = eigenvalue, float(multiply(u, v, rows, weight, sample, column))
        size = float(np.linalg.norm(v))
        if size == 0.0:
            return 0.0, v
        u = v / size
        if abs(eigenvalue - before) <= CONVERGED * eigenvalue:
            break
    return eigenvalue, u


@kernel
def multiply(
    u: PerColumn, v: PerColumn, rows: Rows, weight: PerRow, sample: Order, column: float
) -> float:
    """v += (1/m) sum weight_i x_i (x_i . u) over m rows; returns u . v over ||u||^2."""
    total, square, m, d = 0.0, 0.0, sample.shape[0], u.shape[0] - 1
    for i in sample:
        p = dot_vector(rows, i, u) + column * u[d]
        total += weight[i] * p * p
        step = weight[i] * p / m
        add_vector(rows, i, step, v)
        v[d] += step * column
    for j in range(u.shape[0]):
        square += u[j] * u[j]
    return total / (m * square)


def batch_factor(b: int, sigma_square: float, max_square: float) -> float:
    """Return beta_b: a batch of b rows counts as b / beta_b rows, at worst."""
    if max_square == 0.0:
        return 1.0
    return 1.0 + (b - 1) * min(1.0, sigma_square / max_square)
