"""The common part of full-gradient methods: a point is tried, and accepted or rejected.

    x  <- newest(state);   f, g <- a pass over all rows;   is f good?  go_on : go_back

States have `evaluations`, the number of gradients computed, and `bounds`, the bounds at the newest
accepted point.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from fewpass.solvers.gradient import GRADIENT, certificate, whole_gradient
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import (
    Certificate,
    Method,
    Part,
    ProblemStats,
    Reduce,
    State,
    Sum,
    Sweep,
    Weights,
)


class Trial(NamedTuple):
    """A point with its gradient and certificate."""

    at: Weights
    g: Weights  # gradient of the objective; of an l1 penalty without l1
    certificate: Certificate
    theta: float = 1.0  # of the certificate (scaled_gap.py)


class BatchMethod(Method):
    """A method that computes one full gradient per pass."""

    needs: ClassVar[Needs] = Needs(loss="smooth")
    sum: ClassVar[Sum] = GRADIENT
    """The sum of a pass; the first fields of its parts are those of GradientPart, wide or not."""

    def program(self, _epoch: int) -> tuple[Sweep, ...]:
        return (Reduce(self.sum, self.point, self.absorb),)

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, _rows_before: int
    ) -> State:
        return self.at(self.init(problem, stats), weights)

    @abstractmethod
    def at(self, state: State, weights: Weights) -> State:
        """Return a first state at other weights."""

    @abstractmethod
    def newest(self, state: State) -> Weights:
        """Return the weights to try next."""

    def point(self, state: State) -> Any:
        """Return the point at which the next sums are evaluated."""
        return self.newest(state)

    def certificate(self, state: State) -> Certificate | None:
        proven: Certificate = state.bounds.certificate
        return proven if state.evaluations > 0 else None

    def absorb(
        self, problem: Problem, stats: ProblemStats, state: State, total: Part, _sweep: int
    ) -> State:
        """Accept the new point, or return to the old one with a more careful step."""
        trial = self.trial(problem, self.newest(state), total)
        state = state._replace(evaluations=state.evaluations + 1)
        if state.evaluations == 1 or self.is_good(state, trial):
            return self.go_on(problem, stats, state, trial, total)
        return self.go_back(state, trial)

    def trial(self, problem: Problem, at: Weights, total: Part) -> Trial:
        """Return a point with what its pass says of it."""
        g = whole_gradient(problem, at, total)
        return Trial(at, g, certificate(problem, at, total, g))

    def is_good(self, state: State, trial: Trial) -> bool:
        """Return whether to accept a trial: if the objective has not risen."""
        return not state.bounds.has_risen(trial.certificate.objective)

    @abstractmethod
    def go_on(
        self, problem: Problem, stats: ProblemStats, state: State, trial: Trial, total: Part
    ) -> State:
        """Return the state after accepting a trial."""

    @abstractmethod
    def go_back(self, state: State, trial: Trial) -> State:
        """Return the state after rejecting a trial; Diverged if no other is tried."""
