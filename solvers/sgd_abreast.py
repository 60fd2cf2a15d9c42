"""The steps of averaged SGD over rows, for several models side by side: sgd_steps.py in lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispatch import kernel, part_of_kernels
from solvers.lanes import any_above, keep_lanes, lanes_of, size
from solvers.losses import Problem
from solvers.protocol import Block
from solvers.rows import look_ahead
from solvers.rows_abreast import (
    add_both_lanes,
    add_lanes,
    dot_lanes,
    in_lanes,
    lanes_for,
    out_of_lanes,
    targets_of,
)
from solvers.schedule import Schedule, step_size
from solvers.sgd_steps import (
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    SOUGHT,
    Moment,
    SgdState,
    average,
    flush,
    row_step,
)


@kernel
def visit_abreast(
    moments: Any, t: Any, t0: Any, loss: Any, numbers: Any, labels: Any, c: Any, usual: Any,
    W: Any, how: Any, rows: Any, y: Any, weight: Any, order: Any,
) -> Any:  # fmt: skip
    """visit_rows for models in lanes, all at row t, W as in rows_abreast.py; returns t.

    For every group of lanes `moments` has 11 numbers of each, changed in place; `numbers` 5: lam,
    intercept, lam_b, and the schedule's a and gamma0; `labels` 1, as in protocol.py: Abreast.
    """
    L = how.width
    V, last = W.reshape(-1), order.shape[0] - 1
    groups, d, width = W.shape
    for r in range(order.shape[0]):
        i, next_row = order[r], order[min(r + 1, last)]
        look_ahead(rows, y, weight, order, r)
        t += 1
        for g in range(groups):
            place = g * d * width
            lam, intercept, lam_b, a, gamma0 = numbers_of(numbers, 5 * L * g, how)
            gamma = step_size(Schedule(a, c), gamma0, t)
            target = targets_of(lanes_of(labels, L * g, how), y[i])
            s = dot_lanes(rows, i, V, width, place, how)
            at, k = row_step(
                moment_of(moments, 11 * L * g, how), Problem(loss, lam, intercept, lam_b), usual,
                gamma, t, target, weight[i], s,
            )  # fmt: skip
            if any_above(at.lost, 0.0):
                keep_moment(moments, 11 * L * g, L, at)
                return t
            upcoming = (i, place + d * width) if g + 1 < groups else (next_row, 0)
            if t <= t0 + 1:
                add_lanes(rows, i, -k, V, width, place, upcoming, how)
            elif any_above(size(k), 0.0):
                add_both_lanes(rows, i, -k, at.tau * k, V, width, place, upcoming, how)
            if t == t0 + 1:  # bar <- theta
                W[g, :, L:] = 0.0
            at = average(at, t, t0)
            keep_moment(moments, 11 * L * g, L, at)
            if any_above(at.alpha, FLUSH_ABOVE) or any_above(at.beta, FLUSH_BETA_ABOVE):
                flush_lanes(W[g], L, moments, 11 * L * g)
    return t


@part_of_kernels
def numbers_of(V: Any, at: Any, how: Any) -> Any:
    """Read five numbers of each model."""
    L = how.width
    first, second, third = (
        lanes_of(V, at, how),
        lanes_of(V, at + L, how),
        lanes_of(V, at + 2 * L, how),
    )
    return first, second, third, lanes_of(V, at + 3 * L, how), lanes_of(V, at + 4 * L, how)


@part_of_kernels
def moment_of(V: Any, at: Any, how: Any) -> Any:
    """Read the moments of several models."""
    L = how.width
    b, b_bar, alpha, inverse, beta = numbers_of(V, at, how)
    tau, heard, loss_sum, smooth, smooth_zero = numbers_of(V, at + 5 * L, how)
    lost = lanes_of(V, at + 10 * L, how)
    return Moment(b, b_bar, alpha, inverse, beta, tau, heard, loss_sum, smooth, smooth_zero, lost)


@part_of_kernels
def keep_moment(V: Any, at: Any, L: Any, moment: Any) -> None:
    """Write them."""
    keep_lanes(V, at, moment.b)
    keep_lanes(V, at + L, moment.b_bar)
    keep_lanes(V, at + 2 * L, moment.alpha)
    keep_lanes(V, at + 3 * L, moment.inverse)
    keep_lanes(V, at + 4 * L, moment.beta)
    keep_lanes(V, at + 5 * L, moment.tau)
    keep_lanes(V, at + 6 * L, moment.heard)
    keep_lanes(V, at + 7 * L, moment.loss_sum)
    keep_lanes(V, at + 8 * L, moment.smooth)
    keep_lanes(V, at + 9 * L, moment.smooth_zero)
    keep_lanes(V, at + 10 * L, moment.lost)


@kernel
def flush_lanes(W: Any, L: Any, moments: Any, at: Any) -> Any:
    """Flush those of a group that are due."""
    for k in range(at, at + L):
        alpha, beta, tau = moments[k + 2 * L], moments[k + 4 * L], moments[k + 5 * L]
        if alpha > FLUSH_ABOVE or beta > FLUSH_BETA_ABOVE:
            flush(W[:, k - at :: L], alpha, beta, tau)
            moments[k + 2 * L] = moments[k + 3 * L] = moments[k + 4 * L] = 1.0
            moments[k + 5 * L] = 0.0


def walk_abreast(
    problems: list[Problem],
    schedules: list[Schedule],
    states: list[SgdState],
    labels: list[int],
    usual: float,
    W: NDArray[np.float64],
    block: Block,
) -> list[SgdState]:
    """Carry several models, all at one row, over a block; W as in rows_abreast.py changes."""
    first, loss, c = states[0], problems[0].loss, schedules[0].c
    how = lanes_for(len(states))
    moments = in_lanes([before(state) for state in states], how)
    numbers = in_lanes(
        [
            (problem.lam, problem.intercept, problem.lam_b, schedule.a, state.gamma0)
            for problem, schedule, state in zip(problems, schedules, states, strict=True)
        ],
        how,
    )
    t = visit_abreast(
        moments, first.t, first.t0, loss, numbers, in_lanes([(k,) for k in labels], how), c, usual,
        W, how, *block[:4],
    )  # fmt: skip
    moved = out_of_lanes(moments, len(states), how)
    return [after(state, t, Moment(*q)) for state, q in zip(states, moved, strict=True)]


def before(state: SgdState) -> Moment:
    """Return the moment that a state is in."""
    return Moment(
        state.b, state.b_bar, state.alpha, 1.0 / state.alpha, state.beta, state.tau,
        state.heard, state.loss_sum, state.loss, state.loss_zero, state.lost,
    )  # fmt: skip


def after(state: SgdState, t: int, at: Moment) -> SgdState:
    """Return the state at row t."""
    return state._replace(
        b=at.b, b_bar=at.b_bar, alpha=at.alpha, beta=at.beta, tau=at.tau, t=t, heard=int(at.heard),
        loss_sum=at.loss_sum, loss=at.smooth, loss_zero=at.smooth_zero, lost=int(at.lost),
    )  # fmt: skip


def at_one_row(states: list[SgdState]) -> bool:
    """Say whether models can go abreast: as many rows on, and averaging from the same one."""
    moments = {(state.t, state.t0) for state in states}
    return len(moments) == 1 and states[0].t0 != SOUGHT
