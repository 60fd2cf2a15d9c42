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

from fewpass.solvers.gradient import noted
from fewpass.solvers.kernels.dispatch import (
    FUSED,
    by_type,
    called_by_kernels,
    kernel,
    part_of_kernels,
)
from fewpass.solvers.kernels.rows import (
    DenseRows,
    Rows,
    SparseRows,
    add_vector,
    dot_vector,
    positions,
    prefetch_row,
)
from fewpass.solvers.kernels.shapes import (
    LowerTriangle,
    Matrix,
    Number,
    Order,
    PerColumn,
    PerRow,
    Vector,
    WholeNumbers,
)
from fewpass.solvers.kernels.simd.lanes import Eight, broadcast, load, store, sum_lanes
from fewpass.solvers.kernels.simd.row_blocks import (
    TILE,
    add_eight,
    add_four_squares,
    dot_eight,
    prefetch_eight,
)
from fewpass.solvers.loss_monitor import ReportLosses, ignore_losses
from fewpass.solvers.losses import (
    Problem,
    bracket,
    conjugate,
    curvature_at,
    direction,
    slope,
    value,
)
from fewpass.solvers.protocol import Block, Sum
from fewpass.solvers.scaled_gap import knots

#: Shorter steps whose losses a pass sums: a model far from the optimum may be 10^8 too long.
SHORTER = np.array([0.5, 0.25, 0.1, 0.04, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8])

PlaceInSet = np.ndarray[tuple[int], np.dtype[np.int32]]  # (d,)


class SetPoint(NamedTuple):
    """Where a pass sums, and over which columns."""

    coef: NDArray[np.float64]  # (d,)
    intercept: float
    before: NDArray[np.float64]  # (d,) where the step began; (0,): there is none
    intercept_before: float
    chosen: NDArray[np.int64]  # (k,): W
    place: NDArray[np.int32]  # (d,): where a column is in W; -1: not in W
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
    inside = np.empty(0 if report is ignore_losses else (rows - 1) // (tiles * TILE))
    curvatures = np.empty(rows)
    loss, g_b = add_losses(
        part.G, at.coef, at.intercept, at.before, at.intercept_before, problem, *block[:4],
        knots(at.theta), part.brackets, part.shorter, curvatures, tiles, inside,
    )  # fmt: skip
    for k, so_far in enumerate(inside.tolist()):
        stop = (k + 1) * tiles * TILE
        report(stop, (part.rows + stop, part.loss + so_far))
    report(rows, (part.rows + rows, part.loss + loss))
    few = np.arange(0, rows, at.thinned)
    add_set_squares(
        part.H, part.squares, at.chosen, at.place, problem.intercept, *block[:4], curvatures, few
    )
    return part._replace(
        loss=part.loss + loss, g_b=part.g_b + g_b, rows=part.rows + rows,
        H_rows=part.H_rows + few.shape[0],
    )  # fmt: skip


#: Loss, gradient over all columns, H over the working set, and what else one pass can tell.
SET_SUMS = Sum("reduce-curvature", no_sums, add_sums, telling=add_sums)


@kernel
def add_losses(
    G: PerColumn, w: PerColumn, b: float, before: PerColumn, b_before: float, problem: Problem,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, thetas: Vector, brackets: Vector,
    shorter: Vector, curvatures: PerRow, tiles: int, inside: Vector,
) -> tuple[float, float]:  # fmt: skip
    """Add to G, brackets and shorter; return the sums of losses and slopes.

    `curvatures` (m,) receives the weighted curvature of every row visited, in their order.
    """
    n, count, how = order.shape[0], 0, Eight()
    whole, steps = n - n % TILE, SHORTER[: shorter.shape[0]]
    p, q, target, c = np.empty(TILE), np.zeros(TILE), np.empty(TILE), np.empty(TILE)
    g, at_knots, at_steps = np.empty(TILE), np.zeros(8 * thetas.shape[0]), np.zeros(8 * len(steps))
    losses, sums = broadcast(0.0, how), broadcast(0.0, how)
    for start in range(0, whole, TILE):
        for k in range(TILE):
            target[k], c[k] = y[order[start + k]], weight[order[start + k]]
            if k % 8 == 7:
                prefetch_eight(rows, y, weight, order, start + k - 7)
                dot_eight(rows, order, start + k - 7, w, p[k - 7 :])
                if steps.shape[0] > 0:
                    dot_eight(rows, order, start + k - 7, before, q[k - 7 :])
        for k in range(0, TILE, 8):
            own, t = load(c, k, how), load(target, k, how)
            here = load(p, k, how) + problem.intercept * b
            there = load(q, k, how) + problem.intercept * b_before
            phi, change = value(problem.loss, here, t), slope(problem.loss, here, t)
            store(curvatures, start + k, own * curvature_at(problem.loss, here, t))
            for j in range(thetas.shape[0]):
                more = own * bracket_at(problem, thetas[j], here, t, phi, change)
                store(at_knots, 8 * j, load(at_knots, 8 * j, how) + more)
            for j in range(steps.shape[0]):
                more = own * value(problem.loss, there + steps[j] * (here - there), t)
                store(at_steps, 8 * j, load(at_steps, 8 * j, how) + more)
            losses += own * phi
            sums += own * change
            store(g, k, own * change)
        for k in range(0, TILE, 8):
            add_eight(rows, order, start + k, g[k:], G)
        count = noted(inside, count, start + TILE == (count + 1) * tiles * TILE, losses)
    add_lanes(brackets, at_knots)
    add_lanes(shorter, at_steps)
    few, slopes = add_last(
        G, w, b, before, b_before, problem, rows, y, weight, order, whole, thetas, brackets, steps,
        shorter, curvatures,
    )  # fmt: skip
    return sum_lanes(losses) + few, problem.intercept * (sum_lanes(sums) + slopes)


@called_by_kernels
def add_lanes(sums: Vector, lanes: Vector) -> None:
    """sums[j] += the sum of the eight numbers from lanes[8 j] on."""
    for j in range(sums.shape[0]):
        sums[j] += sum_lanes(load(lanes, 8 * j, Eight()))


@called_by_kernels
def add_last(
    G: PerColumn, w: PerColumn, b: float, before: PerColumn, b_before: float, problem: Problem,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, first: int, thetas: Vector,
    brackets: Vector, steps: Vector, shorter: Vector, curvatures: PerRow,
) -> tuple[float, float]:  # fmt: skip
    """Do the same for the rows from order[first] on, one by one."""
    losses, slopes = 0.0, 0.0
    for r in range(first, order.shape[0]):
        i = order[r]
        own, t, here = weight[i], y[i], dot_vector(rows, i, w) + problem.intercept * b
        phi, change = value(problem.loss, here, t), slope(problem.loss, here, t)
        curvatures[r] = own * curvature_at(problem.loss, here, t)
        losses += own * phi
        slopes += own * change
        for j in range(thetas.shape[0]):
            brackets[j] += own * bracket_at(problem, thetas[j], here, t, phi, change)
        if steps.shape[0] > 0:
            there = dot_vector(rows, i, before) + problem.intercept * b_before
            for j in range(steps.shape[0]):
                shorter[j] += own * value(problem.loss, there + steps[j] * (here - there), t)
        add_vector(rows, i, own * change, G)
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
    H: LowerTriangle, squares: Vector, chosen: WholeNumbers, place: PlaceInSet, column: float,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, curvatures: PerRow, few: Order,
) -> None:  # fmt: skip
    """H += curvatures times squares of the rows order[few], over the working set."""
    m, k = few.shape[0], chosen.shape[0]
    four, c, own = np.zeros(4, np.int64), np.empty(4), np.empty(4)
    X, at = np.zeros((4, k + 1)), np.empty(max(4, k), np.int64)
    X[:, k] = column
    for start in range(0, m, 4):
        for q in range(4):
            r = few[min(start + q, m - 1)]
            four[q] = order[r]
            prefetch_row(rows, y, weight, order, r)
            c[q] = curvatures[r] if start + q < m else 0.0
            own[q] = weight[four[q]] if start + q < m else 0.0
        add_four_of_set(rows, four, c, own, chosen, place, X, at, H, squares)


@by_type
def add_four_of_set(
    rows: Rows, four: Order, c: Vector, weight: Vector, chosen: WholeNumbers, place: PlaceInSet,
    X: Matrix, at: WholeNumbers, H: LowerTriangle, squares: Vector,
) -> None:  # fmt: skip
    """H += c[q] x x^T over W for four rows x, and squares += weight[q] x^2.

    X (4, k + 1) and at (k,), or (4,), hold the rows' values; X's last column is the constant.
    """


@add_four_of_set.register(DenseRows, fastmath=FUSED, arrays=True)
def _(
    rows: DenseRows, four: Order, c: Vector, weight: Vector, chosen: WholeNumbers,
    place: PlaceInSet, X: Matrix, at: WholeNumbers, H: LowerTriangle, squares: Vector,
) -> None:  # fmt: skip
    for q in range(4):
        for j in range(chosen.shape[0]):
            x = np.float64(rows.X[four[q], chosen[j]])
            X[q, j] = x
            squares[j] += weight[q] * x * x
        at[q] = q
    add_four_squares(DenseRows(X), at[:4], 0, c, H)


@add_four_of_set.register(SparseRows, fastmath=FUSED, arrays=True)
def _(
    rows: SparseRows, four: Order, c: Vector, weight: Vector, chosen: WholeNumbers,
    place: PlaceInSet, X: Matrix, at: WholeNumbers, H: LowerTriangle, squares: Vector,
) -> None:  # fmt: skip
    last = chosen.shape[0]
    for q in range(4):
        m = 0
        for n in positions(rows, four[q]):
            j = place[rows.indices[n]]
            if j >= 0 and m < last:  # m stays below, unless a row has a column twice
                x = np.float64(rows.data[n])
                squares[j] += weight[q] * x * x
                k = m
                while k > 0 and at[k - 1] > j:  # rows mostly come in order of their columns
                    at[k], X[q, k] = at[k - 1], X[q, k - 1]
                    k -= 1
                at[k], X[q, k] = j, x
                m += 1
        if c[q] != 0.0:
            for n in range(m):
                j, x = at[n], c[q] * X[q, n]
                for o in range(n + 1):
                    H[j, at[o]] += x * X[q, o]
                H[last, j] += x * X[q, last]
            H[last, last] += c[q] * X[q, last] * X[q, last]
