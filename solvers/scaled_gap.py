"""The duality gap of weights whose penalty has no strong convexity, from the sums of one pass.

The slopes of the losses are a dual point a_i = -sigma_i phi'(p_i), and theta a is one for every
theta in [0, 1].  With s = -G the negative gradient of the mean loss,

    P - D(theta a) = B(theta) + sum_j [R_j(w_j) + R*_j(theta s_j) - theta s_j w_j]
                     + (lam_b/2) (b - b_0 - theta s_b / lam_b)^2
    B(theta)       = mean c_i [phi(p_i) + phi*(-theta a_i) + theta a_i sigma_i p_i]

and every bracket is 0 or more.  An l1 penalty is finite only for small theta, which is known when
the pass is over.  But B is convex, B(0) is the mean loss and B(1) = 0: so the pass sums B at four
knots near the theta of the pass before, and the straight line between two of them is above B.
docs/methods.md, section 8.2.

Dual ascent knows its dual point when a pass begins, and so takes its theta before (`dual_scale`):

    D(theta a) = U(theta) - R*(theta s) - (theta s_b)^2 / (2 lam_b) - b_0 theta s_b
    U(theta)   = -(1/n) sum_i weight_i phi*(-theta a_i)  >=  theta U(1)

Without squares in R theta is the largest with a finite R*.  With squares it is the one that makes
D largest with theta U(1) in place of U, for the U that the pass before has seen.

Source: Fercoq, Gramfort and Salmon 2015, "Mind the duality gap: safer rules for the Lasso", for
theta without squares; docs/methods.md, section 7.11.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats, Weights

FIRST = 0.5  # theta before any pass
DISTANCES = np.array([5.0, 1.0, 0.2, 0.02])  # 1 - theta of the knots, in units of the last one's
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
STEPS = 40  # of the search for theta


def knots(theta: float) -> NDArray[np.float64]:
    """Return the four knots for the theta of the pass before."""
    return np.maximum(0.0, 1.0 - (1.0 - theta) * DISTANCES)


class ScaledGap(NamedTuple):
    """A gap, and the theta that it is proven with."""

    gap: float
    theta: float


def scaled_gap(
    problem: Problem, at: Weights, g: Weights, loss: float, thetas: NDArray[np.float64],
    brackets: NDArray[np.float64],
) -> ScaledGap:  # fmt: skip
    """Return the smallest gap that the sums of a pass prove.

    Parameters
    ----------
    problem, at
        The penalty, and the weights.
    g
        Gradient of the mean loss, and its derivative by the intercept.
    loss
        Mean loss.
    thetas, brackets
        Knots (k,), and B there (k,).
    """
    above = np.maximum(brackets, 0.0)  # as they are, but for rounding
    bound = chords([(0.0, loss), *zip(thetas.tolist(), above.tolist(), strict=True), (1.0, 0.0)])
    s, s_b = -g.coef, -g.intercept
    penalty, up = problem.penalty, at.intercept - problem.level
    counts = penalty.whole(at.coef != 0.0) | ~penalty.zero_for_certain(s, np.zeros_like(s))
    w, s = at.coef[counts], s[counts]  # the other columns' brackets are 0 for every theta
    penalty = penalty.among(counts)

    def without_penalty(theta: float) -> float:
        moved = up - theta * s_b / problem.lam_b if problem.intercept else 0.0
        return bound(theta) + 0.5 * problem.lam_b * moved * moved

    def gap(theta: float) -> float:
        return without_penalty(theta) + penalty.brackets(w, theta * s)

    most, along = penalty.most_scale(s), penalty.brackets_along(w, s)
    best = searched(lambda theta: without_penalty(theta) + along(theta), most)
    least, at_minus_theta = min((gap(theta), -theta) for theta in (most, 0.0, best))
    return ScaledGap(least, -at_minus_theta)


def chords(points: list[tuple[float, float]]) -> Callable[[float], float]:
    """Return the function on [0, 1] made of straight lines between points (x, y)."""
    points = sorted(points)
    x = [point[0] for point in points]

    def height(theta: float) -> float:
        k = max(1, bisect_left(x, theta))
        (x_0, y_0), (x_1, y_1) = points[k - 1 : k + 1]
        share = (theta - x_0) / (x_1 - x_0) if x_1 > x_0 else 1.0
        return (1.0 - share) * y_0 + share * y_1

    return height


def proven_zeros(problem: Problem, stats: ProblemStats, s: NDArray[np.float64], gap: float) -> int:
    """Return how many columns are proven to be 0 at the optimum.

    For a loss with curvature q, s_j at the optimum is within sqrt(2 q m_j gap) of this feasible s
    (d,), with m_j the mean of weight_i x_ij^2: at most the largest weight times the mean of x_ij^2.
    docs/methods.md, section 7.11.
    """
    steep = problem.loss.curvature
    if stats.columns is None or not math.isfinite(steep) or not math.isfinite(gap):
        return 0
    moments = stats.columns()
    m = stats.max_weight * moments.share * moments.square
    radius = np.sqrt(2.0 * steep * m * gap)
    return int(problem.penalty.zero_for_certain(s, radius).sum())


def searched(f: Callable[[float], float], most: float) -> float:
    """Return where a convex function is least in [0, most], by golden section."""
    low, high = 0.0, most
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f_a, f_b = f(a), f(b)
    for _ in range(STEPS):
        if f_a <= f_b:
            high, b, f_b = b, a, f_a
            a = high - GOLDEN * (high - low)
            f_a = f(a)
        else:
            low, a, f_a = a, b, f_b
            b = low + GOLDEN * (high - low)
            f_b = f(b)
    return a if f_a <= f_b else b


def dual_scale(problem: Problem, s: NDArray[np.float64], s_b: float, worth: float) -> float:
    """Return theta for a dual point with these sums (d,), and with about this U(1)."""
    penalty = problem.penalty
    if penalty.is_smooth:
        return 1.0
    most = penalty.most_scale(s)
    if problem.lam == 0.0:
        return most
    worth -= problem.level * s_b

    def loss(theta: float) -> float:
        by_intercept = (theta * s_b) ** 2 / (2.0 * problem.lam_b) if problem.intercept else 0.0
        return penalty.conjugate(theta * s) + by_intercept - theta * worth

    return searched(loss, most) if loss(most) > loss(0.99 * most) else most
