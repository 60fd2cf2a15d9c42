"""Stochastic average gradient (Le Roux, Schmidt and Bach 2012), its sums kept lazily.

Every row keeps the slope a_i that it had when it was visited last, and D = sum a_i x_i is a
gradient made of slopes of different age.  A visit makes its own slope new and steps along all:

    D += (a' - a_i) x_i,    a_i = a',    w <- (1 - h lam) w - (h/N) D,      a' = phi'(w . x_i)

N is n ("sag") or the number of rows seen so far ("sag+", whose first steps are not held back by
rows that nobody has visited; Konecny and Richtarik 2013, section 7.4).

Rows are drawn with replacement from those in memory: when every row comes once a pass, in whatever
order, D answers a pass late and w swings without end (docs/methods.md, "SAG").  Where memory holds
only a part of the rows at a time that cannot be helped, and h is at most 4/(n L_f), with which it
converges, slowly.

D and the decay touch every weight.  With w = P (v - S D) they cost two numbers,

    a slope changes by c:   D += c x,   v += S c x               (w stays)
    the step:               P <- (1 - h lam) P,   S <- S + h/(N P)

so that a visit touches its row's non-zeros only, without a time stamp per weight.  v takes all
over ("fold") once P falls below 1e-4, and after every pass.  D drifts by rounding: every twentieth
pass a gather makes all slopes and D anew, which also certifies the weights.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat

from solvers.dispatch import kernel
from solvers.gradient import GRADIENT_AND_SLOPES, GradientPart, certificate
from solvers.inner_loop import fold
from solvers.intercept import column_length, with_column
from solvers.losses import Problem, slope, value
from solvers.protocol import (
    Block,
    Certificate,
    Facts,
    Gather,
    Settings,
    Sweep,
    Walk,
    Weights,
    array_bytes,
)
from solvers.rows import add_both, dot_both, look_ahead, paired_zeros
from solvers.sgd_steps import EMA_RATE, EXPLODED, LISTEN_EVERY
from solvers.smoothness import refuse_kink, smoothness

FOLD_BELOW = 1e-4  # P
RENEW_EVERY = 20  # passes
LATE = 4.0  # h n L_f while not all rows can be drawn; swings grow from pi^2 on
DRAWS = 23  # what a random generator is for


class SagState(NamedTuple):
    """Everything that changes but the slopes.  Columns of W: v and D; w = P (v - S D)."""

    W: NDArray[np.float64]  # (d, 2)
    b: float  # intercept
    D_b: float  # sum of slopes times the constant column
    P: float
    S: float
    t: int  # rows visited
    seen: int  # of them different ones
    h: float  # step
    heard: int  # rows whose loss before the step was taken
    loss_sum: float  # over them
    loss: float  # smoothed
    loss_zero: float  # the same smoothing of the loss of zero weights
    lost: int  # 1 once the loss exploded
    row_version: int  # which sweep's slopes D is the sum of
    renewed: int  # 1 while the weights are those that the newest gather was taken at
    objective: float  # there
    gap: float


class Sag(Settings):
    """Stochastic average gradient; one stream."""

    kind: Literal["sag"] = "sag"
    step: Literal["quarter", "safe"] | PositiveFloat = "quarter"
    """h: 1/(4 L), 1/(16 L) as the theory asks, L the largest of the rows, or a number."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (SagState,)

    def init(self, problem: Problem, facts: Facts) -> SagState:
        """Zero weights and slopes; ValueError for the plain hinge, streams, a step too long."""
        refuse_kink(problem)
        if facts.streams > 1:
            raise ValueError(
                f"{self.kind} keeps one sum of slopes for all rows and cannot walk "
                f"{facts.streams} streams. Use --streams 1, or --solver s2gd."
            )
        h = self._first_step(problem, facts)
        if h * problem.lam >= 1.0:
            raise ValueError(
                f"step = {h:g} times lam = {problem.lam:g} is not below 1, so a step would flip "
                "the sign of the weights. Lower the step, or leave it out."
            )
        return SagState(
            paired_zeros(facts.rows_kind, facts.d), b=0.0, D_b=0.0, P=1.0, S=0.0, t=0, seen=0,
            h=h, heard=0, loss_sum=0.0, loss=0.0, loss_zero=0.0, lost=0, row_version=-1, renewed=0,
            objective=0.0, gap=0.0,
        )  # fmt: skip

    @property
    def opening(self) -> Gather:
        """All slopes at given weights: without them D would be 0, and w decay meanwhile."""
        return Gather(GRADIENT_AND_SLOPES, self.weights, self.absorb)

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> SagState:
        """Return given weights; the opening finds the slopes that go with them."""
        state = self.init(problem, facts)
        state.W[:, 0] = weights.coef
        return state._replace(b=weights.intercept, seen=facts.n)

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what two vectors take; the slopes lie beside the data."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """One walk; every twentieth time a gather makes the slopes anew."""
        walk = Walk(
            name=f"walk-{self.kind}",
            step=self.step_rows,
            join=settle,
            order="random",
            diverged=has_exploded,
            recover=self.halve_step,
            metrics=progressive_loss,
            row_state="update",
        )
        renew = Gather(GRADIENT_AND_SLOPES, self.weights, self.absorb)
        return (walk, renew) if epoch % RENEW_EVERY == RENEW_EVERY - 1 else (walk,)

    def weights(self, state: SagState) -> Weights:
        """Read w out of a state."""
        v, D = state.W[:, 0], state.W[:, 1]
        return Weights(state.P * (v - state.S * D), state.b)

    def certificate(self, state: SagState) -> Certificate | None:
        """Return what the newest gather proved, until the weights move on."""
        return Certificate(state.objective, state.gap) if state.renewed else None

    def step_rows(self, problem: Problem, facts: Facts, state: SagState, block: Block) -> SagState:
        """Visit as many rows of one block as it has; their slopes are changed in place."""
        m = block.order.shape[0]
        draws = np.random.default_rng([facts.seed, DRAWS, state.t]).integers(m, size=m)
        block = block._replace(order=block.order[draws])
        h = state.h if m == facts.n else min(state.h, self._longest_late_step(problem, facts))
        length = column_length(problem, facts)
        usual = value(problem.loss, 0.0, math.sqrt(facts.target_square))
        state = state._replace(b=state.b / length, D_b=state.D_b * length)
        visited: SagState = visit_rows(
            state, with_column(problem, length), usual, h, facts.n, self._counts_all, *block
        )
        return visited._replace(b=visited.b * length, D_b=visited.D_b / length)

    def absorb(
        self,
        problem: Problem,
        facts: Facts,  # noqa: ARG002
        state: SagState,
        total: GradientPart,
        sweep: int,
    ) -> SagState:
        """Take over slopes that are all of the same age."""
        at = self.weights(state)
        found = certificate(problem, at, total)
        state.W[:, 0], state.W[:, 1] = at.coef, total.G
        return state._replace(
            D_b=total.g_b, P=1.0, S=0.0, row_version=sweep, renewed=1,
            objective=found.objective, gap=found.gap,
        )  # fmt: skip

    def halve_step(self, problem: Problem, facts: Facts, state: SagState) -> SagState:
        """Start again from zero weights with half the step."""
        return self.init(problem, facts)._replace(h=0.5 * state.h)

    @property
    def _counts_all(self) -> bool:
        return True

    def _longest_late_step(self, problem: Problem, facts: Facts) -> float:
        return LATE / (facts.n * smoothness(problem, facts, facts.sigma_square))

    def _first_step(self, problem: Problem, facts: Facts) -> float:
        if not isinstance(self.step, str):
            return self.step
        share = 4.0 if self.step == "quarter" else 16.0
        return 1.0 / (share * smoothness(problem, facts, facts.max_square * facts.max_weight))


class SagPlus(Sag):
    """SAG that divides by the rows seen so far: a faster first pass."""

    kind: Literal["sag+"] = "sag+"  # type: ignore[assignment]

    @property
    def _counts_all(self) -> bool:
        return False


def has_exploded(state: SagState) -> bool:
    """Say whether the loss before the step left all bounds."""
    return bool(state.lost)


def progressive_loss(state: SagState) -> dict[str, float]:
    """Running loss of the weights on rows before they were visited."""
    return {
        "loss": state.loss, "loss_sum": state.loss_sum, "heard": state.heard, "step": state.h,
    }  # fmt: skip


def settle(_problem: Problem, _facts: Facts, states: list[SagState]) -> SagState:
    """Fold after a pass, so that S and what rounding makes of it do not grow from pass to pass."""
    (state,) = states
    fold(state.W, state.P, state.P * state.S)
    return state._replace(P=1.0, S=0.0)


@kernel
def visit_rows(
    state: Any, problem: Any, usual: Any, h: Any, n: Any, counts_all: Any,
    rows: Any, y: Any, weight: Any, order: Any, slopes: Any,
) -> Any:  # fmt: skip
    """Visit rows in their order; `usual` is zero weights' mean loss (for the guard of SGD).

    A slope of 0 counts as that of a row not seen before, `seen` ending at n.
    """
    W, b, D_b, P, S, t, seen, _, heard, loss_sum, smooth, smooth_zero, lost = state[:13]
    loss, lam, intercept, lam_b = problem
    for r in range(order.shape[0]):
        i = order[r]
        look_ahead(rows, y, weight, order, r)
        s_v, s_D = dot_both(rows, i, W)
        p = P * (s_v - S * s_D) + intercept * b

        t += 1
        if t % LISTEN_EVERY == 0:
            heard += 1
            rate = max(EMA_RATE, 1.0 / heard)
            now = value(loss, p, y[i])
            loss_sum += now
            smooth += rate * (now - smooth)
            smooth_zero += rate * (value(loss, 0.0, y[i]) - smooth_zero)
            if not smooth <= EXPLODED * max(smooth_zero, usual) * rate / EMA_RATE:
                lost = 1
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
        b -= h * (lam_b * b + D_b / N)
        if P < FOLD_BELOW:
            fold(W, P, P * S)
            P, S = 1.0, 0.0
    return SagState(
        W, b, D_b, P, S, t, seen, state.h, heard, loss_sum, smooth, smooth_zero, lost,
        state.row_version, 0, state.objective, state.gap,
    )  # fmt: skip
