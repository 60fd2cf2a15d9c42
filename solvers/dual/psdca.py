"""SDCA with a proximal centre that moves with momentum: for rows of very different length.

SDCA's steps (sdca.py), taken for the objective with r lam in place of lam and (r - 1) lam charged
for the distance from a centre z.  That problem is r times better conditioned, and its answer is not
the one asked for: the centre moves towards it after every pass, ahead with momentum (proximal.py).
With many columns r begins at 1, which is SDCA, with few at what their conditioning K asks for, and
for losses of unbounded curvature at K = 1/8 (proximal.py: first_r); r grows while the certified gap
falls slowly.

A pass also predicts every row by x, the weights that the pass before ended at, and so has P(x)
exactly.  With v = w(a) under lam alone, and a the dual variables that it began with,

    P(x) - D(a)  =  (1/n) sum_i weight_i [ phi(p_i) + phi*(-a_i) + a_i s_i p_i ]
                    + (lam/2) ||x - v||^2,       p_i = x_i . x

whatever z and r are: the certificate is the smallest P less the largest D, and costs no reading.

Source: docs/methods.md, section 7.10.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from fewpass.solvers.dual.duality import GapPart, constant_column
from fewpass.solvers.dual.merging import Lag
from fewpass.solvers.dual.proximal import (
    LONG,
    MANY,
    Growth,
    at_pass_start,
    first_r,
    move_centre,
    next_proximal,
    next_trial,
    proven_at_x,
    step_problem,
    strengths,
    worth_of,
    zeros_for_certain,
)
from fewpass.solvers.dual.rounds import LAG, begin_rounds, step_in_rounds
from fewpass.solvers.dual.rounds_steps import BITES, PARTS, Given
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_batches import Batch
from fewpass.solvers.dual.sdca_state import (
    ALIKE,
    ASKED,
    EMPTY,
    START,
    PerColumnTrial,
    Rounds,
    SdcaState,
    read_column,
    visits_of,
)
from fewpass.solvers.dual.warm_start import SLOPES_AS_DUALS, DualsPart, begin_at_duals
from fewpass.solvers.estimates.smoothness import columns_are_few
from fewpass.solvers.loss_monitor import ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import BatchSize, Block, Certificate, ProblemStats, Reduce

MINI_BATCH = 16  # rows
ROUND, MOST_ROUND = 128, 512  # rows of a round: in between a thousand rounds a pass, ...
PER_THOUSAND = 1000 * PARTS  # ... in multiples of the parts that threads have


class Psdca(Sdca):
    """Dual coordinate ascent with a proximal centre: any loss, rows of any length, certified."""

    needs: ClassVar[Needs] = Sdca.needs._replace(penalty="any")
    kind: Literal["psdca"] = "psdca"  # type: ignore[assignment]
    grow_above: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    """The weight of the centre grows after a pass that left more than this share of the certified
    gap."""
    grow_to: PositiveInt = 64
    """Largest r; steps are made with r lam in place of lam. 1 is sdca."""
    batch: Batch | Literal["rounds"] = "serial"  # type: ignore[assignment]
    """Rows one by one (serial), in rounds of rows predicted by the same weights, whose moves are
    added up and shortened as they are measured to need it (rounds: threads share a round), or in
    mini-batches whose steps are not shortened (naive: may diverge), or by the rows' spectral norm
    (safe), or as far as steps that were tried need it (aggressive)."""
    batch_size: BatchSize | None = None  # type: ignore[assignment]
    """Rows of a round or a mini-batch [default: 16 of a mini-batch; of a round 128, or a thousandth
    of the rows, up to 512]."""
    columns: Literal["auto", "alike", "apart"] = "auto"
    """One weight of the centre for all columns (alike), or larger ones for columns of larger values
    (apart); auto: alike, and where there are more than 1000 columns and more than a tenth of the
    rows, the square of the longest row is 50 times the mean, and rows are visited one by one, apart
    as long as that brings no less."""

    @property
    def rows_at_once(self) -> int:
        """Rows that are predicted by the same weights, in mini-batches."""
        return self.batch_size or MINI_BATCH

    @property
    def for_one_score(self) -> str | None:
        """Batches, rows visited again, and columns pulled apart."""
        plain = {"batch": ("serial",), "shrink_rounds": (0,), "columns": ("auto", "alike")}
        return next((name for name in plain if getattr(self, name) not in plain[name]), None)

    @property
    def warm_start_pass(self) -> Reduce:
        """The dual variables that given weights stand for."""
        return Reduce(SLOPES_AS_DUALS, partial(read_column, column=START), begin_centred)

    def first_state(self, problem: Problem, stats: ProblemStats) -> SdcaState:
        """Return zero weights, from zero dual variables; ValueError for settings that do not go."""
        if self.columns == "apart" and self.batch != "serial":
            raise ValueError(
                f"In {self.batch} batches columns are pulled alike. Leave solver.columns out, or "
                "solver.batch."
            )
        if self.columns == "apart" and stats.streams > 1:
            raise ValueError(
                f"Several streams pull all columns alike, and streams is {stats.streams}. Leave "
                "solver.columns out, or streams."
            )
        if self.columns == "apart" and not problem.penalty.is_smooth:
            raise ValueError(
                f"With an {problem.penalty.name} penalty columns are pulled alike. Leave "
                "solver.columns out, or take penalty=l2."
            )
        if self.columns == "apart" and stats.columns is None:
            raise ValueError(
                "psdca pulls columns apart by what ingest measured of each, and nothing is known "
                "of these. Leave solver.columns out, or ingest the rows."
            )
        if self.batch == "rounds":
            refuse_unfit_rounds(problem, stats)
        state: SdcaState = super().first_state(problem, stats)
        proximal = state.proximal._replace(
            z=np.zeros(stats.d + 1), h=self.first_strengths(problem, stats),
            r=first_r(problem, stats, self.grow_to) if problem.penalty.is_smooth else 1,
            s=np.zeros(stats.d if state.proximal.shrinks else 0),
            own=problem.lam / self.step_problem(problem, stats).lam,
            trial=PerColumnTrial(ASKED if self.columns == "apart" else ALIKE),
        )  # fmt: skip
        if self.batch == "rounds":
            proximal = proximal._replace(rounds=Rounds(np.zeros(stats.d + 1)))
        return state._replace(proximal=proximal)

    def row_state_size(self, stats: ProblemStats) -> int:
        """The dual variable, and in rounds V . x_i; of several streams as in SDCA."""
        return 2 if self.batch == "rounds" else super().row_state_size(stats)

    def step_problem(self, problem: Problem, stats: ProblemStats) -> Problem:
        """Return the problem with what r multiplies for its strength."""
        return step_problem(problem, stats)

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> SdcaState:  # fmt: skip
        """Visit the rows of one block."""
        if self.batch != "rounds":
            return super().step_rows(problem, stats, state, block, report)
        step, B = self.step_problem(problem, stats), self.batch_size or rows_of_a_round(stats.n)
        column = constant_column(step, stats).value
        if state.proximal.rounds.across == 0.0:
            state = begin_rounds(state, block, column, B)
        scale = self._scale(problem, stats, state)
        K = problem.loss.rate(stats.target_mean) * state.proximal.rounds.common * scale
        given = Given(
            step, column, problem.intercept * state.centre.offset, scale,
            state.passes == state.proximal.rounds.since, B,
            min(1.0, K / BITES), max(1.0, stats.n / (LAG * B)),
        )  # fmt: skip
        key = [stats.seed, state.passes, state.sums.rows]
        most = self.shrink_rounds if state.passes else 0
        return step_in_rounds(state, given, block, most, key, block.threads)

    def first_strengths(self, problem: Problem, stats: ProblemStats) -> NDArray[np.float64]:
        """Return how hard the centre may pull each column; no entries for all alike."""
        heavy = stats.d > MANY and stats.max_square > LONG * stats.mean_square
        heavy = heavy and not columns_are_few(stats.n, stats.d)
        one_by_one = self.batch == "serial" and problem.penalty.is_smooth and stats.streams == 1
        apart = heavy and one_by_one if self.columns == "auto" else self.columns == "apart"
        return strengths(problem, stats) if apart else EMPTY

    def lag(self, problem: Problem, stats: ProblemStats, state: SdcaState) -> Lag:
        """Return over how many rounds moves along V are paid out."""
        curvature = problem.loss.rate(stats.target_mean) * self._scale(problem, stats, state)
        return Lag(curvature, max(1.0, stats.merges / LAG))

    def certificate(self, state: SdcaState) -> Certificate | None:
        """Return what the passes so far proved, and of how many columns that their weight is 0."""
        proven = super().certificate(state)
        return proven._replace(zeros=state.proximal.zeros) if proven else None

    def metrics(self, state: SdcaState) -> dict[str, float]:
        """Return the losses of rows before their steps, and how much the centre weighs."""
        return {**state.monitor.metrics(), "r": state.proximal.r, "visits": visits_of(state)}

    def proven(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart
    ) -> Certificate:
        """Return what sums over all rows prove of x, the weights that the pass before ended at."""
        return proven_at_x(problem, stats, state, total)

    def moved(
        self, problem: Problem, stats: ProblemStats, state: SdcaState, certificate: Certificate,
        total: GapPart,
    ) -> SdcaState:  # fmt: skip
        """Make the weights that the pass ended at x, and move the centre."""
        before, most = state.proximal, self.grow_to if problem.penalty.is_smooth else 1
        zeros = zeros_for_certain(problem, stats, before, certificate)
        growth = Growth(self.grow_above, most)
        proximal = next_proximal(before, certificate, growth, first=state.passes == 0)
        proximal = next_trial(before, proximal) if len(proximal.h) else proximal
        worth = worth_of(proximal, total)
        return move_centre(problem, stats, state, proximal._replace(zeros=zeros), worth)


def rows_of_a_round(n: int) -> int:
    """Return the rows of a round, out of n: the more, the fewer times threads wait.

    With a thousand rounds a pass, passes are about as many as with rounds of 128.
    """
    return min(MOST_ROUND, max(ROUND, PARTS * (n // PER_THOUSAND)))


def refuse_unfit_rounds(problem: Problem, stats: ProblemStats) -> None:
    """Raise ValueError for what rounds do not go with."""
    if not problem.penalty.is_smooth:
        raise ValueError(
            f"With an {problem.penalty.name} penalty rows are not stepped in rounds. Leave "
            "solver.batch out, or take penalty=l2."
        )
    if stats.streams > 1:
        raise ValueError(
            f"Rounds are one stream, which threads share, and streams is {stats.streams}. Leave "
            "streams out, or solver.batch."
        )


def begin_centred(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: DualsPart, sweep: int
) -> SdcaState:
    """Begin the first pass of a state at its weights' dual variables (warm_start.py)."""
    step = step_problem(problem, stats)
    if state.proximal.shrinks:
        state.proximal.z[:-1] = state.W[:-1, START]  # the centre is where the weights are
    return at_pass_start(problem, stats, begin_at_duals(problem, stats, state, total, sweep, step))
