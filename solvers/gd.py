"""Gradient descent: a full gradient per step, the plainest method of many passes.

    x <- x - h grad f(x),      h = 1/L_f,   L_f = q (sigma^2 + column^2) + lam

sigma^2 is the largest eigenvalue of mean x x^T (spectrum.py).  When the objective rises the step is
undone and halved.  The iterates are those of S2GD with one inner step.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat

from solvers.gradient import GRADIENT, RISE, GradientPart, certificate, tightened
from solvers.intercept import column_length
from solvers.losses import Problem
from solvers.protocol import Certificate, Diverged, Facts, Gather, Settings, Weights, array_bytes
from solvers.smoothness import refuse_kink, smoothness

MOST_HALVINGS = 40


class GdState(NamedTuple):
    """Everything that changes; the next point is x - h g."""

    x: NDArray[np.float64]  # (d,)
    g: NDArray[np.float64]  # (d,) gradient of the objective at x
    b: float  # intercept
    g_b: float  # its derivative, times the square of its column's length
    h: float  # step
    epoch: int  # gradients taken
    objective: float  # at x
    gap: float  # at most this far is x above the optimum
    lower: float  # the optimum is not below
    rejected: int  # steps that were undone


class Gd(Settings):
    """Gradient descent; the step is found, not given."""

    kind: Literal["gd"] = "gd"
    step: PositiveFloat | None = None
    """h; default 1/L_f from the sampled largest eigenvalue, halved when the objective rises."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (GdState,)

    def init(self, problem: Problem, facts: Facts) -> GdState:
        """Start at zero weights; ValueError for the plain hinge."""
        refuse_kink(problem)
        h = self.step or 1.0 / smoothness(problem, facts, facts.sigma_square)
        x, g = np.zeros(facts.d), np.zeros(facts.d)
        return GdState(
            x, g, b=0.0, g_b=0.0, h=h, epoch=0, objective=0.0, gap=0.0, lower=0.0, rejected=0
        )

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> GdState:
        """Return the state whose first gradient is taken at given weights."""
        state = self.init(problem, facts)
        return state._replace(x=weights.coef.copy(), b=weights.intercept)

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what two vectors take."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Gather, ...]:  # noqa: ARG002
        """One gradient."""
        return (Gather(GRADIENT, self.newest, self.absorb),)

    def newest(self, state: GdState) -> Weights:
        """Return the point that the next gradient is taken at."""
        return Weights(state.x - state.h * state.g, state.b - state.h * state.g_b)

    def weights(self, state: GdState) -> Weights:
        """Return the newest point whose objective is known."""
        return Weights(state.x, state.b)

    def certificate(self, state: GdState) -> Certificate | None:
        """Return what the gradient there proved."""
        return Certificate(state.objective, state.gap) if state.epoch > 0 else None

    def absorb(
        self,
        problem: Problem,
        facts: Facts,
        state: GdState,
        total: GradientPart,
        sweep: int,  # noqa: ARG002
    ) -> GdState:
        """Go on from the new point, or again from the old one with half the step."""
        at = self.newest(state)
        found = certificate(problem, at, total)
        if state.epoch > 0 and not found.objective <= state.objective * (1.0 + RISE):
            return self._go_back(state, found.objective)
        gap, lower = tightened(found, state.lower)
        square = column_length(problem, facts) ** 2
        return state._replace(
            x=at.coef,
            g=total.G / total.rows + problem.lam * at.coef,
            b=at.intercept,
            g_b=square * (total.g_b / total.rows + problem.lam_b * at.intercept),
            epoch=state.epoch + 1,
            objective=found.objective,
            gap=gap,
            lower=lower,
        )

    def _go_back(self, state: GdState, objective: float) -> GdState:
        if self.step is not None or state.rejected >= MOST_HALVINGS:
            raise Diverged(
                f"The objective rose from {state.objective:g} to {objective:g} with the step "
                f"{state.h:g}. Leave the step out to have it found, or give a smaller one; the "
                "weights of the newest snapshot are those from before."
            )
        return state._replace(h=0.5 * state.h, epoch=state.epoch + 1, rejected=state.rejected + 1)
