"""How many passes a method is going to take: by theory, and as measured.

A step h at each of n rows follows the slow directions of the objective for a time h n, so what
decides for S2GD is

    K = 1 / (4 h mu n)        for h = 1 / (4 L):  K = L / (mu n)

To a relative certificate of 10^-D, epochs of one gradient and one pass of inner steps usually took

    passes = 2 + D + 2.4 sqrt(K) D          (3 + 2 D + 0.3 K D^2 without subspace)

Dual coordinate ascent, with the same K for the mean L, took 1 + D + 1.5 K D, with a proximal centre
1 + D + 0.7 (sqrt(min(K, 16)) + K / 4096) D, in accelerated mini-batches 1 + D / theta,
L-BFGS 4 + 0.5 kappa_f^(1/3) D and accelerated gradient descent 1 + 1.1 kappa_f^(1/2) D, with
kappa_f = L_f / mu, L_f the smoothness of the objective as a whole.
Each method says its own (`expected_passes`), from what stands here.  docs/evidence.md tells on what
that was measured, and how far single problems are off.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.losses import Problem, value
from fewpass.solvers.protocol import ProblemStats

PER_DIGIT, PER_ROOT = 1.0, 2.4
PLAIN_PER_DIGIT, PLAIN_CURVED = 2.0, 0.3  # subspace = 0


class Conditioning(NamedTuple):
    """What decides how hard a problem is."""

    largest: float  # every row's loss is that smooth, constant column and regularisation included
    mean: float  # the rows' smoothness on average
    mu: float  # strong convexity: lam

    @property
    def kappa(self) -> float:
        """The theory's condition number: the largest smoothness over mu."""
        return self.largest / self.mu

    def slowness(self, n: int) -> float:
        """K of n rows."""
        return self.mean / (self.mu * n)


def conditioning(problem: Problem, stats: ProblemStats) -> Conditioning | None:
    """Work out L and mu from what ingest measured; None where L / mu is infinite, as at a kink.

    The intercept's own lam_b is left out of mu: the data decide it, not its regularisation.
    """
    if math.isinf(problem.loss.curvature):
        return None
    largest = smoothness(problem, stats, stats.max_square * stats.max_weight)
    if math.isinf(largest / problem.lam):  # on rows that are too long, or for too small a lam
        return None
    mean = smoothness(problem, stats, stats.mean_square)
    return Conditioning(largest, mean, mu=problem.lam)


def condition_of_all(problem: Problem, stats: ProblemStats) -> float:
    """kappa_f: smoothness of the objective as a whole over mu, a little above 1 at least."""
    return max(1.0 + 1e-6, smoothness(problem, stats, stats.sigma_square) / problem.lam)


def zero_loss(problem: Problem, stats: ProblemStats) -> float:
    """Objective of zero weights."""
    square = stats.target_square if problem.loss.takes_numbers else 1.0
    return float(value(problem.loss, 0.0, math.sqrt(square)))


def digits(tol: float) -> float:
    """D of a tolerance."""
    return max(0.0, -math.log10(tol))


def slowness(h: float, mu: float, n: int) -> float:
    """K of a step h per row visited."""
    return 1.0 / (4.0 * h * mu * n)


def usual_passes(K: float, tol: float, inner_passes: float = 1.0, subspace: bool = True) -> float:
    """Passes until the certificate, over max(1, |objective|), is at most `tol`.

    An epoch is a gradient and `inner_passes` passes of inner steps.
    """
    D, K = digits(tol), K / inner_passes
    if subspace:
        epochs = (1.0 + PER_DIGIT * D + PER_ROOT * math.sqrt(K) * D) / 2.0
    else:
        epochs = (2.0 + PLAIN_PER_DIGIT * D + PLAIN_CURVED * K * D**2) / 2.0
    return 1.0 + epochs * (1.0 + inner_passes)


def slowness_for(passes: float, tol: float) -> float | None:
    """K at which `usual_passes` says that many with subspace; None where none is small enough."""
    D = digits(tol)
    left = passes - 2.0 - PER_DIGIT * D
    return (left / (PER_ROOT * D)) ** 2 if left > 0.0 and D > 0.0 else None
