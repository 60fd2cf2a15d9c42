"""The sums of a Newton pass with a working set of columns.

All columns count in the loss and in its gradient, and so in the certificate; second derivatives are
summed over the working set W alone, by |W|^2 numbers.  The same pass sums what the certificate
needs (scaled_gap.py), and, at the end of a step, the losses at some shorter steps: a step that is
too long costs one pass, whatever length is the right one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.gathered_rows import (
    GatheredRows,
    add_tile_squares,
    gathered_rows,
    read_tile,
)
from fewpass.solvers.gradient import noted
from fewpass.solvers.kernels.dispatch import called_by_kernels, kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import Eight, broadcast, load, store, sum_lanes
from fewpass.solvers.kernels.rows import DenseRows, Rows, add_vector, prefetch_row
from fewpass.solvers.kernels.shapes import (
    LowerTriangle,
    Number,
    Order,
    PerRow,
    Vector,
    WholeNumbers,
)
from fewpass.solvers.kernels.simd.row_blocks import (
    TILE,
    add_eight,
    add_four_squares,
    prefetch_eight,
)
from fewpass.solvers.loss_monitor import LossSum, ReportLosses, ignore_losses, inside, report_block
from fewpass.solvers.losses import (
    Problem,
    bracket,
    conjugate,
    curvature_at,
    direction,
    slope,
    value,
)
from fewpass.solvers.protocol import Block, Sum, Weights
from fewpass.solvers.scaled_gap import knots

#: Shorter steps whose losses a pass sums: a model far from the optimum may be 10^8 too long.
SHORTER = np.array([0.5, 0.25, 0.1, 0.04, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8])


class SetPoint(NamedTuple):
    """The point that a pass sums at, and the columns that it sums over."""

    coef: NDArray[np.float64]  # (d,)
    intercept: float
    before: NDArray[np.float64]  # (d,) where the step began; (0,): there is none
    intercept_before: float
    chosen: NDArray[np.int64]  # (k,): W
    place: NDArray[np.int32]  # (d,): where a column is in W, or in W and `others`; -1: in neither
    others: NDArray[np.int64]  # (m,) columns not in W, but not 0 at one end of the step
    theta: float  # of the last certificate
    thinned: int  # H is summed over every thinned-th row


class SetPart(NamedTuple):
    """Sums over some rows; the first are those of GradientPart."""

    loss: float
    G: NDArray[np.float64]  # (d,)
    g_b: float
    rows: int
    brackets: NDArray[np.float64]  # (4,) at the knots
    shorter: NDArray[np.float64]  # (11,) losses after shorter steps
    H: NDArray[np.float64]  # (k + 1, k + 1), its lower triangle, the constant column last
    squares: NDArray[np.float64]  # (k,) of weights times squares of values
    H_rows: int  # rows in the last two


def set_point(
    there: Weights, before: Weights, chosen: NDArray[np.int64], theta: float, thinned: int
) -> SetPoint:
    """Return the point of a pass with W; before.coef is (0,) where no step led there."""
    nonzero = there.coef != 0.0
    if before.coef.shape[0]:
        nonzero |= before.coef != 0.0
    nonzero[chosen] = False
    others = np.flatnonzero(nonzero)
    place = np.full(nonzero.shape[0], -1, np.int32)
    place[chosen] = np.arange(chosen.shape[0])
    place[others] = np.arange(chosen.shape[0], chosen.shape[0] + others.shape[0])
    return SetPoint(*there, *before, chosen, place, others, theta, thinned)


def ends_of(at: SetPoint) -> NDArray[np.float64]:
    """Return the weights (k + m, 2) of W and `others`, there and before."""
    columns = np.concatenate([at.chosen, at.others])
    ends = np.zeros((columns.shape[0], 2))
    ends[:, 0] = at.coef[columns]
    if at.before.shape[0]:
        ends[:, 1] = at.before[columns]
    return ends


def no_sums(at: SetPoint) -> SetPart:
    """Return the zero of the sums."""
    k = at.chosen.shape[0]
    steps = SHORTER.shape[0] if at.before.shape[0] else 0
    return SetPart(
        0.0, np.zeros_like(at.coef), 0.0, 0, np.zeros(4), np.zeros(steps),
        np.zeros((k + 1, k + 1)), np.zeros(k), 0,
    )  # fmt: skip


def add_sums(
    problem: Problem, at: SetPoint, block: Block, part: SetPart,
    report: ReportLosses = ignore_losses, every: int = 0,
) -> SetPart:  # fmt: skip
    """Add one block, in place."""
    problem = problem._replace(penalty=problem.penalty.in_kernels)
    rows, tiles = block.order.shape[0], max(1, every // TILE)
    noted_inside = inside(report, rows, tiles * TILE)
    curvatures = np.empty(rows)
    cut = gathered_rows(block.rows, block.order, at.place, ends_of(at))
    loss, g_b = add_losses(
        at, part, problem, *block[:4], knots(at.theta), curvatures, tiles,
        noted_inside, cut,
    )  # fmt: skip
    report_block(report, LossSum(part.rows, part.loss), rows, loss, noted_inside, tiles * TILE)
    few = np.arange(0, rows, at.thinned)
    if isinstance(block.rows, DenseRows):
        add_set_squares(
            part.H,
            part.squares,
            at.chosen,
            problem.intercept,
            block.rows,
            *block[1:4],
            curvatures,
            few,
        )
    return part._replace(
        loss=part.loss + loss, g_b=part.g_b + g_b, rows=part.rows + rows,
        H_rows=part.H_rows + few.shape[0],
    )  # fmt: skip


#: Objective and gradient at a point, H of the working set, and losses at shorter steps.
SET_SUMS = Sum("reduce-curvature", no_sums, add_sums, reports=True)


@kernel
def add_losses(
    at: SetPoint, part: SetPart, problem: Problem, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, thetas: Vector, curvatures: PerRow, tiles: int, inside: Vector, cut: GatheredRows,
) -> tuple[float, float]:  # fmt: skip
    """Add to G, brackets and shorter of a part; return the sums of losses and slopes.

    `curvatures` (m,) receives the weighted curvature of every row visited, in their order.  Of
    sparse rows those of H are added to it and to squares, too.
    """
    w, b, before, b_before, every = (
        at.coef,
        at.intercept,
        at.before,
        at.intercept_before,
        at.thinned,
    )
    G, brackets, shorter, H, squares = part.G, part.brackets, part.shorter, part.H, part.squares
    n, count, lanes = order.shape[0], 0, Eight()
    whole, steps = n - n % TILE, SHORTER[: shorter.shape[0]]
    p, q, target, c = np.empty(TILE), np.zeros(TILE), np.empty(TILE), np.empty(TILE)
    g, at_knots, at_steps = np.empty(TILE), np.zeros(8 * thetas.shape[0]), np.zeros(8 * len(steps))
    losses, sums = broadcast(0.0, lanes), broadcast(0.0, lanes)
    for start in range(0, whole, TILE):
        for k in range(TILE):
            target[k], c[k] = y[order[start + k]], weight[order[start + k]]
            if k % 8 == 7:
                prefetch_eight(rows, y, weight, order, start + k - 7)
        read_tile(rows, order, start, TILE, w, before, cut, p, q)
        for k in range(0, TILE, 8):
            own, t = load(c, k, lanes), load(target, k, lanes)
            here = load(p, k, lanes) + problem.intercept * b
            there = load(q, k, lanes) + problem.intercept * b_before
            phi, change = value(problem.loss, here, t), slope(problem.loss, here, t)
            store(curvatures, start + k, own * curvature_at(problem.loss, here, t))
            for j in range(thetas.shape[0]):
                more = own * bracket_at(problem, thetas[j], here, t, phi, change)
                store(at_knots, 8 * j, load(at_knots, 8 * j, lanes) + more)
            for j in range(steps.shape[0]):
                more = own * value(problem.loss, there + steps[j] * (here - there), t)
                store(at_steps, 8 * j, load(at_steps, 8 * j, lanes) + more)
            losses += own * phi
            sums += own * change
            store(g, k, own * change)
        for k in range(0, TILE, 8):
            add_eight(rows, order, start + k, g[k:], G)
        add_tile_squares(
            rows, order, start, TILE, every, cut, weight, curvatures, problem.intercept, H, squares
        )
        count = noted(inside, count, start + TILE == (count + 1) * tiles * TILE, losses)
    add_lanes(brackets, at_knots)
    add_lanes(shorter, at_steps)
    read_tile(rows, order, whole, n - whole, w, before, cut, p, q)
    few, slopes = add_last(
        at, part, p, q, problem, rows, y, weight, order, whole, thetas, curvatures
    )  # fmt: skip
    add_tile_squares(
        rows, order, whole, n - whole, every, cut, weight, curvatures, problem.intercept, H, squares
    )
    return sum_lanes(losses) + few, problem.intercept * (sum_lanes(sums) + slopes)


@called_by_kernels
def add_lanes(sums: Vector, lanes: Vector) -> None:
    """sums[j] += the sum of the eight numbers from lanes[8 j] on."""
    for j in range(sums.shape[0]):
        sums[j] += sum_lanes(load(lanes, 8 * j, Eight()))


@called_by_kernels
def add_last(
    at: SetPoint, part: SetPart, p: Vector, q: Vector, problem: Problem, rows: Rows, y: PerRow,
    weight: PerRow, order: Order, first: int, thetas: Vector, curvatures: PerRow,
) -> tuple[float, float]:  # fmt: skip
    """Do the same for the rows from order[first] on, one by one."""
    b, b_before, brackets, shorter = at.intercept, at.intercept_before, part.brackets, part.shorter
    steps = SHORTER[: shorter.shape[0]]
    losses, slopes = 0.0, 0.0
    for r in range(first, order.shape[0]):
        i = order[r]
        own, t, here = weight[i], y[i], p[r - first] + problem.intercept * b
        phi, change = value(problem.loss, here, t), slope(problem.loss, here, t)
        curvatures[r] = own * curvature_at(problem.loss, here, t)
        losses += own * phi
        slopes += own * change
        for j in range(thetas.shape[0]):
            brackets[j] += own * bracket_at(problem, thetas[j], here, t, phi, change)
        if steps.shape[0] > 0:
            there = q[r - first] + problem.intercept * b_before
            for j in range(steps.shape[0]):
                shorter[j] += own * value(problem.loss, there + steps[j] * (here - there), t)
        add_vector(rows, i, own * change, part.G)
    return losses, slopes


@part_of_kernels
def bracket_at(
    problem: Problem, theta: float, p: Number, y: Number, phi: Number, change: Number
) -> Number:
    """Return the bracket of a row at theta times the dual point a sigma = -phi'(p)."""
    a = -theta * change * direction(problem.loss, y)
    return bracket(problem.loss, a, p, y, phi, conjugate(problem.loss, a, y))


@kernel
def add_set_squares(
    H: LowerTriangle, squares: Vector, chosen: WholeNumbers, column: float, rows: DenseRows,
    y: PerRow, weight: PerRow, order: Order, curvatures: PerRow, few: Order,
) -> None:  # fmt: skip
    """H += curvatures times squares of the dense rows order[few], over the working set."""
    m, k = few.shape[0], chosen.shape[0]
    four, first, c, own = np.zeros(4, np.int64), np.arange(4), np.empty(4), np.empty(4)
    X = np.zeros((4, k + 1))
    X[:, k] = column
    for start in range(0, m, 4):
        for q in range(4):
            r = few[min(start + q, m - 1)]
            four[q] = order[r]
            prefetch_row(rows, y, weight, order, r)
            c[q] = curvatures[r] if start + q < m else 0.0
            own[q] = weight[four[q]] if start + q < m else 0.0
        for q in range(4):
            for j in range(k):
                x = np.float64(rows.X[four[q], chosen[j]])
                X[q, j] = x
                squares[j] += own[q] * x * x
        add_four_squares(DenseRows(X), first, 0, c, H)
