"""Semi-stochastic gradient descent (Konecny and Richtarik 2013, Algorithms 1 to 3), and its kin.

An epoch reads the data once for the gradient at the anchor x, and about once more for t steps

    y <- y - h (G + [phi'(y . x_i) - c0_i] x_i + lam y),      c0_i = phi'(x . x_i)

with G = mean c0_i x_i.  Then y is the next anchor.  The slopes c0 are kept per row, so that a step
costs one dot product over its row's non-zeros (inner_loop.py); t is drawn from the paper's law
(inner_length.py) or is one pass.  Batches of b rows take a step b / beta_b times as long
(spectrum.py).

Differs from the paper: an inner loop begins where the quadratic of the last anchors' gradients is
least (secants.py); h is 1 / (4 L), L the mean over the rows, and is halved, the epoch undone,
when the objective rises; rows are visited in random permutations; the regulariser stands apart; a
run may start from a pass of averaged SGD, which is S2GD+.  docs/methods.md, section 6.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from solvers.anchor import (
    S2gdState,
    average,
    begin_ahead,
    first_anchor,
    move_anchor,
    own_inner,
    remember_anchor,
    rows_left,
)
from solvers.gradient import GRADIENT_AND_SLOPES, RISE, GradientPart, certificate
from solvers.inner_length import inner_length, mean_inner_length
from solvers.inner_loop import inner_steps
from solvers.intercept import column_length, with_column
from solvers.losses import Problem
from solvers.protocol import (
    Block,
    Certificate,
    Diverged,
    Facts,
    Gather,
    Settings,
    Sweep,
    Walk,
    Weights,
    array_bytes,
)
from solvers.sgd import Asgd
from solvers.sgd_steps import SgdState
from solvers.smoothness import refuse_kink, smoothness
from solvers.spectrum import batch_factor

MOST_HALVINGS = 40
INNER_LENGTH = 21  # what a random generator is for


class Pace(NamedTuple):
    """What an epoch amounts to."""

    h: float  # step per row visited
    inner_passes: float  # mean length of its inner loop


class S2gd(Settings):
    """Full gradients with random inner loops in between; the step is found, not given."""

    kind: Literal["s2gd"] = "s2gd"
    step: Literal["mean", "largest", "conservative"] | PositiveFloat = "mean"
    """h: 1/(4 L) for the mean L or the largest, 1/(10 L) for the largest, or a number."""
    m: PositiveInt | None = None
    """Inner steps at most; default 2 n (its random law then means about n), s2gd+ exactly n."""
    nu: NonNegativeFloat | None = None
    """Strong convexity that the random law counts on; default lam."""
    batch_size: PositiveInt = 1
    """Rows that share an inner step."""
    secants: NonNegativeInt = 2
    """Anchors whose gradients say where an inner loop begins; 0 begins at the newest, as the paper
    does.  Each takes two vectors of memory."""

    @property
    def states(self) -> tuple[type, ...]:
        """The state that it begins with, and the one of its epochs."""
        return (S2gdState,)

    def init(self, problem: Problem, facts: Facts) -> Any:
        """Start at zero weights; ValueError for the plain hinge and for steps that are too long."""
        refuse_kink(problem)
        h = self._first_step(problem, facts)
        if h * problem.lam >= 1.0:
            raise ValueError(
                f"step = {h:g} times lam = {problem.lam:g} is not below 1, so a step would flip "
                "the sign of the weights. Lower the step, or leave it out."
            )
        self._refuse_convexity(problem, facts, h)
        return first_anchor(Weights(np.zeros(facts.d), 0.0), h, facts, self.secants)

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> S2gdState:
        """Make given weights the first anchor."""
        S2gd.init(self, problem, facts)  # refuses what does not fit
        return first_anchor(weights, self._first_step(problem, facts), facts, self.secants)

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what three vectors take, and two per secant."""
        return array_bytes(S2gd.init(self, problem, facts))

    def program(self, epoch: int) -> tuple[Sweep, ...]:  # noqa: ARG002
        """One gradient and one inner loop."""
        gradient = Gather(GRADIENT_AND_SLOPES, self.newest, self.absorb)
        inner = Walk(
            name=f"walk-{self.kind}",
            step=self.step_rows,
            join=average,
            order="random",
            metrics=inner_metrics,
            rows=rows_left,
            row_state="read",
            enter=own_inner,
        )
        return gradient, inner

    def newest(self, state: Any) -> Weights:
        """Read y, the next anchor, out of a state."""
        z, G = state.W[:, 0], state.W[:, 1]
        return Weights(state.A * z - state.B * G, state.b)

    def weights(self, state: Any) -> Weights:
        """Return the anchor: the newest weights with a certificate."""
        return Weights(state.x, state.x_b)

    def certificate(self, state: Any) -> Certificate | None:
        """Return what the anchor's gradient proved."""
        return Certificate(state.objective, state.gap) if state.epoch > 0 else None

    def absorb(
        self, problem: Problem, facts: Facts, state: S2gdState, total: GradientPart, sweep: int
    ) -> S2gdState:
        """Make y the anchor, or go back to the one before with half the step where f rose."""
        at = self.newest(state)
        found = certificate(problem, at, total)
        if state.epoch > 0 and not found.objective <= state.objective * (1.0 + RISE):
            state = self._go_back(state, found.objective)
        else:
            state = remember_anchor(problem, state)
            state = move_anchor(state, at, total, found)._replace(row_version=sweep)
            state = begin_ahead(problem, state)
        state = state._replace(epoch=state.epoch + 1)
        return state._replace(left=self._draw_length(problem, facts, state))

    def step_rows(
        self, problem: Problem, facts: Facts, state: S2gdState, block: Block
    ) -> S2gdState:
        """Take inner steps over the rows of one block, or as many as are left."""
        length = column_length(problem, facts)
        scaled = with_column(problem, length)
        rows = min(state.left, block.order.shape[0])
        h = self._batch_step(problem, facts, state.h)
        A, B, b = inner_steps(
            state.W, state.A, state.B, state.b / length, state.G_b * length, scaled, h,
            self.batch_size, *block._replace(order=block.order[:rows]),
        )  # fmt: skip
        return state._replace(A=A, B=B, b=b * length, left=state.left - rows)

    def pace(self, problem: Problem, facts: Facts) -> Pace:
        """Tell what an epoch amounts to before anything is halved."""
        h = self._batch_step(problem, facts, self._first_step(problem, facts))
        inner = self._mean_length(problem, facts, h) * self.batch_size / facts.n
        return Pace(h / (self.batch_size * facts.streams), inner)

    def _refuse_convexity(self, problem: Problem, facts: Facts, h: float) -> None:
        nu, longest = self.nu or 0.0, self._batch_step(problem, facts, h)
        if nu * longest >= 1.0:
            raise ValueError(
                f"nu = {nu:g} times a step of {longest:g} is not below 1, so the law of the inner "
                "length has no meaning. Lower nu, or leave it out."
            )

    def _go_back(self, state: S2gdState, objective: float) -> S2gdState:
        """Undo an epoch: without the secants if they had a part in it, else with half the step."""
        state.W[:, 0] = state.x
        state = state._replace(A=1.0, B=0.0, b=state.x_b, rejected=state.rejected + 1)
        if state.held > 0:
            return state._replace(held=0)
        if not isinstance(self.step, str) or state.rejected >= MOST_HALVINGS:
            raise Diverged(
                f"The objective rose from {state.objective:g} to {objective:g} with the step "
                f"{state.h:g}. Leave the step out to have it found, or give a smaller one; the "
                "weights of the newest snapshot are those from before."
            )
        return state._replace(h=0.5 * state.h)

    def _first_step(self, problem: Problem, facts: Facts) -> float:
        if not isinstance(self.step, str):
            return self.step
        share = 10.0 if self.step == "conservative" else 4.0
        square = facts.mean_square if self.step == "mean" else facts.max_square * facts.max_weight
        return 1.0 / (share * smoothness(problem, facts, square))

    def _batch_step(self, problem: Problem, facts: Facts, h: float) -> float:
        """h b / beta_b, streams counted in, but never beyond 1/L, nor to where h lam is 1."""
        b = self.batch_size * facts.streams
        longest = 1.0 / (smoothness(problem, facts, facts.mean_square) + problem.lam)
        scale = b / batch_factor(b, facts.sigma_square, facts.max_square)
        return max(h, min(scale * h, longest))

    def _draw_length(self, problem: Problem, facts: Facts, state: S2gdState) -> int:
        """Rows that each stream visits: t steps of a batch each, t drawn anew for every epoch."""
        U = 1.0 - np.random.default_rng([facts.seed, INNER_LENGTH, state.epoch]).random()
        h = self._batch_step(problem, facts, state.h)
        t = inner_length(self._longest(facts), self._counted_on(problem), h, U)
        return -(-t * self.batch_size // facts.streams)

    def _mean_length(self, problem: Problem, facts: Facts, h: float) -> float:
        return mean_inner_length(self._longest(facts), self._counted_on(problem), h)

    def _longest(self, facts: Facts) -> int:
        return self.m or max(1, 2 * facts.n // self.batch_size)

    def _counted_on(self, problem: Problem) -> float:
        return problem.lam if self.nu is None else self.nu


class Svrg(S2gd):
    """S2GD that counts on no strong convexity: every inner length is as likely."""

    kind: Literal["svrg"] = "svrg"  # type: ignore[assignment]
    nu: NonNegativeFloat | None = 0.0


class S2gdPlus(S2gd):
    """One pass of averaged SGD, then S2GD with inner loops of one pass each."""

    kind: Literal["s2gd+"] = "s2gd+"  # type: ignore[assignment]
    first_pass: Asgd = Asgd()
    """Settings of the pass at the beginning."""

    @property
    def states(self) -> tuple[type, ...]:
        """The state that it begins with, and the one of its epochs."""
        return SgdState, S2gdState

    @property
    def warm_epoch(self) -> int:
        """Given weights need no averaged pass before them."""
        return 1

    def init(self, problem: Problem, facts: Facts) -> Any:
        """Return the first state of the averaged pass."""
        super().init(problem, facts)  # refuses what would only show after it
        return self.first_pass.init(problem, facts)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """One pass of averaged SGD, then gradients and inner loops."""
        first = self.first_pass.program(0) if epoch == 0 else ()
        return (*first, *super().program(epoch))

    def newest(self, state: Any) -> Weights:
        """Read the average, later y, out of a state."""
        if isinstance(state, SgdState):
            return self.first_pass.weights(state)
        return super().newest(state)

    def weights(self, state: Any) -> Weights:
        """Return the average, later the anchor."""
        return self.newest(state) if isinstance(state, SgdState) else super().weights(state)

    def certificate(self, state: Any) -> Certificate | None:
        """Return what the anchor's gradient proved."""
        return None if isinstance(state, SgdState) else super().certificate(state)

    def absorb(
        self, problem: Problem, facts: Facts, state: Any, total: GradientPart, sweep: int
    ) -> S2gdState:
        """Make the average, later y, the anchor."""
        if isinstance(state, SgdState):
            state = self.start_at(problem, facts, self.newest(state), state.t)
        return super().absorb(problem, facts, state, total, sweep)

    def _draw_length(self, _problem: Problem, facts: Facts, _state: S2gdState) -> int:
        return -(-(self.m * self.batch_size if self.m else facts.n) // facts.streams)

    def _mean_length(self, _problem: Problem, facts: Facts, _h: float) -> float:
        return self.m or facts.n / self.batch_size


def inner_metrics(state: S2gdState) -> dict[str, float]:
    """Return the step, and how often it was halved."""
    return {"step": state.h, "rejected": state.rejected}
