"""Newton's method for penalties that set weights to 0: l1, elastic net and groups, any columns.

H is of a working set of columns only: working_set.py has the state and its steps,
working_set_sums.py what a pass sums, working_set_start.py where they begin.
docs/methods.md, section 8.1.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from fewpass.solvers.batch.newton import PER_DIGIT, Newton
from fewpass.solvers.batch.working_set import (
    MOST_SET,
    SetState,
    absorbed,
    newest_of,
    point_of,
    refuse_crowded,
)
from fewpass.solvers.batch.working_set_start import WALK_OF_FIRST_ROWS, first_set_state, started_at
from fewpass.solvers.batch.working_set_sums import SET_SUMS, SetPart, SetPoint
from fewpass.solvers.estimates.expected_passes import digits
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import (
    Certificate,
    ExpectedPasses,
    Method,
    ProblemStats,
    Reduce,
    Sweep,
    Weights,
)

START, EXACT = 8.0, 4.0  # expected passes


class WorkingSetNewton(Method):
    """Newton's method on a working set of columns."""

    needs: ClassVar[Needs] = Newton.needs._replace(most_columns=None)
    states: ClassVar[tuple[type, ...]] = (SetState,)
    scale_free: ClassVar[bool] = True
    kind: Literal["newton"] = "newton"

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        sums = Reduce(SET_SUMS, self.point, self.absorb)
        return (WALK_OF_FIRST_ROWS, sums) if epoch == 0 else (sums,)

    def first_state(self, problem: Problem, stats: ProblemStats) -> SetState:
        return first_set_state(problem, stats)

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> SetState:
        return started_at(problem.penalty, self.init(problem, stats), np.append(*weights))

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of two vectors, and of the matrix of a reduction."""
        return super().state_bytes(problem, stats) + 8 * (min(stats.d, MOST_SET) + 1) ** 2

    def expected_passes(self, problem: Problem, _stats: ProblemStats, tol: float) -> ExpectedPasses:
        """One pass per trial, and some until the working set is right."""
        if not tol < 1.0:
            return ExpectedPasses(None, None, 1.0)
        usual = EXACT if problem.loss.is_quadratic else START + PER_DIGIT * digits(tol)
        return ExpectedPasses(None, usual, 1.0)

    def absorb(
        self, problem: Problem, stats: ProblemStats, state: SetState, total: SetPart, _sweep: int
    ) -> SetState:
        """Accept the point of a pass or not, and take the next step."""
        moved = absorbed(problem, stats, state, total)
        refuse_crowded(moved)
        return moved

    def certificate(self, state: SetState) -> Certificate | None:
        """Return the bounds, and of how many columns it is proven that their weight is 0."""
        if state.evaluations == 0:
            return None
        return state.bounds.certificate._replace(zeros=state.zeros)

    def newest(self, state: SetState) -> Weights:
        """Return the weights of the next pass."""
        return newest_of(state)

    def point(self, state: SetState) -> SetPoint:
        """Return where the next pass sums."""
        return point_of(state)

    def weights(self, state: SetState) -> Weights:
        """Return the newest accepted point."""
        return Weights(state.x[:-1].copy(), float(state.x[-1]))
