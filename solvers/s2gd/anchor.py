"""The anchor of S2GD: the point of the last full gradient.

The state also has y, the iterate of the inner loop, as y = A z - B G (inner_loop.py), and the
previous anchors with their gradients.  An epoch begins with a step in their span.  With the
differences dx_i = x_i - x and dg_i = g_i - g, the minimum in x + span(dx) of the quadratic with
these gradients is at x + s,

    s = sum a_i dx_i,     Q a = -(dx_i . g),     Q_ij = dx_i . dg_j  (its symmetric part)

This solves directions of small curvature, in which an inner loop hardly moves.  The inner loop must
start at x + s, instead of s being added to its result, so that no decrease is counted twice.  Not
in the papers; on a9a, w8a, ijcnn1 and reuters it saves half to nine tenths of the passes to a
certified 1e-6 (docs/methods.md, section 6).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.gradient import Bounds, GradientPart
from fewpass.solvers.kernels.rows import paired_zeros
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, JoinByPairs, ProblemStats, Weights, copy_state

Vector = NDArray[np.float64]
TILE = 8192  # columns: a few vectors of this length fit into a core's cache
LEAST_CURVATURE = 1e-10  # of the largest; smaller ones are rounding errors of the differences


class Subspace(NamedTuple):
    """The last anchors with the gradients of the objective; newest first."""

    X: NDArray[np.float64]  # (k, d + 1) weights, then the intercept
    G: NDArray[np.float64]  # (k, d + 1)


def no_subspace(most: int, d: int) -> Subspace:
    """Return an empty subspace for `most` anchors."""
    return Subspace(np.zeros((most, d + 1)), np.zeros((most, d + 1)))


def remember(subspace: Subspace, at: Weights, gradient: Weights) -> None:
    """Insert an anchor at the front and drop the oldest, in place."""
    for rows, newest in zip(subspace, (at, gradient), strict=True):
        rows[1:] = rows[:-1].copy()
        rows[0, :-1], rows[0, -1] = newest


def best_step(subspace: Subspace, n_anchors: int, at: Weights, gradient: Weights) -> Weights:
    """Return s for the first `n_anchors` anchors; zero without any."""
    Q, q, squares = np.zeros((n_anchors, n_anchors)), np.zeros(n_anchors), np.zeros(n_anchors)
    for part, x, g in _parts(at, gradient):
        dX, dG = subspace.X[:n_anchors, part] - x, subspace.G[:n_anchors, part] - g
        Q += dX @ dG.T
        q += dX @ g
        squares += (dX * dX).sum(axis=1)
    lengths = np.where(squares == 0.0, 1.0, np.sqrt(squares))
    a = _least(Q / np.outer(lengths, lengths), q / lengths) / lengths
    s = np.empty(at.coef.size + 1)
    for part, x, _ in _parts(at, gradient):
        s[part] = a @ (subspace.X[:n_anchors, part] - x)
    return Weights(s[:-1], float(s[-1]))


def _parts(at: Weights, gradient: Weights) -> Iterator[tuple[slice, Vector, Vector]]:
    """Yield parts of x and g that fit into the cache; the intercepts come last."""
    d = at.coef.size
    for start in range(0, d, TILE):
        part = slice(start, min(start + TILE, d))
        yield part, at.coef[part], gradient.coef[part]
    yield slice(d, d + 1), np.array([at.intercept]), np.array([gradient.intercept])


def _least(Q: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a with Q a = -q on the directions of positive curvature of Q."""
    if not np.isfinite(Q).all():
        return np.zeros_like(q)
    values, vectors = np.linalg.eigh(0.5 * (Q + Q.T))
    curved = values > LEAST_CURVATURE * max(values.max(initial=0.0), np.finfo(float).tiny)
    turned = vectors[:, curved]
    a: NDArray[np.float64] = -(turned @ ((turned.T @ q) / values[curved]))
    return a


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
    """Average the streams' y."""
    first.W[:, 0] = total.coef / streams
    return first._replace(y=InnerIterate(total.intercept / streams))


IN_PAIRS = JoinByPairs(stream_y, mean_y)
