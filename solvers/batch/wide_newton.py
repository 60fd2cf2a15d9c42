"""Newton's method for a loss of several scores: few columns times classes, whatever their scales.

    x <- x + t p,     (H + lam I) p = -g,     t as in newton.py
    H = (1/n) sum_i c_i C_i (x) x_i x_i'      C_i (K, K) the second derivative at row i's scores

over all (d + 1) K weights, in one pass with the gradient that certifies them.  A step that fails
costs a pass.  H has the square of as many numbers, hence the limit.

Source: docs/methods.md, section 8.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fewpass.solvers.batch.newton import Newton, NewtonState
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, prefetch_row
from fewpass.solvers.kernels.shapes import Matrix, Order, PerRow
from fewpass.solvers.kernels.simd.wide_rows import EndToEnd, PerClass, scores_of
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import LossOfScores, curvature_of_scores
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Block, ProblemStats, Sum, Weights, array_bytes
from fewpass.solvers.registry import DUAL, MOST_NEWTON_WEIGHTS
from fewpass.solvers.wide_gradient import (
    WideGradientPart,
    add_wide_gradient,
    base_of,
    in_columns,
    no_wide_gradient,
)


class WideCurvedPart(NamedTuple):
    """Sums over some rows; the first are those of WideGradientPart."""

    loss: float
    G: NDArray[np.float64]  # (d, wide)
    g_b: NDArray[np.float64]  # (wide,)
    rows: int
    H: NDArray[np.float64]  # (K (d + 1), K (d + 1)), lower halves of the blocks at and below it


def no_wide_curvature(at: Weights) -> WideCurvedPart:
    """Return the zero of the sums."""
    size = len(at.coef) * (at.coef.shape[1] + 1)
    return WideCurvedPart(*no_wide_gradient(at), np.zeros((size, size)))


def add_wide_curvature(
    problem: Problem, at: Weights, block: Block, part: WideCurvedPart
) -> WideCurvedPart:
    """Add one block's loss, gradient and curvature at the given weights, in place."""
    base = base_of(np.asarray(at.intercept), problem.intercept)
    add_blocks(
        part.H, in_columns(at.coef).ravel(), base, problem.loss, problem.intercept, *block[:4]
    )
    first = add_wide_gradient(problem, at, block, WideGradientPart(*part[:4]))
    return WideCurvedPart(*first, part.H)


#: Objective, gradient and H at a point.
WIDE_CURVED = Sum("reduce-curvature", no_wide_curvature, add_wide_curvature)


class WideNewton(Newton):
    """Newton's method, for several scores; a vector has of each class d weights, then one more."""

    needs: ClassVar[Needs] = Needs(several_scores=True, loss="smooth")
    sum: ClassVar[Sum] = WIDE_CURVED
    width: PositiveInt
    """K, the number of scores."""

    def refuse_unfit(self, problem: Problem, stats: ProblemStats) -> None:
        """Refuse more weights than H may have, and losses whose second derivative is not known."""
        super().refuse_unfit(problem, stats)
        size = self.width * (stats.d + 1)
        if size > MOST_NEWTON_WEIGHTS:
            raise ValueError(
                f"{self.kind} keeps a matrix of weights by weights, and {self.width} classes of "
                f"{stats.d} columns have {size} weights, more than {MOST_NEWTON_WEIGHTS}. Take "
                f"`solver={DUAL}`, or `classes=ovr`."
            )
        if type(problem.loss) not in curvature_of_scores.bodies():
            raise ValueError(
                f"{self.kind} needs second derivatives, and {problem.loss.name} has none. Take "
                f"`solver={DUAL}`."
            )

    def first_state(self, problem: Problem, stats: ProblemStats) -> NewtonState:
        """Return the best constant; H is of all rows."""
        return super().first_state(problem, stats)._replace(thinned=1)

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of the state, with those of H."""
        return array_bytes(self.init(problem, stats)) + 8 * (self.width * (stats.d + 1)) ** 2

    def point(self, state: NewtonState) -> Any:
        return self.newest(state)

    def flat(self, weights: Weights) -> NDArray[np.float64]:
        """Return coef (K, d) and intercept (K,) as one vector, class by class."""
        return np.column_stack([weights.coef, weights.intercept]).ravel()

    def read(self, x: NDArray[np.float64]) -> Weights:
        """Return the weights that a vector holds."""
        each = x.reshape(self.width, -1)
        return Weights(np.ascontiguousarray(each[:, :-1]), each[:, -1].copy())

    def curvature(self, problem: Problem, total: WideCurvedPart) -> NDArray[np.float64]:
        """Return H with the penalty's part."""
        H = whole(total.H, self.width) / total.rows
        charge = np.full(len(H) // self.width, problem.lam)
        charge[-1] = problem.lam_b if problem.intercept else 1.0
        H[np.diag_indices_from(H)] += np.tile(charge, self.width)
        return H


def whole(H: NDArray[np.float64], K: int) -> NDArray[np.float64]:
    """Return the matrix whose blocks at and below the diagonal have their lower halves in H."""
    size = len(H) // K
    full = np.empty_like(H)
    for k in range(K):
        for m in range(k + 1):
            rows, columns = slice(k * size, (k + 1) * size), slice(m * size, (m + 1) * size)
            lower = H[rows, columns]
            both = lower + np.tril(lower, -1).T
            full[rows, columns] = full[columns, rows] = both
    return full


@kernel
def add_blocks(
    H: Matrix, V: EndToEnd, base: PerClass, loss: LossOfScores, intercept: float, rows: Rows,
    y: PerRow, weight: PerRow, order: Order,
) -> None:  # fmt: skip
    """H += sum of weighted C_i (x) x_i x_i', the lower halves of blocks at and below its own."""
    wide, K = base.shape[0], loss.n_classes
    size = H.shape[0] // K
    v, g, C, x = np.empty(wide), np.empty(wide), np.zeros((K, K)), np.zeros(size)
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        scores_of(rows, i, V, base, v)
        curvature_of_scores(loss, v, int(y[i]), g, C)
        x[:] = 0.0
        add_vector(rows, i, 1.0, x[: size - 1])
        x[size - 1] = intercept
        for k in range(K):
            for m in range(k + 1):
                add_block(H, k * size, m * size, weight[i] * C[k, m], x)


@kernel
def add_block(H: Matrix, k: int, m: int, c: float, x: EndToEnd) -> None:
    """Add c x x' to the lower half of the block of H that begins at (k, m)."""
    for a in range(x.shape[0]):
        if x[a] != 0.0:
            at = c * x[a]
            for b in range(a + 1):
                H[k + a, m + b] += at * x[b]
