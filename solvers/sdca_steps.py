"""The steps of SDCA over rows: one model alone, or several side by side.

`row_sums` and `best_step` are the algorithm (sdca.py); what differs is only how rows and weights
meet: `visit_rows` for one model, `visit_abreast` for several.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispatch import kernel, part_of_kernels
from solvers.duality import dual_variable, keep_step, look_ahead_kept, move_weights
from solvers.lanes import any_above, keep_lanes, lanes_of, size
from solvers.losses import conjugate, direction, dual_step, value
from solvers.rows import dot_both, look_ahead, norm2
from solvers.rows_abreast import add_both_lanes, add_lanes, dot_both_lanes


@kernel
def visit_rows(
    W: Any, moving: Any, problem: Any, column: Any, offset: Any, scale: Any, stretch: Any,
    refresh: Any, shares: Any, rows: Any, y: Any, weight: Any, order: Any, kept: Any,
) -> Any:  # fmt: skip
    """Take the best step for each row in turn; `moving` sees W's columns RUNNING and NEXT.

    `refresh` is 1 where NEXT is added up, else 0.  Returns sums over the rows: loss and
    bracket at START, the same at RUNNING before the step.
    """
    loss, d, shift = problem.loss, W.shape[0] - 1, problem.intercept * offset
    loss_start, gap_start, loss_running, gap_running = 0.0, 0.0, 0.0, 0.0
    for r in range(order.shape[0]):
        i = order[r]
        look_ahead(rows, y, weight, order, r)
        look_ahead_kept(kept, order, r)
        a, c = dual_variable(kept, i, shares), weight[i]
        p_start, p = dot_both(rows, i, W)
        p_start += column * W[d, 0] + shift
        p += column * W[d, 1] + shift
        first, second, third, fourth = row_sums(loss, a, y[i], c, p_start, p)
        loss_start += first
        gap_start += second
        loss_running += third
        gap_running += fourth

        square = norm2(rows, i) + column * column
        delta, step, fresh = best_step(loss, a, y[i], c, p, square, scale, stretch)
        keep_step(kept, i, a, delta)
        move_weights(rows, i, step, refresh * fresh, column, moving)
    return loss_start, gap_start, loss_running, gap_running


@part_of_kernels
def row_sums(loss: Any, a: Any, y: Any, c: Any, p_start: Any, p: Any) -> Any:
    """Return a row's weighted loss and bracket at START, and the same at RUNNING."""
    s, dual = direction(loss, y), conjugate(loss, a, y)
    phi_start, phi = value(loss, p_start, y), value(loss, p, y)
    at_start = c * phi_start, c * (phi_start + dual + a * s * p_start)
    return at_start[0], at_start[1], c * phi, c * (phi + dual + a * s * p)


@part_of_kernels
def best_step(
    loss: Any, a: Any, y: Any, c: Any, p: Any, square: Any, scale: Any, stretch: Any
) -> Any:
    """Return the best step of a dual variable, and what RUNNING and NEXT gain of the row."""
    delta = dual_step(loss, a, p, y, stretch * scale * c * square)
    unit = scale * c * direction(loss, y)
    return delta, stretch * unit * delta, unit * (a + delta)


@kernel
def visit_abreast(
    W: Any, how: Any, loss: Any, numbers: Any, shares: Any, labels: Any, places: Any,
    rows: Any, y: Any, weight: Any, order: Any, kept: Any,
) -> Any:  # fmt: skip
    """visit_rows for K models side by side, W (d + 1, ..) as in rows_abreast.py.

    `numbers` (K, 5) are the constant column's value, what it adds to predictions beside its
    weight, scale, stretch and refresh; `shares` (K, m); model k's numbers per row are columns
    places[k] m and on of `kept`; `labels` (K,) as in protocol.py: Abreast.  Returns their sums,
    (K, 4).
    """
    (K, m), L, d, last = shares.shape, how.width, W.shape[0] - 1, order.shape[0] - 1
    V, width = W.reshape(-1), W.shape[1]
    p, step, sums = np.empty(2 * L), np.zeros(2 * L), np.zeros((K, 4))
    for r in range(order.shape[0]):
        i, next_row = order[r], order[min(r + 1, last)]
        look_ahead(rows, y, weight, order, r)
        square = norm2(rows, i)
        for first in range(0, K, L):
            start = 3 * first
            running, final = start + L, first + L >= K
            p_start, p_running = dot_both_lanes(rows, i, V, width, start, how)
            keep_lanes(p, 0, p_start)
            keep_lanes(p, L, p_running)
            for lane in range(min(L, K - first)):
                k = first + lane
                column, shift, scale, stretch, refresh = numbers[k]
                mine = kept[:, places[k] * m : (places[k] + 1) * m]
                target = y[i] if labels[k] < 0 else (1.0 if y[i] == labels[k] else -1.0)
                a = dual_variable(mine, i, shares[k])
                at_start = p[lane] + (column * W[d, start + lane] + shift)
                now = p[L + lane] + (column * W[d, running + lane] + shift)
                found = row_sums(loss, a, target, weight[i], at_start, now)
                for q in range(4):
                    sums[k, q] += found[q]
                delta, step[lane], step[L + lane] = best_step(
                    loss, a, target, weight[i], now, square + column * column, scale, stretch
                )
                step[L + lane] *= refresh
                keep_step(mine, i, a, delta)
                W[d, running + lane] += step[lane] * column
                W[d, running + L + lane] += step[L + lane] * column
            upcoming = (next_row, 0) if final else (i, start + 3 * L)
            moved, fresh = lanes_of(step, 0, how), lanes_of(step, L, how)
            if any_above(size(fresh), 0.0):
                add_both_lanes(rows, i, moved, fresh, V, width, running, upcoming, how)
            elif any_above(size(moved), 0.0):
                add_lanes(rows, i, moved, V, width, running, upcoming, how)
    return sums
