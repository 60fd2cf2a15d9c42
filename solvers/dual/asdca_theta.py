"""Choice of theta, the share of a batch's gradients that a step of asdca takes over.

With k = lam n / (q R^2), S = sigma^2 / R^2 between R^2/n and 1, and q, R, sigma the curvature of
the loss, the length of the longest row and the root of the largest eigenvalue of mean x x^T, the
rate of Theorem 1 is proven for any theta in (0, 1] that meets

    (i)    m theta^2 S / k                                         <=  1 - m theta/n
    (ii)   V (S m theta^3 / k^2 + theta (1 + m theta/n) / k)       <=  1 - theta

where V R^2 m theta^2 / n^2 times the mean square of what rows are off bounds the variance of a
batch's move.  V = (n-m)/(n-1) for batches that are uniform among all rows.  The paper's (3) is a
simple theta for S = 1 that leaves a factor of 4 and more of both unused; the printed proof of its
Lemma 4 only uses that the mean of the losses is smooth, which is true with S, too.

Batches are drawn from the window in memory.  In a shuffled set the window is itself a uniform
choice of rows, and so, then, is the batch: V is the whole set's.  In any other set like rows may
lie together.  Their mean is off by what the whole set's S does not know, and Lemma 1 of Takac et
al. with the window's own n_c and sigma_c^2 takes the place of the variance (sdca_batches.py):
V R^2 = (1 - r) R_c^2 + r n_c sigma_c^2, r = (m-1)/(n_c-1).

Source: Shalev-Shwartz and Zhang 2013, Theorem 1 and (3); docs/methods.md, section 7.7.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from fewpass.solvers.dual.duality import Column, constant_column
from fewpass.solvers.dual.sdca_batches import curvatures
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, ProblemStats

Theta = Literal["paper", "exact", "sigma"] | Annotated[float, Field(gt=0.0, le=1.0)]
FAR_BELOW = 0.005
HALVINGS = 60  # of the interval that theta is looked for in


EASIEST = 1e150  # of k: its square, and that of 1/k, stay numbers


class Scale(NamedTuple):
    """Numbers that theta depends on, constant column counted in."""

    n: int
    k: float  # lam n / (q R^2); infinite where all rows are empty, or as good as that
    square: float  # R^2


def short_column(problem: Problem, stats: ProblemStats) -> Column:
    """Return a constant column that is no longer than sigma: all rows share it, so it adds to S.

    It stays as long as lam_p needs to be far below the curvature of the loss (duality.py).
    """
    if stats.sigma_square == 0.0:
        return constant_column(problem, stats)
    charge = min(problem.lam / stats.sigma_square, FAR_BELOW * problem.loss.curvature)
    return constant_column(problem, stats, problem.intercept**2 * charge)


def scale_of(problem: Problem, stats: ProblemStats) -> Scale:
    """Work out the scale of a problem."""
    column = short_column(problem, stats).value
    square = stats.max_weight * (stats.max_square + column**2)
    curved = problem.loss.curvature * square
    k = problem.lam * stats.n / curved if curved > 0.0 else math.inf
    return Scale(stats.n, max(k, 1.0 / EASIEST) if k < EASIEST else math.inf, square)


def estimated_sigma_share(problem: Problem, stats: ProblemStats) -> float:
    """Upper estimate of sigma^2/R^2; 1 if unknown."""
    square = scale_of(problem, stats).square
    column = short_column(problem, stats).value
    return min(1.0, (stats.sigma_square + column**2) / square) if square > 0.0 else 1.0


def theta_of_paper(of: Scale, m: int) -> float:
    """(3) of the paper."""
    return 0.25 * min(1.0, math.sqrt(of.k / m), of.k, math.pow(of.k, 2 / 3) / math.pow(m, 1 / 3))


def largest_theta(of: Scale, m: int, S: float, V: float) -> float:
    """Return the largest theta that meets (i) and (ii), to rounding: both only get tighter."""
    if math.isinf(of.k):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        first = m * t * t * S / of.k <= 1.0 - m * t / of.n
        second = V * (S * m * t**3 / of.k**2 + t * (1.0 + m * t / of.n) / of.k) <= 1.0 - t
        low, high = (t, high) if first and second else (low, t)
    return low


def uniform_variance(n: int, m: int) -> float:
    """V of batches of m rows that are uniform among all n."""
    return max(0, n - m) / max(1, n - 1)


def variance(of: Scale, stats: ProblemStats, block: Block, column: float, m: int) -> float:
    """V of batches of m rows of a block."""
    if stats.shuffled or of.square == 0.0 or block.order.shape[0] == 1:
        return uniform_variance(of.n, m)
    return curvatures(block, stats.d, column, "safe", m).largest / of.square


def usual_batch(problem: Problem, stats: ProblemStats) -> int:
    """1/S rows, rounded down: these are worth a serial step each, nearly; 1 if not shuffled.

    At m = 1/S the terms with S take at most a quarter of what (i) and (ii) leave room for, and
    theta is more than 0.89 of that for m = 1, whatever k is.
    """
    alone = 1 if not stats.shuffled else int(1.0 / estimated_sigma_share(problem, stats))
    return max(1, min(stats.n, alone))
