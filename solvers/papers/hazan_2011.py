"""Hazan, Koren and Srebro (2011), "Beating SGD: learning SVMs in sublinear time": Algorithm 1.

SIMBA with the bias of section 4, for rows and columns that are drawn already.

The kernels (simba/simba.py, simba/lazy.py) differ: q is stored by its logarithm, in
trees, so that drawing a row takes log n.  This page differs from the printed text in what seem to
be misprints: eta belongs to the step, u begins at 0, p is that of the step.  Rates may adapt to t.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from fewpass.solvers.papers.xu_2011 import Floats
from fewpass.solvers.simba.soft_margin import Mean, SoftMargin


class RowsAndColumns(Protocol):
    """A matrix (n, d) of which single rows and columns are read, their zeros left out."""

    def row(self, i: int) -> Iterator[tuple[int, float]]:
        """Yield (j, value) of row i."""

    def column(self, j: int) -> Iterator[tuple[int, float]]:
        """Yield (i, value) of column j."""


def simba(
    X: RowsAndColumns, y: Floats, of: SoftMargin, drawn: Iterable[tuple[int, int]], *,
    adaptive: bool, log_q: Floats | None = None,
) -> tuple[Mean, Floats]:  # fmt: skip
    """Return the means of w, b and p over all steps, and log q after them.

    Parameters
    ----------
    X, y
        Rows, and their sides (n,).
    of
        The problem: slack, longest row, number of steps.
    drawn
        The row and the column of each step; the column is -1 where w is 0.
    adaptive
        Whether eta and the bound of u are those of step t, not of the last one.
    log_q : (n,), optional
        Where to begin; 0 by default.
    """
    log_q = np.zeros(of.n) if log_q is None else log_q.copy()
    u, (w_sum, b_sum, p_sum), t = np.zeros(of.d), (np.zeros(of.d), 0.0, np.zeros(of.n)), 0
    for t, (i, j) in enumerate(drawn, start=1):
        T = t if adaptive else of.iterations
        eta = np.sqrt(np.log(of.n) / T)
        q = np.exp(log_q - log_q.max())
        p = q / q.sum()
        for k, x in X.row(i):
            u[k] += y[i] * of.unit * x
        xi = greedy_slack(log_q, of)
        b = float(np.sign(q @ y)) if of.biased else 0.0
        w = u / max(np.sqrt(2 * T), np.linalg.norm(u))
        v = xi + b * y
        if j >= 0:
            for r, x in X.column(j):
                v[r] += y[r] * of.unit * x * (w @ w) / w[j]
        step = np.clip(eta * v, -1.0, 1.0)
        log_q += np.log(1.0 - step + step * step)
        w_sum, b_sum, p_sum = w_sum + w, b_sum + b, p_sum + p
    return Mean(w_sum / t, b_sum / t, p_sum / t), log_q


def greedy_slack(log_q: Floats, of: SoftMargin) -> Floats:
    """Return xi (n,), the best slack for p: 2 for its largest entries until the mean is nu."""
    xi = np.zeros(of.n)
    ranked = np.lexsort((np.arange(of.n), -log_q))
    xi[ranked[: of.k]] = 2.0
    if of.k < of.n:
        xi[ranked[of.k]] = of.rest
    return xi
