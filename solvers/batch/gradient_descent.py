"""Gradient descent, plain and accelerated: one full gradient, and so one pass, per step.

    gd    x <- x - h grad f(x),      h = 1/L,      L = q (sigma^2 + column^2) + lam

sigma^2 is the largest eigenvalue of mean x x^T (spectrum.py).  When the objective rises the step is
undone and halved.  The iterates are those of S2GD with one inner step.

    agd   x' = v - grad f(v) / L,    v' = x' + beta (x' - x),    beta = (1 - r) / (1 + r)

with r = sqrt(mu / L), and mu the strong convexity of f: min(lam, lam_b).  Gradients are computed at
v only, and certify v.  Momentum that suits mu overshoots where the data add curvature: if the
objective has risen at v, that point is rejected and the next one is x', without momentum.  If the
objective rises there, too, L is doubled.

Source: Nesterov 2004, section 2.2.1, constant step scheme III; restarts after O'Donoghue and Candes
2015, "Adaptive restart for accelerated gradient schemes".
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.gradient import Bounds
from fewpass.solvers.intercept import column_length
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    Diverged,
    Part,
    ProblemStats,
    Weights,
    constant_weights,
    copy_state,
)

MOST_HALVINGS, MOST_DOUBLINGS = 40, 40  # of a step, and of L


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

    def at(self, state: GdState, weights: Weights) -> GdState:
        return state._replace(x=copy_state(weights))

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


class AgdState(NamedTuple):
    """The state; `v` is the newest point with a known gradient."""

    x: Weights  # end of the step that led to v, without momentum
    v: Weights
    g: Weights  # gradient at v; the intercept's multiplied by the squared length of its column
    bounds: Bounds  # at v
    L: float
    momentum: float = 0.0  # beta of the next step; 0 for one
    evaluations: int = 0  # gradients computed
    restarts: int = 0  # points rejected and tried again without momentum
    doubled: int = 0  # how often L was doubled


class Agd(BatchMethod):
    """Accelerated gradient descent; L is estimated by default."""

    states: ClassVar[tuple[type, ...]] = (AgdState,)
    kind: Literal["agd"] = "agd"
    smoothness: PositiveFloat | None = None
    """L; default that of the mean loss, by the sampled largest eigenvalue, doubled when the
    objective rises."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> AgdState:
        """Start at the best constant; ValueError for an L below lam."""
        L = self.smoothness or smoothness(problem, stats, stats.sigma_square)
        if problem.lam > L:
            raise ValueError(
                f"smoothness = {L:g} is below lam = {problem.lam:g}, which is part of it. Leave "
                "solver.smoothness out, or give a larger one."
            )
        x, v = (constant_weights(problem, stats.d) for _ in range(2))
        g = Weights(np.zeros(stats.d), 0.0)
        return AgdState(x, v, g, Bounds(), L)

    def at(self, state: AgdState, weights: Weights) -> AgdState:
        return state._replace(x=copy_state(weights), v=copy_state(weights))

    def newest(self, state: AgdState) -> Weights:
        step, beta = step_from(state), state.momentum
        return Weights(
            step.coef + beta * (step.coef - state.x.coef),
            step.intercept + beta * (step.intercept - state.x.intercept),
        )

    def weights(self, state: AgdState) -> Weights:
        """Return the newest accepted point with a known objective."""
        return state.v

    def go_on(
        self, problem: Problem, stats: ProblemStats, state: AgdState, trial: Trial, _total: Part
    ) -> AgdState:
        """Continue from the new point, with momentum."""
        square, step = column_length(problem, stats) ** 2, step_from(state)
        root = math.sqrt(least_curvature(problem, square) / state.L)
        return state._replace(
            x=step,
            v=trial.at,
            g=scaled(trial.g, square),
            bounds=state.bounds.moved(trial.certificate),
            momentum=(1.0 - root) / (1.0 + root),
        )

    def go_back(self, state: AgdState, trial: Trial) -> AgdState:
        """Continue from the old point without momentum; if it had none, double L."""
        if state.momentum > 0.0:
            return state._replace(momentum=0.0, restarts=state.restarts + 1)
        if self.smoothness is not None or state.doubled >= MOST_DOUBLINGS:
            raise Diverged(
                f"The objective rose from {state.bounds.objective:g} to "
                f"{trial.certificate.objective:g} with the smoothness {state.L:g}. Leave "
                "solver.smoothness out to have it found, or give a larger one; the weights of the "
                "newest snapshot are those from before."
            )
        return state._replace(L=2.0 * state.L, doubled=state.doubled + 1)


def least_curvature(problem: Problem, square: float) -> float:
    """Return mu for an intercept whose steps are multiplied by `square`."""
    return min(problem.lam, square * problem.lam_b) if problem.intercept else problem.lam


def step_from(state: AgdState) -> Weights:
    """Return the end of a gradient step."""
    v, g = state.v, state.g
    return Weights(v.coef - g.coef / state.L, v.intercept - g.intercept / state.L)
