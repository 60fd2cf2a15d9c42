"""Takac, Bijral, Richtarik and Srebro (2013), "Mini-batch primal and dual methods for SVMs".

Algorithm 1, Pegasos with mini-batches; SDCA, serial or in naive and safe mini-batches; Algorithm 2,
SDCA with aggressive mini-batches.

The kernels (dual/pegasos.py, dual/sdca_steps.py, dual/sdca_batches.py) differ: a sum of the
violating rows in place of the shrinking w, and weights that follow the dual variables in place of
being worked out anew for every row.  Rows may have any length and weight: sdca_batches.py says what
becomes of beta then.  A batch that would lower D is shortened in place of left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem, conjugate, dual_step
from fewpass.solvers.papers.xu_2011 import Floats


class BatchIterate(NamedTuple):
    """The models that rows of a batch were predicted by."""

    begin: int  # rows visited before
    rows: int  # of the batch
    w: Floats
    b: float


def pegasos(
    problem: Problem, X: Floats, y: Floats, weight: Floats, batches: Iterable[NDArray[np.int64]],
    start: BatchIterate, lam_b: float = 1.0, offset: float = 0.0,
) -> tuple[list[BatchIterate], BatchIterate]:  # fmt: skip
    """Return the iterates of Algorithm 1, and the one after them.

    Steps count rows: eta = 1 / (lam t) with t the rows visited, so that a batch of fewer rows is a
    shorter step.

    Parameters
    ----------
    problem, X, y, weight
        As the package says; the loss is the hinge.
    batches
        Rows of each batch.
    start
        Where to begin, without `offset`.
    lam_b, offset
        What the intercept's distance from `offset` is charged.
    """
    _, _, w, v = start
    t, iterates = start.begin, []
    for A in batches:
        b = v + offset if problem.intercept else 0.0
        iterates.append(BatchIterate(t, len(A), w, b))
        z = y[A] * (X[A] @ w + problem.intercept * b)
        g = weight[A] * y[A] * (z < 1.0)  # A+: the rows that violate the margin
        after = t + len(A)
        w = t / after * w + X[A].T @ g / (problem.lam * after)
        v = t / after * v + problem.intercept * g.sum() / (lam_b * after)
        t = after
    return iterates, BatchIterate(t, 0, w, v)


def sdca_pass(
    problem: Problem, X: Floats, y: Floats, weight: Floats, batches: Iterable[NDArray[np.int64]],
    a: Floats, lam_b: float = 1.0, offset: float = 0.0, beta: float = 1.0,
) -> Floats:  # fmt: skip
    """Return the dual variables after a pass of dual coordinate ascent, (14) and (15).

    The rows of a batch are predicted by the same w(a), and each takes the step that would be best
    for it alone if its curvature were `beta` times as large: batches of one row and beta = 1 are
    serial SDCA, larger ones with beta = 1 the naive batches, with beta_b of (11) the safe ones.

    Parameters
    ----------
    problem, X, y, weight
        As the package says; with the hinge a_i is the paper's alpha_i.
    batches
        Rows of each batch.
    a : (n,)
        The dual variables before.
    lam_b, offset
        What the intercept's distance from `offset` is charged.
    beta
        By what the curvature of a row is multiplied.
    """
    n, a = len(y), a.copy()
    sides = np.ones(n) if problem.loss.takes_numbers else y
    squares = np.sum(X * X, axis=1) / problem.lam + problem.intercept**2 / lam_b
    for A in batches:
        u = weight * a * sides
        w = X.T @ u / (n * problem.lam)
        b = problem.intercept * u.mean() / lam_b + (offset if problem.intercept else 0.0)
        p = X[A] @ w + problem.intercept * b
        for i, p_i in zip(A, p, strict=True):
            v = beta * weight[i] * squares[i] / n
            a[i] += dual_step(problem.loss, a[i], p_i, y[i], v)
    return a


def aggressive_pass(
    problem: Problem, X: Floats, y: Floats, batches: Iterable[NDArray[np.int64]], a: Floats,
    beta: float, beta_b: float,
) -> tuple[Floats, float]:  # fmt: skip
    """Return the dual variables and beta after a pass of Algorithm 2, without an intercept.

    The steps that a batch tries are of curvature beta, those that it takes of curvature rho.

    Parameters
    ----------
    problem, X, y, batches, a
        As in `sdca_pass`; the rows are of unit length and of weight 1.
    beta
        At first beta_b.
    beta_b
        That of (11).
    """
    lam_n, gamma = problem.lam * len(y), 0.95
    for A in batches:
        p = X[A] @ (X.T @ (a * y)) / lam_n
        tried = steps(problem, a[A], p, y[A], beta / lam_n)
        zeta, moved = tried @ tried, X[A].T @ (tried * y[A])
        if zeta == 0.0:
            continue
        rho = float(np.clip(moved @ moved / zeta, 1.0, beta_b))
        beta = beta**gamma * rho ** (1.0 - gamma)
        after = a.copy()
        after[A] += steps(problem, a[A], p, y[A], rho / lam_n)
        if dual_objective(problem, X, y, after) > dual_objective(problem, X, y, a):
            a = after
    return a, beta


def steps(problem: Problem, a: Floats, p: Floats, y: Floats, v: float) -> Floats:
    """Return the best steps (15) of rows under curvature v."""
    each = zip(a, p, y, strict=True)
    return np.array([dual_step(problem.loss, a_i, p_i, y_i, v) for a_i, p_i, y_i in each])


def dual_objective(problem: Problem, X: Floats, y: Floats, a: Floats) -> float:
    """Return D(a) of rows of weight 1, without an intercept."""
    w = X.T @ (a * y) / (len(y) * problem.lam)
    conjugates = [conjugate(problem.loss, a_i, y_i) for a_i, y_i in zip(a, y, strict=True)]
    return -0.5 * problem.lam * float(w @ w) - float(np.mean(conjugates))
