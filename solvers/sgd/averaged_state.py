"""The state of averaged SGD, and the weights that it represents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.lanes import power, sqrt
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.loss_monitor import LossMonitor
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import JoinByPairs, ProblemStats, State, Weights

NEVER = 1 << 62  # t0 of plain SGD: averaging never starts
SOUGHT = -1  # t0 while averaging_start.py searches for it


class Iterate(NamedTuple):
    """The scalars of theta = u / alpha."""

    b: float = 0.0  # its intercept; of several scores an array (wide,)
    alpha: float = 1.0


class Average(NamedTuple):
    """The scalars of bar = (tau u + uh) / beta."""

    b: float = 0.0  # its intercept, likewise
    tau: float = 0.0
    beta: float = 1.0


class SgdState(NamedTuple):
    """The state of averaged SGD."""

    W: NDArray[np.float64]  # (d, 2), or (d, 2, wide) of several scores: columns u and uh
    theta: Iterate
    bar: Average  # a decaying average while t0 is sought
    bar_loss: float  # smoothed loss of that average before the steps
    monitor: LossMonitor
    t: int  # rows visited
    t0: int  # averaging starts after it; SOUGHT, NEVER or a row count
    gamma0: float  # 0 until the first block calibrates it


def scale_intercept(state: SgdState, factor: float) -> SgdState:
    """Return the state with its intercepts multiplied by `factor`."""
    return state._replace(
        theta=state.theta._replace(b=factor * state.theta.b),
        bar=state.bar._replace(b=factor * state.bar.b),
    )


def at_intercept(state: SgdState, b: float) -> SgdState:
    """Return the state with this intercept, in the average, too."""
    return state._replace(theta=state.theta._replace(b=b), bar=state.bar._replace(b=b))


def read_out(state: SgdState) -> tuple[Weights, Weights]:
    """Return theta and bar; bar is theta until averaging begins."""
    u, uh, bar = state.W[:, 0], state.W[:, 1], state.bar
    theta = Weights(u / state.theta.alpha, state.theta.b)
    if not state.t > state.t0 >= 0:
        return theta, theta
    return theta, Weights((bar.tau * u + uh) / bar.beta, bar.b)


def has_exploded(state: State) -> bool:
    """Return whether the loss before the step has exploded."""
    return bool(state.monitor.diverged)


def progressive_loss(state: SgdState) -> dict[str, float]:
    """Return the running loss on rows before they were visited, smoothed and summed."""
    return {**state.monitor.metrics(), "gamma0": state.gamma0, "t0": state.t0}


class StreamSums(NamedTuple):
    """Sums of streams' iterates and averages."""

    theta: Weights
    bar: Weights


def stream_part(_problem: Problem, _stats: ProblemStats, state: SgdState) -> StreamSums:
    """Return what a stream adds to the sums."""
    return StreamSums(*read_out(state))


def mean_of_streams(
    _problem: Problem, _stats: ProblemStats, first: SgdState, total: StreamSums, streams: int
) -> SgdState:
    """Average the streams' iterates and averages."""
    first.W[:, 0] = total.theta.coef / streams
    first.W[:, 1] = total.bar.coef / streams
    theta, bar = Iterate(total.theta.intercept / streams), Average(total.bar.intercept / streams)
    return first._replace(theta=theta, bar=bar)


IN_PAIRS = JoinByPairs(stream_part, mean_of_streams)


class Schedule(NamedTuple):
    """Decay of the step size."""

    a: float  # a lower bound on the smallest eigenvalue of the Hessian: lam
    c: float  # power


@part_of_kernels
def step_size(schedule: Schedule, gamma0: Number, t: int) -> Number:
    """Return gamma_t, t = 1, 2, ...; the usual powers are computed by square roots."""
    x = 1.0 + schedule.a * gamma0 * t
    if schedule.c == 0.75:
        half = sqrt(x)
        return gamma0 / (half * sqrt(half))
    if schedule.c == 1.0:
        return gamma0 / x
    return gamma0 * power(x, -schedule.c)
