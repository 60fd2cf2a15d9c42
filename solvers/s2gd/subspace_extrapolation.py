"""A step in the span of the last anchors, from exact gradients.

Methods with a full gradient per epoch know the change of the gradient between anchors.  With the
last differences dx_i = x_i - x and dg_i = g_i - g, the minimum in x + span(dx) of the quadratic
with these gradients is at x + s,

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

from fewpass.solvers.protocol import Weights

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
