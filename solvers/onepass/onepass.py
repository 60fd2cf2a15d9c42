"""One pass of several learners over the same rows; the best by their progressive objectives.

    for each row i, t = 1, 2, ...
        every output k predicts the row; its loss counts with the weight (t/n)^5
        both implicit AdaGrad learners (adagrad.py) and averaged SGD (sgd/) take their steps
    J_k = mean of the losses so weighted + lam/2 ||w_k||^2 + lam_b/2 b_k^2
    the model is the output with the smallest J

Outputs are the last weights and the late-weighted average of AdaGrad at two step sizes, and the
average of averaged SGD.  None of them is best everywhere: on unit rows under weak regularisation
averaged SGD is, on columns of different scales AdaGrad.  What each predicts of rows that it has not
seen says which (Blum, Kalai, Langford 1999).

Nothing here can explode: an implicit step does not overshoot, and averaged SGD leaves the choice
where it does.  docs/methods.md, section 3a.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from solvers.intercept import level
from solvers.kernels.dispatch import kernel
from solvers.kernels.rows import Rows, dot_vector
from solvers.kernels.shapes import Order, PerColumn, PerRow
from solvers.kernels.simd.interleaved import from_line
from solvers.kernels.simd.lanes import Two
from solvers.loss_monitor import Tell, sections, untold
from solvers.losses import Problem, slope
from solvers.onepass.adagrad import (
    ETAS,
    G_START,
    INVERSE_SCALE,
    INVERSE_SHARE,
    RECORD,
    G,
    U,
    W,
)
from solvers.onepass.state import (
    NAMES,
    NEWTON,
    Lead,
    OnepassState,
    ProgressiveLosses,
    offer,
    progressive_objectives,
)
from solvers.onepass.streaming_newton import (
    Proof,
    first_summary,
    fitted,
    joined,
    no_summary,
    scaled,
    suits,
    take,
)
from solvers.onepass.visit import ASGD, OUTPUTS, AveragedSgd, Clock, Pace, visit_rows
from solvers.protocol import (
    Block,
    Certificate,
    ChosenLearner,
    ColumnMoments,
    Goal,
    Method,
    ProblemStats,
    Walk,
    Weights,
    copy_state,
)
from solvers.sgd.averaged_sgd import Asgd, loss_of_zero
from solvers.sgd.calibration import TRIAL_ROWS
from solvers.sgd.state import join_streams, scale_intercept

SGD = Asgd()
LEAST_SQUARE, MOST_SQUARE = 1e-280, 1e280  # of a column's values; beyond, it has no scale
PROVEN = 1e-6  # a certified relative gap that ends the choice
FIFTH = 6.0  # the sum of t^5 to t is about t^6 / 6


class Onepass(Method):
    """Several learners in one pass, and the best of them: for one look at each row."""

    goal: ClassVar[Goal] = "passes"
    states: ClassVar[tuple[type, ...]] = (OnepassState,)
    kind: Literal["onepass"] = "onepass"
    newton_columns: NonNegativeInt = 512
    """Streaming Newton runs beside the others for up to so many columns, where the loss is smooth
    and a stream has 50 rows per column, and rows times squared columns are 2e10 at most; 0:
    never."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> OnepassState:
        """Start at zero weights; refuses data whose columns nothing is known of."""
        if stats.columns is None:
            raise ValueError(
                "onepass scales its steps by what ingest measured of every column, and nothing is "
                "known of these. Use `solver=asgd`, or ingest the rows."
            )
        return OnepassState(
            columns=np.zeros((stats.d + 1, RECORD)), sgd=SGD.init(problem, stats),
            newton=first_summary(stats.d) if self._runs_newton(problem, stats) else no_summary(),
            progressive=ProgressiveLosses(np.zeros((2, OUTPUTS))), t=0, rows_before=0, mass=0.0,
            values_per_row=0.0, unit=1.0, chosen=ASGD, lead=Lead(), proof=Proof(),
        )  # fmt: skip

    def _runs_newton(self, problem: Problem, stats: ProblemStats) -> bool:
        return stats.d <= self.newton_columns and suits(problem, stats)

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> OnepassState:
        """Return the state before the first row, at weights that have learnt from other rows.

        They count as visited here: steps are as short as they would be by then, and averages
        begin with these weights in the place of all before.
        """
        state: OnepassState = self.init(problem, stats)
        state.columns[:, W] = state.columns[:, W + 1] = np.append(*weights)
        newton, n = state.newton, rows_before + stats.stream_rows
        if newton.used:
            newton.w[:] = state.columns[:, W]
        return state._replace(
            sgd=SGD.start_at(problem, stats, weights, rows_before),
            newton=newton._replace(rows_before=rows_before), t=rows_before, rows_before=rows_before,
            mass=n / FIFTH * (rows_before / n) ** FIFTH,
        )  # fmt: skip

    def widened(self, problem: Problem, state: OnepassState, d: int) -> OnepassState:
        """Return the state with room for d columns; streaming Newton has none for more.

        G begins as it would have at the first row; where targets are numbers, about so.
        """
        if state.newton.used:
            return Method.widened(self, problem, state, d)  # type: ignore[no-any-return]
        columns, known = np.zeros((d + 1, RECORD)), len(state.columns) - 1
        columns[:known], columns[-1] = state.columns[:-1], state.columns[-1]
        columns[known:-1, INVERSE_SHARE] = 1.0
        pull = state.columns[-1, G : G + 2] / (G_START + state.t)  # the mean squared slope
        columns[known:-1, G : G + 2] = G_START * (pull if problem.loss.takes_numbers else 1.0)
        return state._replace(columns=columns, sgd=SGD.widened(problem, state.sgd, d))

    def remeasured(self, state: OnepassState, moments: ColumnMoments) -> OnepassState:
        """Return the state with 1/f and 1/S of these moments, once it has begun."""
        if state.values_per_row:
            write_moments(state.columns, moments)
        return state

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch; the first may take the rows as they lie."""
        return (
            Walk(
                name="walk-onepass",
                step=self.step,
                telling=self.step,
                join=join,
                order="stored" if epoch == 0 else "random",
                metrics=progress,
                enter=on_lines,
            ),
        )

    def weights(self, state: OnepassState) -> Weights:
        """Return the output that was ahead after the last block."""
        return offer(state, state.chosen)

    def certificate(self, state: OnepassState) -> Certificate | None:
        """Return what the summed-up rows prove under the squared loss."""
        proven = state.chosen == NEWTON and state.proof.gap >= 0.0
        return Certificate(*state.proof) if proven else None

    def learners(self, state: OnepassState) -> tuple[ChosenLearner, ...]:
        """Return whose weights are ahead, and how far the next is behind."""
        lead = state.lead
        found = ChosenLearner(NAMES[state.chosen], lead.objective, NAMES[lead.runner_up], lead.by)
        return (found,)

    def step(
        self, problem: Problem, stats: ProblemStats, state: OnepassState, block: Block,
        tell: Tell = untold,
    ) -> OnepassState:  # fmt: skip
        """Visit the rows of one block, and say which output is ahead."""
        if state.values_per_row == 0.0:
            state = begun(problem, stats, state, block)
        own, sgd, length = SGD.prepared(problem, stats, state.sgd, block)
        pace, newton = pace_of(stats, state), state.newton
        if newton.used:
            newton = take(problem, newton, block, pace.horizon)
        ahead = min(state.chosen, ASGD)
        before, told = float(state.progressive.sums[1, ahead]), state.progressive.told
        clock, scalars = Clock(state.t, state.mass), AveragedSgd(sgd.theta, sgd.bar, sgd.monitor)
        for part in sections(stats.stream_rows, len(block.order)):
            t, mass, scalars = visit_rows(
                state.columns.reshape(-1), state.unit * np.array(ETAS),
                state.progressive.sums.reshape(-1), clock, pace, problem, sgd.W, scalars, sgd.t0,
                sgd.gamma0, SGD.schedule(own), own, loss_of_zero(own, stats), Two(), *block[:3],
                block.order[part],
            )  # fmt: skip
            clock = Clock(t, mass)
            told = state.progressive.told.add(
                part.stop, float(state.progressive.sums[1, ahead] - before)
            )
            tell(part.stop, told)
        t, mass = clock
        sgd = scale_intercept(sgd._replace(**scalars._asdict(), t=t), length)
        progressive = state.progressive._replace(
            told=told, weight=state.progressive.weight + mass - state.mass
        )
        moved = state._replace(
            sgd=sgd, newton=newton, progressive=progressive, t=t, mass=mass, proof=Proof()
        )
        return judged(problem, moved)


def on_lines(state: OnepassState) -> OnepassState:
    """Copy a state so that every column's record is one cache line, not parts of two.

    A pass over imdb, 738,000 columns, takes 0.6 of what it does otherwise.
    """
    columns = from_line(state.columns.size).reshape(state.columns.shape)
    columns[:] = state.columns
    copied: OnepassState = copy_state(state._replace(columns=columns[:0]))
    return copied._replace(columns=columns)


def begun(problem: Problem, stats: ProblemStats, state: OnepassState, block: Block) -> OnepassState:
    """Read what is known of the columns; take level and unit of the targets from the first rows.

    Slopes of rows learnt from before count in G as if they had been like those of the first rows.
    """
    assert stats.columns is not None, "the first state asks for it"
    columns, moments = state.columns, stats.columns()
    write_moments(columns, moments)
    if state.newton.used:
        mean_square = moments.share * moments.square
        scaled(state.newton, np.sqrt(np.where(mean_square > 0.0, mean_square, 1.0)))
    first = block._replace(order=block.order[:TRIAL_ROWS])
    start = level(problem, first)
    unit = unit_of(problem, stats, first, start)
    if state.t == 0 and start:
        columns[-1, W : W + 2] = start / problem.intercept
    labelled_anew = state.t == 0 and not problem.loss.takes_numbers
    w = np.ascontiguousarray(columns[:, W])
    pull = 1.0 if labelled_anew else mean_square_slope(w, problem, *first[:4]) or 1.0
    share = np.append(moments.share, 1.0)
    columns[:, G] = columns[:, G + 1] = pull * (G_START + state.rows_before * share)
    values = float(moments.share.sum()) + (problem.intercept != 0.0)
    return state._replace(values_per_row=values or 1.0, unit=unit)


def write_moments(columns: NDArray[np.float64], moments: ColumnMoments) -> None:
    """Keep 1/f and 1/S of every column beside its weights; without a scale, it never moves."""
    known = (moments.square > LEAST_SQUARE) & (moments.square < MOST_SQUARE)
    scale = np.sqrt(moments.square, where=known, out=np.full(len(known), np.inf))
    columns[:-1, INVERSE_SCALE] = 1.0 / scale
    columns[:-1, INVERSE_SHARE] = 1.0 / np.where(moments.share > 0.0, moments.share, 1.0)
    columns[-1, [INVERSE_SHARE, INVERSE_SCALE]] = 1.0


def unit_of(problem: Problem, stats: ProblemStats, first: Block, start: float) -> float:
    """Return how far targets are from their level: what a step is counted in; 1 for labels."""
    if not problem.loss.takes_numbers:
        return 1.0
    away = first.y[first.order] - start
    return float(np.sqrt(np.mean(np.square(away)))) or math.sqrt(stats.target_square) or 1.0


@kernel
def mean_square_slope(
    w: PerColumn, problem: Problem, rows: Rows, y: PerRow, weight: PerRow, order: Order
) -> float:
    """Mean over rows `order` of (c phi')^2 at weights w, the constant column's last."""
    total, d = 0.0, w.shape[0] - 1
    for r in range(order.shape[0]):
        i = order[r]
        p = dot_vector(rows, i, w[:d]) + problem.intercept * w[d]
        total += (weight[i] * slope(problem.loss, p, y[i])) ** 2
    return total / max(order.shape[0], 1)


def pace_of(stats: ProblemStats, state: OnepassState) -> Pace:
    """Return what steps and late weights follow from."""
    return Pace(float(stats.stream_rows + state.rows_before), math.sqrt(state.values_per_row))


def judged(problem: Problem, state: OnepassState) -> OnepassState:
    """Take note of the output with the smallest progressive objective, or of a proven optimum."""
    found, (objective, gap) = progressive_objectives(problem, state), state.proof
    proven = 0.0 <= gap <= PROVEN * max(1.0, objective)
    chosen = NEWTON if proven else int(np.argmin(found))
    second = int(np.argmin(np.where(np.arange(len(found)) == chosen, np.inf, found)))
    known = np.isfinite(found[[chosen, second]]).all()
    lead = Lead(float(found[chosen]), second, float(found[second] - found[chosen]))
    return state._replace(chosen=chosen, lead=lead if known else Lead())


def join(problem: Problem, stats: ProblemStats, states: list[OnepassState]) -> OnepassState:
    """Let Newton take in its last rows; average what streams offer, and their losses; choose."""
    states = [closed(problem, stats, s, several=len(states) > 1) for s in states]
    newton, proof = states[0].newton, Proof()
    if newton.used:
        newton, proof = joined(problem, [s.newton for s in states])
    one = together(problem, stats, states) if len(states) > 1 else states[0]
    return judged(problem, one._replace(newton=newton, proof=proof))


def together(problem: Problem, stats: ProblemStats, states: list[OnepassState]) -> OnepassState:
    """Average what the learners of several streams offer, and its losses."""
    first, columns = states[0], states[0].columns
    averages = [s.columns[:, W : W + 2] + s.columns[:, U : U + 2] / (s.mass or 1.0) for s in states]
    for part in (slice(W, W + 2), slice(G, G + 2)):
        columns[:, part] = np.mean([s.columns[:, part] for s in states], axis=0)
    columns[:, U : U + 2] = first.mass * (np.mean(averages, axis=0) - columns[:, W : W + 2])
    progressive = first.progressive._replace(
        sums=np.mean([s.progressive.sums for s in states], axis=0),
        weight=float(np.mean([s.progressive.weight for s in states])),
    )
    exploded = max(s.sgd.monitor.diverged for s in states)
    sgd = join_streams(problem, stats, [s.sgd for s in states])
    sgd = sgd._replace(monitor=sgd.monitor._replace(diverged=exploded))
    return first._replace(progressive=progressive, sgd=sgd)


def closed(
    problem: Problem, stats: ProblemStats, state: OnepassState, *, several: bool
) -> OnepassState:
    """Return the state with Newton's weights fitted to all rows; of several streams, summed up."""
    if not state.newton.used:
        return state
    horizon, closing = pace_of(stats, state).horizon, several or problem.loss.is_quadratic
    return state._replace(newton=fitted(problem, state.newton, horizon, closing=closing))


def progress(state: OnepassState) -> dict[str, float]:
    """Losses, before their own steps, of the output that was ahead."""
    return state.progressive.told.metrics()
