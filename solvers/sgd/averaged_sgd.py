"""Stochastic gradient descent with a decaying step, plain and averaged (Xu 2011, Algorithm 1).

    for each row i, t = 1, 2, ...
        gamma <- gamma0 (1 + a gamma0 t)^(-c)                                      (3)
        theta <- (1 - lam gamma) theta - gamma weight_i phi'(theta . x_i, y_i) x_i   (2)
                 with the squared hinge phi' / (1 + gamma weight_i ||x_i||^2) for phi'
        bar   <- (1 - eta) bar + eta theta,   eta = 1 / (t - t0)  for t > t0         (6)

Both theta and bar are dense after one step.  They are stored as

    theta = u / alpha,    bar = (tau u + uh) / beta,    W = [u, uh]

so that a row costs only its non-zeros.  alpha grows without bound, and reading bar out loses
precision as it grows: once alpha passes 1e6 both vectors are written back ("flush"), at a t that
depends on the schedule only.

Differs from the paper: u starts at theta_0 (not bar_0); tau uses its value before the step;
flushing; the first step size is estimated on the first rows (first_step_size.py), where the paper
has 1/M (`gamma0="paper"`; its M is that of 1,000 rows, ours that of all); averaging begins after a
tenth of the pass, where the paper looks for t0 (`average_from="auto"`); the intercept is
a separate scalar with its own decay and, if the step size is estimated, its own step size
(intercept.py); a pass whose loss explodes restarts with half the step size; with the squared hinge
every row takes its exact step, which suits rows of any length.  docs/methods.md, section 3, has the
details.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat

from fewpass.solvers.intercept import column_length, with_column
from fewpass.solvers.kernels.rows import paired_zeros
from fewpass.solvers.loss_monitor import LossMonitor, ReportLosses, ends_of, ignore_losses
from fewpass.solvers.losses import Problem, from_level, value
from fewpass.solvers.protocol import (
    ENDLESS,
    Block,
    ColumnMoments,
    Goal,
    Interleaved,
    Method,
    ProblemStats,
    Walk,
    Weights,
    as_sides,
)
from fewpass.solvers.sgd.averaged_state import (
    IN_PAIRS,
    NEVER,
    SOUGHT,
    Average,
    Iterate,
    Schedule,
    SgdState,
    at_intercept,
    has_exploded,
    progressive_loss,
    read_out,
    scale_intercept,
)
from fewpass.solvers.sgd.averaging_start import SOONEST, seek_start
from fewpass.solvers.sgd.first_step_size import TRIAL_ROWS, calibrate
from fewpass.solvers.sgd.steps import SgdModel, visit_rows


class Sgd(Method):
    """Plain SGD: the last iterate after one or more passes (c = 1)."""

    goal: ClassVar[Goal] = "passes"
    states: ClassVar[tuple[type, ...]] = (SgdState,)
    by_column: ClassVar[bool] = True
    kind: Literal["sgd"] = "sgd"
    gamma0: Literal["calibrated", "paper", "curvature"] | PositiveFloat = "calibrated"
    """First step: tried out on the first rows, 1/M as in the paper, 1/(q M + lam), or a number."""
    a: PositiveFloat | None = None
    """Decay of the step; default lam."""
    c: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Power of the decay, 0 for a constant step; default 1 without averaging, else 2/3 (squared
    loss) or 3/4."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> SgdState:
        """Return the best constant; ValueError for a step size with a negative decay factor."""
        gamma0 = self._first_step(problem, stats)
        if problem.lam * gamma0 >= 1.0:
            raise ValueError(
                f"gamma0 = {gamma0:g} times lam = {problem.lam:g} is not below 1, so a step would "
                "flip the sign of the weights. Lower gamma0, or leave it out to have it found."
            )
        t0 = self._averaging_start(stats)
        return SgdState(
            W=paired_zeros(stats.rows_kind, stats.d),
            theta=Iterate(problem.level),
            bar=Average(problem.level),
            bar_loss=0.0,
            monitor=LossMonitor(),
            t=0,
            t0=t0,
            gamma0=gamma0,
        )

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> SgdState:
        """Return a state at weights that were trained on other rows.

        The step size has decayed as if those rows had been visited here: the first step size would
        destroy the weights.
        """
        state: SgdState = self.init(problem, stats)
        state.W[:] = weights.coef[:, None]
        t0 = state.t0 if state.t0 in (SOUGHT, NEVER) else rows_before + state.t0
        return at_intercept(state, weights.intercept)._replace(t=rows_before, t0=t0)

    def resized(
        self, _problem: Problem, state: SgdState, d: int, _moments: ColumnMoments | None = None
    ) -> SgdState:
        """Return the state with d columns, the new ones zero in both vectors."""
        if d == len(state.W):
            return state
        W = np.zeros((d, *state.W.shape[1:]), order="C" if state.W.flags.c_contiguous else "F")
        W[: len(state.W)] = state.W
        return state._replace(W=W)

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """Return one walk; that of the first epoch may read rows in stored order."""
        return (
            Walk(
                name=f"walk-{self.kind}",
                step=self.step,
                reports=True,
                join=IN_PAIRS.join,
                pairs=IN_PAIRS,
                order="stored" if epoch == 0 else "random",
                diverged=has_exploded,
                recover=self.restarted,
                metrics=progressive_loss,
                interleaved=Interleaved(at_one_row, self.step_interleaved),
                resize=self.resized,
            ),
        )

    def weights(self, state: SgdState) -> Weights:
        """Return the average once averaging has begun, else the last iterate."""
        return read_out(state)[1]

    def step(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> SgdState:  # fmt: skip
        """Visit the rows of a block."""
        given = [problem], stats, [state], [state.W], block, [-1], (0,), report
        return self.step_interleaved(*given)[0]

    def step_interleaved(
        self,
        problems: list[Problem],
        stats: ProblemStats,
        models: list[SgdState],
        W: Sequence[NDArray[np.float64]] | NDArray[np.float64],
        block: Block,
        labels: list[int],
        _places: tuple[int, ...],
        report: ReportLosses = ignore_losses,
    ) -> list[SgdState]:
        """Visit the rows of a block with several models, see walk_and_reduce.py: Interleaved."""
        ready = [
            self.prepared(problem, stats, state, block._replace(y=as_sides(block.y, label)))
            for problem, state, label in zip(problems, models, labels, strict=True)
        ]
        own = [
            SgdModel(problem, self.schedule(problem), state, label)
            for (problem, state, _), label in zip(ready, labels, strict=True)
        ]
        zero_loss, start = loss_of_zero(problems[0], stats), 0
        ends = ends_of(stats.stream_rows, len(block.order), report)
        if models[0].t0 == SOUGHT:  # one model
            latest = max(SOONEST, stats.stream_rows // 2)
            sought, start = seek_start(own[0], zero_loss, latest, block, ends, report)
            own = [own[0]._replace(state=sought)]
        stepped = visit_rows(own, W, zero_loss, start, block, ends, report)
        each = zip(stepped, ready, strict=True)
        return [scale_intercept(state, length) for state, (_, _, length) in each]

    def prepared(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block
    ) -> tuple[Problem, SgdState, float]:
        """Return problem and state in units of the constant column's length, and that length.

        Before the first row, the first step size is estimated, too.
        """
        length = column_length(problem, stats) if self.gamma0 == "calibrated" else 1.0
        problem = with_column(problem, length)
        state = scale_intercept(state, 1.0 / length)
        if self.gamma0 == "calibrated" and state.gamma0 == 0.0:
            state = self._begin(problem, stats, state, block)
        return problem, state, length

    def _begin(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block
    ) -> SgdState:
        """Estimate the first step size on first rows."""
        first = block._replace(order=block.order[:TRIAL_ROWS])
        square = largest_square(problem, stats)
        gamma0 = calibrate(problem, self.schedule(problem), square, stats, first)
        return state._replace(gamma0=gamma0)

    def restarted(self, problem: Problem, stats: ProblemStats, state: SgdState) -> SgdState:
        """Restart with the first step size that was found, half of it if the state has exploded."""
        begun: SgdState = self.init(problem, stats)
        return begun._replace(gamma0=state.gamma0 * (0.5 if has_exploded(state) else 1.0))

    def schedule(self, problem: Problem) -> Schedule:
        """Return the decay of the step size."""
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
        M, q = largest_square(problem, stats), problem.loss.curvature
        if self.gamma0 == "paper":
            return 1.0 / M
        return 1.0 / ((q if math.isfinite(q) else 1.0) * M + problem.lam)


class Asgd(Sgd):
    """Averaged SGD: the mean of the iterates after t0, near the optimum after one pass."""

    kind: Literal["asgd"] = "asgd"  # type: ignore[assignment]
    average_from: Literal["auto"] | Annotated[float, Field(ge=0.0, lt=1.0)] | NonNegativeInt = 0.1
    """t0: a fraction of the first pass (1,000 rows if its length is unknown), a number of rows, or
    "auto": once a decaying average is better than the iterate."""

    @property
    def for_one_score(self) -> str | None:
        """A start of averaging that is sought."""
        return "average_from" if self.average_from == "auto" else None

    def _default_power(self, problem: Problem) -> float:
        return 2.0 / 3.0 if problem.loss.is_quadratic else 0.75

    def _averaging_start(self, stats: ProblemStats) -> int:
        if self.average_from == "auto":
            return SOUGHT
        if isinstance(self.average_from, int):
            return self.average_from
        is_finite = stats.stream_rows != ENDLESS
        return int(float(self.average_from) * stats.stream_rows) if is_finite else TRIAL_ROWS


def at_one_row(states: list[SgdState]) -> bool:
    """Return whether models can be interleaved: at one row, and averaging from one row on."""
    moments = {(state.t, state.t0) for state in states}
    return len(moments) == 1 and states[0].t0 != SOUGHT


def loss_of_zero(problem: Problem, stats: ProblemStats) -> float:
    """Return the mean loss of the first state's weights, approximately: of labels that of 0."""
    up = problem.intercept * problem.level if problem.loss.takes_numbers else 0.0
    away = up + math.sqrt(stats.target_square)
    return float(value(from_level(problem.loss, 0.0), up, away))


def largest_square(problem: Problem, stats: ProblemStats) -> float:
    """Return M: the largest ||x||^2, including constant column and the largest row weight."""
    return (stats.max_square + problem.intercept**2) * stats.max_weight or 1.0
