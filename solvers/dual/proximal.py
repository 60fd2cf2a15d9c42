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

On many columns and a few very long rows the centre does not pull all columns alike.  With h_j
the larger the larger the values of column j are, reg is lam + (r - 1) lam h_j there, and all else
as above, column by column.

The intercept has a centre of its own next to z, as in SDCA: what it is charged for leaving it grows
with r like kap, and it moves with the same momentum.  The constant column's entry of z stays 0.

Sources: Shalev-Shwartz and Zhang 2014, "Accelerated Proximal Stochastic Dual Coordinate Ascent";
Lin, Mairal and Harchaoui 2015, "A Universal Catalyst for First-Order Optimization", for alpha and
beta.  That one pass is made per centre, and how r grows, is ours.  docs/methods.md, section 7.10.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import GapPart, constant_column, gap_certificate
from fewpass.solvers.dual.sdca_state import (
    EMPTY,
    RUNNING,
    START,
    UNBOUNDED,
    Pull,
    SdcaState,
    newest_point,
)
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, ProblemStats

LONG = 50.0  # square of the longest row over the mean, from which on columns are pulled apart
MANY = 1000  # columns, likewise; up to there `newton` is at hand
POWER = 2.0 / 3.0  # of a column's mean square, in h


class Growth(NamedTuple):
    """When the centre weighs more, and how much at most."""

    above: float  # share of the gap that a pass leaves
    most: int  # largest r


def proven_at_x(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart
) -> Certificate:
    """Return what sums over all rows prove of x, the weights that the pass before ended at."""
    at = newest_point(state)
    b_dual = state.centre.unit * state.pull.dual_v / constant_column(problem, stats).left
    if np.ndim(b_dual):  # padded
        b_dual = b_dual[: len(at.intercept)]
    return gap_certificate(problem, at, b_dual, total, state.pull.away)


def watched(pull: Pull, certificate: Certificate, growth: Growth, *, first: bool) -> Pull:
    """Return how much the centre weighs next, now that a pass has certified its x.

    The first pass certifies zero weights, which nothing rises from.
    """
    P, D = certificate.objective, certificate.objective - certificate.gap
    lowest, highest = min(pull.lowest, P), max(pull.highest, D)
    rose = pull.objective < P
    slow = lowest - highest > growth.above * (pull.lowest - pull.highest)
    return pull._replace(
        r=min(pull.r + 1, growth.most) if slow else pull.r, alpha=1.0 if rose else pull.alpha,
        objective=UNBOUNDED if first else min(UNBOUNDED, P), lowest=lowest, highest=highest,
    )  # fmt: skip


def pulls(problem: Problem, stats: ProblemStats) -> NDArray[np.float64]:
    """Return h: m_j^(2/3) for the mean square m_j of column j, constant column included.

    It is scaled so that sum m_j / h_j = sum m_j: a typical row's ||x||^2 / reg falls with r as it
    does where h_j = 1 everywhere.  Where nothing is known of columns h is empty: all are alike.
    """
    if stats.columns is None:
        return EMPTY
    moments = stats.columns()
    m = np.append(moments.share * moments.square, constant_column(problem, stats).value ** 2)
    with np.errstate(over="ignore", invalid="ignore"):
        h = np.where(m > 0.0, m, 1.0) ** POWER
        h *= float((m / h).sum()) / float(m.sum() or 1.0)
    return h if np.isfinite(h).all() and h.all() else EMPTY


def momentum(alpha: float, q: float) -> tuple[float, float]:
    """Return alpha' and beta."""
    half = 0.5 * (q - alpha * alpha)
    after = half + math.sqrt(half * half + alpha * alpha)
    return after, alpha * (1.0 - alpha) / (alpha * alpha + after)


def move_centre(problem: Problem, stats: ProblemStats, state: SdcaState, pull: Pull) -> SdcaState:
    """Make the weights that a pass ended at x, and move the centre ahead of them."""
    W, z = state.W, pull.z
    w, x = W[:, RUNNING], W[:, START]
    alpha, beta = momentum(pull.alpha, 1.0 / pull.r)
    b, b_before = state.centre.intercept(w[-1]), state.centre.intercept(x[-1])
    ahead = w + beta * (w - x)
    ahead[-1] = 0.0
    x[:] = w
    before, reg = state.pull.charged, pull.charged
    if pull.r > state.pull.r:  # s = reg w - kap z stays
        w[:] = (before * w + (reg - before) * z) / reg
    if pull.r > 1:
        w += (reg - 1.0) / reg * (ahead - z)
    z[:] = ahead

    left = constant_column(problem, stats).left / float(np.ravel(reg)[-1])
    offset = (1.0 - left) * (b + beta * (b - b_before))
    centre = state.centre._replace(offset=offset)
    x[-1] = (b - offset) / centre.unit if centre.unit > 0.0 else 0.0
    return at_rest(state._replace(centre=centre, pull=pull._replace(alpha=alpha)))


def at_rest(state: SdcaState) -> SdcaState:
    """Note where a pass begins."""
    w, pull, reg = state.W[:, RUNNING], state.pull, state.pull.charged
    if len(pull.begin):
        pull.begin[:] = w
    v = reg * w - (reg - 1.0) * pull.z
    away = (state.W[:-1, START] - v[:-1]).ravel()
    dual_v = float(v[-1]) if v.ndim == 1 else v[-1].copy()
    return state._replace(pull=pull._replace(away=float(away @ away), dual_v=dual_v))
