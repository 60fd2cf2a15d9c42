"""Stochastic dual coordinate ascent: one dual variable per row, each step the best for its row.

    for each row i:
        p      <- w . x_i
        delta  <- argmax over delta of D(a + delta e_i)     loss.py: dual_step, with curvature
                                                            weight_i ||x_i||^2 / (lam n)
        a_i    <- a_i + delta
        w      <- w + weight_i delta s_i x_i / (lam n)

There is no step size, and the dual objective D never falls.  Two vectors stand side by side: the
weights w_t that the pass began with, and the running ones.  Every 16th pass adds up w(a) afresh
from the rows' new dual variables, which replaces the running ones at the end of the pass, so that
rounding never piles up.  A row's prediction by w_t, taken with that by the running weights,
certifies w_t by the end of the pass without any reading of its own (duality.py).

Several streams take steps of their own, which are added up m times a pass (merging.py).

Source: Takac, Bijral, Richtarik and Srebro 2013, (14); docs/methods.md, section 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from fewpass.solvers.dual.best_weights import DualMethod, no_weights
from fewpass.solvers.dual.duality import (
    STREAM_NUMBERS,
    Centre,
    DualPoint,
    GapPart,
    constant_column,
    per_row,
)
from fewpass.solvers.dual.merging import (
    AT_ONCE,
    Lag,
    StreamMoves,
    counted_by,
    merged,
    merged_at_end,
    moves_of,
    note_rows,
)
from fewpass.solvers.dual.sdca_batches import Batch, curvatures, visit_batches
from fewpass.solvers.dual.sdca_state import (
    RUNNING,
    START,
    Proximal,
    Rounds,
    SdcaState,
    begin_pass,
    copy_to_go_on,
    count_rows,
    end_adding,
    first_merges,
    first_shares,
    go_interleaved,
    keep_better,
    newest_point,
    penalty_in_step_units,
    proven_at_start,
    read_column,
    running_weights,
    visits_of,
    weights_of_steps,
)
from fewpass.solvers.dual.sdca_steps import StepInputs, rows_of_model, visit_rows, walk_interleaved
from fewpass.solvers.dual.shrinking import visit_moving_rows, visit_once_more
from fewpass.solvers.dual.warm_start import SLOPES_AS_DUALS, begin_at_duals, started_at
from fewpass.solvers.kernels.rows import side_by_side
from fewpass.solvers.loss_monitor import ReportLosses, ends_of, ignore_losses
from fewpass.solvers.losses import Hinge, Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import (
    BatchSize,
    Block,
    Certificate,
    Interleaved,
    JoinByPairs,
    ProblemStats,
    Reduce,
    Walk,
    Weights,
)

VISITED_AGAIN = ("serial", "rounds")  # kinds of batches whose rows may be visited again


class Sdca(DualMethod):
    """Dual coordinate ascent: no step size, any loss, and a certificate that costs no pass."""

    needs: ClassVar[Needs] = Needs(penalty="strong", numbers_per_row=1, steep=True)
    states: ClassVar[tuple[type, ...]] = (SdcaState,)
    #: Most dual variables of the hinge sit at a bound: the others are worth more visits.
    better: ClassVar[Mapping[str, Mapping[str, Any]]] = {Hinge.name: {"shrink_rounds": 100}}
    kind: Literal["sdca"] = "sdca"
    batch: Batch = "serial"
    """Rows one by one (serial), or in mini-batches, whose steps are not shortened (naive: may
    diverge), or by the rows' spectral norm (safe), or as far as steps that were tried need it
    (aggressive)."""
    batch_size: BatchSize = 16
    """Rows of a mini-batch."""
    shrink_rounds: NonNegativeInt = 0
    """Largest number of times that rows that moved are visited again while their window is in
    memory: fewer passes, more arithmetic. 100 under the plain hinge, unless something is set."""

    @property
    def rows_at_once(self) -> int:
        """Rows that are predicted by the same weights, in batches."""
        return self.batch_size

    @property
    def warm_start_pass(self) -> Reduce:
        """The dual variables that given weights stand for."""
        return Reduce(SLOPES_AS_DUALS, partial(read_column, column=START), begin_at_duals)

    def row_state_size(self, stats: ProblemStats) -> int:
        """The dual variable; of several streams what it was, how it moved, when, and V . x_i."""
        return 1 if stats.streams == 1 else STREAM_NUMBERS

    def first_state(self, problem: Problem, stats: ProblemStats) -> SdcaState:
        """Return zero weights, from zero dual variables; ValueError for batches visited again."""
        if self.shrink_rounds and self.batch not in VISITED_AGAIN:
            raise ValueError(
                f"Rows are visited again one by one, not in {self.batch} batches. Leave "
                "solver.shrink_rounds out, or solver.batch."
            )
        if self.batch != "serial" and stats.streams > 1:
            raise ValueError(
                f"Mini-batches are of one stream, and streams is {stats.streams}. Leave streams "
                "out, or solver.batch."
            )
        return SdcaState(
            W=side_by_side(stats.rows_kind, stats.d + 1, 2), fresh=np.zeros(stats.d + 1),
            best=no_weights(stats.d),
            centre=Centre(
                constant_column(self.step_problem(problem, stats), stats).unit, problem.level
            ),
            shares=first_shares(stats), proximal=self._first_proximal(problem, stats),
            merges=first_merges(stats, np.zeros(stats.d + 1)),
        )  # fmt: skip

    def step_problem(self, problem: Problem, stats: ProblemStats) -> Problem:  # noqa: ARG002
        """Return the problem whose strength the steps are scaled by."""
        return problem

    def _first_proximal(self, problem: Problem, stats: ProblemStats) -> Proximal:
        shrinks = not problem.penalty.is_smooth
        V = np.zeros(stats.d + 1 if stats.streams > 1 and not shrinks else 0)
        return Proximal(shrinks=shrinks, rounds=Rounds(V))

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, _rows_before: int
    ) -> SdcaState:
        """Return given weights; the warm start's pass finds dual variables for them."""
        started: SdcaState = started_at(self.init(problem, stats), weights)
        return started

    def adopted(self, state: SdcaState, *, midway: bool) -> SdcaState:
        """Have the first whole pass prove that the dual variables read go with the weights."""
        return state._replace(unproven=state.unproven | (2 if midway else 1))

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch, whose streams meet on the way; plain steps go side by side."""
        (walk,) = super().program(epoch)
        together = Interleaved(go_interleaved, self.step_interleaved)
        return (
            walk._replace(
                reports=True, merge=JoinByPairs(moves_of, self.merge, copy_to_go_on),
                interleaved=together if self._is_plain() else None,
            ),
        )  # fmt: skip

    def metrics(self, state: SdcaState) -> dict[str, float]:
        """Return the losses of rows before their steps, and the gap as this pass has seen it."""
        gap = state.sums.gap_running / max(1, state.sums.rows)
        return {**state.monitor.metrics(), "gap": gap, "visits": visits_of(state)}

    def newest(self, state: SdcaState) -> DualPoint:
        """Read out the weights that a pass begins with, and how their dual variables are kept."""
        return newest_point(state)

    def proved(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart, _sweep: int
    ) -> SdcaState:
        """Record what a reduction proved of the newest weights."""
        return keep_better(state, self.proven(problem, stats, state, total))

    def proven(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart
    ) -> Certificate:
        """Return what sums over all rows prove of START, which is w(a)."""
        return proven_at_start(problem, stats, state, total)

    def uncertified(self, state: SdcaState) -> Weights:
        """Return the running weights; of a penalty that shrinks them those of the last pass."""
        if state.proximal.shrinks:
            return read_column(state, START)
        seen = state.centre.weights(running_weights(state), np.size(state.best.intercept))
        return seen._replace(coef=np.array(seen.coef, order="C"))

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> SdcaState:  # fmt: skip
        """Visit the rows of one block."""
        step = self.step_problem(problem, stats)
        column = constant_column(step, stats).value
        if self.batch != "serial":
            return self._step_batches(step, stats, state, block, column)
        own_rows = per_row(block)
        state = note_rows(state, stats, block, column, own_rows)
        given, rows = self._given(step, stats, state, column), block.order.shape[0]
        before = state.shares[0] * own_rows[:, 0]
        ends = ends_of(stats.stream_rows, rows, report)
        curve = np.zeros(len(ends))
        running, fresh = state.W[:, RUNNING:], state.fresh
        sums, moved = visit_rows(
            state.W, running, fresh, given, state.shares, *block[:4], own_rows, ends, curve
        )
        for end, lost in zip(ends.tolist(), curve.tolist(), strict=True):
            report(end, state.monitor.add(end, lost))
        state = count_rows(state, rows, *sums)
        key = [stats.seed, state.passes, state.sums.rows]
        most = self.shrink_rounds if state.passes else 0  # from zero nearly all rows move at first
        more = state.sums.extra_visits

        def visit(order: NDArray[np.int64]) -> float:
            nonlocal moved
            brackets, moved = visit_once_more(
                running, fresh, given, moved, *block[:3], order, own_rows
            )
            return brackets

        if most:
            more += visit_moving_rows(visit, block, before, most, state.passes, key)
        merges = state.merges._replace(moved=moved)
        return state._replace(merges=merges, sums=state.sums._replace(extra_visits=more))

    def _step_batches(
        self, step: Problem, stats: ProblemStats, state: SdcaState, block: Block, column: float
    ) -> SdcaState:
        """Visit the rows of one block in mini-batches."""
        b, scratch = self.rows_at_once, np.zeros(stats.d + 1)
        beta, *sums = visit_batches(
            state.W, state.W[:, RUNNING:], state.fresh, self._given(step, stats, state, column),
            state.shares, *block[:4], per_row(block), b,
            curvatures(block, stats.d, column, self.batch, b), state.beta, scratch,
        )  # fmt: skip
        return count_rows(state._replace(beta=beta), block.order.shape[0], *sums)

    def _given(
        self, step: Problem, stats: ProblemStats, state: SdcaState, column: float
    ) -> StepInputs:
        return StepInputs(
            penalty_in_step_units(step, state), column, state.centre.offset,
            self._scale(step, stats, state), counted_by(state, stats), float(state.adding),
            state.proximal.theta, state.proximal.gains,
        )  # fmt: skip

    def _scale(self, problem: Problem, stats: ProblemStats, state: SdcaState) -> float:
        return 1.0 / (state.proximal.scale * self.step_problem(problem, stats).lam * stats.n)

    def _is_plain(self) -> bool:
        """Say whether every row is visited once and by itself."""
        return self.batch == "serial" and self.shrink_rounds == 0

    def step_interleaved(
        self,
        problems: list[Problem],
        stats: ProblemStats,
        models: list[SdcaState],
        W: NDArray[np.float64],
        block: Block,
        labels: list[int],
        places: tuple[int, ...],
        report: ReportLosses = ignore_losses,
    ) -> list[SdcaState]:
        """Visit the rows of one block with several models, see protocol.py: Interleaved."""
        steps = [self.step_problem(problem, stats) for problem in problems]
        columns = [constant_column(step, stats).value for step in steps]
        rows, size = per_row(block), self.row_state_size(stats)
        models = [
            note_rows(state, stats, block, column, rows_of_model(rows, place, size))
            for column, state, place in zip(columns, models, places, strict=True)
        ]
        each = zip(steps, models, columns, strict=True)
        givens = [self._given(step, stats, state, column) for step, state, column in each]
        before = [sum(state.monitor[k] for state in models) for k in range(2)]

        def report_all(rows: int, lost: float) -> None:
            report(rows, (before[0] + rows * len(models), before[1] + lost))

        ends = ends_of(stats.stream_rows, len(block.order), report)
        shares = np.array([state.shares for state in models])
        sums = walk_interleaved(givens, shares, labels, places, W, block, rows, ends, report_all)
        stepped = []
        for state, (*own, moved) in zip(models, sums, strict=True):
            merges = state.merges._replace(moved=moved)
            stepped.append(count_rows(state._replace(merges=merges), len(block.order), *own))
        return stepped

    def merge(
        self,
        problem: Problem,
        stats: ProblemStats,
        state: SdcaState,
        total: StreamMoves,
        streams: int,  # noqa: ARG002
    ) -> SdcaState:
        """Take the moves of all streams in a round."""
        return merged(stats, state, total, self.lag(problem, stats, state))

    def lag(self, problem: Problem, stats: ProblemStats, state: SdcaState) -> Lag:  # noqa: ARG002
        """Return over how many rounds moves along V are paid out: at once, as w(a) is certified."""
        return AT_ONCE

    def end_pass(self, problem: Problem, stats: ProblemStats, states: list[SdcaState]) -> SdcaState:
        """Add up what the streams found, certify START, and begin the next pass from there."""
        state = states[0]
        if len(states) > 1:
            state = merged_at_end(problem, stats, states, self.lag(problem, stats, state))
        sums = state.sums
        if sums.rows < stats.n:
            return state
        state = end_adding(self.step_problem(problem, stats), state)
        total = GapPart(sums.loss_start, sums.gap_start, sums.rows)
        certificate = self.proven(problem, stats, state, total)
        if state.passes > 0:
            state = keep_better(state, certificate)
        return begin_pass(self.moved(problem, stats, state, certificate, total), len(states))

    def moved(
        self, problem: Problem, stats: ProblemStats, state: SdcaState,
        certificate: Certificate, total: GapPart,  # noqa: ARG002
    ) -> SdcaState:  # fmt: skip
        """Return the state at the weights that the pass ended at, which the next one certifies."""
        state.W[:, START] = weights_of_steps(problem, state)
        b = read_column(state, START).intercept
        offset = constant_column(problem, stats).offset(b)
        return state._replace(centre=state.centre._replace(offset=offset))
