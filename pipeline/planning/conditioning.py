"""The conditioning of a problem, from what ingest measured, and S2GD's passes by it.

In n steps of size h, the slow directions of the objective move by h n.  For S2GD the relevant
number is

    K = 1 / (4 h mu n)        for h = 1 / (4 L):  K = L / (mu n)

With epochs of one gradient and one pass of inner steps, a relative certificate of 10^-D usually
took

    passes = 2 + D + 2.4 sqrt(K) D          (3 + 2 D + 0.3 K D^2 without subspace)

expected_passes.py has the other methods.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.losses import Problem, value
from fewpass.solvers.losses.wide_loss import WideLoss
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.wide_gradient import loss_at_zero

PER_DIGIT, PER_ROOT = 1.0, 2.4
PLAIN_PER_DIGIT, PLAIN_CURVED = 2.0, 0.3  # subspace = 0


class Conditioning(NamedTuple):
    """The conditioning of a problem; smoothness is with constant column and regularisation."""

    largest: float  # largest smoothness of a row's loss
    mean: float  # mean smoothness of the rows
    mu: float  # strong convexity: lam

    @property
    def kappa(self) -> float:
        """Condition number of the theory: largest smoothness / mu."""
        return self.largest / self.mu

    def slowness(self, n: int) -> float:
        """Return K for n rows."""
        return self.mean / (self.mu * n)


def conditioning(problem: Problem, stats: ProblemStats) -> Conditioning | None:
    """Return L and mu from the statistics of ingest; None if L / mu is infinite, as for a kink.

    So it is for an l1 penalty alone, which is not strongly convex.

    lam_b is left out of mu: the data determine the intercept, not its regularisation.
    """
    if math.isinf(problem.loss.curvature) or problem.lam == 0.0:
        return None
    largest = smoothness(problem, stats, stats.max_square * stats.max_weight)
    if math.isinf(largest / problem.lam):  # rows too long, or lam too small
        return None
    mean = smoothness(problem, stats, stats.mean_square)
    return Conditioning(largest, mean, mu=problem.lam)


def condition_of_all(problem: Problem, stats: ProblemStats) -> float:
    """Return kappa_f, smoothness of the objective / mu, at least slightly above 1."""
    return max(1.0 + 1e-6, smoothness(problem, stats, stats.sigma_square) / problem.lam)


def zero_loss(problem: Problem, stats: ProblemStats) -> float:
    """Return the objective at zero weights."""
    if isinstance(problem.loss, WideLoss):
        return loss_at_zero(problem.loss)
    square = stats.target_square if problem.loss.takes_numbers else 1.0
    return float(value(problem.loss, 0.0, math.sqrt(square)))


def gap_of(stats: ProblemStats, tol: float) -> float:
    """Return f - f* of a tolerance, the optimum taken for F_0; for 1 where F_0 is unknown."""
    return tol * (min(stats.constants) or 1.0)


def share_of_start(problem: Problem, stats: ProblemStats, tol: float) -> float:
    """Return how small f - f* is to become in terms of f(0), the most that it is at the start."""
    gap = gap_of(stats, tol)
    return gap / max(gap, zero_loss(problem, stats))


def digits(tol: float) -> float:
    """Return D of a tolerance, its number of digits."""
    return max(0.0, -math.log10(tol))


def slowness(h: float, mu: float, n: int) -> float:
    """Return K for a step size h per row visited."""
    return 1.0 / (4.0 * h * mu * n)


def usual_passes(K: float, tol: float, inner_passes: float = 1.0, subspace: bool = True) -> float:
    """Return the passes until the certificate's `relative` is at most `tol`.

    An epoch is a gradient and `inner_passes` passes of inner steps.
    """
    D, K = digits(tol), K / inner_passes
    if subspace:
        epochs = (1.0 + PER_DIGIT * D + PER_ROOT * math.sqrt(K) * D) / 2.0
    else:
        epochs = (2.0 + PLAIN_PER_DIGIT * D + PLAIN_CURVED * K * D**2) / 2.0
    return 1.0 + epochs * (1.0 + inner_passes)


def slowness_for(passes: float, tol: float) -> float | None:
    """Return the K for which `usual_passes` is `passes`, with subspace; None without any."""
    D = digits(tol)
    left = passes - 2.0 - PER_DIGIT * D
    return (left / (PER_ROOT * D)) ** 2 if left > 0.0 and D > 0.0 else None
