"""How much of a dual point is certified where R* is infinite, or nearly, farther out.

theta a is a dual point for every theta in [0, 1], as every loss's domain is convex and holds 0:

    D(theta a) = U(theta) - R*(theta s) - (theta s_b)^2 / (2 lam_b) - b_0 theta s_b
    U(theta)   = -(1/n) sum_i weight_i phi*(-theta a_i)  >=  theta U(1)

Without squares in R theta is the largest with a finite R*.  With squares it is the one that makes
D largest with theta U(1) in place of U, for the U that the pass before has seen.

Source: Fercoq, Gramfort and Salmon 2015, "Mind the duality gap: safer rules for the Lasso", for
theta without squares; docs/methods.md, section 7.11.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem
from fewpass.solvers.scaled_gap import searched


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
