"""Mini-batches of dual steps: all rows of a batch are predicted by the same weights.

Moves that point the same way add up to more than each of them counted on.  So each row's step uses
a curvature v_i / (lam n) that makes up for it:

    naive       v_i = ||x_i||^2                              may circle or blow up: to compare with
    safe        v_i = own ||x_i||^2 + shared                 D rises in expectation
                own = 1 - r,  shared = r n_c sigma^2,  r = (b-1)/(n_c-1)
    aggressive  v_i = rho, as measured on steps tried first  D never falls: the gain of a batch is
                                                             known exactly, and one that would lose
                                                             is shortened

Batches are drawn from the window in memory, so the number of rows n_c, sigma^2 and the longest row
are the window's.
`safe` is what Lemma 1 says before ||x_i|| is rounded up to the longest, and is the serial step at
b = 1.  rho = ||sum of moves||^2 / sum of delta^2, clipped to what orthogonal rows and a safe batch
have; `beta`, its running geometric mean, is the curvature of the steps that are tried first.

Differs from Algorithm 2 of the paper: the lower end of the clip is 1 for rows of unit length only,
and no row's curvature is below its own ||x_i||^2; beta_b is the window's; a batch that would lower
D is shortened in place of left out.

Source: Takac, Bijral, Richtarik and Srebro 2013, section 4 and Algorithm 2; docs/methods.md.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from fewpass.solvers.dual.duality import dual_variable, move_weights, store_step
from fewpass.solvers.dual.sdca_steps import RowSums, StepInputs, row_sums
from fewpass.solvers.estimates.spectrum import SAMPLED_TOO_LOW, sigma_square
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import (
    Rows,
    add_vector,
    clear,
    dot_both_shrunk,
    dot_vector,
    norm2,
    prefetch_row,
)
from fewpass.solvers.kernels.shapes import (
    Order,
    PerColumn,
    PerRow,
    RowState,
    Shares,
    SideBySide,
    Vector,
)
from fewpass.solvers.losses import Loss, conjugate, direction, dual_step
from fewpass.solvers.penalties import scaled_dual
from fewpass.solvers.protocol import Block

Batch = Literal["serial", "naive", "safe", "aggressive"]
PerBatchRow = Vector  # (b,): of the rows of a batch
REMEMBERED = 0.95  # of log beta, from batch to batch


class Curvatures(NamedTuple):
    """Curvatures of a window's batches: v_i = own * square_i + shared."""

    own: float
    shared: float = 0.0
    largest: float = 0.0  # v of the longest row
    adaptive: bool = False  # v is measured, and `largest` its bound


def curvatures(block: Block, d: int, column: float, kind: Batch, b: int) -> Curvatures:
    """Work out the curvatures of batches of b rows of a block."""
    n = block.order.shape[0]
    if kind == "naive" or n == 1:
        return Curvatures(1.0)
    share = (min(b, n) - 1) / (n - 1)
    own = 1.0 - share
    longest = float(longest_row(block.rows, block.weight, block.order, column))
    sampled = sigma_square(block.rows, block.weight, d, block.order)
    sampled = SAMPLED_TOO_LOW * sampled + column**2 * float(np.mean(block.weight[block.order]))
    shared = share * n * min(sampled, longest)
    largest = own * longest + shared
    return Curvatures(own, shared, largest, kind == "aggressive")


@kernel
def longest_row(rows: Rows, weight: PerRow, order: Order, column: float) -> float:
    """Largest weighted square of a row, constant column included."""
    largest = 0.0
    for i in order:
        largest = max(largest, weight[i] * (norm2(rows, i) + column * column))
    return largest


@kernel
def visit_batches(
    W: SideBySide, running: SideBySide, anew: PerColumn, given: StepInputs, shares: Shares,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, row_state: RowState, batch: int,
    curvatures: Curvatures, beta: float, scratch: PerColumn,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Step batches of rows in turn; `scratch` (d + 1,) is zero and is left so.

    Returns beta and the four sums of `visit_rows`.
    """
    problem, column, offset, scale, _, refresh, theta, _ = given
    loss, penalty = problem.loss, problem.penalty
    d, shift = W.shape[0] - 1, problem.intercept * offset
    a, p, square = np.empty(batch), np.empty(batch), np.empty(batch)
    v, delta, sums = np.empty(batch), np.empty(batch), np.zeros(4)
    for start in range(0, order.shape[0], batch):
        chosen = order[start : start + batch]
        for k in range(chosen.shape[0]):
            i = chosen[k]
            prefetch_row(rows, y, weight, order, start + k)
            a[k], c = dual_variable(row_state, i, shares), weight[i]
            p_start, p[k] = dot_both_shrunk(rows, i, W, penalty)
            p_start += column * W[d, 0] + shift
            p[k] += column * W[d, 1] + shift
            square[k] = c * (norm2(rows, i) + column * column)

            scaled = scaled_dual(penalty, a[k], theta)
            add_each(sums, row_sums(loss, scaled, y[i], c, p_start, p[k]))

        if curvatures.adaptive:
            if beta <= 0.0:
                beta = curvatures.largest
            at_least(beta, square, v)
            propose(loss, y, chosen, a, p, v, scale, delta)
            together = square_of_sum(loss, rows, y, weight, chosen, delta, column, scratch)
            single, apart = sums_of_squares(weight, chosen, delta, square)
            if single > 0.0:
                rho = min(max(together, apart) / single, curvatures.largest)
                beta = beta**REMEMBERED * rho ** (1.0 - REMEMBERED)
                at_least(rho, square, v)
        else:
            for k in range(chosen.shape[0]):
                v[k] = curvatures.own * square[k] + curvatures.shared
        propose(loss, y, chosen, a, p, v, scale, delta)
        if curvatures.adaptive:
            together = square_of_sum(loss, rows, y, weight, chosen, delta, column, scratch)
            if gain(loss, y, weight, chosen, a, p, delta) < 0.5 * scale * together:
                shorten(weight, chosen, v, delta, together)

        for k in range(chosen.shape[0]):
            i = chosen[k]
            unit = scale * weight[i] * direction(loss, y[i])
            store_step(row_state, i, a[k], delta[k], 0.0)
            fresh = refresh * unit * (a[k] + delta[k])
            move_weights(rows, i, unit * delta[k], fresh, column, running, anew, None)
    return beta, sums[0], sums[1], sums[2], sums[3]


@part_of_kernels
def add_each(sums: Vector, each: RowSums) -> None:
    """sums += each."""
    for n in range(len(each)):
        sums[n] += each[n]


@kernel
def propose(
    loss: Loss, y: PerRow, chosen: Order, a: PerBatchRow, p: PerBatchRow, v: PerBatchRow,
    scale: float, delta: PerBatchRow,
) -> None:  # fmt: skip
    """Fill delta with each row's best step under its curvature."""
    for k in range(chosen.shape[0]):
        delta[k] = dual_step(loss, a[k], p[k], y[chosen[k]], scale * v[k])


@kernel
def at_least(bound: float, square: PerBatchRow, v: PerBatchRow) -> None:
    """Set every row's curvature to `bound`, or to the row's own square where that is larger."""
    for k in range(v.shape[0]):
        v[k] = max(bound, square[k])


@kernel
def square_of_sum(
    loss: Loss, rows: Rows, y: PerRow, weight: PerRow, chosen: Order, delta: PerBatchRow,
    column: float, scratch: PerColumn,
) -> float:  # fmt: skip
    """Return ||sum of the rows' moves||^2, (23)."""
    together, d = 0.0, scratch.shape[0] - 1
    for k in range(chosen.shape[0]):
        i = chosen[k]
        step = weight[i] * direction(loss, y[i]) * delta[k]
        add_vector(rows, i, step, scratch)
        scratch[d] += step * column
    for k in range(chosen.shape[0]):
        i = chosen[k]
        step = weight[i] * direction(loss, y[i]) * delta[k]
        together += step * (dot_vector(rows, i, scratch) + column * scratch[d])
    for k in range(chosen.shape[0]):
        clear(rows, chosen[k], scratch)
    scratch[d] = 0.0
    return together


@kernel
def sums_of_squares(
    weight: PerRow, chosen: Order, delta: PerBatchRow, square: PerBatchRow
) -> tuple[float, float]:
    """Return the weighted sum of delta^2, and that of the squares of the rows' own moves."""
    single, apart = 0.0, 0.0
    for k in range(chosen.shape[0]):
        delta_square = weight[chosen[k]] * delta[k] * delta[k]
        single += delta_square
        apart += delta_square * square[k]
    return single, apart


@kernel
def gain(
    loss: Loss, y: PerRow, weight: PerRow, chosen: Order, a: PerBatchRow, p: PerBatchRow,
    delta: PerBatchRow,
) -> float:  # fmt: skip
    """Return the batch's part of n D, but for the square of its moves."""
    total = 0.0
    for k in range(chosen.shape[0]):
        i = chosen[k]
        moved = conjugate(loss, a[k] + delta[k], y[i])
        change = conjugate(loss, a[k], y[i]) - moved
        total += weight[i] * (change - delta[k] * direction(loss, y[i]) * p[k])
    return total


@kernel
def shorten(
    weight: PerRow, chosen: Order, v: PerBatchRow, delta: PerBatchRow, together: float
) -> None:
    """Take the share of the moves that, by concavity, cannot lower D."""
    counted = 0.0
    for k in range(chosen.shape[0]):
        counted += weight[chosen[k]] * v[k] * delta[k] * delta[k]
    for k in range(chosen.shape[0]):
        delta[k] *= min(1.0, counted / together)
