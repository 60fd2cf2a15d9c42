"""Stochastic gradient descent with a decaying step, plain and averaged (Xu 2011, Algorithm 1).

    for each row i, t = 1, 2, ...
        gamma <- gamma0 (1 + a gamma0 t)^(-c)                                      (3)
        theta <- (1 - lam gamma) theta - gamma weight_i phi'(theta . x_i, y_i) x_i   (2)
        bar   <- (1 - eta) bar + eta theta,   eta = 1 / (t - t0)  for t > t0         (6)

Both theta and bar are dense after one step.  They are kept as

    theta = u / alpha,    bar = (tau u + uh) / beta,    W = [u, uh]

so that a row costs its non-zeros only.  alpha grows without bound and the read-out of bar cancels
as it grows: once alpha passes 1e6 both vectors are written back ("flush"), at a t that depends on
the schedule alone.

Differs from the paper: u starts at theta_0 (not bar_0); tau uses its value before the step;
flushing; the first step size is found on the first rows (calibration.py); the intercept is a
scalar beside the weights with its own decay and, where the step is found, its own share of it
(intercept.py); a pass whose loss explodes starts again with half the step.  docs/methods.md,
section 3, tells the same at leisure.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat

from solvers.calibration import TRIAL_ROWS, calibrate
from solvers.dispatch import kernel
from solvers.intercept import column_length, level, with_column
from solvers.losses import Problem, Squared, slope, value
from solvers.protocol import (
    Abreast,
    Block,
    Certificate,
    Facts,
    Settings,
    Walk,
    Weights,
    array_bytes,
    as_sides,
)
from solvers.rows import add, add_vector, dot, dot_vector, paired_zeros
from solvers.schedule import Schedule, step_size
from solvers.sgd_abreast import at_one_row, walk_abreast
from solvers.sgd_steps import (
    EMA_RATE,
    EXPLODED,
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    NEVER,
    SOUGHT,
    SgdState,
    visit_rows,
)

SOONEST_START = 100  # rows that the rule waits at least


class Sgd(Settings):
    """Plain SGD: the last iterate of one or more passes (c = 1)."""

    kind: Literal["sgd"] = "sgd"
    gamma0: Literal["calibrated", "paper", "curvature"] | PositiveFloat = "calibrated"
    """First step: found on the first rows, 1/(max(1, q) M + lam), 1/(q M + lam), or a number."""
    a: PositiveFloat | None = None
    """Decay of the step; default lam."""
    c: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Power of the decay, 0 for a constant step; default 1 without averaging, else 2/3 (squared
    loss) or 3/4."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (SgdState,)

    def init(self, problem: Problem, facts: Facts) -> SgdState:
        """Zero weights; refuses a step size that would turn the decay negative."""
        gamma0 = self._first_step(problem, facts)
        if problem.lam * gamma0 >= 1.0:
            raise ValueError(
                f"gamma0 = {gamma0:g} times lam = {problem.lam:g} is not below 1, so a step would "
                "flip the sign of the weights. Lower gamma0, or leave it out to have it found."
            )
        t0 = self._averaging_start(facts)
        return SgdState(
            W=paired_zeros(facts.rows_kind, facts.d),
            ema_vector=np.zeros(facts.d if t0 == SOUGHT else 0),
            **dict.fromkeys(("b", "b_bar", "b_ema", "tau", "ema_tau"), 0.0),
            **dict.fromkeys(("alpha", "beta", "ema_beta"), 1.0),
            t=0,
            t0=t0,
            gamma0=gamma0,
            heard=0,
            **dict.fromkeys(("loss_sum", "loss", "loss_zero", "loss_ema"), 0.0),
            lost=0,
        )

    def start_at(
        self, problem: Problem, facts: Facts, weights: Weights, rows_before: int
    ) -> SgdState:
        """Return the state before the first row, at weights that have learnt from other rows.

        The step decays as if those rows had been visited here: a first step's size would throw
        away what the weights know.
        """
        state = self.init(problem, facts)
        state.W[:, 0] = weights.coef
        if len(state.ema_vector):
            state.ema_vector[:] = weights.coef
        t0 = state.t0 if state.t0 in (SOUGHT, NEVER) else rows_before + state.t0
        b = weights.intercept
        return state._replace(b=b, b_bar=b, b_ema=b, t=rows_before, t0=t0)

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what two vectors take, three while the start of averaging is looked for."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch; the first may take the rows as they lie."""
        return (
            Walk(
                name=f"walk-{self.kind}",
                step=self.step,
                join=join_streams,
                order="stored" if epoch == 0 else "random",
                diverged=has_exploded,
                recover=self.halve_step,
                metrics=progressive_loss,
                abreast=Abreast(at_one_row, self.step_abreast),
            ),
        )

    def weights(self, state: SgdState) -> Weights:
        """The average once averaging has begun, else the last iterate."""
        return read_out(state)[1]

    def certificate(self, _state: SgdState) -> Certificate | None:
        """Nothing is proven without another pass."""
        return None

    def step(self, problem: Problem, facts: Facts, state: SgdState, block: Block) -> SgdState:
        """Visit the rows of one block."""
        problem, state, length = self._prepare(problem, facts, state, block)
        return scale_intercept(self._visit(problem, facts, state, block), length)

    def step_abreast(
        self,
        problems: list[Problem],
        facts: Facts,
        models: list[SgdState],
        W: NDArray[np.float64],
        block: Block,
        labels: list[int],
        _places: tuple[int, ...],
    ) -> list[SgdState]:
        """Visit the rows of one block with several models, see protocol.py: Abreast."""
        ready = [
            self._prepare(problem, facts, state, block._replace(y=as_sides(block.y, label)))
            for problem, state, label in zip(problems, models, labels, strict=True)
        ]
        own, states, lengths = zip(*ready, strict=True)
        schedules = [self._schedule(problem) for problem in problems]
        usual = usual_loss(problems[0], facts)
        stepped = walk_abreast(list(own), schedules, list(states), labels, usual, W, block)
        each = zip(stepped, lengths, strict=True)
        return [scale_intercept(state, length) for state, length in each]

    def _prepare(
        self, problem: Problem, facts: Facts, state: SgdState, block: Block
    ) -> tuple[Problem, SgdState, float]:
        """Return problem and state with the constant column's own length, and that length.

        Before the first row its step is found, too.
        """
        length = column_length(problem, facts) if self.gamma0 == "calibrated" else 1.0
        problem = with_column(problem, length)
        state = scale_intercept(state, 1.0 / length)
        if self.gamma0 == "calibrated" and (state.t == 0 or state.gamma0 == 0.0):
            state = self._begin(problem, facts, state, block)
        return problem, state, length

    def _begin(self, problem: Problem, facts: Facts, state: SgdState, block: Block) -> SgdState:
        """Start the intercept at the targets' level and find the first step, on the first rows."""
        first = block._replace(order=block.order[:TRIAL_ROWS])
        start = level(problem, first)
        if state.gamma0 == 0.0:
            square, shifted = largest_square(problem, facts), first._replace(y=first.y - start)
            gamma0 = calibrate(problem, self._schedule(problem), square, facts, shifted)
            state = state._replace(gamma0=gamma0)
        if state.t > 0:  # at another model's weights: the intercept is where it belongs
            return state
        b = start / (problem.intercept or 1.0)
        return state._replace(b=b, b_bar=b, b_ema=b)

    def _visit(self, problem: Problem, facts: Facts, state: SgdState, block: Block) -> SgdState:
        schedule = self._schedule(problem)
        usual = usual_loss(problem, facts)
        start = 0
        if state.t0 == SOUGHT:
            latest = max(SOONEST_START, facts.stream_rows // 2)
            state, start = seek_start(state, schedule, problem, usual, latest, *block[:4])
            if state.t0 != SOUGHT:
                state = state._replace(ema_vector=np.zeros(0))
        visited: SgdState = visit_rows(state, schedule, problem, usual, start, *block[:4])
        return visited

    def halve_step(self, problem: Problem, facts: Facts, state: SgdState) -> SgdState:
        """Start again from zero weights with half the first step."""
        return self.init(problem, facts)._replace(gamma0=0.5 * state.gamma0)

    def _schedule(self, problem: Problem) -> Schedule:
        c = self._default_power(problem) if self.c is None else self.c
        return Schedule(self.a or problem.lam, c)

    def _default_power(self, _problem: Problem) -> float:
        return 1.0

    def _averaging_start(self, _facts: Facts) -> int:
        return NEVER

    def _first_step(self, problem: Problem, facts: Facts) -> float:
        if self.gamma0 == "calibrated":
            return 0.0
        if not isinstance(self.gamma0, str):
            return self.gamma0
        q = problem.loss.curvature
        bound = 1.0 if math.isinf(q) else max(1.0, q) if self.gamma0 == "paper" else q
        return 1.0 / (bound * largest_square(problem, facts) + problem.lam)


class Asgd(Sgd):
    """Averaged SGD: the mean of the iterates after t0; near the optimum after one pass."""

    kind: Literal["asgd"] = "asgd"  # type: ignore[assignment]
    average_from: Literal["auto"] | Annotated[float, Field(ge=0.0, lt=1.0)] | NonNegativeInt = 0.1
    """t0: a fraction of the first pass, a row count, or "auto": when a decaying average wins."""

    def _default_power(self, problem: Problem) -> float:
        return 2.0 / 3.0 if isinstance(problem.loss, Squared) else 0.75

    def _averaging_start(self, facts: Facts) -> int:
        if self.average_from == "auto":
            return SOUGHT
        if isinstance(self.average_from, int):
            return self.average_from
        return int(float(self.average_from) * facts.stream_rows)


def usual_loss(problem: Problem, facts: Facts) -> float:
    """Return the mean loss of zero weights, or about that."""
    return float(value(problem.loss, 0.0, math.sqrt(facts.target_square)))


def largest_square(problem: Problem, facts: Facts) -> float:
    """M: the largest ||x||^2, the constant column and the largest row weight counted in."""
    return (facts.max_square + problem.intercept**2) * facts.max_weight or 1.0


def scale_intercept(state: SgdState, factor: float) -> SgdState:
    """Return the state with its intercepts counted in other units."""
    return state._replace(
        b=factor * state.b, b_bar=factor * state.b_bar, b_ema=factor * state.b_ema
    )


def read_out(state: SgdState) -> tuple[Weights, Weights]:
    """Return theta and bar; bar is theta until averaging begins."""
    u, uh = state.W[:, 0], state.W[:, 1]
    theta = Weights(u / state.alpha, state.b)
    if not state.t > state.t0 >= 0:
        return theta, theta
    return theta, Weights((state.tau * u + uh) / state.beta, state.b_bar)


def has_exploded(state: SgdState) -> bool:
    """Say whether the pass is lost: the loss before the step left all bounds."""
    return bool(state.lost)


def progressive_loss(state: SgdState) -> dict[str, float]:
    """Running loss of the iterate on rows that it had not seen, smoothed and summed."""
    return {
        "loss": state.loss,
        "loss_sum": state.loss_sum,
        "heard": state.heard,
        "gamma0": state.gamma0,
        "t0": state.t0,
    }


def join_streams(_problem: Problem, _facts: Facts, states: list[SgdState]) -> SgdState:
    """Average the streams' iterates and averages; one stream stays as it is, bit for bit."""
    if len(states) == 1:
        return states[0]
    first = states[0]
    thetas, bars = zip(*(read_out(s) for s in states), strict=True)
    first.W[:, 0] = np.mean([theta.coef for theta in thetas], axis=0)
    first.W[:, 1] = np.mean([bar.coef for bar in bars], axis=0)
    b = float(np.mean([theta.intercept for theta in thetas]))
    b_bar = float(np.mean([bar.intercept for bar in bars]))
    first.ema_vector[:] = 0.0
    return first._replace(
        b=b, b_bar=b_bar, b_ema=b, alpha=1.0, beta=1.0, tau=0.0, ema_beta=1.0, ema_tau=1.0
    )


@kernel
def seek_start(
    state: Any, schedule: Any, problem: Any, usual: Any, latest: Any,
    rows: Any, y: Any, weight: Any, order: Any,
) -> Any:  # fmt: skip
    """Plain SGD until a decaying average of the iterates predicts better than the iterate.

    Both are judged on each row before the step, both losses smoothed alike; the start is the
    first t >= 100 where the average's is smaller, or `latest`.  Returns (state, rows visited).
    """
    W, ema_vector, b, b_bar, b_ema, alpha, beta, tau, ema_beta, ema_tau, t, t0, gamma0 = state[:13]
    heard, loss_sum, smooth, smooth_zero, loss_ema, lost = state[13:]
    loss, lam, intercept, lam_b = problem
    r = 0
    while r < order.shape[0] and t0 == SOUGHT and lost == 0:
        i = order[r]
        r += 1
        t += 1
        gamma = step_size(schedule, gamma0, t)
        s = dot(rows, i, W)
        p = s / alpha + intercept * b
        p_ema = (ema_tau * s + dot_vector(rows, i, ema_vector)) / ema_beta + intercept * b_ema

        rate = max(EMA_RATE, 1.0 / t)
        heard += 1
        loss_sum += value(loss, p, y[i])
        smooth += rate * (value(loss, p, y[i]) - smooth)
        loss_ema += rate * (value(loss, p_ema, y[i]) - loss_ema)
        smooth_zero += rate * (value(loss, 0.0, y[i]) - smooth_zero)
        if not smooth <= EXPLODED * max(smooth_zero, usual) * rate / EMA_RATE:
            lost = 1

        g = weight[i] * slope(loss, p, y[i])
        alpha /= 1.0 - lam * gamma
        k = alpha * gamma * g
        b -= gamma * (lam_b * b + intercept * g)
        b_ema += EMA_RATE * (b - b_ema)
        ema_beta /= 1.0 - EMA_RATE
        add(rows, i, -k, W)
        add_vector(rows, i, ema_tau * k, ema_vector)
        ema_tau += EMA_RATE * ema_beta / alpha

        if alpha > FLUSH_ABOVE or ema_beta > FLUSH_BETA_ABOVE:
            for j in range(W.shape[0]):
                ema_vector[j] = (ema_tau * W[j, 0] + ema_vector[j]) / ema_beta
                W[j, 0] /= alpha
            alpha, ema_beta, ema_tau = 1.0, 1.0, 0.0
        if t >= SOONEST_START and (loss_ema < smooth or t >= latest):
            t0 = t
    return SgdState(
        W, ema_vector, b, b_bar, b_ema, alpha, beta, tau, ema_beta, ema_tau, t, t0, gamma0,
        heard, loss_sum, smooth, smooth_zero, loss_ema, lost,
    ), r  # fmt: skip
