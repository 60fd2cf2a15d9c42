"""The steps of averaged SGD for several models side by side: steps.py in lanes."""

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
from fewpass.solvers.loss_monitor import (
    LossMonitor,
    ReportLosses,
    end_of,
    with_float_counts,
    with_integer_counts,
)
from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.penalties import L2
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

#: Numbers of each model in `scalars`, those of StepScalars, and in `numbers`.  Those of a group lie
#: in lanes: number K of its models begins at K * width.
SCALARS, NUMBERS = 11, 6
B, ALPHA, INVERSE, BAR_B, TAU, BETA = range(6)
N_MONITORED, LOSS_SUM, LOSS, REFERENCE_LOSS, DIVERGED = range(6, SCALARS)
LAM, INTERCEPT, LAM_B, LEVEL, DECAY, GAMMA0 = range(NUMBERS)


@kernel
def visit_interleaved(
    scalars: EndToEnd, t: int, t0: int, loss: Loss, numbers: EndToEnd, labels: EndToEnd, c: float,
    least: float, W: AllGroups, how: LaneWidth, rows: Rows, y: PerRow, weight: PerRow, order: Order,
    ends: WholeNumbers, curve: Matrix,
) -> int:  # fmt: skip
    """step_rows for models in lanes, all at row t, W as in interleaved.py; returns t.

    Parameters
    ----------
    scalars
        SCALARS numbers of each model, changed in place.
    numbers
        NUMBERS numbers of each model.
    labels
        One number of each model, see protocol.py: Interleaved.
    ends, curve
        After `ends` rows (ascending), `curve` gets the number of rows whose loss was computed and
        the sum of their losses, of each lane; zeros after a lane has diverged.
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
            problem, gamma = problem_and_step(numbers, NUMBERS * L * g, loss, c, t, how)
            target = targets_of(load(labels, L * g, how), y[i])
            s = dot_lanes(rows, i, V, width, place, how)
            at = load_scalars(scalars, first, how)
            at, k = row_step(at, problem, least, gamma, t, target, weight[i], s, square)
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
    """Copy n_monitored and loss_sum of every lane."""
    lanes = point.shape[0] // 2
    for k in range(lanes):
        first = k // L * SCALARS * L + k % L
        point[k] = scalars[first + N_MONITORED * L]
        point[lanes + k] = scalars[first + LOSS_SUM * L]


@part_of_kernels
def problem_and_step(
    numbers: EndToEnd, at: int, loss: Loss, c: float, t: int, how: LaneWidth
) -> tuple[Problem, Number]:
    """Return the problem of a group's models and their step size at row t."""
    L = how.width
    lam, intercept = load(numbers, at + LAM * L, how), load(numbers, at + INTERCEPT * L, how)
    lam_b, level = load(numbers, at + LAM_B * L, how), load(numbers, at + LEVEL * L, how)
    problem = Problem(loss, L2(lam), intercept, lam_b, level)
    schedule = Schedule(load(numbers, at + DECAY * L, how), c)
    return problem, step_size(schedule, load(numbers, at + GAMMA0 * L, how), t)


@part_of_kernels
def load_scalars(V: EndToEnd, at: int, how: LaneWidth) -> StepScalars:
    """Read the scalars of a group's models."""
    L = how.width
    theta = Iterate(load(V, at + B * L, how), load(V, at + ALPHA * L, how))
    bar = Average(
        load(V, at + BAR_B * L, how), load(V, at + TAU * L, how), load(V, at + BETA * L, how)
    )
    monitor = LossMonitor(
        load(V, at + N_MONITORED * L, how),
        load(V, at + LOSS_SUM * L, how),
        load(V, at + LOSS * L, how),
        load(V, at + REFERENCE_LOSS * L, how),
        load(V, at + DIVERGED * L, how),
    )
    return StepScalars(theta, load(V, at + INVERSE * L, how), bar, monitor)


@part_of_kernels
def store_scalars(V: EndToEnd, at: int, L: int, scalars: StepScalars) -> None:
    """Write the scalars of a group's models."""
    theta, bar, monitor = scalars.theta, scalars.bar, scalars.monitor
    store(V, at + B * L, theta.b)
    store(V, at + ALPHA * L, theta.alpha)
    store(V, at + INVERSE * L, scalars.inverse)
    store(V, at + BAR_B * L, bar.b)
    store(V, at + TAU * L, bar.tau)
    store(V, at + BETA * L, bar.beta)
    store(V, at + N_MONITORED * L, monitor.n_monitored)
    store(V, at + LOSS_SUM * L, monitor.loss_sum)
    store(V, at + LOSS * L, monitor.loss)
    store(V, at + REFERENCE_LOSS * L, monitor.reference_loss)
    store(V, at + DIVERGED * L, monitor.diverged)


@kernel
def flush_lanes(W: GroupWeights, L: int, scalars: EndToEnd, at: int) -> None:
    """Flush those models of a group that are due and have not diverged."""
    for k in range(at, at + L):
        alpha, beta = scalars[k + ALPHA * L], scalars[k + BETA * L]
        is_due = alpha > FLUSH_ABOVE or beta > FLUSH_BETA_ABOVE
        if is_due and scalars[k + DIVERGED * L] == 0.0:
            flush(W[:, k - at :: L], alpha, scalars[k + TAU * L], beta)
            scalars[k + ALPHA * L] = scalars[k + INVERSE * L] = scalars[k + BETA * L] = 1.0
            scalars[k + TAU * L] = 0.0


def walk_interleaved(
    problems: list[Problem],
    schedules: list[Schedule],
    states: list[SgdState],
    labels: list[int],
    least: float,
    W: NDArray[np.float64],
    block: Block,
    ends: WholeNumbers,
    report: ReportLosses,
) -> list[SgdState]:
    """Step several models, all at the same row, over a block; W (see interleaved.py) changes.

    Their losses are reported after `ends` rows.
    """
    first, t, loss, c = states[0], states[0].t, problems[0].loss, schedules[0].c
    how = lanes_for(len(states))
    scalars = in_lanes([as_scalars(state) for state in states], how)
    numbers = in_lanes(sgd_numbers(problems, schedules, states), how)
    sides = in_lanes([(k,) for k in labels], how)
    curve = np.zeros((len(ends), 2 * len(sides)))
    t = visit_interleaved(
        scalars, t, first.t0, loss, numbers, sides, c, least, W, how, *block[:4], ends, curve
    )
    of_all = curve.reshape(len(ends), 2, len(sides))[:, :, : len(states)].sum(axis=2)
    for end, (seen, lost) in zip(ends.tolist(), of_all.tolist(), strict=True):
        if seen:
            report(end, (seen, lost))
    moved = out_of_lanes(scalars, len(states), how)
    return [with_scalars(state, t, q) for state, q in zip(states, moved, strict=True)]


def sgd_numbers(
    problems: list[Problem], schedules: list[Schedule], states: list[SgdState]
) -> list[list[float]]:
    """Return the NUMBERS numbers of each model."""
    return [
        [problem.lam, *problem[2:], schedule.a, state.gamma0]  # intercept, lam_b, level
        for problem, schedule, state in zip(problems, schedules, states, strict=True)
    ]


def as_scalars(state: SgdState) -> list[float]:
    """Return the SCALARS numbers of a model."""
    return [*state.theta, 1.0 / state.theta.alpha, *state.bar, *with_float_counts(state.monitor)]


def with_scalars(state: SgdState, t: int, scalars: Sequence[float]) -> SgdState:
    """Return the state at row t with these scalars."""
    theta, bar = Iterate(*scalars[:INVERSE]), Average(*scalars[BAR_B:N_MONITORED])
    monitor = with_integer_counts(LossMonitor(*scalars[N_MONITORED:]))  # type: ignore[arg-type]
    return state._replace(theta=theta, bar=bar, monitor=monitor, t=t)


def at_one_row(states: list[SgdState]) -> bool:
    """Whether models can be interleaved: at the same row, and averaging from the same row."""
    moments = {(state.t, state.t0) for state in states}
    return len(moments) == 1 and states[0].t0 != SOUGHT
