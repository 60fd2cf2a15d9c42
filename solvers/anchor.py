"""The anchor of S2GD: where the last full gradient was taken, and how it moves.

Beside it the state holds y, the iterate of the inner loop, as y = A z - B G (inner_loop.py), and
the anchors before with their gradients (secants.py).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.gradient import GradientPart, tightened
from solvers.losses import Problem
from solvers.protocol import Certificate, Facts, Weights
from solvers.rows import paired_zeros
from solvers.secants import Secants, best_step, no_secants, remember


class S2gdState(NamedTuple):
    """Everything that changes.  Columns of W: z and G; y = A z - B G, x is the anchor."""

    W: NDArray[np.float64]  # (d, 2)
    x: NDArray[np.float64]  # (d,)
    b: float  # intercept of y
    x_b: float  # intercept of x
    G_b: float  # derivative of the mean loss with respect to it, at x
    A: float
    B: float
    h: float  # step of one row alone
    left: int  # rows that the inner loop still has to visit
    epoch: int  # gradients taken
    objective: float  # at x
    gap: float  # at most this far is x above the optimum
    lower: float  # the optimum is not below
    row_version: int  # which sweep's slopes are those at x
    rejected: int  # epochs that were undone
    X: NDArray[np.float64]  # (secants, d + 1) the anchors before x, newest first
    G: NDArray[np.float64]  # (secants, d + 1) gradients there
    held: int  # how many of them there are


def first_anchor(at: Weights, h: float, facts: Facts, secants: int) -> S2gdState:
    """Return the state at some weights, before any gradient."""
    W = paired_zeros(facts.rows_kind, facts.d)
    W[:, 0] = at.coef
    return S2gdState(
        W, at.coef.copy(), at.intercept, at.intercept, G_b=0.0, A=1.0, B=0.0, h=h, left=0, epoch=0,
        objective=0.0, gap=0.0, lower=0.0, row_version=-1, rejected=0,
        **no_secants(secants, facts.d)._asdict(), held=0,
    )  # fmt: skip


def gradient_at_anchor(problem: Problem, state: S2gdState) -> Weights:
    """Return the gradient of the whole objective at x."""
    return Weights(state.W[:, 1] + problem.lam * state.x, state.G_b + problem.lam_b * state.x_b)


def remember_anchor(problem: Problem, state: S2gdState) -> S2gdState:
    """Keep x and its gradient among the secants before x moves."""
    most = len(state.X)
    if most == 0 or state.epoch == 0:
        return state
    at = Weights(state.x, state.x_b)
    remember(Secants(state.X, state.G), at, gradient_at_anchor(problem, state))
    return state._replace(held=min(state.held + 1, most))


def begin_ahead(problem: Problem, state: S2gdState) -> S2gdState:
    """Let the inner loop begin where the secants' quadratic is least."""
    if state.held == 0:
        return state
    at, gradient = Weights(state.x, state.x_b), gradient_at_anchor(problem, state)
    ahead = best_step(Secants(state.X, state.G), state.held, at, gradient)
    state.W[:, 0] += ahead.coef
    return state._replace(b=state.b + ahead.intercept)


def move_anchor(
    state: S2gdState, at: Weights, total: GradientPart, found: Certificate
) -> S2gdState:
    """Put the anchor at the weights that a gradient was taken at."""
    gap, lower = tightened(found, state.lower)
    state.x[:] = state.W[:, 0] = at.coef
    state.W[:, 1] = total.G / total.rows
    return state._replace(
        b=at.intercept,
        x_b=at.intercept,
        G_b=total.g_b / total.rows,
        A=1.0,
        B=0.0,
        objective=found.objective,
        gap=gap,
        lower=lower,
    )


def own_inner(state: S2gdState) -> S2gdState:
    """Copy what an inner loop changes in place; the anchor and the secants are only read."""
    return state._replace(W=state.W.copy(order="K"))


def rows_left(state: S2gdState) -> int:
    """Return the rows that the inner loop still has to visit."""
    return state.left


def average(_problem: Problem, _facts: Facts, states: list[S2gdState]) -> S2gdState:
    """Average the streams' y; one stream stays as it is, bit for bit."""
    if len(states) == 1:
        return states[0]
    first = states[0]
    first.W[:, 0] = np.mean([s.A * s.W[:, 0] - s.B * s.W[:, 1] for s in states], axis=0)
    return first._replace(A=1.0, B=0.0, b=math.fsum(s.b for s in states) / len(states))
