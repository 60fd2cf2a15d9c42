"""SVM as the largest margin that an allowance of slack can buy, and what proves how large it is.

    maximise   gamma = min_i  y_i (<w, x_i> / R + b) + xi_i
    over       ||w|| <= 1,  -1 <= b <= 1,  0 <= xi_i <= 2,  sum_i xi_i <= n nu

with R = max_i ||x_i||.  Every nu is a point of the regularisation path: at nu = (mean hinge loss of
(v, c)) / (R ||v||) for an SVM (v, c), the largest gamma is 1 / (R ||v||) and (w / (R gamma),
b / gamma) is that SVM (Lemma 2.1).

Source: Hazan, Koren and Srebro 2011, problem (3).  docs/methods.md, "SIMBA".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, count
from fewpass.solvers.kernels.scores import scores
from fewpass.solvers.kernels.shapes import PerColumn, PerRow
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, Weights

MOST_SLACK = 2.0  # of a row


class SoftMargin(NamedTuple):
    """The problem, and how long it is worked on."""

    n: int  # rows
    d: int  # features
    nu: float  # mean slack allowed
    unit: float  # 1 / R
    biased: bool  # whether there is a b
    iterations: int  # T

    @property
    def k(self) -> int:
        """Rows that the allowance gives all the slack that a row may have."""
        return min(self.n, int(self.nu * self.n / MOST_SLACK))

    @property
    def rest(self) -> float:
        """Return the slack that is left for one more row."""
        return self.nu * self.n - MOST_SLACK * self.k if self.k < self.n else 0.0


class Mean(NamedTuple):
    """Mean iterates: where an averaging method stands."""

    w: NDArray[np.float64]  # (d,) of x / R
    b: float
    p: NDArray[np.float64]  # (n,) a distribution over the rows, sum 1


class CertifiedMargin(NamedTuple):
    """The weights of a mean, their margin, and certificates of both."""

    weights: Weights  # of x itself; scaled so that gamma is 1, unless it is not positive
    gamma: float  # margin with the best slack for w and b
    bound: float  # no w, b and slack have a larger one
    certificate: Certificate  # of `weights` as an SVM: hinge loss and (lam/2) ||w||^2


def best_margin(margins: NDArray[np.float64], nu: float) -> float:
    """Return the largest gamma for given margins y_i (<w, x_i> / R + b) (n,).

    It needs sum_i max(0, gamma - m_i) <= n nu, which no set of rows may break alone.
    """
    m = np.sort(margins)
    r = np.arange(1, len(m) + 1)
    return float(min(((len(m) * nu + np.cumsum(m)) / r).min(), m[0] + MOST_SLACK))


def margin_bound(
    of: SoftMargin, y: NDArray[np.float64], p: NDArray[np.float64], combined: NDArray[np.float64]
) -> float:
    """Return an upper bound on gamma, by any distribution p over the rows.

    The least of n numbers is at most their mean under p, whose best w, b and slack are known.

    Parameters
    ----------
    combined
        sum_i p_i y_i x_i (d,).
    """
    largest = -np.partition(-p, min(of.k, of.n - 1))[: of.k + 1]
    top = np.sort(largest)[::-1]
    slack = MOST_SLACK * top[: of.k].sum() + (of.rest * top[of.k] if of.rest > 0.0 else 0.0)
    bias = abs(float(p @ y)) if of.biased else 0.0
    return float(of.unit * np.linalg.norm(combined) + bias + slack)


def certified_margin(
    of: SoftMargin, problem: Problem, rows: Rows, y: NDArray[np.float64], at: Mean
) -> CertifiedMargin:
    """Read all rows and say what a mean is worth: its margin, the bound, and the SVM's objective.

    Takes a pass for the margins and one for each of two combinations of rows.
    """
    margins = y * (of.unit * scores(at.w, 0.0, rows) + at.b)
    gamma = best_margin(margins, of.nu)
    scale = gamma if gamma > 0.0 else 1.0
    weights = Weights(at.w * (of.unit / scale), at.b / scale)
    loss = float(np.maximum(0.0, 1.0 - margins / scale).mean())
    objective = loss + 0.5 * (
        problem.lam * float(weights.coef @ weights.coef) + problem.lam_b * weights.intercept**2
    )
    lower = dual_objective(problem, rows, y, dual_of(of, y, at.p), of.d)
    bound = margin_bound(of, y, at.p, combine(rows, at.p * y, np.zeros(of.d)))
    return CertifiedMargin(
        weights, gamma, bound, Certificate(objective, max(0.0, objective - lower))
    )


def dual_of(of: SoftMargin, y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return dual variables (n,) in [0, 1] of the SVM, in proportion to p.

    Rows with slack have the largest weights, and 1 in the SVM's dual; with a bias both classes
    weigh the same.
    """
    level = -np.partition(-p, min(of.k, of.n - 1))[min(of.k, of.n - 1)]
    a: NDArray[np.float64] = np.minimum(1.0, p / (level if level > 0.0 else p.max()))
    if of.biased:
        plus, minus = a[y > 0.0].sum(), a[y < 0.0].sum()
        if plus > 0.0 and minus > 0.0:
            a *= np.where(y > 0.0, min(1.0, minus / plus), min(1.0, plus / minus))
    return a


def dual_objective(
    problem: Problem, rows: Rows, y: NDArray[np.float64], a: NDArray[np.float64], d: int
) -> float:
    """Return the hinge's D(s a) for the best s in [0, 1]: never above the least objective."""
    n = len(y)
    u = combine(rows, a * y, np.zeros(d)) / n
    b = problem.intercept * float(a @ y) / n
    square = float(u @ u) / problem.lam + (b * b / problem.lam_b if b else 0.0)
    mean = float(a.mean())
    s = min(1.0, mean / square) if square > 0.0 else 1.0
    return s * mean - 0.5 * s * s * square


@kernel
def combine(rows: Rows, a: PerRow, out: PerColumn) -> PerColumn:
    """Add sum_i a_i x_i."""
    for i in range(count(rows)):
        if a[i] != 0.0:
            add_vector(rows, i, a[i], out)
    return out
