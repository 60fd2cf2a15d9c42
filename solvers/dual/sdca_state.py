"""What SDCA carries from row to row, and what a pass proves of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.best_weights import BestWeights
from fewpass.solvers.dual.duality import (
    Centre,
    DualPoint,
    GapPart,
    constant_column,
    gap_certificate,
    require_pair,
)
from fewpass.solvers.loss_monitor import LossSum
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, ProblemStats, Weights

if TYPE_CHECKING:
    from fewpass.solvers.dual.proximal import PsdcaState

START, RUNNING = 0, 1  # columns of W
REFRESHED = (
    16  # passes between two that add up w(a) afresh: by then rounding is about 4 times one's
)


class PassSums(NamedTuple):
    """Sums over the rows visited in this pass."""

    rows: int = 0
    loss_start: float = 0.0  # at START
    gap_start: float = 0.0
    gap_running: float = 0.0  # at RUNNING, before each row's step: no proof, but about right
    extra_visits: int = 0  # beyond one a row


class SdcaState(NamedTuple):
    """Everything that changes.  Columns of W end in the constant column's weight."""

    W: NDArray[np.float64]  # (d + 1, 2) columns START, RUNNING
    fresh: NDArray[np.float64]  # (d + 1,) w(a) added up anew in this pass; 0 unless adding
    best: BestWeights
    centre: Centre
    shares: NDArray[np.float64]  # (k,) of the numbers kept per row
    stretch: float  # by how much a stream exaggerates its own moves
    beta: float  # curvature of a batch's first steps; 0 before the first batch
    sums: PassSums
    monitor: LossSum  # at RUNNING, over all passes
    passes: int  # done
    visits: int  # of rows, in the passes done
    unproven: int  # bit 0: this pass adds up w(a) to prove that the numbers read go with W; bit 1:
    # the next one does, as this one began elsewhere
    row_version: int

    @property
    def refreshing(self) -> bool:
        """Whether this pass adds up w(a) afresh, for the next one to begin with."""
        return refresh_is_due(self.passes)

    @property
    def adding(self) -> bool:
        """Whether this pass adds up w(a), to begin with it or to prove the running weights."""
        return self.refreshing or self.unproven & 1 == 1

    @property
    def goes_interleaved(self) -> bool:
        """Whether its steps can be taken beside those of other models: with no vector more."""
        return not self.adding


def refresh_is_due(passes: int) -> bool:
    """Say whether the pass after so many adds up w(a) afresh."""
    return passes % REFRESHED == REFRESHED - 1


AnyState = TypeVar("AnyState", SdcaState, "PsdcaState")


def go_interleaved(states: list[AnyState]) -> bool:
    """Say whether models can go interleaved."""
    return all(state.goes_interleaved for state in states)


def end_adding(
    problem: Problem,
    state: AnyState,
    r: NDArray[np.float64] | float = 1.0,
    pull: NDArray[np.float64] | float = 0.0,
) -> AnyState:
    """Prove at the end of a pass that its dual variables go with its weights, if it added w(a) up.

    It did so with r lam in place of lam, and `pull` is what the weights have beside.  Raises
    Mispaired.  Where w(a) was due it replaces the running weights.
    """
    if state.adding:
        w, loss = r * (state.W[:, RUNNING] - pull), state.sums.loss_start / state.sums.rows
        require_pair(problem, w, r * state.fresh, loss)
        if state.refreshing:
            state.W[:, RUNNING] = state.fresh + pull
        state.fresh[:] = 0.0
    return state._replace(unproven=state.unproven >> 1)


def count_rows(
    state: AnyState, rows: int, loss_start: float, gap_start: float, loss: float, gap: float
) -> AnyState:
    """Count the rows of a block, and what was summed over them."""
    sums = state.sums
    sums = sums._replace(
        rows=sums.rows + rows,
        loss_start=sums.loss_start + loss_start,
        gap_start=sums.gap_start + gap_start,
        gap_running=sums.gap_running + gap,
    )
    return state._replace(sums=sums, monitor=state.monitor.add(rows, loss))


def read_column(state: AnyState, column: int) -> Weights:
    """Read weights out of a column of W."""
    return state.centre.weights(state.W[:, column].copy())


def newest_point(state: AnyState) -> DualPoint:
    """Read out the weights that a pass begins with, and how their dual variables are kept."""
    return DualPoint(*read_column(state, START), state.shares)


def prove_newest(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart, _sweep: int
) -> SdcaState:
    """Take note of what a reduction proved of the weights between two passes."""
    return keep_better(state, proven_at_start(problem, stats, state, total))


def proven_at_start(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart
) -> Certificate:
    """Return what sums over all rows prove of START, which is w(a)."""
    b_dual = state.centre.unit * float(state.W[-1, START]) / constant_column(problem, stats).left
    return gap_certificate(problem, newest_point(state), b_dual, total)


def keep_better(state: AnyState, found: Certificate) -> AnyState:
    """Keep START as the best certified weights, unless those there are have the smaller gap."""
    return state._replace(best=state.best.smaller_gap(read_column(state, START), found))


def begin_pass(state: AnyState, streams: int) -> AnyState:
    """Count a pass as done; of several streams' numbers per row the shares go on."""
    sums = state.sums
    return state._replace(
        shares=state.shares if streams > 1 else np.ones(1), sums=PassSums(),
        passes=state.passes + 1, visits=state.visits + sums.rows + sums.extra_visits,
    )  # fmt: skip


def running_gap(state: SdcaState) -> dict[str, float]:
    """Return the losses of rows before their steps, and the gap as this pass has seen it."""
    sums = state.sums
    gap = sums.gap_running / max(1, sums.rows)
    visits = state.visits + sums.rows + sums.extra_visits
    return {**state.monitor.metrics(), "gap": gap, "visits": visits}
