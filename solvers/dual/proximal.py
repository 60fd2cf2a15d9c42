"""The proximal centre of `psdca`: where it goes from pass to pass, and how much it weighs.

A pass takes SDCA's steps for the objective with reg in place of lam and kap = reg - lam charged
for the distance from a centre z,

    w = (s + kap z) / reg,      s = (1/n) sum_i weight_i a_i s_i x_i = reg w - kap z

so that v = s / lam is the w(a) of duality.py.  With reg = r lam, and after a pass that ended at x':

    if P rose since the pass before:        alpha = 1, no momentum this time
    if the gap fell by less than asked:     r <- min(r + 1, most)
    w  <- (s + kap z) / reg                 reg and kap anew
    q   = 1 / r                             alpha' > 0:  alpha'^2 = (1 - alpha') alpha^2 + q alpha'
    z' <- x' + beta (x' - x)                beta = alpha (1 - alpha) / (alpha^2 + alpha')
    w  <- w + (kap/reg) (z' - z)

The intercept has a centre of its own beside z, as in SDCA: what it is charged for leaving it grows
with r like kap, and it moves with the same momentum.  The constant column's entry of z stays 0.

Sources: Shalev-Shwartz and Zhang 2014, "Accelerated Proximal Stochastic Dual Coordinate Ascent";
Lin, Mairal and Harchaoui 2015, "A Universal Catalyst for First-Order Optimization", for alpha and
beta.  That one pass is made per centre, and how r grows, is ours.  docs/methods.md, section 7.10.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.dual.best_weights import BestWeights
from solvers.dual.duality import Centre, GapPart, constant_column, gap_certificate
from solvers.dual.sdca_state import (
    RUNNING,
    START,
    PassSums,
    newest_point,
    read_column,
    refresh_is_due,
)
from solvers.loss_monitor import LossSum
from solvers.losses import Problem
from solvers.protocol import Certificate, ProblemStats

ANY = sys.float_info.max  # what no objective exceeds, for infinity is not stored


class Pull(NamedTuple):
    """How much the centre weighs, and what that goes by."""

    r: int = 1  # reg / lam
    alpha: float = 1.0
    objective: float = ANY  # P(x) as the pass before found it
    lowest: float = ANY  # P of all passes
    highest: float = -ANY  # D of all passes
    away: float = 0.0  # ||x - v||^2 where the pass began, the constant column left out
    dual_v: float = 0.0  # v's entry of the constant column there

    @property
    def remains(self) -> float:
        """kap / reg: the centre's share of the weights."""
        return (self.r - 1) / self.r


class PsdcaState(NamedTuple):
    """What SDCA carries (sdca_state.py: SdcaState), x being column START, and the centre.

    z and begin end in the constant column's weight, too.
    """

    W: NDArray[np.float64]  # (d + 1, 2) columns x, w
    fresh: NDArray[np.float64]  # (d + 1,) s / reg added up anew in this pass; 0 unless adding
    best: BestWeights
    centre: Centre
    shares: NDArray[np.float64]  # (k,) of the numbers kept per row
    stretch: float
    beta: float
    sums: PassSums
    monitor: LossSum
    passes: int
    visits: int
    unproven: int
    row_version: int
    z: NDArray[np.float64]  # (d + 1,) the centre
    begin: NDArray[np.float64]  # (d + 1,) w where the pass began; (0,) for one stream
    pull: Pull

    @property
    def refreshing(self) -> bool:
        """See SdcaState."""
        return refresh_is_due(self.passes)

    @property
    def adding(self) -> bool:
        """See SdcaState."""
        return self.refreshing or self.unproven & 1 == 1


class Growth(NamedTuple):
    """When the centre weighs more, and how much at most."""

    above: float  # share of the gap that a pass leaves
    most: int  # largest r


def proven_at_x(
    problem: Problem, stats: ProblemStats, state: PsdcaState, total: GapPart
) -> Certificate:
    """Return what sums over all rows prove of x, the weights that the pass before ended at."""
    b_dual = state.centre.unit * state.pull.dual_v / constant_column(problem, stats).left
    return gap_certificate(problem, newest_point(state), b_dual, total, state.pull.away)


def watched(pull: Pull, found: Certificate, growth: Growth, *, first: bool) -> Pull:
    """Return how much the centre weighs next, now that a pass has certified its x.

    The first pass certifies zero weights, which nothing rises from.
    """
    P, D = found.objective, found.objective - found.gap
    lowest, highest = min(pull.lowest, P), max(pull.highest, D)
    rose = pull.objective < P
    slow = lowest - highest > growth.above * (pull.lowest - pull.highest)
    return pull._replace(
        r=min(pull.r + 1, growth.most) if slow else pull.r, alpha=1.0 if rose else pull.alpha,
        objective=ANY if first else min(ANY, P), lowest=lowest, highest=highest,
    )  # fmt: skip


def momentum(alpha: float, q: float) -> tuple[float, float]:
    """Return alpha' and beta."""
    half = 0.5 * (q - alpha * alpha)
    after = half + math.sqrt(half * half + alpha * alpha)
    return after, alpha * (1.0 - alpha) / (alpha * alpha + after)


def move_centre(problem: Problem, stats: ProblemStats, state: PsdcaState, pull: Pull) -> PsdcaState:
    """Make the weights that a pass ended at x, and move the centre ahead of them."""
    W, z, before = state.W, state.z, state.pull.r
    w, x = W[:, RUNNING], W[:, START]
    alpha, beta = momentum(pull.alpha, 1.0 / pull.r)
    b, b_before = read_column(state, RUNNING).intercept, read_column(state, START).intercept
    ahead = w + beta * (w - x)
    ahead[-1] = 0.0
    x[:] = w
    if pull.r > before:  # by one: kap grows by lam
        w[:] = (before * w + z) / pull.r
    if pull.r > 1:
        w += pull.remains * (ahead - z)
    z[:] = ahead

    offset = (1.0 - constant_column(problem, stats).left / pull.r) * (b + beta * (b - b_before))
    centre = state.centre._replace(offset=offset)
    x[-1] = (b - offset) / centre.unit if centre.unit > 0.0 else 0.0
    return at_rest(state._replace(centre=centre, pull=pull._replace(alpha=alpha)))


def at_rest(state: PsdcaState) -> PsdcaState:
    """Note where a pass begins."""
    w, pull = state.W[:, RUNNING], state.pull
    if len(state.begin):
        state.begin[:] = w
    v = pull.r * w - (pull.r - 1) * state.z
    away = state.W[:-1, START] - v[:-1]
    return state._replace(pull=pull._replace(away=float(away @ away), dual_v=float(v[-1])))
