"""Accelerated gradient descent with constant momentum: one gradient, and so one pass, per step.

    x' = v - grad f(v) / L,      v' = x' + beta (x' - x),      beta = (1 - r) / (1 + r)

with r = sqrt(mu / L), L = q (sigma^2 + column^2) + lam as in gd.py, and mu what f curves at least:
lam, or what the intercept is charged if that is less.  Only the v's gradients are known, and they
certify v.  Momentum that suits mu overshoots where the data add curvature: a v where the objective
has risen is given up, and the next one is x', without momentum.  If it rises there, too, L was too
small, and is doubled.

Source: Nesterov 2004, section 2.2.1, constant step scheme III; restarts after O'Donoghue and Candes
2015, "Adaptive restart for accelerated gradient schemes".
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

from pydantic import PositiveFloat

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.batch.gd import scaled
from fewpass.solvers.estimates.expected_passes import (
    condition_of_all,
    conditioning,
    digits,
    zero_loss,
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
    copy_state,
    zero_weights,
)

MOST_DOUBLINGS = 40
PER_DIGIT = 1.1  # of an expected certificate, times the root of kappa_f


class AgdState(NamedTuple):
    """Everything that changes.  `v` is the newest point whose gradient is known."""

    x: Weights  # where the step that led to v ended, momentum left out
    v: Weights
    g: Weights  # gradient at v; the intercept's times the square of its column's length
    bounds: Bounds  # at v
    L: float
    momentum: float = 0.0  # beta of the next step; 0 for one
    evaluations: int = 0  # gradients taken
    restarts: int = 0  # points given up for their momentum
    doubled: int = 0  # how often L was


class Agd(BatchMethod):
    """Accelerated gradient descent; L is found, not given."""

    states: ClassVar[tuple[type, ...]] = (AgdState,)
    kind: Literal["agd"] = "agd"
    smoothness: PositiveFloat | None = None
    """L; default that of the mean loss, by the sampled largest eigenvalue, doubled when the
    objective rises."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> AgdState:
        """Start at zero weights; ValueError for an L below lam."""
        L = self.smoothness or smoothness(problem, stats, stats.sigma_square)
        if problem.lam > L:
            raise ValueError(
                f"smoothness = {L:g} is below lam = {problem.lam:g}, which is part of it. Leave "
                "solver.smoothness out, or give a larger one."
            )
        x, v, g = (zero_weights(stats.d) for _ in range(3))
        return AgdState(x, v, g, Bounds(), L)

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> AgdState:
        """Return the state whose first gradient is taken at given weights."""
        x, v = copy_state(weights), copy_state(weights)
        begun: AgdState = self.init(problem, stats)
        return begun._replace(x=x, v=v)

    def expected_passes(self, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
        """One gradient a pass: f - f* is at most 2 (1 - sqrt(mu / L_f))^t of what it was."""
        share = tol / max(tol, zero_loss(problem, stats))
        if conditioning(problem, stats) is None or not share < 1.0:
            return ExpectedPasses(None, None, 1.0)
        root = math.sqrt(condition_of_all(problem, stats))
        return ExpectedPasses(
            theory=math.log(0.5 * share) / math.log1p(-1.0 / root),
            usual=1.0 + PER_DIGIT * root * digits(tol),
            reductions=1.0,
        )

    def newest(self, state: AgdState) -> Weights:
        """Return the point that the next gradient is taken at."""
        step, beta = step_from(state), state.momentum
        return Weights(
            step.coef + beta * (step.coef - state.x.coef),
            step.intercept + beta * (step.intercept - state.x.intercept),
        )

    def weights(self, state: AgdState) -> Weights:
        """Return the newest point whose objective is known, and which was kept."""
        return state.v

    def go_on(
        self, problem: Problem, stats: ProblemStats, state: AgdState, trial: Trial, _total: Part
    ) -> AgdState:
        """Go on from the new point, with momentum."""
        square, step = column_length(problem, stats) ** 2, step_from(state)
        root = math.sqrt(least_curvature(problem, square) / state.L)
        return state._replace(
            x=step,
            v=trial.at,
            g=scaled(trial.g, square),
            bounds=state.bounds.moved(trial.found),
            momentum=(1.0 - root) / (1.0 + root),
        )

    def go_back(self, state: AgdState, trial: Trial) -> AgdState:
        """Go on from the old one without momentum, and if it had none with L doubled."""
        if state.momentum > 0.0:
            return state._replace(momentum=0.0, restarts=state.restarts + 1)
        if self.smoothness is not None or state.doubled >= MOST_DOUBLINGS:
            raise Diverged(
                f"The objective rose from {state.bounds.objective:g} to "
                f"{trial.found.objective:g} with the smoothness {state.L:g}. Leave "
                "solver.smoothness out to have it found, or give a larger one; the weights of the "
                "newest snapshot are those from before."
            )
        return state._replace(L=2.0 * state.L, doubled=state.doubled + 1)


def least_curvature(problem: Problem, square: float) -> float:
    """mu, for an intercept whose steps are `square` times as long as a weight's."""
    return min(problem.lam, square * problem.lam_b) if problem.intercept else problem.lam


def step_from(state: AgdState) -> Weights:
    """Return where a step down the gradient ends."""
    v, g = state.v, state.g
    return Weights(v.coef - g.coef / state.L, v.intercept - g.intercept / state.L)
