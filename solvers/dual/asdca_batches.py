"""The batches of accelerated dual coordinate ascent (asdca.py), row by row.

With x = w + s h and the dual variables' changes da_i of a batch's rows,

    u = w + (1 - theta) s h
    dw = (1/(lam n)) sum of weight_i da_i s_i x_i,    w <- w + dw,    h <- h - dw / s
    s <- (1 - theta) s

so that a batch touches its rows' non-zeros only, twice.  Once s is below 1e-8 it is folded into h.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add, add_both, dot_both, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerRow, SideBySide, Vector
from fewpass.solvers.losses import Problem, conjugate, direction, slope, value

FOLD_BELOW = 1e-8  # s
#: Weighted sums over rows: losses and brackets at x and w of the pass's start, and at u.
LOSS_X, GAP_X, LOSS_W, GAP_W, LOSS_U, GAP_U = range(6)
SUMS = 6
SixSums = Vector  # (6,): these


@kernel
def visit_batches(
    W: SideBySide, running: SideBySide, fresh: SideBySide, s: float, theta: float, problem: Problem,
    column: float, offset: float, scale: float, share: float, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: PerRow, batches: int, sums: SixSums,
) -> float:  # fmt: skip
    """Process the rows in `batches` equal batches; a_i = share row_state[i].

    W (d + 1, 5) has x and w of the pass's start; `running` sees its columns from w on, h and the
    fresh sum after it, `fresh` that alone.  `row_state` (n,) gets the new dual variables,
    `sums` (6,) is added to.  Returns s.
    """
    loss, d, shift = problem.loss, W.shape[0] - 1, problem.intercept * offset
    m = order.shape[0]
    wish = np.empty(m // batches + 1)
    for batch in range(batches):
        first, last = batch * m // batches, (batch + 1) * m // batches
        lag = (1.0 - theta) * s
        for r in range(first, last):
            i = order[r]
            prefetch_row(rows, y, weight, order, r)
            a, c, t = share * row_state[i], weight[i], direction(loss, y[i])
            p_x, p_w = dot_both(rows, i, W)
            p, p_lag = dot_both(rows, i, running)
            p_x += column * W[d, 0] + shift
            p_w += column * W[d, 1] + shift
            p_u = p + lag * p_lag + column * (running[d, 0] + lag * running[d, 1]) + shift

            dual = conjugate(loss, a, y[i])
            phi_x, phi_w, phi_u = (
                value(loss, p_x, y[i]),
                value(loss, p_w, y[i]),
                value(loss, p_u, y[i]),
            )
            sums[LOSS_X] += c * phi_x
            sums[GAP_X] += c * (phi_x + dual + a * t * p_x)
            sums[LOSS_W] += c * phi_w
            sums[GAP_W] += c * (phi_w + dual + a * t * p_w)
            sums[LOSS_U] += c * phi_u
            sums[GAP_U] += c * (phi_u + dual + a * t * p_u)
            wish[r - first] = -t * slope(loss, p_u, y[i])

        for r in range(first, last):
            i = order[r]
            a, unit = share * row_state[i], scale * weight[i] * direction(loss, y[i])
            new = (1.0 - theta) * a + theta * wish[r - first]
            row_state[i] = new
            step, whole = unit * (new - a), unit * new
            if step != 0.0:
                add_both(rows, i, step, -step / s, running)
                running[d, 0] += step * column
                running[d, 1] -= step / s * column
            if whole != 0.0:
                add(rows, i, whole, fresh)
                fresh[d, 0] += whole * column

        s *= 1.0 - theta
        if s < FOLD_BELOW:
            for j in range(d + 1):
                running[j, 1] *= s
            s = 1.0
    return s
