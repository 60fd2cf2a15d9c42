"""Gradient descent: a full gradient per step, the plainest method of many passes.

    x <- x - h grad f(x),      h = 1/L_f,   L_f = q (sigma^2 + column^2) + lam

sigma^2 is the largest eigenvalue of mean x x^T (spectrum.py).  When the objective rises the step is
undone and halved.  The iterates are those of S2GD with one inner step.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

from pydantic import PositiveFloat

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.estimates.expected_passes import condition_of_all, conditioning, zero_loss
from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.gradient import Bounds
from fewpass.solvers.intercept import column_length
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    Diverged,
    ExpectedPasses,
    Part,
    ProblemStats,
    Weights,
    copy_state,
    zero_weights,
)

MOST_HALVINGS = 40


class GdState(NamedTuple):
    """Everything that changes; the next point is x - h g."""

    x: Weights
    g: Weights  # gradient at x; the intercept's times the square of its column's length
    bounds: Bounds  # at x
    h: float  # step
    evaluations: int = 0  # gradients taken
    rejected: int = 0  # steps that were undone


class Gd(BatchMethod):
    """Gradient descent; the step is found, not given."""

    states: ClassVar[tuple[type, ...]] = (GdState,)
    kind: Literal["gd"] = "gd"
    step: PositiveFloat | None = None
    """h; default 1/L_f from the sampled largest eigenvalue, halved when the objective rises."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> GdState:
        """Start at zero weights."""
        h = self.step or 1.0 / smoothness(problem, stats, stats.sigma_square)
        return GdState(zero_weights(stats.d), zero_weights(stats.d), Bounds(), h)

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> GdState:
        """Return the state whose first gradient is taken at given weights."""
        state: GdState = self.init(problem, stats)
        return state._replace(x=copy_state(weights))

    def expected_passes(self, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
        """One gradient a pass: f - f* falls by mu / L_f each time."""
        share = tol / max(tol, zero_loss(problem, stats))
        if conditioning(problem, stats) is None or not share < 1.0:
            return ExpectedPasses(None, None, 1.0)
        left = math.log1p(-1.0 / condition_of_all(problem, stats))
        return ExpectedPasses(theory=math.log(share) / left, usual=None, reductions=1.0)

    def newest(self, state: GdState) -> Weights:
        """Return the point that the next gradient is taken at."""
        return step_down(state.x, state.g, state.h)

    def weights(self, state: GdState) -> Weights:
        """Return the newest point whose objective is known."""
        return state.x

    def go_on(
        self, problem: Problem, stats: ProblemStats, state: GdState, trial: Trial, _total: Part
    ) -> GdState:
        """Go down from the new point."""
        g = scaled(trial.g, column_length(problem, stats) ** 2)
        return state._replace(x=trial.at, g=g, bounds=state.bounds.moved(trial.found))

    def go_back(self, state: GdState, trial: Trial) -> GdState:
        """Go down from the old one again, half as far."""
        if self.step is not None or state.rejected >= MOST_HALVINGS:
            raise Diverged(
                f"The objective rose from {state.bounds.objective:g} to "
                f"{trial.found.objective:g} with the step {state.h:g}. Leave the step out to have "
                "it found, or give a smaller one; the weights of the newest snapshot are those "
                "from before."
            )
        return state._replace(h=0.5 * state.h, rejected=state.rejected + 1)


def scaled(g: Weights, square: float) -> Weights:
    """Return a gradient whose intercept is counted in steps `square` times as long."""
    return Weights(g.coef, square * g.intercept)


def step_down(x: Weights, g: Weights, h: float) -> Weights:
    """Return where a step down the gradient ends."""
    return Weights(x.coef - h * g.coef, x.intercept - h * g.intercept)
