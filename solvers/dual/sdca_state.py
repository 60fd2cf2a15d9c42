"""SDCA's state from row to row, and what a pass proves of it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.best_weights import BestWeights
from fewpass.solvers.dual.duality import (
    Centre,
    DualPoint,
    Gains,
    GapPart,
    constant_column,
    gap_certificate,
    require_pair,
)
from fewpass.solvers.loss_monitor import LossSum
from fewpass.solvers.losses import Problem
from fewpass.solvers.penalties import shrunk
from fewpass.solvers.protocol import Certificate, ProblemStats, Weights, copy_state

START, RUNNING = 0, 1  # columns of W
FIRST_S, MOST_FIRST = 2.0, 16.0  # s and s_V of the first round
#: Passes between two that add up w(a) afresh: by then rounding is about 4 times that of one.
REFRESHED = 16
UNBOUNDED = sys.float_info.max  # in place of infinity, which is not stored
EMPTY: NDArray[np.float64] = np.zeros(0)
NO_COLUMNS: NDArray[np.bool_] = np.zeros(0, np.bool_)
PerColumnOrAll = NDArray[np.float64] | float  # (d + 1,), or a number that stands for all columns


#: Columns are pulled alike so far, apart on trial, alike for good, apart as asked for.
ALIKE, TRIED, BACK, ASKED = range(4)
PER_COLUMN = (TRIED, ASKED)


class PassSums(NamedTuple):
    """Sums over the rows visited in this pass."""

    rows: int = 0
    loss_start: float = 0.0  # at START
    gap_start: float = 0.0
    gap_running: float = 0.0  # at RUNNING, before each row's step: no proof, but about right
    extra_visits: int = 0  # beyond one a row


class PerColumnTrial(NamedTuple):
    """Trial of per-column strengths, and the last three gaps."""

    stage: int = ALIKE
    r: int = 1  # before it was tried
    left: float = 1.0  # share of the gap that three passes before had left
    first: float = UNBOUNDED  # the gap after the pass before
    second: float = UNBOUNDED  # after the one before that
    third: float = UNBOUNDED


class Rounds(NamedTuple):
    """State kept from round to round (rounds.py, merging.py); `across` is 0 before the first."""

    V: NDArray[np.float64] = EMPTY  # (d + 1,) the direction that rows share; (0,) without
    since: int = 0  # passes done when it was found: in that one rows' numbers along it are noted
    common: float = 0.0  # mean square of rows along V
    size: float = 0.0  # of the weights, without the constant column: the sum of their squares
    owed: float = 0.0  # the move along V that is not paid out: predictions are by w - owed V
    across: float = 0.0  # s: by how much a row's square counts across V
    along: float = 0.0  # s_V: the same along it, where moves are paid out ...
    rho: float = 1.0  # ... over so many rounds
    #: Squares, decaying: of all moves together and of each row's, across V and along it.
    U: float = 0.0
    R: float = 0.0
    G: float = 0.0
    S: float = 0.0


class Merges(NamedTuple):
    """The place of a stream among others (merging.py); of one stream nothing."""

    begin: NDArray[np.float64] = EMPTY  # (d + 1,) RUNNING where the round began
    taken: NDArray[np.float64] = EMPTY  # (m,) shares of the moves of this pass's rounds ...
    done: int = 0  # ... as far as they are done
    moved: float = 0.0  # along V in this round, as the stream counts it
    looked: int = 0  # rows of its first window, of which V is made
    touched: NDArray[np.bool_] = NO_COLUMNS  # (d + 1,) columns that its rows of this round have


class Proximal(NamedTuple):
    """The proximal centre and its weight (proximal.py); without a centre, r is 1 and nothing moves.

    z ends in the constant column's weight.
    """

    z: NDArray[np.float64] = EMPTY  # (d + 1,) the centre; (0,) without one
    h: NDArray[np.float64] = EMPTY  # (d + 1,) per-column strengths, where there may be some
    trial: PerColumnTrial = PerColumnTrial()
    s: NDArray[np.float64] = EMPTY  # (d,) theta s where the pass began; (0,) for smooth penalties
    r: int = 1  # reg / lam, or reg / base where the penalty is not smooth (proximal.py)
    own: float = 1.0  # lam / base
    theta: float = 1.0  # the share of the dual variables that is certified (scaled_gap.py)
    pairing: float = 0.0  # theta (s . x + s_b b) where the pass began
    zeros: int = 0  # columns that are proven to be 0 at the optimum
    shrinks: bool = False  # whether the penalty shrinks RUNNING to weights
    alpha: float = 1.0
    objective: float = UNBOUNDED  # P(x) as the pass before found it
    lowest: float = UNBOUNDED  # P of all passes
    highest: float = -UNBOUNDED  # D of all passes
    away: float = 0.0  # lam ||x - v||^2 where the pass began, or twice what the penalty's brackets
    # add to the gap; the constant column left out
    dual_v: Any = 0.0  # v's entry of the constant column there, times theta
    rounds: Rounds = Rounds()

    @property
    def per_column(self) -> bool:
        """Return whether columns are pulled with different strength in this pass."""
        return self.trial.stage in PER_COLUMN and len(self.h) > 0 and self.r > 1

    @property
    def charged(self) -> PerColumnOrAll:
        """reg / base, of every column where these are pulled apart."""
        return 1.0 + (self.r - 1) * self.h if self.per_column else float(self.r)

    @property
    def shift(self) -> PerColumnOrAll:
        """(kap / reg) z: the centre's part of the weights."""
        return (self.charged - self.own) / self.charged * self.z if len(self.z) else 0.0

    @property
    def scale(self) -> int:
        """Return the factor of base in the steps of all columns."""
        return 1 if self.per_column else self.r

    @property
    def gains(self) -> Gains:
        """lam / reg of every column; None where it is the same for all."""
        return 1.0 / np.asarray(self.charged) if self.per_column else None


class SdcaState(NamedTuple):
    """Everything that changes.  Columns of W end in the constant column's weight.

    Of several scores every number of a column is (wide,) of all classes (wide_rows.py).
    """

    W: NDArray[np.float64]  # (d + 1, 2), or (d + 1, 2, wide): columns START, RUNNING
    fresh: NDArray[np.float64]  # (d + 1,) w(a) added up anew in this pass; 0 unless adding
    best: BestWeights
    centre: Centre
    shares: NDArray[np.float64]  # (1,), or (1 + m,) of the numbers kept per row (duality.py)
    proximal: Proximal
    merges: Merges
    beta: float = 0.0  # curvature of a batch's first steps; 0 before the first batch
    sums: PassSums = PassSums()
    monitor: LossSum = LossSum()  # at RUNNING, over all passes
    passes: int = 0  # done
    visits: int = 0  # of rows, in the passes done
    unproven: int = 0  # bit 0: this pass adds up w(a) to prove that the numbers read go with W; bit
    # 1: the next one does, as this one began elsewhere
    row_version: int = -1

    @property
    def refreshing(self) -> bool:
        """Return whether this pass adds up w(a) afresh, for the next one to begin with."""
        return self.passes % REFRESHED == REFRESHED - 1

    @property
    def adding(self) -> bool:
        """Return whether this pass adds up w(a), to begin with it or as a proof of the weights."""
        return self.refreshing or self.unproven & 1 == 1


def go_interleaved(states: list[SdcaState]) -> bool:
    """Say whether models' steps need no vector but W, and can be taken together."""
    return not any(state.adding or state.proximal.per_column for state in states)


def end_adding(problem: Problem, state: SdcaState) -> SdcaState:
    """Prove at the end of a pass that its dual variables go with its weights, if it added w(a) up.

    `problem` is that of the steps.  Raises Mispaired.  Where w(a) was due it replaces the running
    weights.
    """
    if state.adding:
        r, shift = state.proximal.charged, state.proximal.shift
        w, loss = r * (state.W[:, RUNNING] - shift), state.sums.loss_start / state.sums.rows
        state.fresh[:] /= r if state.proximal.per_column else 1.0  # next to the steps' scale
        require_pair(problem, w, r * state.fresh, loss)
        if state.refreshing:
            state.W[:, RUNNING] = state.fresh + shift
        state.fresh[:] = 0.0
    return state._replace(unproven=state.unproven >> 1)


def count_rows(
    state: SdcaState, rows: int, loss_start: float, gap_start: float, loss: float, gap: float
) -> SdcaState:
    """Count the rows of a block, and what was summed over them."""
    sums = state.sums
    sums = sums._replace(
        rows=sums.rows + rows,
        loss_start=sums.loss_start + loss_start,
        gap_start=sums.gap_start + gap_start,
        gap_running=sums.gap_running + gap,
    )
    return state._replace(sums=sums, monitor=state.monitor.add(rows, loss))


def read_column(state: SdcaState, column: int) -> Weights:
    """Read weights out of a column of W; they stay what they are."""
    seen = seen_in_column(state, column)
    return seen._replace(coef=np.array(seen.coef, order="C"))


def seen_in_column(state: SdcaState, column: int) -> Weights:
    """Return the weights in a column of W, which change with it."""
    return state.centre.weights(state.W[:, column], np.size(state.best.intercept))


def penalty_in_step_units(step: Problem, state: SdcaState) -> Problem:
    """Return the problem as kernels take it: its penalty that of the units of RUNNING."""
    if not state.proximal.shrinks:
        return step
    return step._replace(penalty=step.penalty.over(state.proximal.scale * step.lam))


def running_weights(state: SdcaState) -> NDArray[np.float64]:
    """Return the weights that rows are predicted by, (d + 1,), where nothing shrinks them."""
    w, rounds = state.W[:, RUNNING], state.proximal.rounds
    return w - rounds.owed * rounds.V if rounds.owed else w


def weights_of_steps(step: Problem, state: SdcaState) -> NDArray[np.float64]:
    """Return the weights that RUNNING stands for, (d + 1,).

    A copy where the penalty shrinks it, or where rounds owe a move along V.
    """
    w = running_weights(state)
    if not state.proximal.shrinks:
        return w
    x: NDArray[np.float64] = shrunk(penalty_in_step_units(step, state).penalty, w)
    x[-1] = w[-1]
    return x


def newest_point(state: SdcaState) -> DualPoint:
    """Read out the weights that a pass begins with, and how their dual variables are kept."""
    return DualPoint(*read_column(state, START), state.proximal.theta * state.shares)


def proven_at_start(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart
) -> Certificate:
    """Return what sums over all rows prove of START, which is w(a)."""
    b_dual = constant_column(problem, stats).under_lam_b(float(state.W[-1, START]))
    return gap_certificate(problem, newest_point(state), b_dual, total)


def keep_better(state: SdcaState, certificate: Certificate) -> SdcaState:
    """Keep START as the best certified weights, unless those there are have the smaller gap."""
    newest = seen_in_column(state, START)
    return state._replace(best=state.best.smaller_gap(newest, certificate))


def begin_pass(state: SdcaState, streams: int) -> SdcaState:
    """Count a pass as done; of several streams' numbers per row the shares go on."""
    sums, merges = state.sums, state.merges
    return note_begin(state)._replace(
        shares=np.append(1.0, merges.taken) if streams > 1 else np.ones(1), sums=PassSums(),
        passes=state.passes + 1, visits=state.visits + sums.rows + sums.extra_visits,
        merges=merges._replace(done=0, moved=0.0),
    )  # fmt: skip


def note_begin(state: SdcaState) -> SdcaState:
    """Note the weights that a pass of several streams begins with, in place."""
    if len(state.merges.begin):
        state.merges.begin[:] = state.W[:, RUNNING]
    return state


def first_merges(stats: ProblemStats, begin: NDArray[np.float64]) -> Merges:
    """Return where a stream begins, at the weights `begin`."""
    if stats.streams == 1:
        return Merges()
    touched = np.zeros(len(begin), np.bool_)
    touched[-1] = True  # the constant column, which all rows have
    return Merges(begin, np.ones(stats.merges), touched=touched)


def copy_to_go_on(state: SdcaState) -> SdcaState:
    """Copy what steps and merges change; all else stays as it is to the end of a pass."""
    proximal, merges = state.proximal, copy_state(state.merges)
    if proximal.rounds.across == 0.0:
        proximal = proximal._replace(rounds=copy_state(proximal.rounds))
    fresh = state.fresh.copy() if state.adding else state.fresh
    return state._replace(W=state.W.copy(order="K"), fresh=fresh, proximal=proximal, merges=merges)


def first_shares(stats: ProblemStats) -> NDArray[np.float64]:
    """Return the shares of numbers per row that are 0 as yet."""
    return np.ones(1 if stats.streams == 1 else 1 + stats.merges)


def visits_of(state: SdcaState) -> int:
    """Return the visits of rows so far."""
    return state.visits + state.sums.rows + state.sums.extra_visits
