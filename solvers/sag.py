"""Stochastic average gradient (Le Roux, Schmidt and Bach 2012), with lazy sums.

For every row the slope a_i of its last visit is stored, and D = sum a_i x_i is a gradient made of
slopes of different ages.  A visit renews the slope of its row and steps along D:

    D += (a' - a_i) x_i,    a_i = a',    w <- (1 - h lam) w - (h/N) D,      a' = phi'(w . x_i)

N is n ("sag") or the number of rows visited so far ("sag+", whose first steps are longer; Konecny
and Richtarik 2013, section 7.4).

Rows are drawn with replacement from those in memory: if every row is visited once per pass, in any
order, D lags by a pass and w oscillates (docs/methods.md, "SAG").  If memory holds only a part of
the rows at a time, this cannot be avoided; h is then at most 4/(n L_f), which converges slowly.

D and the decay touch every weight.  With w = P (v - S D) they cost two numbers,

    a slope changes by c:   D += c x,   v += S c x               (w stays)
    the step:               P <- (1 - h lam) P,   S <- S + h/(N P)

so that a visit touches only the non-zeros of its row, without a time stamp per weight.  w is
written back into v ("fold") once P falls below 1e-4, and after every pass.  D drifts by rounding:
every twentieth pass a reduction recomputes all slopes and D, which also certifies the weights.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat

from fewpass.solvers.estimates.smoothness import refuse_long_step, smoothness
from fewpass.solvers.gradient import GRADIENT_AND_SLOPES, GradientPart, certificate
from fewpass.solvers.intercept import column_length, with_column
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_both, dot_both, paired_zeros, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerRow, SideBySide
from fewpass.solvers.loss_monitor import LISTEN_EVERY, LossMonitor, listen, smoothing
from fewpass.solvers.losses import Problem, slope, value
from fewpass.solvers.needs import Needs
from fewpass.solvers.penalties import strength
from fewpass.solvers.protocol import (
    Block,
    Certificate,
    Method,
    ProblemStats,
    Reduce,
    Sweep,
    Walk,
    Weights,
)
from fewpass.solvers.registry import PRIMAL
from fewpass.solvers.s2gd.inner_loop import fold
from fewpass.solvers.sgd.averaged_sgd import loss_of_zero
from fewpass.solvers.sgd.averaged_state import has_exploded

FOLD_BELOW = 1e-4  # P
RENEW_EVERY = 20  # passes
LATE = 4.0  # h n L_f while not all rows can be drawn; oscillations grow from pi^2 on
DRAWS = 23  # purpose of a random generator


class SagScalars(NamedTuple):
    """The scalars of w = P (v - S D), and the same for the constant column."""

    b: float = 0.0  # intercept
    D_b: float = 0.0  # sum of slopes times the constant column
    P: float = 1.0
    S: float = 0.0


class SagState(NamedTuple):
    """The state, without the slopes.  Columns of W: v and D; w = P (v - S D)."""

    W: NDArray[np.float64]  # (d, 2)
    scale: SagScalars
    t: int  # rows visited
    seen: int  # distinct rows visited
    h: float  # step
    monitor: LossMonitor
    row_version: int  # the sweep that wrote the slopes that D is the sum of
    renewed: int  # 1 while the weights are those of the newest reduction
    objective: float  # at that reduction
    gap: float


class Sag(Method):
    """Stochastic average gradient; one stream."""

    needs: ClassVar[Needs] = Needs(
        loss="smooth",
        numbers_per_row=1,
        one_stream=" keeps one sum of slopes for all rows",
        instead=PRIMAL,
    )
    states: ClassVar[tuple[type, ...]] = (SagState,)
    kind: Literal["sag"] = "sag"
    step: Literal["quarter", "safe"] | PositiveFloat = "quarter"
    """h: 1/(4 L), 1/(16 L) as in the theory ("safe"), L the largest of the rows; or a number."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> SagState:
        """Return the best constant and zero slopes; ValueError for a step size that is too long."""
        h = self._first_step(problem, stats)
        refuse_long_step(h, problem.lam)
        return SagState(
            paired_zeros(stats.rows_kind, stats.d), SagScalars(problem.level), t=0, seen=0, h=h,
            monitor=LossMonitor(), row_version=-1, renewed=0, objective=0.0, gap=0.0,
        )  # fmt: skip

    @property
    def warm_start_pass(self) -> Reduce:
        """Compute all slopes at given weights; with zero slopes w would only decay."""
        return Reduce(GRADIENT_AND_SLOPES, self.weights, self.absorb)

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, _rows_before: int
    ) -> SagState:
        """Return a state at given weights; the warm-start pass computes their slopes."""
        state: SagState = self.init(problem, stats)
        state.W[:, 0] = weights.coef
        return state._replace(scale=SagScalars(weights.intercept), seen=stats.n)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return one walk; every twentieth time also a reduction that recomputes the slopes."""
        walk = Walk(
            name=f"walk-{self.kind}",
            step=self.step_rows,
            join=folded,
            order="random",
            diverged=has_exploded,
            recover=self.restarted,
            metrics=progressive_loss,
            row_state="update",
        )
        renew = Reduce(GRADIENT_AND_SLOPES, self.weights, self.absorb)
        return (walk, renew) if epoch % RENEW_EVERY == RENEW_EVERY - 1 else (walk,)

    def weights(self, state: SagState) -> Weights:
        v, D = state.W[:, 0], state.W[:, 1]
        return Weights(state.scale.P * (v - state.scale.S * D), state.scale.b)

    def certificate(self, state: SagState) -> Certificate | None:
        """Return the certificate of the newest reduction, until the weights change."""
        return Certificate(state.objective, state.gap) if state.renewed else None

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: SagState, block: Block
    ) -> SagState:
        """Visit as many rows as the block has; their slopes are changed in place."""
        m = block.order.shape[0]
        draws = np.random.default_rng([stats.seed, DRAWS, state.t]).integers(m, size=m)
        block = block._replace(order=block.order[draws])
        h = state.h if m == stats.n else min(state.h, self._longest_late_step(problem, stats))
        length = column_length(problem, stats)
        zero_loss, scale = loss_of_zero(problem, stats), state.scale
        scale, t, seen, monitor = visit_rows(
            state.W, scale._replace(b=scale.b / length, D_b=scale.D_b * length), state.t,
            state.seen, state.monitor, with_column(problem, length), zero_loss, h, stats.n,
            self._counts_all, *block[:5],
        )  # fmt: skip
        scale = scale._replace(b=scale.b * length, D_b=scale.D_b / length)
        return state._replace(scale=scale, t=t, seen=seen, monitor=monitor, renewed=0)

    def absorb(
        self,
        problem: Problem,
        stats: ProblemStats,  # noqa: ARG002
        state: SagState,
        total: GradientPart,
        sweep: int,
    ) -> SagState:
        """Replace D by the sum of slopes at the same weights."""
        at = self.weights(state)
        certified = certificate(problem, at, total)
        state.W[:, 0], state.W[:, 1] = at.coef, total.G
        return state._replace(
            scale=SagScalars(at.intercept, total.g_b), row_version=sweep, renewed=1,
            objective=certified.objective, gap=certified.gap,
        )  # fmt: skip

    def restarted(self, problem: Problem, stats: ProblemStats, state: SagState) -> SagState:
        """Restart, with half the step size if the state has exploded."""
        begun: SagState = self.init(problem, stats)
        return begun._replace(h=0.5 * state.h) if has_exploded(state) else begun

    @property
    def _counts_all(self) -> bool:
        return True

    def _longest_late_step(self, problem: Problem, stats: ProblemStats) -> float:
        return LATE / (stats.n * smoothness(problem, stats, stats.sigma_square))

    def _first_step(self, problem: Problem, stats: ProblemStats) -> float:
        if not isinstance(self.step, str):
            return self.step
        share = 4.0 if self.step == "quarter" else 16.0
        return 1.0 / (share * smoothness(problem, stats, stats.max_square * stats.max_weight))


class SagPlus(Sag):
    """SAG that divides by the rows seen so far: a faster first pass."""

    kind: Literal["sag+"] = "sag+"  # type: ignore[assignment]

    @property
    def _counts_all(self) -> bool:
        return False


def progressive_loss(state: SagState) -> dict[str, float]:
    """Return the running loss on rows before they were visited."""
    return {**state.monitor.metrics(), "step": state.h}


def folded(_problem: Problem, _stats: ProblemStats, states: list[SagState]) -> SagState:
    """Fold after a pass, so that S and its rounding error do not grow from pass to pass."""
    (state,) = states
    b, D_b, P, S = state.scale
    fold(state.W, P, P * S)
    return state._replace(scale=SagScalars(b, D_b))


@kernel
def visit_rows(
    W: SideBySide, scale: SagScalars, t: int, seen: int, monitor: LossMonitor, problem: Problem,
    zero_loss: float, h: float, n: int, counts_all: bool, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, slopes: PerRow,
) -> tuple[SagScalars, int, int, LossMonitor]:  # fmt: skip
    """Visit rows in their order; `zero_loss` is the mean loss of zero weights, for the monitor.

    A row with slope 0 counts as not visited before; `seen` is at most n.  Returns (scale, t, seen,
    monitor).
    """
    b, D_b, P, S = scale
    loss, lam = problem.loss, strength(problem.penalty)
    intercept, lam_b, level = problem.intercept, problem.lam_b, problem.level
    first = intercept * level
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        s_v, s_D = dot_both(rows, i, W)
        p = P * (s_v - S * s_D) + intercept * b

        t += 1
        if t % LISTEN_EVERY == 0:
            rate = smoothing(monitor.n_monitored + 1.0)
            now, at_zero = value(loss, p, y[i]), value(loss, first, y[i])
            monitor = listen(monitor, rate, now, at_zero, zero_loss)
            if monitor.diverged > 0.0:
                break

        if slopes[i] == 0.0:
            seen = min(seen + 1, n)
        change = weight[i] * slope(loss, p, y[i]) - slopes[i]
        if change != 0.0:
            slopes[i] += change
            add_both(rows, i, S * change, change, W)
            D_b += intercept * change
        N = n if counts_all else seen
        P *= 1.0 - h * lam
        S += h / (N * P)
        b -= h * (lam_b * (b - level) + D_b / N)
        if P < FOLD_BELOW:
            fold(W, P, P * S)
            P, S = 1.0, 0.0
    return SagScalars(b, D_b, P, S), t, seen, monitor
