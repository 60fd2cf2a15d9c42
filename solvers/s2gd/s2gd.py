"""Semi-stochastic gradient descent (Konecny and Richtarik 2013, Algorithms 1 to 3), and its kin.

An epoch reads the data once for the gradient at the anchor x, and about once more for t steps

    y <- y - h (G + [phi'(y . x_i) - c0_i] x_i + lam y),      c0_i = phi'(x . x_i)

with G = mean c0_i x_i.  Then y is the next anchor.  The slopes c0 are stored per row, so that a
step costs one dot product over its row's non-zeros (inner_loop.py); t is drawn from the paper's law
(inner_length.py) or is one pass.  Batches of b rows take a step b / beta_b times as long
(spectrum.py).

Differs from the paper: an inner loop starts at the minimum of the quadratic of the last anchors'
gradients (anchor.py); h is 1 / (4 L), L the mean over the rows, and if the
objective rises, h is halved and the epoch undone; rows are visited in random permutations; the
regulariser is separate; a run may start with a pass of averaged SGD, which is S2GD+.
docs/methods.md, section 6.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat

from fewpass.solvers.estimates.smoothness import refuse_long_step, smoothness
from fewpass.solvers.estimates.spectrum import batch_factor
from fewpass.solvers.gradient import GRADIENT_AND_SLOPES, GradientPart, certificate
from fewpass.solvers.intercept import column_length, with_column
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import (
    BatchSize,
    Block,
    Certificate,
    Diverged,
    Method,
    ProblemStats,
    Reduce,
    State,
    Steps,
    Sweep,
    Walk,
    Weights,
    array_bytes,
    constant_weights,
)
from fewpass.solvers.s2gd.anchor import (
    IN_PAIRS,
    InnerIterate,
    S2gdState,
    begin_ahead,
    first_anchor,
    move_anchor,
    own_inner,
    remember_anchor,
    rows_left,
)
from fewpass.solvers.s2gd.inner_length import inner_length, mean_inner_length
from fewpass.solvers.s2gd.inner_loop import inner_steps
from fewpass.solvers.s2gd.theory import Law
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.solvers.sgd.averaged_state import SgdState

MOST_HALVINGS = 40
INNER_LENGTH = 21  # purpose of a random generator


class EpochLength(NamedTuple):
    """Step size and length of an epoch."""

    h: float  # step per row visited
    inner_passes: float  # mean length of its inner loop


class S2gd(Method):
    """Full gradients with random inner loops in between; the step size is estimated by default."""

    needs: ClassVar[Needs] = Needs(loss="smooth", numbers_per_row=1)
    states: ClassVar[tuple[type, ...]] = (S2gdState,)
    halves_steps: ClassVar[bool] = True
    kind: Literal["s2gd"] = "s2gd"
    step: Literal["mean", "largest", "conservative"] | PositiveFloat = "mean"
    """h: 1/(4 L) for the mean L or the largest, 1/(10 L) for the largest, or a number."""
    m: Steps | None = None
    """Most inner steps; default 2 n (about n on average by the random law), for s2gd+ exactly n."""
    nu: NonNegativeFloat | None = None
    """Strong convexity assumed by the random law; default lam."""
    batch_size: BatchSize = 1
    """Rows per inner step."""
    subspace: int = Field(2, ge=0, le=1000)
    """Previous anchors for the start of an inner loop; 0: it starts at the newest one, as in the
    paper.  Each takes two vectors of memory."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> State:
        """Start at the best constant; ValueError for step sizes that are too long."""
        h = self._first_step(problem, stats)
        refuse_long_step(h, problem.lam)
        self._refuse_convexity(problem, stats, h)
        return first_anchor(constant_weights(problem, stats.d), h, stats, self.subspace)

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, _rows_before: int
    ) -> S2gdState:
        """Return a state with given weights as the first anchor."""
        self.refuse_unfit(problem, stats)
        S2gd.first_state(self, problem, stats)  # refuses unsuitable settings
        return first_anchor(weights, self._first_step(problem, stats), stats, self.subspace)

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of three vectors, and of two per previous anchor."""
        return array_bytes(S2gd.first_state(self, problem, stats))

    def program(self, _epoch: int) -> tuple[Sweep, ...]:
        """Return one gradient and one inner loop."""
        gradient = Reduce(GRADIENT_AND_SLOPES, self.newest, self.absorb)
        inner = Walk(
            name=f"walk-{self.kind}",
            step=self.step_rows,
            join=IN_PAIRS.join,
            pairs=IN_PAIRS,
            order="random",
            metrics=inner_metrics,
            rows=rows_left,
            row_state="read",
            enter=own_inner,
        )
        return gradient, inner

    def newest(self, state: State) -> Weights:
        """Return y, the next anchor."""
        z, G, y = state.W[:, 0], state.W[:, 1], state.y
        return Weights(y.A * z - y.B * G, y.b)

    def weights(self, state: State) -> Weights:
        """Return the anchor: the newest weights with a certificate."""
        return cast("Weights", state.x)

    def certificate(self, state: State) -> Certificate | None:
        """Return the certificate by the anchor's gradient."""
        return state.bounds.certificate if state.epoch > 0 else None

    def absorb(
        self,
        problem: Problem,
        stats: ProblemStats,
        state: S2gdState,
        total: GradientPart,
        sweep: int,
    ) -> S2gdState:
        """Make y the anchor, or return to the previous one with half the step size if f rose."""
        at = self.newest(state)
        certified = certificate(problem, at, total)
        if state.epoch > 0 and state.bounds.has_risen(certified.objective):
            state = self._go_back(state, certified.objective)
        else:
            state = remember_anchor(problem, state)
            state = move_anchor(state, at, total, certified)._replace(row_version=sweep)
            state = begin_ahead(problem, state)
        state = state._replace(epoch=state.epoch + 1)
        return state._replace(left=self._draw_length(problem, stats, state))

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: S2gdState, block: Block
    ) -> S2gdState:
        """Take inner steps over the rows of a block, or over as many as are left."""
        length = column_length(problem, stats)
        scaled = with_column(problem, length)
        rows = min(state.left, block.order.shape[0])
        h = self._batch_step(problem, stats, state.h)
        A, B, b = inner_steps(
            state.W, state.y.A, state.y.B, state.y.b / length, state.G_b * length, scaled, h,
            self.batch_size, *block._replace(order=block.order[:rows])[:5],
        )  # fmt: skip
        return state._replace(y=InnerIterate(b * length, A, B), left=state.left - rows)

    @property
    def law(self) -> Law:
        """The law of the theory for the method."""
        return "uniform" if self.nu == 0.0 else "geometric"

    def pace(self, problem: Problem, stats: ProblemStats) -> EpochLength:
        """Return step size and length of an epoch before any halving."""
        h = self._batch_step(problem, stats, self._first_step(problem, stats))
        inner = self._mean_length(problem, stats, h) * self.batch_size / stats.n
        return EpochLength(h / (self.batch_size * stats.streams), inner)

    def _refuse_convexity(self, problem: Problem, stats: ProblemStats, h: float) -> None:
        nu, longest = self.nu or 0.0, self._batch_step(problem, stats, h)
        if nu * longest >= 1.0:
            raise ValueError(
                f"nu = {nu:g} times a step of {longest:g} is not below 1, so the law of the inner "
                "length has no meaning. Lower nu, or leave it out."
            )

    def _go_back(self, state: S2gdState, objective: float) -> S2gdState:
        """Undo an epoch: drop previous anchors if there are any, else halve the step size."""
        state.W[:, 0] = state.x.coef
        state = state._replace(y=InnerIterate(state.x.intercept), rejected=state.rejected + 1)
        if state.n_anchors > 0:
            return state._replace(n_anchors=0)
        if not isinstance(self.step, str) or state.rejected >= MOST_HALVINGS:
            raise Diverged(
                f"The objective rose from {state.bounds.objective:g} to {objective:g} with the "
                f"step {state.h:g}. Leave the step out to have it found, or give a smaller one; "
                "the weights of the newest snapshot are those from before."
            )
        return state._replace(h=0.5 * state.h)

    def _first_step(self, problem: Problem, stats: ProblemStats) -> float:
        if not isinstance(self.step, str):
            return self.step
        share = 10.0 if self.step == "conservative" else 4.0
        square = stats.mean_square if self.step == "mean" else stats.max_square * stats.max_weight
        return 1.0 / (share * smoothness(problem, stats, square))

    def _batch_step(self, problem: Problem, stats: ProblemStats, h: float) -> float:
        """Return h b / beta_b, streams included, but at most 1/L, and below 1/lam."""
        b = self.batch_size * stats.streams
        longest = 1.0 / (smoothness(problem, stats, stats.mean_square) + problem.lam)
        scale = b / batch_factor(b, stats.sigma_square, stats.max_square)
        return max(h, min(scale * h, longest))

    def _draw_length(self, problem: Problem, stats: ProblemStats, state: S2gdState) -> int:
        """Return the rows that each stream visits: t batches, t drawn for every epoch."""
        U = 1.0 - np.random.default_rng([stats.seed, INNER_LENGTH, state.epoch]).random()
        h = self._batch_step(problem, stats, state.h)
        t = inner_length(self._longest(stats), self._counted_on(problem), h, U)
        return -(-t * self.batch_size // stats.streams)

    def _mean_length(self, problem: Problem, stats: ProblemStats, h: float) -> float:
        return mean_inner_length(self._longest(stats), self._counted_on(problem), h)

    def _longest(self, stats: ProblemStats) -> int:
        return self.m or max(1, 2 * stats.n // self.batch_size)

    def _counted_on(self, problem: Problem) -> float:
        return problem.lam if self.nu is None else self.nu


class Svrg(S2gd):
    """S2GD without assuming strong convexity: all inner lengths are equally likely."""

    kind: Literal["svrg"] = "svrg"  # type: ignore[assignment]
    nu: NonNegativeFloat | None = 0.0
    """Strong convexity assumed by the random law: none."""

    @property
    def law(self) -> Law:
        return "uniform"


class S2gdPlus(S2gd):
    """One pass of averaged SGD, then S2GD with inner loops of one pass each."""

    states: ClassVar[tuple[type, ...]] = (SgdState, S2gdState)
    warm_epoch: ClassVar[int] = 1
    kind: Literal["s2gd+"] = "s2gd+"  # type: ignore[assignment]
    first_pass: Asgd = Asgd()
    """Settings of the first pass."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the first state of the averaged pass."""
        super().first_state(problem, stats)  # refuses settings that would only fail after it
        return self.first_pass.init(problem, stats)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return a pass of averaged SGD, later a gradient and an inner loop."""
        first = self.first_pass.program(0) if epoch == 0 else ()
        return (*first, *super().program(epoch))

    def newest(self, state: State) -> Weights:
        """Return the average, later y."""
        if isinstance(state, SgdState):
            return self.first_pass.weights(state)
        return super().newest(state)

    def weights(self, state: State) -> Weights:
        """Return the average, later the anchor."""
        return self.newest(state) if isinstance(state, SgdState) else super().weights(state)

    def certificate(self, state: State) -> Certificate | None:
        """Return the certificate by the anchor's gradient."""
        return None if isinstance(state, SgdState) else super().certificate(state)

    def absorb(
        self,
        problem: Problem,
        stats: ProblemStats,
        state: SgdState | S2gdState,
        total: GradientPart,
        sweep: int,
    ) -> S2gdState:
        """Make the average, later y, the anchor."""
        if isinstance(state, SgdState):
            state = self.start_at(problem, stats, self.newest(state), state.t)
        return super().absorb(problem, stats, state, total, sweep)

    def _draw_length(self, _problem: Problem, stats: ProblemStats, _state: S2gdState) -> int:
        return -(-(self.m * self.batch_size if self.m else stats.n) // stats.streams)

    def _mean_length(self, _problem: Problem, stats: ProblemStats, _h: float) -> float:
        return self.m or stats.n / self.batch_size


def inner_metrics(state: S2gdState) -> dict[str, float]:
    """Return the step size, and how often it was halved."""
    return {"step": state.h, "rejected": state.rejected}
