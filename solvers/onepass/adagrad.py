"""AdaGrad with implicit steps, at two step sizes side by side.

For eta = 1 and eta = 4, and for each row i, t = 1, 2, ..., with g0 = c phi'(x.w, y):

    G_j += (g0 x_j / S_j)^2
    D_j = eta / (sqrt(N) S_j^2 sqrt(G_j)),    e_j = 1 / (1 + D_j R_j),    R_j = lam_j / f_j
    a = sum_j x_j w_j e_j,    q = sum_j D_j x_j^2 e_j
    g = c phi'(z, y)  where  z + q c phi'(z, y) = a
    w_j <- (w_j - D_j g x_j) e_j = w_j + d_j
    u_j <- u_j - m d_j,    then  m <- m + (t/n)^5

over the columns with a value in the row: f_j is the fraction of rows with a value in column j, S_j
the root mean square of these values, N the mean number of values per row.  Regularisation of w_j is
applied only for rows with a value in column j, multiplied by 1/f_j, which gives the same objective;
so the weights of other columns do not change, and a row costs its values.  The average of all w,
each with the weight (t/n)^5, is w + u/m.

The step is implicit: the margin after it balances the row's loss and the length of the step, and
cannot overshoot.  z is computed by the dual step of losses/ from 0, with q c for q.

Sources: Duchi, Hazan, Singer 2011 (AdaGrad); Ross, Mineiro, Langford 2013 (scale by column, by the
number of values in a row), here with known moments; Toulis, Airoldi 2017, and Karampatziakis,
Langford 2011 (implicit steps); Shamir, Zhang 2013 (polynomial averages).  docs/methods.md,
section 3a.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import by_type, part_of_kernels
from fewpass.solvers.kernels.lanes import (
    LaneWidth,
    broadcast,
    fma,
    half,
    load,
    minimum,
    sqrt,
    store,
)
from fewpass.solvers.kernels.rows import (
    DenseRows,
    Rows,
    SparseRows,
    cell,
    end_cell,
    first_cell,
    in_cells,
)
from fewpass.solvers.kernels.shapes import Index, LaneVector, Number, Order, Vector
from fewpass.solvers.losses import Loss, direction, dual_step

ETAS = (1.0, 4.0)
G_START = 1e-3  # times the mean square of a first slope

#: A column's eight numbers, one cache line: w, u and G of both learners, 1/f and 1/S.  With several
#: interleaved models (interleaved.py) there is one of each number per model.
RECORD = 8
W, U, G, INVERSE_SHARE, INVERSE_SCALE = 0, 2, 4, 6, 7
COLUMNS = RECORD + 2  # with averaged SGD's two, of several models side by side
SCRATCH = 4  # scratch numbers per value between the two visits of a step: D e x and e of both
MOST_G = 1e300  # beyond it steps are negligible; an infinite G would give NaN

Records = Vector  # all columns' numbers end to end, the constant column's last


@by_type
def longest(rows: Rows, order: Order) -> int:  # type: ignore[empty-body]
    """Return the number of values of the longest of these rows."""


@by_type
def predict(  # type: ignore[empty-body]
    rows: Rows, i: int, V: Records, step: int, lanes: LaneWidth
) -> tuple[LaneVector, LaneVector]:
    """Return x_i . w and x_i . u of both learners; records lie `step` numbers apart."""


@by_type
def count_slopes(  # type: ignore[empty-body]
    rows: Rows, i: int, g0: LaneVector, eta: LaneVector, root_n: float, lam: Number, V: Records,
    step: int, scratch: Vector, lanes: LaneWidth,
) -> tuple[LaneVector, LaneVector]:  # fmt: skip
    """Add the row's squared slopes to G; return a and q, and store D e x and e of each value."""


@by_type
def move(
    rows: Rows, i: int, g: LaneVector, mass: float, V: Records, step: int,
    scratch: Vector, lanes: LaneWidth,
) -> None:  # fmt: skip
    """Take the step of row i."""


@part_of_kernels
def count_slope(
    x: float, g0: LaneVector, eta: LaneVector, root_n: float, lam: Number, V: Records, at: Index,
    scratch: Vector, n: Index, lanes: LaneWidth,
) -> tuple[LaneVector, LaneVector]:  # fmt: skip
    """Do count_slopes for the row's n-th value x, with its column's record at V[at]."""
    L = half(lanes)
    scale = V[at + INVERSE_SCALE * L]
    slope = g0 * (x * scale)
    total = minimum(fma(slope, slope, load(V, at + G * L, lanes)), MOST_G)
    store(V, at + G * L, total)
    h, k = root_n * sqrt(total), eta * (scale * scale)  # D = k / h
    share = 1.0 / fma(k, lam * V[at + INVERSE_SHARE * L], h)
    e, De_x = h * share, k * share * x
    store(scratch, SCRATCH * L * n, De_x)
    store(scratch, SCRATCH * L * n + 2 * L, e)
    return x * load(V, at + W * L, lanes) * e, De_x * x


@part_of_kernels
def move_at(
    g: LaneVector, mass: float, V: Records, at: Index, scratch: Vector, n: Index, lanes: LaneWidth
) -> None:
    """Take the step of one column."""
    L = half(lanes)
    before, e = load(V, at + W * L, lanes), load(scratch, SCRATCH * L * n + 2 * L, lanes)
    after = before * e - load(scratch, SCRATCH * L * n, lanes) * g
    store(V, at + W * L, after)
    store(V, at + U * L, load(V, at + U * L, lanes) - mass * (after - before))


@part_of_kernels
def implicit_slope(loss: Loss, c: float, a: Number, q: Number, y: float) -> Number:
    """Return g = c phi'(z, y) with z + q g = a."""
    return -c * direction(loss, y) * dual_step(loss, 0.0 * q, a, y, c * q)


@longest.register(DenseRows)
def _(rows: DenseRows, order: Order) -> int:
    return rows.X.shape[1]  # type: ignore[no-any-return]


@longest.register(SparseRows)
def _(rows: SparseRows, order: Order) -> int:
    most = 0
    for r in range(order.shape[0]):
        most = max(most, rows.indptr[order[r] + 1] - rows.indptr[order[r]])
    return most


@in_cells(predict)
def _(rows: Rows, i: int, V: Records, step: int, lanes: LaneWidth) -> tuple[LaneVector, LaneVector]:
    L = half(lanes)
    last, average = broadcast(0.0, lanes), broadcast(0.0, lanes)
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        at = step * np.int64(j)
        last = fma(x, load(V, at + W * L, lanes), last)
        average = fma(x, load(V, at + U * L, lanes), average)
    return last, average


# Zeros in dense rows, and stored zeros in sparse rows, are not values: nothing is charged.


@in_cells(count_slopes)
def _(
    rows: Rows, i: int, g0: LaneVector, eta: LaneVector, root_n: float, lam: Number,
    V: Records, step: int, scratch: Vector, lanes: LaneWidth,
) -> tuple[LaneVector, LaneVector]:  # fmt: skip
    a, q = broadcast(0.0, lanes), broadcast(0.0, lanes)
    first = np.int64(first_cell(rows, i))
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        if x != 0.0:
            at, own = step * np.int64(j), np.int64(n) - first
            da, dq = count_slope(x, g0, eta, root_n, lam, V, at, scratch, own, lanes)
            a, q = a + da, q + dq
    return a, q


@in_cells(move)
def _(
    rows: Rows, i: int, g: LaneVector, mass: float, V: Records, step: int,
    scratch: Vector, lanes: LaneWidth,
) -> None:  # fmt: skip
    first = np.int64(first_cell(rows, i))
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        if x != 0.0:
            move_at(g, mass, V, step * np.int64(j), scratch, np.int64(n) - first, lanes)
