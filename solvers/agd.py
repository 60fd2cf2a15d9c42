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
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat

from solvers.gradient import GRADIENT, RISE, GradientPart, certificate, tightened
from solvers.intercept import column_length
from solvers.losses import Problem
from solvers.protocol import Certificate, Diverged, Facts, Gather, Settings, Weights, array_bytes
from solvers.smoothness import refuse_kink, smoothness

MOST_DOUBLINGS = 40


class AgdState(NamedTuple):
    """Everything that changes.  `v` is the newest point whose gradient is known."""

    x: NDArray[np.float64]  # (d,) where the step that led to v ended, momentum left out
    v: NDArray[np.float64]  # (d,)
    g: NDArray[np.float64]  # (d,) gradient of the objective at v
    x_b: float  # the same of the intercept
    v_b: float
    g_b: float  # its derivative, times the square of its column's length
    L: float
    momentum: float  # beta of the next step; 0 for one
    epoch: int  # gradients taken
    objective: float  # at v
    gap: float  # at most this far is v above the optimum
    lower: float  # the optimum is not below
    restarts: int  # points given up for their momentum
    doubled: int  # how often L was


class Agd(Settings):
    """Accelerated gradient descent; L is found, not given."""

    kind: Literal["agd"] = "agd"
    smoothness: PositiveFloat | None = None
    """L; default that of the mean loss, by the sampled largest eigenvalue, doubled when the
    objective rises."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (AgdState,)

    def init(self, problem: Problem, facts: Facts) -> AgdState:
        """Start at zero weights; ValueError for the plain hinge, or an L below lam."""
        refuse_kink(problem)
        L = self.smoothness or smoothness(problem, facts, facts.sigma_square)
        if problem.lam > L:
            raise ValueError(
                f"smoothness = {L:g} is below lam = {problem.lam:g}, which is part of it. Leave "
                "solver.smoothness out, or give a larger one."
            )
        x, v, g = np.zeros((3, facts.d))
        return AgdState(
            x, v, g, x_b=0.0, v_b=0.0, g_b=0.0, L=L, momentum=0.0, epoch=0, objective=0.0,
            gap=0.0, lower=0.0, restarts=0, doubled=0,
        )  # fmt: skip

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> AgdState:
        """Return the state whose first gradient is taken at given weights."""
        x, v, b = weights.coef.copy(), weights.coef.copy(), weights.intercept
        return self.init(problem, facts)._replace(x=x, v=v, x_b=b, v_b=b)

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what three vectors take."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Gather, ...]:  # noqa: ARG002
        """One gradient."""
        return (Gather(GRADIENT, self.newest, self.absorb),)

    def newest(self, state: AgdState) -> Weights:
        """Return the point that the next gradient is taken at."""
        step, beta = step_from(state), state.momentum
        return Weights(
            step.coef + beta * (step.coef - state.x),
            step.intercept + beta * (step.intercept - state.x_b),
        )

    def weights(self, state: AgdState) -> Weights:
        """Return the newest point whose objective is known, and which was kept."""
        return Weights(state.v, state.v_b)

    def certificate(self, state: AgdState) -> Certificate | None:
        """Return what the gradient there proved."""
        return Certificate(state.objective, state.gap) if state.epoch > 0 else None

    def absorb(
        self,
        problem: Problem,
        facts: Facts,
        state: AgdState,
        total: GradientPart,
        sweep: int,  # noqa: ARG002
    ) -> AgdState:
        """Go on from the new point, or again from the old one more carefully."""
        at = self.newest(state)
        found = certificate(problem, at, total)
        if state.epoch > 0 and not found.objective <= state.objective * (1.0 + RISE):
            return self._go_back(state, found.objective)
        gap, lower = tightened(found, state.lower)
        square, step = column_length(problem, facts) ** 2, step_from(state)
        root = math.sqrt(least_curvature(problem, square) / state.L)
        return state._replace(
            x=step.coef,
            v=at.coef,
            g=total.G / total.rows + problem.lam * at.coef,
            x_b=step.intercept,
            v_b=at.intercept,
            g_b=square * (total.g_b / total.rows + problem.lam_b * at.intercept),
            momentum=(1.0 - root) / (1.0 + root),
            epoch=state.epoch + 1,
            objective=found.objective,
            gap=gap,
            lower=lower,
        )

    def _go_back(self, state: AgdState, objective: float) -> AgdState:
        state = state._replace(epoch=state.epoch + 1)
        if state.momentum > 0.0:
            return state._replace(momentum=0.0, restarts=state.restarts + 1)
        if self.smoothness is not None or state.doubled >= MOST_DOUBLINGS:
            raise Diverged(
                f"The objective rose from {state.objective:g} to {objective:g} with the "
                f"smoothness {state.L:g}. Leave solver.smoothness out to have it found, or give a "
                "larger one; the weights of the newest snapshot are those from before."
            )
        return state._replace(L=2.0 * state.L, doubled=state.doubled + 1)


def least_curvature(problem: Problem, square: float) -> float:
    """mu, for an intercept whose steps are `square` times as long as a weight's."""
    return min(problem.lam, square * problem.lam_b) if problem.intercept else problem.lam


def step_from(state: AgdState) -> Weights:
    """Return where a step down the gradient ends."""
    return Weights(state.v - state.g / state.L, state.v_b - state.g_b / state.L)
