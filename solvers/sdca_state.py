"""What SDCA carries from row to row, and what a pass proves of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.duality import DualPoint, GapPart, constant_column, gap_certificate, lowered_gap
from solvers.losses import Problem
from solvers.protocol import Certificate, Facts, Weights

START, RUNNING = 0, 1  # columns of W
REFRESHED = (
    16  # passes between two that add up w(a) afresh: by then rounding is about 4 times one's
)


class SdcaState(NamedTuple):
    """Everything that changes.  Columns of W end in the constant column's weight."""

    W: NDArray[np.float64]  # (d + 1, 2) columns START, RUNNING
    fresh: NDArray[np.float64]  # (d + 1,) w(a) added up anew in this pass; 0 unless refreshing
    proven: NDArray[np.float64]  # (d,) the best weights with a certificate; zeros before any
    proven_b: float  # their intercept
    objective: float
    gap: float  # at most this far are they above the optimum
    certified: bool  # whether there are any
    shares: NDArray[np.float64]  # (k,) of the numbers kept per row
    beta: float  # curvature of a batch's first steps; 0 before the first batch
    stretch: float  # by how much a stream exaggerates its own moves
    unit: float  # the intercept is this times the constant column's weight ...
    offset: float  # ... plus this
    rows: int  # visited in this pass
    passes: int  # done
    loss_start: float  # sum over the rows visited in this pass, at START
    gap_start: float
    gap_running: float  # the same at RUNNING, before each row's step: no proof, but about right
    loss_sum: float  # at RUNNING before each row's step, over all passes
    heard: int  # rows in it
    visits: int  # in the passes done
    revisits: int  # in this pass, beyond one a row
    row_version: int

    @property
    def refreshing(self) -> bool:
        """Whether this pass adds up w(a) afresh."""
        return self.passes % REFRESHED == REFRESHED - 1


def none_refreshing(states: list[SdcaState]) -> bool:
    """Say whether models can go abreast: one vector fewer then."""
    return not any(state.refreshing for state in states)


def count_rows(
    state: SdcaState, rows: int, loss_start: float, gap_start: float, loss: float, gap: float
) -> SdcaState:
    """Count the rows of a block, and what was summed over them."""
    return state._replace(
        rows=state.rows + rows,
        loss_start=state.loss_start + loss_start,
        gap_start=state.gap_start + gap_start,
        gap_running=state.gap_running + gap,
        loss_sum=state.loss_sum + loss,
        heard=state.heard + rows,
    )


def sum_counts(states: list[SdcaState]) -> SdcaState:
    """Return the first state with the counts of this pass of all."""
    fields = ("rows", "loss_start", "gap_start", "gap_running", "revisits")
    return states[0]._replace(**{f: sum(getattr(s, f) for s in states) for f in fields})


def read_column(state: SdcaState, column: int) -> Weights:
    """Read weights out of a column of W."""
    w = state.W[:, column].copy()
    return Weights(w[:-1], state.unit * float(w[-1]) + state.offset)


def newest_point(state: SdcaState) -> DualPoint:
    """Read out the weights that a pass begins with, and how their dual variables are kept."""
    return DualPoint(*read_column(state, START), state.shares)


def prove_newest(
    problem: Problem, facts: Facts, state: SdcaState, total: GapPart, _sweep: int
) -> SdcaState:
    """Take note of what a gather proved of the weights between two passes."""
    return prove(problem, facts, state, total)


def prove(problem: Problem, facts: Facts, state: SdcaState, total: GapPart) -> SdcaState:
    """Keep START as the best certified weights, unless those there are have the smaller gap."""
    at = newest_point(state)
    kept = constant_column(problem, facts).kept
    b_dual = state.unit * float(state.W[-1, START]) / (1.0 - kept)
    found = gap_certificate(problem, at, b_dual, total)
    if state.certified:
        gap = lowered_gap(Certificate(state.objective, state.gap), found)
        if gap < found.gap:
            return state._replace(gap=gap)
    state.proven[:] = at.coef
    return state._replace(
        proven_b=at.intercept, objective=found.objective, gap=found.gap, certified=True
    )


def running_gap(state: SdcaState) -> dict[str, float]:
    """Return the losses of rows before their steps, and the gap as this pass has seen it."""
    gap = state.gap_running / max(1, state.rows)
    visits = state.visits + state.rows + state.revisits
    return {"loss_sum": state.loss_sum, "heard": state.heard, "gap": gap, "visits": visits}
