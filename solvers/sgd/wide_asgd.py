"""Averaged SGD for a loss of several scores: one model that makes the scores of all classes.

The algorithm, its first step size and its guard are those of averaged_sgd.py, with the gradient of
K scores in place of a slope.  Averaging begins after a given number of rows.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from fewpass.solvers.kernels.shapes import Matrix, WholeNumbers
from fewpass.solvers.kernels.simd.wide_rows import padded_scores, wide_zeros
from fewpass.solvers.loss_monitor import ReportLosses, ends_of, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import level_of_scores
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Block, ColumnMoments, ProblemStats, Walk, Weights
from fewpass.solvers.sgd.averaged_sgd import Asgd, largest_square
from fewpass.solvers.sgd.averaged_state import (
    NEVER,
    SOUGHT,
    Average,
    Iterate,
    Schedule,
    SgdState,
    at_intercept,
    has_exploded,
    scale_intercept,
)
from fewpass.solvers.sgd.class_steps import step_wide_rows
from fewpass.solvers.sgd.first_step_size import TRIAL_ROWS, smallest_good_step
from fewpass.solvers.wide_gradient import (
    add_wide_gradient,
    loss_at_zero,
    no_wide_gradient,
    wide_certificate,
)

NO_ENDS = np.empty(0, np.int64)


class WideAsgd(Asgd):
    """Averaged SGD for several scores."""

    needs: ClassVar[Needs] = Needs(several_scores=True)
    by_column: ClassVar[bool] = False
    width: PositiveInt
    """K, the number of scores."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> SgdState:
        """Return the best constant; ValueError for what is not built for several scores."""
        self.refuse_one_score(problem)
        of_one = super().first_state(problem, stats._replace(d=0))
        level: Any = level_of_scores(problem)
        return at_intercept(of_one._replace(W=wide_zeros(stats.d, 2, len(level))), level)

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> SgdState:
        """Return a state at weights that were trained on other rows; see averaged_sgd.py."""
        state: SgdState = self.init(problem, stats)
        state.W[:, :, : self.width] = weights.coef.T[:, None]
        b: Any = padded_scores(weights.intercept, self.width)
        t0 = state.t0 if state.t0 in (SOUGHT, NEVER) else rows_before + state.t0
        return at_intercept(state, b)._replace(t=rows_before, t0=t0)

    def resized(
        self, _problem: Problem, state: SgdState, d: int, _moments: ColumnMoments | None = None
    ) -> SgdState:
        """Return the state with d columns, the new ones zero in both vectors."""
        if d == len(state.W):
            return state
        W = wide_zeros(d, *state.W.shape[1:])
        W[: len(state.W)] = state.W
        return state._replace(W=W)

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """Return one walk; a row's classes are side by side already."""
        (walk,) = super().program(epoch)
        return (walk._replace(interleaved=None, pairs=None),)

    def weights(self, state: SgdState) -> Weights:
        """Return the average once averaging has begun, else the last iterate."""
        W, b = super().weights(state)
        return Weights(np.ascontiguousarray(W[:, : self.width].T), b[: self.width].copy())

    def step(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> SgdState:  # fmt: skip
        """Visit the rows of a block."""
        problem, state, length = self.prepared(problem, stats, state, block)
        ends = ends_of(stats.stream_rows, len(block.order), report)
        after, curve = stepped(problem, self.schedule(problem), state, block, ends)
        for end, (seen, lost) in zip(ends.tolist(), curve.tolist(), strict=True):
            if seen:
                report(end, (seen, lost))
        return scale_intercept(after, length)

    def _begin(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block
    ) -> SgdState:
        """Estimate the first step size on first rows."""
        first = block._replace(order=block.order[:TRIAL_ROWS])
        schedule, without_average = self.schedule(problem), state._replace(t0=NEVER)

        def objective_of(gamma0: float) -> float:
            level: Any = level_of_scores(problem)
            begun = without_average._replace(W=wide_zeros(*state.W.shape), gamma0=gamma0)
            after, _ = stepped(problem, schedule, at_intercept(begun, level), first, NO_ENDS)
            if has_exploded(after):
                return math.inf
            at = self.weights(after)
            part = add_wide_gradient(problem, at, first, no_wide_gradient(at))
            return wide_certificate(problem, at, part).objective

        square = largest_square(problem, stats)
        return state._replace(gamma0=smallest_good_step(problem.lam, square, objective_of))


def stepped(
    problem: Problem, schedule: Schedule, state: SgdState, block: Block, ends: WholeNumbers
) -> tuple[SgdState, Matrix]:
    """Take the steps of a block's rows; return the losses after `ends` rows, too."""
    curve = np.zeros((len(ends), 2))
    b: Any
    b_bar: Any
    (b, alpha), (b_bar, tau, beta) = state.theta, state.bar
    alpha, tau, beta, monitor, t = step_wide_rows(
        state.W, b, b_bar, alpha, tau, beta, state.monitor, state.t, state.t0, state.gamma0,
        schedule, problem._replace(level=0.0), level_of_scores(problem),
        loss_at_zero(problem.loss), ends, curve, *block[:4],
    )  # fmt: skip
    theta, bar = Iterate(b, alpha), Average(b_bar, tau, beta)
    return state._replace(theta=theta, bar=bar, monitor=monitor, t=t), curve
