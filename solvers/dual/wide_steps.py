"""The steps of dual ascent over rows for a loss of several scores: sdca_steps.py for K at once.

For each row the K dual variables change together (`best_duals`).  Numbers kept per row are K times
as many as for one score: K, and of several streams K of how they move, and the round they did in.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.dual.duality import prefetch_resident
from fewpass.solvers.dual.sdca_steps import Counted, RowSums
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import Eight, broadcast, load, store
from fewpass.solvers.kernels.rows import Rows, norm2, prefetch_columns, prefetch_row
from fewpass.solvers.kernels.shapes import (
    Matrix,
    Order,
    PerRow,
    RowState,
    Shares,
    Vector,
    WholeNumbers,
)
from fewpass.solvers.kernels.simd.wide_rows import (
    EndToEnd,
    PerClass,
    add_scores,
    add_wide,
    scores_of,
    weigh,
)
from fewpass.solvers.loss_monitor import end_of
from fewpass.solvers.losses.wide_loss import (
    SCRATCH,
    LossOfScores,
    best_duals,
    loss_and_bracket,
    loss_and_slopes,
    worth_of,
)

SideBySide = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]  # (d + 1, 2, wide)
ROWS_AHEAD = 1  # between asking for the weights of a row's columns, and using them


@kernel
def visit_wide_rows(
    W: SideBySide, anew: Matrix, loss: LossOfScores, column: float, base: PerClass, scale: float,
    counted: Counted, refresh: float, shares: Shares, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: RowState, ends: WholeNumbers, curve: Vector,
) -> RowSums:  # fmt: skip
    """Take the best step for each row in turn, as visit_rows does; W's column RUNNING moves.

    `base` (wide,) is what the centre adds to scores, PADDED beyond the classes; `anew` (d + 1,
    wide) takes w(a) where `refresh` is 1.
    """
    K, wide, d, last = loss.n_classes, W.shape[2], W.shape[0] - 1, order.shape[0] - 1
    lanes, V, fresh, step = Eight(), W.reshape(-1), anew.reshape(-1), 2 * W.shape[2]
    both, a, new = np.empty(step), np.zeros(wide), np.zeros(wide)
    v_start, v = both[:wide], both[wide:]
    scratch, constant = np.empty((SCRATCH, wide)), d * step
    loss_start, gap_start, loss_running = 0.0, 0.0, 0.0
    noted, end, sigma_prime = 0, end_of(ends, 0), counted.sigma_prime
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        prefetch_columns(rows, order[min(r + ROWS_AHEAD, last)], V, step)
        c, label = weight[i], int(y[i])
        for k in range(0, wide, 8):
            own = load(base, k, lanes)
            store(v_start, k, own + column * load(V, constant + k, lanes))
            store(v, k, own + column * load(V, constant + wide + k, lanes))
        add_scores(rows, i, V, step, 0, both)
        dual_variables(row_state, i, shares, K, a)

        phi, bracket = loss_and_bracket(loss, v_start, a, label, scratch)
        loss_start += c * phi
        gap_start += c * bracket
        unit = scale * c
        q = sigma_prime * unit * (norm2(rows, i) + column * column)
        loss_running += c * best_duals(loss, a, v, label, q, new, scratch)
        store_duals(row_state, i, K, a, new, counted.in_round)

        for k in range(0, wide, 8):
            move = (sigma_prime * unit) * (load(new, k, lanes) - load(a, k, lanes))
            store(v, k, move)
            at = constant + wide + k
            store(V, at, load(V, at, lanes) + column * move)
        add_wide(rows, i, v, V, step, wide)
        if refresh > 0.0:
            for k in range(0, wide, 8):
                own = (refresh * unit) * load(new, k, lanes)
                store(v, k, own)
                at = d * wide + k
                store(fresh, at, load(fresh, at, lanes) + column * own)
            add_wide(rows, i, v, fresh, wide, 0)
        if r + 1 == end:
            curve[noted] = loss_running
            noted, end = noted + 1, end_of(ends, noted + 1)
    return loss_start, gap_start, loss_running, 0.0


@part_of_kernels
def dual_variables(row_state: RowState, i: int, shares: Shares, K: int, a: PerClass) -> None:
    """Read a row's dual variables out of the numbers that are kept; what is padded stays 0."""
    for k in range(K):
        a[k] = shares[0] * row_state[i, k]
    if shares.shape[0] > 1:
        share = shares[1 + int(row_state[i, 2 * K])]
        for k in range(K):
            a[k] += share * row_state[i, K + k]


@part_of_kernels
def store_duals(
    row_state: RowState, i: int, K: int, a: PerClass, new: PerClass, in_round: float
) -> None:
    """Write a row's dual variables: as K numbers, or as what they were, how they move, and when."""
    if row_state.shape[1] == K:
        for k in range(K):
            row_state[i, k] = new[k]
    else:
        for k in range(K):
            row_state[i, k] = a[k]
            row_state[i, K + k] = new[k] - a[k]
        row_state[i, 2 * K] = in_round


@kernel
def sum_wide_brackets(
    loss: LossOfScores, V: EndToEnd, base: PerClass, shares: Shares, rows: Rows, y: PerRow,
    weight: PerRow, order: Order, row_state: RowState,
) -> tuple[float, float]:  # fmt: skip
    """Sums of the weighted losses and brackets of the rows; V is (d, wide), end to end.

    `base` (wide,) are the intercepts, PADDED beyond the classes.
    """
    wide, total, gap = base.shape[0], 0.0, 0.0
    v, a, scratch = np.empty(wide), np.zeros(wide), np.empty((SCRATCH, wide))
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        dual_variables(row_state, i, shares, loss.n_classes, a)
        scores_of(rows, i, V, base, v)
        phi, bracket = loss_and_bracket(loss, v, a, int(y[i]), scratch)
        total += weight[i] * phi
        gap += weight[i] * bracket
    return total, gap


@kernel
def write_wide_duals(
    S: EndToEnd, s_b: PerClass, loss: LossOfScores, intercept: float, V: EndToEnd, base: PerClass,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, row_state: RowState,
) -> tuple[float, float]:  # fmt: skip
    """S += sum of weighted x a', s_b += that of a; returns the sums of losses and of -phi*(-a).

    A row's dual variables become the first of the numbers kept for it, the others 0.
    """
    wide, total, worth, lanes = base.shape[0], 0.0, 0.0, Eight()
    v, a = np.empty(wide), np.zeros(wide)
    for r in range(order.shape[0]):
        i, label = order[r], int(y[order[r]])
        prefetch_row(rows, y, weight, order, r)
        scores_of(rows, i, V, base, v)
        total += weight[i] * loss_and_slopes(loss, v, label, a)
        for k in range(0, wide, 8):
            store(a, k, broadcast(0.0, lanes) - load(a, k, lanes))
        for k in range(loss.n_classes, wide):
            a[k] = 0.0
        row_state[i, :] = 0.0
        for k in range(loss.n_classes):
            row_state[i, k] = a[k]
        worth += weight[i] * worth_of(loss, a, label)
        weigh(a, weight[i], intercept, s_b)
        add_wide(rows, i, a, S, wide, 0)
    return total, worth
