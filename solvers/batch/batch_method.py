"""What methods of whole gradients share: a point is tried, and gone on from or given up.

    x  <- newest(state);   f, g <- a pass over all rows;   is f good?  go on from x : go back

States have `evaluations`, how many gradients were taken, and `bounds`, what they have proven of the
newest point that was kept.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from fewpass.solvers.gradient import GRADIENT, GradientPart, certificate, whole_gradient
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
    Weights,
)


class Trial(NamedTuple):
    """A point, and what a pass has found there."""

    at: Weights
    g: Weights  # gradient of the objective
    found: Certificate


class BatchMethod(Method):
    """A method that takes one gradient over all rows per pass."""

    needs: ClassVar[Needs] = Needs(loss="smooth")
    sum: ClassVar[Sum] = GRADIENT
    """What a pass adds up: a part whose first fields are a GradientPart's."""

    def program(self, epoch: int) -> tuple[Reduce, ...]:  # noqa: ARG002
        """One trial."""
        return (Reduce(self.sum, self.point, self.absorb),)

    @abstractmethod
    def newest(self, state: State) -> Weights:
        """Return the weights that are tried next."""

    def point(self, state: State) -> Any:
        """Return what the next sums are taken at."""
        return self.newest(state)

    def certificate(self, state: State) -> Certificate | None:
        """Return what the gradients proved."""
        proven: Certificate = state.bounds.certificate
        return proven if state.evaluations > 0 else None

    def absorb(
        self,
        problem: Problem,
        stats: ProblemStats,
        state: State,
        total: Part,
        sweep: int,  # noqa: ARG002
    ) -> State:
        """Go on from the new point, or again from the old one more carefully."""
        at, part = self.newest(state), GradientPart(*total[:4])
        trial = Trial(at, whole_gradient(problem, at, part), certificate(problem, at, part))
        state = state._replace(evaluations=state.evaluations + 1)
        if state.evaluations == 1 or self.is_good(state, trial):
            return self.go_on(problem, stats, state, trial, total)
        return self.go_back(state, trial)

    def is_good(self, state: State, trial: Trial) -> bool:
        """Say whether to go on from a trial: where the objective has not risen."""
        return not state.bounds.has_risen(trial.found.objective)

    @abstractmethod
    def go_on(
        self, problem: Problem, stats: ProblemStats, state: State, trial: Trial, total: Part
    ) -> State:
        """Return the state that keeps a trial."""

    @abstractmethod
    def go_back(self, state: State, trial: Trial) -> State:
        """Return the state that gives it up; Diverged where no other is going to be tried."""
