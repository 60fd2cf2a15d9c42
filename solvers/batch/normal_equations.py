"""The squared loss on rows in memory, minimised and proven by one reading.

With the constant column last in x, the sums S = sum c_i x_i x_i^T, G = sum c_i y_i x_i and
Q = sum c_i y_i^2 say everything about the objective:

    x = (S/n + L)^-1 (G/n + L x_0)      L = diag(lam, ..., lam_b),  x_0 = (0, ..., b_0)
    F(x) = (Q - 2 x . G + x . S x) / 2n + (x - x_0) . L (x - x_0) / 2
    g(x) = (S x - G) / n + L (x - x_0)

and F(x) - F* <= sum_j g_j^2 / (2 L_j) as in gradient.py.  Rounding is counted: a sum of n products
of three numbers differs by at most gamma = m u / (1 - m u) of the sum of their magnitudes from what
it should be, in whatever order it is taken (Higham 2002, section 3.1), with m a little above n and
u = 2^-53.  By Cauchy's inequality, with s_j = sqrt(S_jj), t = sum_j s_j |x_j| and q = sqrt(Q),

    |error of g_j| <= gamma (s_j (t + q) / n + L_j |x_j - x_0j|)
    |error of F|   <= gamma ((t + q)^2 / 2n + (x - x_0) . L (x - x_0) / 2)

What is proven is F with its error added, and a gap that has both.  Where F is so much smaller than
Q / 2n that this is no proof, rows have to be read again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.cholesky import solved
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, prefetch_row
from fewpass.solvers.kernels.shapes import LowerTriangle, Order, PerColumn, PerRow
from fewpass.solvers.kernels.simd.row_blocks import add_eight, add_four_squares
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate

UNIT = 2.0**-53
MORE = 40  # roundings beside those of the sums over rows and columns, with room to spare

Vector = NDArray[np.float64]  # (d + 1,), the intercept last


class Moments(NamedTuple):
    """Sums over all rows."""

    S: NDArray[np.float64]  # (d + 1, d + 1)
    G: Vector
    Q: float
    n: int


def moments_of(problem: Problem, d: int, block: Block) -> Moments:
    """Return the sums over a block's rows."""
    S, G = np.zeros((d + 1, d + 1)), np.zeros(d + 1)
    Q = add_moments(S, G, problem.intercept, *block[:4])
    lower = np.tril(S)
    return Moments(lower + np.tril(lower, -1).T, G, Q, block.order.shape[0])


def least_squares(problem: Problem, sums: Moments) -> tuple[Vector, Certificate]:
    """Return the minimum (d + 1,), and what is proven of it.

    Where nothing is, the gap is the objective or no number.
    """
    n, charge, away = sums.n, _charges(problem, len(sums.G)), np.zeros(len(sums.G))
    away[-1] = problem.level
    H = sums.S / n
    H[np.diag_indices_from(H)] += charge
    x = solved(H, sums.G / n + charge * away)
    return x, _proven(sums, charge, x, x - away)


def _charges(problem: Problem, columns: int) -> Vector:
    charge = np.full(columns, problem.lam)
    if problem.intercept:
        charge[-1] = problem.lam_b
    return charge


def _proven(sums: Moments, charge: Vector, x: Vector, away: Vector) -> Certificate:
    S, G, Q, n = sums
    roundings = (n + len(x) + MORE) * UNIT
    gamma = roundings / (1.0 - roundings)
    Sx, s = S @ x, np.sqrt(np.diagonal(S))
    reach = (float(s @ np.abs(x)) + Q**0.5) * (1.0 + gamma) ** 3  # of the true s and q
    charged = 0.5 * float(away @ (charge * away))
    g = np.abs((Sx - G) / n + charge * away)
    g += gamma * (s * reach / n + charge * np.abs(away))
    error = gamma * (0.5 * reach * reach / n + charged)
    objective = 0.5 * (Q - 2.0 * float(x @ G) + float(x @ Sx)) / n + charged + error
    gap = 0.5 * float(np.sum(g * g / charge)) * (1.0 + gamma) + 2.0 * error
    return Certificate(objective, min(gap, objective))


@kernel
def add_moments(
    S: LowerTriangle, G: PerColumn, intercept: float, rows: Rows, y: PerRow, weight: PerRow,
    order: Order,
) -> float:  # fmt: skip
    """S += weighted squares of the rows, G += weighted targets times rows; returns Q."""
    d, last, Q = G.shape[0] - 1, order.shape[0] - 1, 0.0
    eight, c, t = np.empty(8, np.int64), np.empty(8), np.empty(8)
    for start in range(0, order.shape[0], 8):
        for k in range(8):
            eight[k] = i = order[min(start + k, last)]
            prefetch_row(rows, y, weight, order, min(start + k, last))
            c[k] = weight[i] if start + k <= last else 0.0
            t[k] = c[k] * y[i]
            Q += t[k] * y[i]
            if intercept != 0.0:
                add_vector(rows, i, c[k] * intercept, S[d])
                S[d, d] += c[k] * intercept * intercept
                G[d] += t[k] * intercept
        add_four_squares(rows, eight, 0, c, S)
        add_four_squares(rows, eight, 4, c[4:], S)
        add_eight(rows, eight, 0, t, G[:d])
    return Q
