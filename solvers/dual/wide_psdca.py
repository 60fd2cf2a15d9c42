"""`psdca` for a loss of several scores: one dual vector of K numbers per row, one model.

The method is psdca's (psdca.py, proximal.py): its momentum, how r grows, its streams and its
certificate, with (wide,) numbers where psdca has one.  A row's K dual variables move together
(`best_duals` of the loss), and with them all weights of the row's columns.  It begins with

    r_0 = min(16, max(1, K_i)),      K_i = q mean ||x||^2 / (lam n),   q = 1/2 for softmax

Source: docs/methods.md, section 7.12.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from fewpass.solvers.dual.best_weights import no_weights
from fewpass.solvers.dual.duality import Centre, constant_column, per_row
from fewpass.solvers.dual.merging import counted_by, note_rows
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca_state import (
    START,
    PassSums,
    Pull,
    SdcaState,
    count_rows,
    first_merges,
    first_shares,
    read_column,
)
from fewpass.solvers.dual.wide_gap import WIDE_GAP, WIDE_SLOPES_AS_DUALS, begin_at_wide_duals
from fewpass.solvers.dual.wide_steps import visit_wide_rows
from fewpass.solvers.kernels.simd.wide_rows import padded, wide_zeros
from fewpass.solvers.loss_monitor import LossSum, ReportLosses, ends_of, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import PADDED, level_of_scores
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Block, ProblemStats, Reduce, Sum

MOST_R = 16.0  # to begin with


class WidePsdca(Psdca):
    """Dual coordinate ascent with a proximal centre, for several scores."""

    needs: ClassVar[Needs] = Needs(numbers_per_row=1, several_scores=True)
    gap: ClassVar[Sum] = WIDE_GAP
    width: PositiveInt
    """K, the number of scores."""

    @property
    def warm_start_pass(self) -> Reduce:
        """The dual variables that given weights stand for."""
        return Reduce(WIDE_SLOPES_AS_DUALS, partial(read_column, column=START), begin_at_wide_duals)

    def row_state_size(self, stats: ProblemStats) -> int:
        """K dual variables; of several streams what they were, how they moved, and when."""
        return self.width if stats.streams == 1 else 2 * self.width + 1

    def first_state(self, problem: Problem, stats: ProblemStats) -> SdcaState:
        """Return zero weights, from zero dual variables; ValueError for settings that do not go."""
        self.refuse_one_score(problem)
        size, wide = stats.d + 1, padded(self.width)
        pull = Pull(wide_zeros(size, wide), r=first_r(problem, stats), dual_v=np.zeros(wide))
        return SdcaState(
            W=wide_zeros(size, 2, wide), fresh=wide_zeros(size, wide),
            best=no_weights(stats.d, self.width),
            centre=Centre(constant_column(problem, stats).unit, level_of_scores(problem)),
            shares=first_shares(stats), beta=0.0,
            sums=PassSums(), monitor=LossSum(), passes=0, visits=0, unproven=0, row_version=-1,
            pull=pull, merges=first_merges(stats, wide_zeros(size, wide)),
        )  # fmt: skip

    def _is_plain(self) -> bool:
        """Say that models are stepped one by one: a row's classes are side by side already."""
        return False

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, block: Block,
        tell: ReportLosses = ignore_losses,
    ) -> SdcaState:  # fmt: skip
        """Visit the rows of one block."""
        rows, column = block.order.shape[0], constant_column(problem, stats).value
        state = note_rows(state, stats, block, column, per_row(block))
        ends = ends_of(stats.stream_rows, rows, tell)
        curve, base = np.zeros(len(ends)), problem.intercept * np.asarray(state.centre.offset)
        base[self.width :] = PADDED
        sums = visit_wide_rows(
            state.W, state.fresh, problem.loss, column, base,
            self._scale(problem, stats, state), counted_by(state, stats), float(state.adding),
            state.shares, *block[:4], per_row(block), ends, curve,
        )  # fmt: skip
        for end, lost in zip(ends.tolist(), curve.tolist(), strict=True):
            tell(end, state.monitor.add(end, lost))
        return count_rows(state, rows, *sums)


def first_r(problem: Problem, stats: ProblemStats) -> int:
    """Return r of the first pass: more than 1 where steps under lam alone would be short."""
    short = problem.loss.curvature * stats.mean_square / (problem.lam * stats.n)
    return int(min(MOST_R, max(1.0, short)))
