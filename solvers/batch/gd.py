"""Gradient descent: one full gradient per step.

    x <- x - h grad f(x),      h = 1/L_f,   L_f = q (sigma^2 + column^2) + lam

sigma^2 is the largest eigenvalue of mean x x^T (spectrum.py).  When the objective rises the step is
undone and halved.  The iterates are those of S2GD with one inner step.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.estimates.expected_passes import (
    condition_of_all,
    conditioning,
    share_of_start,
)
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
    constant_weights,
    copy_state,
)

MOST_HALVINGS = 40


class GdState(NamedTuple):
    """The state; the next point is x - h g."""

    x: Weights
    g: Weights  # gradient at x; the intercept's multiplied by the squared length of its column
    bounds: Bounds  # at x
    h: float  # step
    evaluations: int = 0  # gradients computed
    rejected: int = 0  # steps that were undone


class Gd(BatchMethod):
    """Gradient descent; the step size is estimated by default."""

    states: ClassVar[tuple[type, ...]] = (GdState,)
    kind: Literal["gd"] = "gd"
    step: PositiveFloat | None = None
    """h; default 1/L_f from the sampled largest eigenvalue, halved when the objective rises."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> GdState:
        h = self.step or 1.0 / smoothness(problem, stats, stats.sigma_square)
        x, g = constant_weights(problem, stats.d), Weights(np.zeros(stats.d), 0.0)
        return GdState(x, g, Bounds(), h)

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> GdState:
        state: GdState = self.init(problem, stats)
        return state._replace(x=copy_state(weights))

    def expected_passes(self, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
        """One gradient per pass: f - f* is multiplied by at most 1 - mu / L_f each time."""
        share = share_of_start(problem, stats, tol)
        if conditioning(problem, stats) is None or not share < 1.0:
            return ExpectedPasses(None, None, 1.0)
        left = math.log1p(-1.0 / condition_of_all(problem, stats))
        return ExpectedPasses(theory=math.log(share) / left, usual=None, reductions=1.0)

    def newest(self, state: GdState) -> Weights:
        return step_down(state.x, state.g, state.h)

    def weights(self, state: GdState) -> Weights:
        """Return the newest accepted point with a known objective."""
        return state.x

    def go_on(
        self, problem: Problem, stats: ProblemStats, state: GdState, trial: Trial, _total: Part
    ) -> GdState:
        g = scaled(trial.g, column_length(problem, stats) ** 2)
        return state._replace(x=trial.at, g=g, bounds=state.bounds.moved(trial.certificate))

    def go_back(self, state: GdState, trial: Trial) -> GdState:
        """Halve the step from the old point."""
        if self.step is not None or state.rejected >= MOST_HALVINGS:
            raise Diverged(
                f"The objective rose from {state.bounds.objective:g} to "
                f"{trial.certificate.objective:g} with the step {state.h:g}. Leave the step out "
                "to have it found, or give a smaller one; the weights of the newest snapshot are "
                "those from before."
            )
        return state._replace(h=0.5 * state.h, rejected=state.rejected + 1)


def scaled(g: Weights, square: float) -> Weights:
    """Return a gradient with the intercept's derivative multiplied by `square`."""
    return Weights(g.coef, square * g.intercept)


def step_down(x: Weights, g: Weights, h: float) -> Weights:
    """Return the end of a gradient step."""
    return Weights(x.coef - h * g.coef, x.intercept - h * g.intercept)
