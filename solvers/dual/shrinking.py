"""Rows of a window that moved are visited again while they are in memory (`sdca`, `shrink_rounds`).

Under the hinge most dual variables soon sit at a bound and stay there; what takes the passes are
the few between. A window's rows are all visited once, as in every pass. Those whose dual variable
moved are visited again and again, in new orders, until the sum of their brackets is below 0.3 of
what it was in the first of these rounds, or `shrink_rounds` rounds are made, or `most_again` visits
for every row of the window: beyond, what a round brings is more often than not undone by the next
windows, and a fresh pass brings more for its arithmetic.  That is so far from the optimum;
near it some sets do not arrive with few rounds, and after every 8 passes twice as many visits are
allowed. The others are shrunk away, till the next
pass looks at every row again: nothing is taken for granted from pass to pass, there is nothing to
remember, and the certificate is what it was. In the first pass nearly all rows move, for weights
that are not worth it yet: each is visited once.

Source: the shrinking of Hsieh et al. 2008, "A Dual Coordinate Descent Method for Large-scale Linear
SVM", section 3.2, for windows; docs/methods.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import MOVE, move_weights, per_row, prefetch_resident, square_of
from fewpass.solvers.dual.sdca_steps import StepInputs, along_row, best_step, counted_square
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, dot_shrunk, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerColumn, PerRow, RowState, SideBySide
from fewpass.solvers.losses import bracket, conjugate, direction, value
from fewpass.solvers.protocol import Block

ROUNDS = 37  # what a random generator is for
FELL_TO = 0.3  # of the brackets' sum in the first round
MOST_AGAIN = 4  # visits in all rounds, per row of the window, in the first passes
DOUBLED = 8  # passes, after which it is twice as many
MOST_DOUBLED = 10  # times


def visit_moving_rows(
    visit: Callable[[NDArray[np.int64]], float], block: Block, before: NDArray[np.float64],
    most: int, passes: int, key: list[int],
) -> int:  # fmt: skip
    """Go over the rows that moved, up to `most` times; returns how many visits that were.

    `visit` steps rows in an order and returns the sum of their brackets before.  The numbers per
    row are those after the first visit, `before` (n,) their first ones before it; `passes` were
    made before this one.
    """
    row_state = per_row(block)
    moved = row_state[:, 0] != before if row_state.shape[1] == 1 else row_state[:, MOVE] != 0.0
    active = block.order[moved[block.order]]
    random, first, rounds = np.random.default_rng([*key, ROUNDS]), 0.0, 0
    if active.shape[0] == 0:
        return 0
    most = min(most, most_again(passes) * block.order.shape[0] // int(active.shape[0]))
    while rounds < most:
        brackets = visit(random.permutation(active))
        first, rounds = first or brackets, rounds + 1
        if rounds > 1 and brackets <= FELL_TO * first:
            break
    return rounds * int(active.shape[0])


def most_again(passes: int) -> int:
    """Return the visits in all rounds, per row of the window, by the passes already made."""
    return MOST_AGAIN << min(passes // DOUBLED, MOST_DOUBLED)


@kernel
def visit_once_more(
    running: SideBySide, anew: PerColumn, given: StepInputs, moved: float, rows: Rows, y: PerRow,
    weight: PerRow, order: Order, row_state: RowState,
) -> tuple[float, float]:  # fmt: skip
    """Take the best step for each row in turn, once more in the same pass.

    What a dual variable was and its move add up to it; the move takes the step.  Returns the sum of
    the weighted brackets before the steps, and what `moved` is after them.
    """
    problem, column, offset, scale, counted, refresh, _, g = given
    loss, d, last = problem.loss, anew.shape[0] - 1, min(MOVE, row_state.shape[1] - 1)
    total, shift = 0.0, problem.intercept * offset
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        c, a, along = weight[i], row_state[i, 0], along_row(row_state, i)
        if last > 0:
            a += row_state[i, last]
        p = dot_shrunk(rows, i, running, problem.penalty) + column * running[d, 0] + shift
        p += along * (counted.ratio * moved - counted.owed)
        total += c * bracket(loss, a, p, y[i], value(loss, p, y[i]), conjugate(loss, a, y[i]))

        square = counted_square(square_of(rows, i, column, g), counted, along)
        delta, step, _ = best_step(loss, a, y[i], c, p, square, scale, counted.sigma_prime)
        row_state[i, last] += delta
        fresh = refresh * scale * c * direction(loss, y[i]) * delta
        move_weights(rows, i, step, fresh, column, running, anew, g)
        moved += along * step
    return total, moved
