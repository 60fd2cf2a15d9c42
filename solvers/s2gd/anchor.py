"""The anchor of S2GD: the point of the last full gradient.

The state also has y, the iterate of the inner loop, as y = A z - B G (inner_loop.py), and the
previous anchors with their gradients (subspace_extrapolation.py).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.gradient import Bounds, GradientPart
from fewpass.solvers.kernels.rows import paired_zeros
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, JoinByPairs, ProblemStats, Weights, copy_state
from fewpass.solvers.s2gd.subspace_extrapolation import Subspace, best_step, no_subspace, remember


class InnerIterate(NamedTuple):
    """The scalars of y = A z - B G."""

    b: float  # its intercept
    A: float = 1.0
    B: float = 0.0


class S2gdState(NamedTuple):
    """The state.  Columns of W: z and G; y = A z - B G, x is the anchor."""

    W: NDArray[np.float64]  # (d, 2)
    y: InnerIterate
    x: Weights
    G_b: float  # derivative of the mean loss with respect to the intercept, at x
    bounds: Bounds  # at x
    subspace: Subspace  # previous anchors
    n_anchors: int  # number of previous anchors
    h: float  # step size for batches of one row
    left: int  # rows left in the inner loop
    epoch: int  # gradients computed
    rejected: int  # epochs that were undone
    row_version: int  # the sweep that wrote the slopes at x


def first_anchor(at: Weights, h: float, stats: ProblemStats, subspace: int) -> S2gdState:
    """Return the state at given weights, before any gradient."""
    W = paired_zeros(stats.rows_kind, stats.d)
    W[:, 0] = at.coef
    return S2gdState(
        W, InnerIterate(at.intercept), copy_state(at), G_b=0.0, bounds=Bounds(),
        subspace=no_subspace(subspace, stats.d), n_anchors=0, h=h, left=0, epoch=0, rejected=0,
        row_version=-1,
    )  # fmt: skip


def gradient_at_anchor(problem: Problem, state: S2gdState) -> Weights:
    """Return the gradient of the whole objective at x."""
    x = state.x
    g_b = state.G_b + problem.lam_b * (x.intercept - problem.level)
    return Weights(state.W[:, 1] + problem.lam * x.coef, g_b)


def remember_anchor(problem: Problem, state: S2gdState) -> S2gdState:
    """Add x and its gradient to the previous anchors, before x moves."""
    most = len(state.subspace.X)
    if most == 0 or state.epoch == 0:
        return state
    remember(state.subspace, state.x, gradient_at_anchor(problem, state))
    return state._replace(n_anchors=min(state.n_anchors + 1, most))


def begin_ahead(problem: Problem, state: S2gdState) -> S2gdState:
    """Start the inner loop at the minimum of the quadratic over the subspace."""
    if state.n_anchors == 0:
        return state
    gradient = gradient_at_anchor(problem, state)
    ahead = best_step(state.subspace, state.n_anchors, state.x, gradient)
    state.W[:, 0] += ahead.coef
    return state._replace(y=state.y._replace(b=state.y.b + ahead.intercept))


def move_anchor(
    state: S2gdState, at: Weights, total: GradientPart, certified: Certificate
) -> S2gdState:
    """Move the anchor to the weights of a gradient."""
    state.x.coef[:] = state.W[:, 0] = at.coef
    state.W[:, 1] = total.G / total.rows
    return state._replace(
        y=InnerIterate(at.intercept),
        x=Weights(state.x.coef, at.intercept),
        G_b=total.g_b / total.rows,
        bounds=state.bounds.moved(certified),
    )


def own_inner(state: S2gdState) -> S2gdState:
    """Copy the arrays that an inner loop changes in place; anchors are only read."""
    return state._replace(W=state.W.copy(order="K"))


def rows_left(state: S2gdState) -> int:
    """Return the rows left in the inner loop."""
    return state.left


def average(_problem: Problem, _stats: ProblemStats, states: list[S2gdState]) -> S2gdState:
    """Average the streams' y; a single stream stays the same, bit for bit."""
    if len(states) == 1:
        return states[0]
    first = states[0]
    first.W[:, 0] = np.mean([s.y.A * s.W[:, 0] - s.y.B * s.W[:, 1] for s in states], axis=0)
    return first._replace(y=InnerIterate(math.fsum(s.y.b for s in states) / len(states)))


class StreamSum(NamedTuple):
    """Sum of streams' y."""

    coef: NDArray[np.float64]
    intercept: float


def stream_y(_problem: Problem, _stats: ProblemStats, state: S2gdState) -> StreamSum:
    """Return a stream's y."""
    return StreamSum(state.y.A * state.W[:, 0] - state.y.B * state.W[:, 1], state.y.b)


def mean_y(
    _problem: Problem, _stats: ProblemStats, first: S2gdState, total: StreamSum, streams: int
) -> S2gdState:
    """Average the streams' y by their sum."""
    first.W[:, 0] = total.coef / streams
    return first._replace(y=InnerIterate(total.intercept / streams))


IN_PAIRS = JoinByPairs(stream_y, mean_y)
