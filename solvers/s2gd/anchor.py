"""The anchor of S2GD: where the last full gradient was taken, and how it moves.

Beside it the state holds y, the iterate of the inner loop, as y = A z - B G (inner_loop.py), and
the anchors before with their gradients (subspace_extrapolation.py).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.gradient import Bounds, GradientPart
from fewpass.solvers.kernels.rows import paired_zeros
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, ProblemStats, Weights, copy_state
from fewpass.solvers.s2gd.subspace_extrapolation import Subspace, best_step, no_subspace, remember


class InnerIterate(NamedTuple):
    """What y = A z - B G needs beside z and G."""

    b: float  # its intercept
    A: float = 1.0
    B: float = 0.0


class S2gdState(NamedTuple):
    """Everything that changes.  Columns of W: z and G; y = A z - B G, x is the anchor."""

    W: NDArray[np.float64]  # (d, 2)
    y: InnerIterate
    x: Weights
    G_b: float  # derivative of the mean loss with respect to the intercept, at x
    bounds: Bounds  # at x
    subspace: Subspace  # the anchors before x
    held: int  # how many of them there are
    h: float  # step of one row alone
    left: int  # rows that the inner loop still has to visit
    epoch: int  # gradients taken
    rejected: int  # epochs that were undone
    row_version: int  # which sweep's slopes are those at x


def first_anchor(at: Weights, h: float, stats: ProblemStats, subspace: int) -> S2gdState:
    """Return the state at some weights, before any gradient."""
    W = paired_zeros(stats.rows_kind, stats.d)
    W[:, 0] = at.coef
    return S2gdState(
        W, InnerIterate(at.intercept), copy_state(at), G_b=0.0, bounds=Bounds(),
        subspace=no_subspace(subspace, stats.d), held=0, h=h, left=0, epoch=0, rejected=0,
        row_version=-1,
    )  # fmt: skip


def gradient_at_anchor(problem: Problem, state: S2gdState) -> Weights:
    """Return the gradient of the whole objective at x."""
    x = state.x
    return Weights(state.W[:, 1] + problem.lam * x.coef, state.G_b + problem.lam_b * x.intercept)


def remember_anchor(problem: Problem, state: S2gdState) -> S2gdState:
    """Keep x and its gradient among the last anchors before x moves."""
    most = len(state.subspace.X)
    if most == 0 or state.epoch == 0:
        return state
    remember(state.subspace, state.x, gradient_at_anchor(problem, state))
    return state._replace(held=min(state.held + 1, most))


def begin_ahead(problem: Problem, state: S2gdState) -> S2gdState:
    """Let the inner loop begin where the quadratic over the subspace is least."""
    if state.held == 0:
        return state
    gradient = gradient_at_anchor(problem, state)
    ahead = best_step(state.subspace, state.held, state.x, gradient)
    state.W[:, 0] += ahead.coef
    return state._replace(y=state.y._replace(b=state.y.b + ahead.intercept))


def move_anchor(
    state: S2gdState, at: Weights, total: GradientPart, found: Certificate
) -> S2gdState:
    """Put the anchor at the weights that a gradient was taken at."""
    state.x.coef[:] = state.W[:, 0] = at.coef
    state.W[:, 1] = total.G / total.rows
    return state._replace(
        y=InnerIterate(at.intercept),
        x=Weights(state.x.coef, at.intercept),
        G_b=total.g_b / total.rows,
        bounds=state.bounds.moved(found),
    )


def own_inner(state: S2gdState) -> S2gdState:
    """Copy what an inner loop changes in place; the anchor and those before it are only read."""
    return state._replace(W=state.W.copy(order="K"))


def rows_left(state: S2gdState) -> int:
    """Return the rows that the inner loop still has to visit."""
    return state.left


def average(_problem: Problem, _stats: ProblemStats, states: list[S2gdState]) -> S2gdState:
    """Average the streams' y; one stream stays as it is, bit for bit."""
    if len(states) == 1:
        return states[0]
    first = states[0]
    first.W[:, 0] = np.mean([s.y.A * s.W[:, 0] - s.y.B * s.W[:, 1] for s in states], axis=0)
    return first._replace(y=InnerIterate(math.fsum(s.y.b for s in states) / len(states)))
