"""How sure held-out rows are that one of several models is better than another, out of core.

With losses l_ij of rows i under models j, and c_i the rows' weights, the mean distance from model b
and the square of its standard error are

    m_j = sum c_i (l_ij - l_ib) / C,    e_j^2 = sum c_i^2 (l_ij - l_ib - m_j)^2 / C^2,  C = sum c_i

so the products of all models' losses are all that one reading adds up: (M, M).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.scoring.row_losses import row_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights


class LossProducts(NamedTuple):
    """Sums over rows; parts can be added."""

    products: NDArray[np.float64]  # (M, M) of squared weights times both losses
    losses: NDArray[np.float64]  # (M,) of squared weights times the loss
    squares: float  # of weights
    weighted: NDArray[np.float64]  # (M,) of weights times the loss
    weight: float


def no_products(at: tuple[Weights, ...]) -> LossProducts:
    """Return the zero of the sums for the models `at`."""
    M = len(at)
    return LossProducts(np.zeros((M, M)), np.zeros(M), 0.0, np.zeros(M), 0.0)


def add_products(
    problem: Problem, at: tuple[Weights, ...], block: Block, part: LossProducts
) -> LossProducts:
    """Add a block."""
    rows = row_losses(problem, block, at)
    c = rows.weight
    squared = rows.loss * np.square(c)
    return LossProducts(
        part.products + squared @ rows.loss.T, part.losses + squared.sum(axis=1),
        part.squares + float(c @ c), part.weighted + rows.loss @ c, part.weight + float(c.sum()),
    )  # fmt: skip


def standard_errors(total: LossProducts) -> NDArray[np.float64]:
    """Return the standard errors of the distances from the model of least loss, (M,)."""
    means = total.weighted / total.weight
    best = int(np.argmin(means))
    own = np.diagonal(total.products)
    square = own - 2.0 * total.products[:, best] + own[best]
    mean = means - means[best]
    square = square - 2.0 * mean * (total.losses - total.losses[best]) + mean**2 * total.squares
    errors: NDArray[np.float64] = np.sqrt(np.maximum(square, 0.0)) / total.weight
    return errors


PRODUCTS = Sum("reduce-products", no_products, add_products)
