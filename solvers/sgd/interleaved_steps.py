"""The steps of averaged SGD over rows, for several models side by side: steps.py in lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import Rows, prefetch_row
from fewpass.solvers.kernels.shapes import Matrix, Number, Order, PerRow, Vector, WholeNumbers
from fewpass.solvers.kernels.simd.interleaved import (
    AllGroups,
    EndToEnd,
    GroupWeights,
    add_both_lanes,
    add_lanes,
    dot_lanes,
    in_lanes,
    lanes_for,
    out_of_lanes,
    targets_of,
)
from fewpass.solvers.kernels.simd.lanes import LaneWidth, any_lane, load, store
from fewpass.solvers.loss_monitor import LossMonitor, Tell, end_of, in_counts, in_numbers
from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.protocol import Block
from fewpass.solvers.sgd.averaged_state import SOUGHT, Average, Iterate, SgdState
from fewpass.solvers.sgd.schedule import Schedule, step_size
from fewpass.solvers.sgd.steps import (
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    StepScalars,
    average,
    flush,
    row_step,
    square_of,
)

SCALARS = 11  # numbers of StepScalars


@kernel
def visit_interleaved(
    scalars: EndToEnd, t: int, t0: int, loss: Loss, numbers: EndToEnd, labels: EndToEnd, c: float,
    least: float, W: AllGroups, how: LaneWidth, rows: Rows, y: PerRow, weight: PerRow, order: Order,
    ends: WholeNumbers, curve: Matrix,
) -> int:  # fmt: skip
    """step_rows for models in lanes, all at row t, W as in interleaved.py; returns t.

    For every group of lanes `scalars` has 11 numbers of each, changed in place; `numbers` 5: lam,
    intercept, lam_b, and the schedule's a and gamma0; `labels` 1, as in protocol.py: Interleaved.
    After `ends` rows, which rise, `curve` gets the rows whose loss was taken and their losses, of
    each lane; zeros where it does not come so far, as one of them exploded.
    """
    L = how.width
    V, last = W.reshape(-1), order.shape[0] - 1
    groups, d, width = W.shape
    noted, end = 0, end_of(ends, 0)
    for r in range(order.shape[0]):
        i, next_row = order[r], order[min(r + 1, last)]
        prefetch_row(rows, y, weight, order, r)
        t += 1
        square = square_of(loss, rows, i)
        for g in range(groups):
            place, first = g * d * width, SCALARS * L * g
            lam, intercept, lam_b, a, gamma0 = load_five(numbers, 5 * L * g, how)
            gamma = step_size(Schedule(a, c), gamma0, t)
            target = targets_of(load(labels, L * g, how), y[i])
            s = dot_lanes(rows, i, V, width, place, how)
            at, k = row_step(
                load_scalars(scalars, first, how), Problem(loss, lam, intercept, lam_b), least,
                gamma, t, target, weight[i], s, square,
            )  # fmt: skip
            if any_lane(at.monitor.diverged > 0.0):
                store_scalars(scalars, first, L, at)
                return t
            upcoming = (i, place + d * width) if g + 1 < groups else (next_row, 0)
            if t <= t0 + 1:
                add_lanes(rows, i, -k, V, width, place, upcoming, how)
            elif any_lane(abs(k) > 0.0):
                add_both_lanes(rows, i, -k, at.bar.tau * k, V, width, place, upcoming, how)
            if t == t0 + 1:  # bar <- theta
                W[g, :, L:] = 0.0
            at = average(at, t, t0)
            store_scalars(scalars, first, L, at)
            if any_lane(at.theta.alpha > FLUSH_ABOVE) or any_lane(at.bar.beta > FLUSH_BETA_ABOVE):
                flush_lanes(W[g], L, scalars, first)
        if r + 1 == end:
            note_losses(curve[noted], L, scalars)
            noted, end = noted + 1, end_of(ends, noted + 1)
    return t


@part_of_kernels
def note_losses(point: Vector, L: int, scalars: EndToEnd) -> None:
    """Keep n_monitored and loss_sum of every lane."""
    lanes = point.shape[0] // 2
    for k in range(lanes):
        first = k // L * SCALARS * L + k % L
        point[k], point[lanes + k] = scalars[first + 6 * L], scalars[first + 7 * L]


@part_of_kernels
def load_five(
    V: EndToEnd, at: int, how: LaneWidth
) -> tuple[Number, Number, Number, Number, Number]:
    """Read five numbers of each model."""
    L = how.width
    first, second, third = (
        load(V, at, how),
        load(V, at + L, how),
        load(V, at + 2 * L, how),
    )
    return first, second, third, load(V, at + 3 * L, how), load(V, at + 4 * L, how)


@part_of_kernels
def load_scalars(V: EndToEnd, at: int, how: LaneWidth) -> StepScalars:
    """Read the scalars of several models, in the order of `store_scalars`."""
    L = how.width
    b, alpha, inverse, b_bar, tau = load_five(V, at, how)
    beta, n_monitored, loss_sum, loss, reference_loss = load_five(V, at + 5 * L, how)
    diverged = load(V, at + 10 * L, how)
    monitor = LossMonitor(n_monitored, loss_sum, loss, reference_loss, diverged)
    return StepScalars(Iterate(b, alpha), inverse, Average(b_bar, tau, beta), monitor)


@part_of_kernels
def store_scalars(V: EndToEnd, at: int, L: int, scalars: StepScalars) -> None:
    """Write them."""
    theta, bar, monitor = scalars.theta, scalars.bar, scalars.monitor
    store(V, at, theta.b)
    store(V, at + L, theta.alpha)
    store(V, at + 2 * L, scalars.inverse)
    store(V, at + 3 * L, bar.b)
    store(V, at + 4 * L, bar.tau)
    store(V, at + 5 * L, bar.beta)
    store(V, at + 6 * L, monitor.n_monitored)
    store(V, at + 7 * L, monitor.loss_sum)
    store(V, at + 8 * L, monitor.loss)
    store(V, at + 9 * L, monitor.reference_loss)
    store(V, at + 10 * L, monitor.diverged)


@kernel
def flush_lanes(W: GroupWeights, L: int, scalars: EndToEnd, at: int) -> None:
    """Flush those of a group that are due, and have not diverged."""
    for k in range(at, at + L):
        alpha, tau, beta = scalars[k + L], scalars[k + 4 * L], scalars[k + 5 * L]
        is_due = alpha > FLUSH_ABOVE or beta > FLUSH_BETA_ABOVE
        if is_due and scalars[k + 10 * L] == 0.0:
            flush(W[:, k - at :: L], alpha, tau, beta)
            scalars[k + L] = scalars[k + 2 * L] = scalars[k + 5 * L] = 1.0
            scalars[k + 4 * L] = 0.0


def walk_interleaved(
    problems: list[Problem],
    schedules: list[Schedule],
    states: list[SgdState],
    labels: list[int],
    least: float,
    W: NDArray[np.float64],
    block: Block,
    ends: WholeNumbers,
    tell: Tell,
) -> list[SgdState]:
    """Carry several models, all at one row, over a block; W as in interleaved.py changes.

    Their losses are told after `ends` of its rows.
    """
    first, t, loss, c = states[0], states[0].t, problems[0].loss, schedules[0].c
    how = lanes_for(len(states))
    scalars = in_lanes([as_numbers(state) for state in states], how)
    numbers = in_lanes(
        [
            (problem.lam, problem.intercept, problem.lam_b, schedule.a, state.gamma0)
            for problem, schedule, state in zip(problems, schedules, states, strict=True)
        ],
        how,
    )
    sides = in_lanes([(k,) for k in labels], how)
    curve = np.zeros((len(ends), 2 * len(sides)))
    t = visit_interleaved(
        scalars, t, first.t0, loss, numbers, sides, c, least, W, how, *block[:4], ends, curve
    )
    of_all = curve.reshape(len(ends), 2, len(sides))[:, :, : len(states)].sum(axis=2)
    for end, (seen, lost) in zip(ends.tolist(), of_all.tolist(), strict=True):
        if seen:
            tell(end, (seen, lost))
    moved = out_of_lanes(scalars, len(states), how)
    return [with_numbers(state, t, q) for state, q in zip(states, moved, strict=True)]


def as_numbers(state: SgdState) -> list[float]:
    """Return what goes into lanes: StepScalars, in order."""
    return [*state.theta, 1.0 / state.theta.alpha, *state.bar, *in_numbers(state.monitor)]


def with_numbers(state: SgdState, t: int, numbers: Sequence[float]) -> SgdState:
    """Return the state at row t, out of lanes."""
    monitor = in_counts(LossMonitor(*numbers[6:]))  # type: ignore[arg-type]
    theta, bar = Iterate(*numbers[:2]), Average(*numbers[3:6])
    return state._replace(theta=theta, bar=bar, monitor=monitor, t=t)


def at_one_row(states: list[SgdState]) -> bool:
    """Say whether models can go interleaved: as many rows on, and averaging from the same one."""
    moments = {(state.t, state.t0) for state in states}
    return len(moments) == 1 and states[0].t0 != SOUGHT
