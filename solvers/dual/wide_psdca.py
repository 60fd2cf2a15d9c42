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
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fewpass.solvers.dual.best_weights import no_weights
from fewpass.solvers.dual.duality import Centre, DualPoint, GapPart, constant_column, per_row
from fewpass.solvers.dual.merging import counted_by, note_rows
from fewpass.solvers.dual.proximal import at_pass_start
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca_state import (
    RUNNING,
    START,
    Pull,
    SdcaState,
    count_rows,
    first_merges,
    first_shares,
    note_begin,
    read_column,
)
from fewpass.solvers.dual.warm_start import best_share
from fewpass.solvers.dual.wide_steps import sum_wide_brackets, visit_wide_rows, write_wide_duals
from fewpass.solvers.kernels.simd.wide_rows import padded, wide_zeros
from fewpass.solvers.loss_monitor import ReportLosses, ends_of, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import PADDED, level_of_scores
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Block, Certificate, ProblemStats, Reduce, Sum, Weights
from fewpass.solvers.wide_gradient import base_of, in_columns


def add_wide_gap(problem: Problem, at: DualPoint, block: Block, part: GapPart) -> GapPart:
    """Add one block's loss and brackets, dual variables read from its row state."""
    base = base_of(at.intercept, problem.intercept)
    V = in_columns(at.coef).ravel()
    loss, gap = sum_wide_brackets(problem.loss, V, base, at.shares, *block[:4], per_row(block))
    return GapPart(part.loss + loss, part.gap + gap, part.rows + block.order.shape[0])


def no_wide_gap(_at: DualPoint) -> GapPart:
    """Return the sums over no rows."""
    return GapPart(0.0, 0.0, 0)


#: Loss and duality gap at given weights, every row's dual variables being read.
WIDE_GAP = Sum("reduce-gap", no_wide_gap, add_wide_gap, row_state="read")


class WideDualsPart(NamedTuple):
    """Sums over some rows, weighted; parts add."""

    loss: float
    worth: float  # of -phi*(-a)
    S: NDArray[np.float64]  # (d, wide) of x a'
    s_b: NDArray[np.float64]  # (wide,) of a times the constant column
    rows: int


def no_wide_duals(at: Weights) -> WideDualsPart:
    """Return the sums over no rows."""
    wide = padded(len(at.coef))
    return WideDualsPart(0.0, 0.0, np.zeros((at.coef.shape[1], wide)), np.zeros(wide), 0)


def add_wide_duals(
    problem: Problem, at: Weights, block: Block, part: WideDualsPart
) -> WideDualsPart:
    """Write the dual variables of one block's rows, and add up what goes with them."""
    base = base_of(at.intercept, problem.intercept)
    loss, worth = write_wide_duals(
        part.S.ravel(), part.s_b, problem.loss, problem.intercept, in_columns(at.coef).ravel(),
        base, *block[:4], per_row(block),
    )  # fmt: skip
    rows = part.rows + block.order.shape[0]
    return part._replace(loss=part.loss + loss, worth=part.worth + worth, rows=rows)


#: Slopes at some weights, kept as dual variables.
WIDE_SLOPES_AS_DUALS = Sum("reduce-duals", no_wide_duals, add_wide_duals, row_state="write")


def begin_at_wide_duals(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: WideDualsPart, sweep: int
) -> SdcaState:
    """Begin the first pass of a state at its weights' dual variables, as many of them as help.

    The centre is where the dual variables are.  The weights given are the best certified ones until
    a pass finds better ones.
    """
    n, b, column = total.rows, np.asarray(state.centre.offset), constant_column(problem, stats)
    r, K, z = float(state.pull.r), len(state.best.intercept), state.pull.z
    left = column.left / r
    centre = (1.0 - left) * b + left * column.level
    v = np.concatenate([total.S, column.unit * total.s_b[None]]) / (problem.lam * n)
    charged = np.ravel(v[:-1]), v[-1] / np.sqrt(r)
    worth = (total.worth - float(total.s_b @ centre)) / n
    theta = best_share(worth, 0.5 * problem.lam * sum(float(own @ own) for own in charged))
    given = Weights(np.ascontiguousarray(state.W[:-1, START, :K].T), b[:K].copy())
    best = state.best.replaced(given, proven_of_given(problem, given, total))
    z[:] = theta * v
    z[-1] = 0.0
    state.W[:, START] = theta * v
    state.W[-1, START] /= r
    state.W[:, RUNNING] = state.W[:, START]
    state.shares[:] = 0.0
    state.shares[0] = theta
    begun = note_begin(state)._replace(
        centre=state.centre._replace(offset=centre), best=best, passes=1, row_version=sweep
    )
    return at_pass_start(problem, stats, begun)


def proven_of_given(problem: Problem, at: Weights, total: WideDualsPart) -> Certificate:
    """Return objective and gap of the weights that the slopes were taken at."""
    n, coef, level = total.rows, at.coef.ravel(), np.asarray(problem.level)
    up = at.intercept - level
    charged = 0.5 * problem.lam * float(coef @ coef) + 0.5 * problem.lam_b * float(up @ up)
    S, A = total.S.ravel(), (total.worth - float(np.sum(level * total.s_b[: len(up)]))) / n
    B = 0.5 * float(S @ S) / (problem.lam * n * n)
    B += 0.5 * float(total.s_b @ total.s_b) / (n * n * problem.lam_b)
    theta, objective = best_share(A, B), total.loss / n + charged
    return Certificate(objective, max(0.0, objective - theta * A + theta * theta * B))


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
            shares=first_shares(stats), pull=pull,
            merges=first_merges(stats, wide_zeros(size, wide)),
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
