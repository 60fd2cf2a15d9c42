"""Stochastic gradient descent with a decaying step, plain and averaged (Xu 2011, Algorithm 1).

    for each row i, t = 1, 2, ...
        gamma <- gamma0 (1 + a gamma0 t)^(-c)                                      (3)
        theta <- (1 - lam gamma) theta - gamma weight_i phi'(theta . x_i, y_i) x_i   (2)
                 with the squared hinge phi' / (1 + gamma weight_i ||x_i||^2) for phi'
        bar   <- (1 - eta) bar + eta theta,   eta = 1 / (t - t0)  for t > t0         (6)

Both theta and bar are dense after one step.  They are kept as

    theta = u / alpha,    bar = (tau u + uh) / beta,    W = [u, uh]

so that a row costs its non-zeros only.  alpha grows without bound and the read-out of bar cancels
as it grows: once alpha passes 1e6 both vectors are written back ("flush"), at a t that depends on
the schedule alone.

Differs from the paper: u starts at theta_0 (not bar_0); tau uses its value before the step;
flushing; the first step size is found on the first rows (calibration.py); the intercept is a
scalar beside the weights with its own decay and, where the step is found, its own share of it
(intercept.py); a pass whose loss explodes starts again with half the step; rows of the squared
hinge take their own exact step, which no row is too long for.  docs/methods.md, section 3, tells
the same at leisure.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat

from solvers.intercept import column_length, level, with_column
from solvers.kernels.dispatch import kernel
from solvers.kernels.rows import Rows, add, add_vector, dot, dot_vector, paired_zeros
from solvers.kernels.shapes import Order, PerRow, SideBySide
from solvers.loss_monitor import (
    EMA_RATE,
    LossMonitor,
    LossSum,
    Tell,
    in_counts,
    in_numbers,
    listen,
    smoothing,
    stretches,
    untold,
)
from solvers.losses import Problem, sgd_slope, value
from solvers.protocol import (
    Block,
    Goal,
    Interleaved,
    Method,
    ProblemStats,
    Walk,
    Weights,
    as_sides,
)
from solvers.sgd.calibration import TRIAL_ROWS, calibrate
from solvers.sgd.interleaved_steps import at_one_row, walk_interleaved
from solvers.sgd.schedule import Schedule, step_size
from solvers.sgd.steps import (
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    NEVER,
    SOUGHT,
    Average,
    DecayingAverage,
    Iterate,
    SgdState,
    square_of,
    visit_rows,
)

SOONEST_START = 100  # rows that the rule waits at least


class Sgd(Method):
    """Plain SGD: the last iterate of one or more passes (c = 1)."""

    goal: ClassVar[Goal] = "passes"
    states: ClassVar[tuple[type, ...]] = (SgdState,)
    kind: Literal["sgd"] = "sgd"
    gamma0: Literal["calibrated", "paper", "curvature"] | PositiveFloat = "calibrated"
    """First step: found on the first rows, 1/(max(1, q) M + lam), 1/(q M + lam), or a number."""
    a: PositiveFloat | None = None
    """Decay of the step; default lam."""
    c: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Power of the decay, 0 for a constant step; default 1 without averaging, else 2/3 (squared
    loss) or 3/4."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> SgdState:
        """Zero weights; refuses a step size that would turn the decay negative."""
        gamma0 = self._first_step(problem, stats)
        if problem.lam * gamma0 >= 1.0:
            raise ValueError(
                f"gamma0 = {gamma0:g} times lam = {problem.lam:g} is not below 1, so a step would "
                "flip the sign of the weights. Lower gamma0, or leave it out to have it found."
            )
        t0 = self._averaging_start(stats)
        return SgdState(
            W=paired_zeros(stats.rows_kind, stats.d),
            theta=Iterate(),
            bar=Average(),
            ema=DecayingAverage(np.zeros(stats.d if t0 == SOUGHT else 0)),
            monitor=LossMonitor(),
            t=0,
            t0=t0,
            gamma0=gamma0,
        )

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> SgdState:
        """Return the state before the first row, at weights that have learnt from other rows.

        The step decays as if those rows had been visited here: a first step's size would throw
        away what the weights know.
        """
        state: SgdState = self.init(problem, stats)
        state.W[:, 0] = weights.coef
        if len(state.ema.vector):
            state.ema.vector[:] = weights.coef
        t0 = state.t0 if state.t0 in (SOUGHT, NEVER) else rows_before + state.t0
        return at_intercept(state, weights.intercept)._replace(t=rows_before, t0=t0)

    def widened(self, _problem: Problem, state: SgdState, d: int) -> SgdState:
        """Return the state with room for d columns: both vectors are 0 where no row was."""
        W = np.zeros((d, 2), order="C" if state.W.flags.c_contiguous else "F")
        W[: len(state.W)] = state.W
        vector = np.zeros(d if len(state.ema.vector) else 0)
        vector[: len(state.ema.vector)] = state.ema.vector
        return state._replace(W=W, ema=state.ema._replace(vector=vector))

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch; the first may take the rows as they lie."""
        return (
            Walk(
                name=f"walk-{self.kind}",
                step=self.step,
                telling=self.step,
                join=join_streams,
                order="stored" if epoch == 0 else "random",
                diverged=has_exploded,
                recover=self.halve_step,
                again=self.keep_step,
                metrics=progressive_loss,
                interleaved=Interleaved(at_one_row, self.step_interleaved),
            ),
        )

    def weights(self, state: SgdState) -> Weights:
        """The average once averaging has begun, else the last iterate."""
        return read_out(state)[1]

    def step(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block,
        tell: Tell = untold,
    ) -> SgdState:  # fmt: skip
        """Visit the rows of one block."""
        problem, state, length = self.prepared(problem, stats, state, block)
        for part in stretches(stats.stream_rows, len(block.order)):
            order = block.order[part]
            state = self._visit(problem, stats, state, block._replace(order=order))
            tell(part.stop, LossSum(*state.monitor[:2]))
            if has_exploded(state):
                break
        return scale_intercept(state, length)

    def step_interleaved(
        self,
        problems: list[Problem],
        stats: ProblemStats,
        models: list[SgdState],
        W: NDArray[np.float64],
        block: Block,
        labels: list[int],
        _places: tuple[int, ...],
    ) -> list[SgdState]:
        """Visit the rows of one block with several models, see protocol.py: Interleaved."""
        ready = [
            self.prepared(problem, stats, state, block._replace(y=as_sides(block.y, label)))
            for problem, state, label in zip(problems, models, labels, strict=True)
        ]
        own, states, lengths = zip(*ready, strict=True)
        schedules = [self.schedule(problem) for problem in problems]
        least = loss_of_zero(problems[0], stats)
        stepped = walk_interleaved(list(own), schedules, list(states), labels, least, W, block)
        each = zip(stepped, lengths, strict=True)
        return [scale_intercept(state, length) for state, length in each]

    def prepared(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block
    ) -> tuple[Problem, SgdState, float]:
        """Return problem and state with the constant column's own length, and that length.

        Before the first row its step is found, too.
        """
        length = column_length(problem, stats) if self.gamma0 == "calibrated" else 1.0
        problem = with_column(problem, length)
        state = scale_intercept(state, 1.0 / length)
        if self.gamma0 == "calibrated" and (state.t == 0 or state.gamma0 == 0.0):
            state = self._begin(problem, stats, state, block)
        return problem, state, length

    def _begin(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block
    ) -> SgdState:
        """Start the intercept at the targets' level and find the first step, on the first rows."""
        first = block._replace(order=block.order[:TRIAL_ROWS])
        start = level(problem, first)
        if state.gamma0 == 0.0:
            square, shifted = largest_square(problem, stats), first._replace(y=first.y - start)
            gamma0 = calibrate(problem, self.schedule(problem), square, stats, shifted)
            state = state._replace(gamma0=gamma0)
        if state.t > 0:  # at another model's weights: the intercept is where it belongs
            return state
        return at_intercept(state, start / (problem.intercept or 1.0))

    def _visit(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block
    ) -> SgdState:
        schedule = self.schedule(problem)
        least = loss_of_zero(problem, stats)
        start = 0
        if state.t0 == SOUGHT:
            latest = max(SOONEST_START, stats.stream_rows // 2)
            state, start = seek_start(state, schedule, problem, least, latest, *block[:4])
            if state.t0 != SOUGHT:
                state = state._replace(ema=state.ema._replace(vector=np.zeros(0)))
        return visit_rows(state, schedule, problem, least, start, *block[:4])

    def halve_step(self, problem: Problem, stats: ProblemStats, state: SgdState) -> SgdState:
        """Start again from zero weights with half the first step."""
        begun: SgdState = self.init(problem, stats)
        return begun._replace(gamma0=0.5 * state.gamma0)

    def keep_step(self, problem: Problem, stats: ProblemStats, state: SgdState) -> SgdState:
        """Start again from zero weights with the first step that is known."""
        begun: SgdState = self.init(problem, stats)
        return begun._replace(gamma0=state.gamma0)

    def schedule(self, problem: Problem) -> Schedule:
        """Return how the step decays."""
        c = self._default_power(problem) if self.c is None else self.c
        return Schedule(self.a or problem.lam, c)

    def _default_power(self, _problem: Problem) -> float:
        return 1.0

    def _averaging_start(self, _stats: ProblemStats) -> int:
        return NEVER

    def _first_step(self, problem: Problem, stats: ProblemStats) -> float:
        if self.gamma0 == "calibrated":
            return 0.0
        if not isinstance(self.gamma0, str):
            return self.gamma0
        q = problem.loss.curvature
        bound = 1.0 if math.isinf(q) else max(1.0, q) if self.gamma0 == "paper" else q
        return 1.0 / (bound * largest_square(problem, stats) + problem.lam)


class Asgd(Sgd):
    """Averaged SGD: the mean of the iterates after t0; near the optimum after one pass."""

    kind: Literal["asgd"] = "asgd"  # type: ignore[assignment]
    average_from: Literal["auto"] | Annotated[float, Field(ge=0.0, lt=1.0)] | NonNegativeInt = 0.1
    """t0: a fraction of the first pass, a row count, or "auto": when a decaying average wins."""

    def _default_power(self, problem: Problem) -> float:
        return 2.0 / 3.0 if problem.loss.is_quadratic else 0.75

    def _averaging_start(self, stats: ProblemStats) -> int:
        if self.average_from == "auto":
            return SOUGHT
        if isinstance(self.average_from, int):
            return self.average_from
        return int(float(self.average_from) * stats.stream_rows)


def loss_of_zero(problem: Problem, stats: ProblemStats) -> float:
    """Return the mean loss of zero weights, or about that."""
    return float(value(problem.loss, 0.0, math.sqrt(stats.target_square)))


def largest_square(problem: Problem, stats: ProblemStats) -> float:
    """M: the largest ||x||^2, the constant column and the largest row weight counted in."""
    return (stats.max_square + problem.intercept**2) * stats.max_weight or 1.0


def scale_intercept(state: SgdState, factor: float) -> SgdState:
    """Return the state with its intercepts counted in other units."""
    return state._replace(
        theta=state.theta._replace(b=factor * state.theta.b),
        bar=state.bar._replace(b=factor * state.bar.b),
        ema=state.ema._replace(b=factor * state.ema.b),
    )


def at_intercept(state: SgdState, b: float) -> SgdState:
    """Return the state with this intercept, on average, too."""
    return state._replace(
        theta=state.theta._replace(b=b), bar=state.bar._replace(b=b), ema=state.ema._replace(b=b)
    )


def read_out(state: SgdState) -> tuple[Weights, Weights]:
    """Return theta and bar; bar is theta until averaging begins."""
    u, uh, bar = state.W[:, 0], state.W[:, 1], state.bar
    theta = Weights(u / state.theta.alpha, state.theta.b)
    if not state.t > state.t0 >= 0:
        return theta, theta
    return theta, Weights((bar.tau * u + uh) / bar.beta, bar.b)


def has_exploded(state: SgdState) -> bool:
    """Say whether the pass is lost: the loss before the step left all bounds."""
    return bool(state.monitor.diverged)


def progressive_loss(state: SgdState) -> dict[str, float]:
    """Running loss of the iterate on rows that it had not seen, smoothed and summed."""
    return {**state.monitor.metrics(), "gamma0": state.gamma0, "t0": state.t0}


def join_streams(_problem: Problem, _stats: ProblemStats, states: list[SgdState]) -> SgdState:
    """Average the streams' iterates and averages; one stream stays as it is, bit for bit."""
    if len(states) == 1:
        return states[0]
    first = states[0]
    thetas, bars = zip(*(read_out(s) for s in states), strict=True)
    first.W[:, 0] = np.mean([theta.coef for theta in thetas], axis=0)
    first.W[:, 1] = np.mean([bar.coef for bar in bars], axis=0)
    b = float(np.mean([theta.intercept for theta in thetas]))
    b_bar = float(np.mean([bar.intercept for bar in bars]))
    first.ema.vector[:] = 0.0
    ema = first.ema._replace(b=b, tau=1.0, beta=1.0)
    return first._replace(theta=Iterate(b), bar=Average(b_bar), ema=ema)


def seek_start(
    state: SgdState, schedule: Schedule, problem: Problem, least: float, latest: int,
    *rows: *tuple[Rows, PerRow, PerRow, Order],
) -> tuple[SgdState, int]:  # fmt: skip
    """Plain SGD until a decaying average of the iterates predicts better than the iterate.

    Both are judged on each row before the step, both losses smoothed alike; the start is the
    first t >= 100 where the average's is smaller, or `latest`.  Returns (state, rows visited).
    """
    theta, ema, monitor, t, t0, visited = step_and_compare(
        state.W, state.theta, state.ema, state.monitor, state.t, state.gamma0, schedule, problem,
        least, latest, *rows,
    )  # fmt: skip
    return state._replace(theta=theta, ema=ema, monitor=monitor, t=t, t0=t0), visited


@kernel
def step_and_compare(
    W: SideBySide, theta: Iterate, ema: DecayingAverage, monitor: LossMonitor, t: int,
    gamma0: float, schedule: Schedule, problem: Problem, least: float, latest: int, rows: Rows,
    y: PerRow, weight: PerRow, order: Order,
) -> tuple[Iterate, DecayingAverage, LossMonitor, int, int, int]:  # fmt: skip
    """Take the steps of `seek_start`; returns (theta, ema, monitor, t, t0, rows visited)."""
    (b, alpha), (vector, b_ema, tau, beta, loss_ema) = theta, ema
    loss, lam, intercept, lam_b = problem
    r, t0, heard = 0, SOUGHT, in_numbers(monitor)
    while r < order.shape[0] and t0 == SOUGHT and heard.diverged == 0.0:
        i = order[r]
        r += 1
        t += 1
        gamma = step_size(schedule, gamma0, t)
        s = dot(rows, i, W)
        p = s / alpha + intercept * b
        p_ema = (tau * s + dot_vector(rows, i, vector)) / beta + intercept * b_ema

        rate = smoothing(t)
        heard = listen(heard, rate, value(loss, p, y[i]), value(loss, 0.0, y[i]), least)
        loss_ema += rate * (value(loss, p_ema, y[i]) - loss_ema)

        q = gamma * weight[i] * (square_of(loss, rows, i) + intercept * intercept)
        g = weight[i] * sgd_slope(loss, p, y[i], q)
        alpha /= 1.0 - lam * gamma
        k = alpha * gamma * g
        b -= gamma * (lam_b * b + intercept * g)
        b_ema += EMA_RATE * (b - b_ema)
        beta /= 1.0 - EMA_RATE
        add(rows, i, -k, W)
        add_vector(rows, i, tau * k, vector)
        tau += EMA_RATE * beta / alpha

        if alpha > FLUSH_ABOVE or beta > FLUSH_BETA_ABOVE:
            for j in range(W.shape[0]):
                vector[j] = (tau * W[j, 0] + vector[j]) / beta
                W[j, 0] /= alpha
            alpha, beta, tau = 1.0, 1.0, 0.0
        if t >= SOONEST_START and (loss_ema < heard.loss or t >= latest):
            t0 = t
    found = DecayingAverage(vector, b_ema, tau, beta, loss_ema)
    return Iterate(b, alpha), found, in_counts(heard), t, t0, r
