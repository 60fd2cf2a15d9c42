"""Konecny and Richtarik (2013), "Semi-stochastic gradient descent methods": Algorithm 1.

The inner loop of an epoch, from the anchor x; the outer loop takes its end for the next anchor.  t,
the number of inner steps, is drawn by (4); S2GD+ (Algorithm 2) has t = n and begins with a pass of
SGD.

The kernel (s2gd/inner_loop.py) differs: rows are visited in permutations, not drawn with
replacement; the slopes at the anchor are stored, so that a step needs one dot product; batches
share a step; the intercept's column may be taken as longer than it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem
from fewpass.solvers.papers.xu_2011 import Floats, Phi


def s2gd_epoch(
    phi: Phi, problem: Problem, X: Floats, y: Floats, weight: Floats, anchor: tuple[Floats, float],
    orders: Iterable[NDArray[np.int64]], h: float, batch: int = 1, length: float = 1.0,
) -> tuple[Floats, float]:  # fmt: skip
    """Return y_t and its intercept, after the steps of one epoch.

    Parameters
    ----------
    phi, problem, X, y, weight
        As the package says.
    anchor
        x and its intercept.
    orders
        Rows that are visited, window by window.
    h
        Step size.
    batch
        Rows that share a step; a last batch of fewer makes a shorter one.
    length
        How much longer the constant column is taken to be for the intercept's step.
    """
    x, x_b = anchor
    c0 = weight * phi(X @ x + problem.intercept * x_b, y)[1]
    G, G_b = X.T @ c0 / len(y), problem.intercept * c0.mean()
    w, b = x, x_b
    for order in orders:
        for rows in np.split(order, range(batch, len(order), batch)):
            p = X[rows] @ w + problem.intercept * b
            change = (weight[rows] * phi(p, y[rows])[1] - c0[rows]) / batch
            share = len(rows) / batch
            g = share * (G + problem.lam * w) + X[rows].T @ change
            g_b = share * (G_b + problem.lam_b * b) + problem.intercept * change.sum()
            w, b = w - h * g, b - h * length**2 * g_b
    return w, float(b)
