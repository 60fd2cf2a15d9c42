"""`psdca` for a loss of several scores: one dual vector of K numbers per row, one model.

The method is psdca's (psdca.py, proximal.py): its momentum, how r grows, its streams and its
certificate, with (wide,) numbers where psdca has one.  A row's K dual variables move together
(`best_duals` of the loss), and with them all weights of the row's columns.  It begins with

    r_0 = min(16, max(1, K_i)),      K_i = q mean ||x||^2 / (lam n),   q = 1/2 for softmax

Gap and warm start have the formulas of duality.py and warm_start.py, for K scores a row.

Source: docs/methods.md, section 7.12.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from fewpass.solvers.dual.best_weights import no_weights
from fewpass.solvers.dual.duality import (
    Centre,
    DualPoint,
    GapPart,
    constant_column,
    no_gap,
    per_row,
)
from fewpass.solvers.dual.merging import counted_by, note_rows
from fewpass.solvers.dual.psdca import Psdca, begin_centred
from fewpass.solvers.dual.sdca_state import (
    START,
    Proximal,
    SdcaState,
    count_rows,
    first_merges,
    first_shares,
    read_column,
)
from fewpass.solvers.dual.warm_start import DualsPart
from fewpass.solvers.dual.wide_steps import sum_wide_brackets, visit_wide_rows, write_wide_duals
from fewpass.solvers.kernels.simd.wide_rows import padded, wide_zeros
from fewpass.solvers.loss_monitor import ReportLosses, ends_of, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import PADDED, level_of_scores
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Block, ProblemStats, Reduce, Sum, Weights
from fewpass.solvers.wide_gradient import base_of, in_columns


def add_wide_gap(problem: Problem, at: DualPoint, block: Block, part: GapPart) -> GapPart:
    """Add one block's loss and brackets, dual variables read from its row state."""
    base = base_of(at.intercept, problem.intercept)
    V = in_columns(at.coef).ravel()
    loss, gap = sum_wide_brackets(problem.loss, V, base, at.shares, *block[:4], per_row(block))
    return GapPart(part.loss + loss, part.gap + gap, part.rows + block.order.shape[0])


#: Loss and duality gap at given weights, every row's dual variables being read.
WIDE_GAP = Sum("reduce-gap", no_gap, add_wide_gap, row_state="read")


def no_wide_duals(at: Weights) -> DualsPart:
    """Return the sums over no rows."""
    wide = padded(len(at.coef))
    return DualsPart(0.0, 0.0, np.zeros((at.coef.shape[1], wide)), np.zeros(wide), 0)


def add_wide_duals(problem: Problem, at: Weights, block: Block, part: DualsPart) -> DualsPart:
    """Write the dual variables of one block's rows, and add up what goes with them."""
    base = base_of(at.intercept, problem.intercept)
    loss, worth = write_wide_duals(
        part.V.ravel(), part.v_b, problem.loss, problem.intercept, in_columns(at.coef).ravel(),
        base, *block[:4], per_row(block),
    )  # fmt: skip
    rows = part.rows + block.order.shape[0]
    return part._replace(loss=part.loss + loss, worth=part.worth + worth, rows=rows)


#: Slopes at some weights, kept as dual variables.
WIDE_SLOPES_AS_DUALS = Sum("reduce-duals", no_wide_duals, add_wide_duals, row_state="write")


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
        return Reduce(WIDE_SLOPES_AS_DUALS, partial(read_column, column=START), begin_centred)

    def row_state_size(self, stats: ProblemStats) -> int:
        """K dual variables; of several streams what they were, how they moved, and when."""
        return self.width if stats.streams == 1 else 2 * self.width + 1

    def first_state(self, problem: Problem, stats: ProblemStats) -> SdcaState:
        """Return zero weights, from zero dual variables; ValueError for settings that do not go."""
        self.refuse_one_score(problem)
        size, wide = stats.d + 1, padded(self.width)
        z, r = wide_zeros(size, wide), first_r(problem, stats)
        return SdcaState(
            W=wide_zeros(size, 2, wide), fresh=wide_zeros(size, wide),
            best=no_weights(stats.d, self.width),
            centre=Centre(constant_column(problem, stats).unit, level_of_scores(problem)),
            shares=first_shares(stats), proximal=Proximal(z, r=r, dual_v=np.zeros(wide)),
            merges=first_merges(stats, wide_zeros(size, wide)),
        )  # fmt: skip

    def _is_plain(self) -> bool:
        """Say that models are stepped one by one: a row's classes are side by side already."""
        return False

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> SdcaState:  # fmt: skip
        """Visit the rows of one block."""
        rows, column = block.order.shape[0], constant_column(problem, stats).value
        state = note_rows(state, stats, block, column, per_row(block))
        ends = ends_of(stats.stream_rows, rows, report)
        curve, base = np.zeros(len(ends)), problem.intercept * np.asarray(state.centre.offset)
        base[self.width :] = PADDED
        sums = visit_wide_rows(
            state.W, state.fresh, problem.loss, column, base,
            self._scale(problem, stats, state), counted_by(state, stats), float(state.adding),
            state.shares, *block[:4], per_row(block), ends, curve,
        )  # fmt: skip
        for end, lost in zip(ends.tolist(), curve.tolist(), strict=True):
            report(end, state.monitor.add(end, lost))
        return count_rows(state, rows, *sums)


def first_r(problem: Problem, stats: ProblemStats) -> int:
    """Return r of the first pass: more than 1 where steps under lam alone would be short."""
    short = problem.loss.curvature * stats.mean_square / (problem.lam * stats.n)
    return int(min(MOST_R, max(1.0, short)))
