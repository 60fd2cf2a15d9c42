"""One pass of several learners over the same rows; the best by their progressive objectives.

    for each row i, t = 1, 2, ...
        every output k predicts the row; its loss counts with the weight (t/n)^5
        both implicit AdaGrad learners (adagrad.py) and averaged SGD (sgd/) take their steps
    J_k = mean of the losses so weighted + lam/2 ||w_k||^2 + lam_b/2 b_k^2
    the model is the output with the smallest J

Outputs are the last weights and the late-weighted average of AdaGrad at two step sizes, and the
average of averaged SGD.  None of them is always best: averaged SGD is on unit rows with weak
regularisation, AdaGrad on columns of different scales.  They are compared by their predictions of
rows not seen before (Blum, Kalai, Langford 1999).

Nothing here can diverge: implicit steps do not overshoot, and averaged SGD is excluded if it
diverges, or if the loss's slope has no bound (Poisson, gamma).  docs/methods.md, section 3a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from fewpass.solvers.intercept import from_level
from fewpass.solvers.kernels.lanes import Two
from fewpass.solvers.kernels.simd.interleaved import from_line, lanes_for
from fewpass.solvers.loss_monitor import ReportLosses, ignore_losses, sections
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.onepass.adagrad import ETAS, G_START, INVERSE_SHARE, RECORD, G, W
from fewpass.solvers.onepass.column_scales import begun, scales, write_moments
from fewpass.solvers.onepass.leaving import (
    clear_left,
    has_left,
    has_many_columns,
    least_late_loss,
    left,
    looked,
    rows_to_lam,
    rows_to_look,
)
from fewpass.solvers.onepass.onepass_interleaved import (
    fill_lanes,
    fit_together,
    looking_at,
    numbers_of,
    squares_of_each,
    walk_interleaved,
    with_numbers_of,
)
from fewpass.solvers.onepass.onepass_state import (
    NAMES,
    NEWTON,
    Lead,
    OnepassState,
    ProgressiveLosses,
    join,
    late_losses,
    leading_output,
    output_weights,
    pace_of,
    with_choice,
)
from fewpass.solvers.onepass.streaming_newton import (
    MOST_WORK,
    Proof,
    first_summary,
    is_suitable,
    most_columns,
    no_summary,
    take,
    with_columns,
)
from fewpass.solvers.onepass.visit import ASGD, OUTPUTS, POLY, Clock, visit_rows
from fewpass.solvers.protocol import (
    Block,
    Certificate,
    ChosenLearner,
    ColumnMoments,
    Goal,
    Interleaved,
    Method,
    ProblemStats,
    Rivalry,
    Walk,
    Weights,
    as_sides,
    copy_state,
)
from fewpass.solvers.sgd.averaged_sgd import Asgd, loss_of_zero
from fewpass.solvers.sgd.averaged_state import SgdState, scale_intercept
from fewpass.solvers.sgd.steps import after_steps, step_scalars
from fewpass.solvers.tasks import EMPTY

SGD = Asgd()
PIECE = 2048  # rows between changes of the output whose losses are reported
FIFTH = 6.0  # the sum of t^5 to t is about t^6 / 6


class Onepass(Method):
    """Several learners in one pass, of which the best is chosen."""

    goal: ClassVar[Goal] = "passes"
    scale_free: ClassVar[bool] = True
    uses_moments: ClassVar[bool] = True
    tries_several_lam: ClassVar[bool] = True
    #: Weights are a tenth of a state, and no sums over rows are as large.
    spare_copies: ClassVar[int] = 1
    states: ClassVar[tuple[type, ...]] = (OnepassState,)
    most_work: ClassVar[float] = MOST_WORK
    needs: ClassVar[Needs] = Needs(steep=True)
    kind: Literal["onepass"] = "onepass"
    newton_columns: NonNegativeInt = 512
    """Most columns for streaming Newton as a further learner; it also needs a smooth loss, 50 rows
    per column and stream, and at most 2e10 rows times squared columns.  0: never."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> OnepassState:
        """Return the state at the best constant; ValueError for columns without known moments."""
        if stats.columns is None:
            raise ValueError(
                "onepass scales its steps by what ingest measured of every column, and nothing is "
                "known of these. Use `solver=asgd`, or ingest the rows."
            )
        steep, from_zero = problem.loss.is_steep, problem._replace(level=0.0)
        return OnepassState(
            columns=np.zeros((stats.d + 1, RECORD)),
            sgd=excluded(from_zero, stats) if steep else SGD.init(from_zero, stats),
            newton=first_summary(stats.d) if self._runs_newton(problem, stats) else no_summary(),
            progressive=ProgressiveLosses(np.zeros((2, OUTPUTS)), np.zeros(OUTPUTS + 1)), t=0,
            rows_before=0, mass=0.0,
            values_per_row=0.0, unit=1.0, chosen=POLY if steep else ASGD, lead=Lead(),
            proof=Proof(), level=problem.level,
        )  # fmt: skip

    def _runs_newton(self, problem: Problem, stats: ProblemStats) -> bool:
        return stats.d <= self.newton_columns and is_suitable(problem, stats)

    def for_more_columns(
        self, problem: Problem, stats: ProblemStats, models: int, fits: Callable[[Self, int], bool]
    ) -> Self:
        """Return settings that end streaming Newton where columns become too many for it."""
        most = min(self.newton_columns, most_columns(problem, stats, models))
        ends = self.model_copy(update={"newton_columns": most})
        while most > stats.d and not fits(ends, most):
            most = max(stats.d, most // 2)
            ends = self.model_copy(update={"newton_columns": most})
        return ends

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> OnepassState:
        """Return a state at weights that were trained on other rows.

        Those rows count as visited: steps are as short as after them, and averages start with
        these weights in place of all earlier ones.
        """
        state: OnepassState = self.init(problem, stats)
        weights = weights._replace(intercept=weights.intercept - problem.level)
        state.columns[:, W] = state.columns[:, W + 1] = np.append(*weights)
        newton, n = state.newton, rows_before + stats.stream_rows
        if newton.used:
            newton.w[:] = state.columns[:, W]
        mass = n / FIFTH * (rows_before / n) ** FIFTH
        started = (
            state.sgd
            if problem.loss.is_steep
            else SGD.start_at(problem, stats, weights, rows_before)
        )
        return state._replace(
            sgd=started,
            newton=newton._replace(rows_before=rows_before), t=rows_before, rows_before=rows_before,
            mass=mass, progressive=state.progressive._replace(mass_before=mass),
        )  # fmt: skip

    def resized(
        self, problem: Problem, state: OnepassState, d: int, moments: ColumnMoments | None
    ) -> OnepassState:
        """Return the state with d columns, and these moments once training has begun."""
        if d > len(state.columns) - 1:
            state = self._with_columns(problem, state, d, moments)
        if moments is not None and state.values_per_row:
            write_moments(state.columns, moments)
        return state

    def _with_columns(
        self, problem: Problem, state: OnepassState, d: int, moments: ColumnMoments | None
    ) -> OnepassState:
        """Add columns; beyond the most that it may have, streaming Newton ends.

        G of new columns is that of the first row; for regression approximately.
        """
        columns, d_before = np.zeros((d + 1, RECORD)), len(state.columns) - 1
        columns[:d_before], columns[-1] = state.columns[:-1], state.columns[-1]
        columns[d_before:-1, INVERSE_SHARE] = 1.0
        pull = state.columns[-1, G : G + 2] / (G_START + state.t)  # the mean squared slope
        columns[d_before:-1, G : G + 2] = G_START * (pull if problem.loss.takes_numbers else 1.0)
        sgd, newton = SGD.resized(problem, state.sgd, d), state.newton
        if newton.used and d > self.newton_columns:
            state = state._replace(newton=no_summary())
            state = state._replace(chosen=leading_output(state))
        elif newton.used:
            state = state._replace(newton=with_columns(newton, scales(moments, d)))
        return state._replace(columns=columns, sgd=sgd)

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """Return one walk; that of the first epoch may read rows in stored order."""
        return (
            Walk(
                name="walk-onepass",
                step=self.step,
                reports=True,
                join=join,
                order="stored" if epoch == 0 else "random",
                metrics=progress,
                enter=on_lines,
                resize=self.resized,
                interleaved=Interleaved(
                    fit_together, self.step_interleaved, numbers_of, with_numbers_of, alone=4
                ),
                rivalry=Rivalry(rows_to_lam, has_many_columns, least_late_loss, left, has_left),
            ),
        )

    def weights(self, state: OnepassState) -> Weights:
        """Return the weights of the best output after the last block."""
        best = output_weights(state, state.chosen)
        return best._replace(intercept=best.intercept + state.level)

    def certificate(self, state: OnepassState) -> Certificate | None:
        """Return the certificate by the quadratic of streaming Newton, for the squared loss."""
        proven = state.chosen == NEWTON and state.proof.gap >= 0.0
        return Certificate(*state.proof) if proven else None

    def before_steps(self, state: OnepassState) -> tuple[float, ...]:
        """Return the mean loss of the best output, late rows counting more."""
        return (float(late_losses(state)[state.chosen]),)

    def learners(self, state: OnepassState) -> tuple[ChosenLearner, ...]:
        """Return the best output, and its lead over the next one; none after it has left."""
        if has_left(state):
            return ()
        lead = state.lead
        learner = ChosenLearner(NAMES[state.chosen], lead.objective, NAMES[lead.runner_up], lead.by)
        return (learner,)

    def step(
        self, problem: Problem, stats: ProblemStats, state: OnepassState, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> OnepassState:  # fmt: skip
        """Visit the rows of a block, and update the choice of the output."""
        (moved,) = stepped([problem], stats, [state], EMPTY, block, [-1], report)
        return moved

    def step_interleaved(
        self,
        problems: list[Problem],
        stats: ProblemStats,
        models: list[OnepassState],
        W: NDArray[np.float64],
        block: Block,
        labels: list[int],
        _places: tuple[int, ...],
        report: ReportLosses = ignore_losses,
    ) -> list[OnepassState]:
        """Visit the rows of one block with several models, see protocol.py: Interleaved."""
        L = lanes_for(len(models)).width
        states = [looking_at(state, W, k, L) for k, state in enumerate(models)]
        moved = stepped(problems, stats, states, W, block, labels, report)
        return [with_numbers_of(state, EMPTY) for state in moved]


def stepped(
    problems: list[Problem], stats: ProblemStats, states: list[OnepassState],
    W: NDArray[np.float64], block: Block, labels: list[int], report: ReportLosses,
) -> list[OnepassState]:  # fmt: skip
    """Visit the rows of a block with models interleaved in W, or with one; choose their outputs."""
    moved = [from_level(problem, block) for problem in problems]
    problems, block = [one[0] for one in moved], moved[0][1]  # of numbers one level
    seen = [block._replace(y=as_sides(block.y, label)) for label in labels]
    if states[0].values_per_row == 0.0:
        new = zip(problems, states, seen, strict=True)
        states = [begun(problem, stats, state, own) for problem, state, own in new]
        fill_lanes(W, len(states), lanes_for(len(states)).width)
    going = zip(problems, states, seen, strict=True)
    ready = [prepared(problem, stats, state, own) for problem, state, own in going]
    owns, states, lengths = (list(each) for each in zip(*ready, strict=True))
    for part in sections(stats.stream_rows, len(block.order)):
        end = part.start
        while end < part.stop:
            look = min(rows_to_look(stats, state) for state in states)
            piece, looks = next_piece(end, part.stop, look)
            end, rows = piece.stop, block._replace(order=block.order[piece])
            states = (
                visited_interleaved(problems, owns, stats, states, W, labels, rows)
                if len(W)
                else [visited(problems[0], owns[0], stats, states[0], rows)]
            )
            if looks:
                states = looked_each(problems, stats, states, lengths, W)
            elif end % PIECE == 0:
                states = [state._replace(chosen=leading_output(state)) for state in states]
        report(part.stop, reported_together(states))
    if len(states) > 1:
        for state in states:
            clear_left(state)
    each = zip(problems, states, lengths, squares_of_each(states, W), strict=True)
    return [
        with_choice(problem, as_shown(state, length), squares)
        for problem, state, length, squares in each
    ]


def as_shown(state: OnepassState, length: float) -> OnepassState:
    """Return the state as after a block; `length` is that of averaged SGD's constant column."""
    return state._replace(sgd=scale_intercept(state.sgd, length))


def excluded(problem: Problem, stats: ProblemStats) -> SgdState:
    """Return the state of averaged SGD as after a divergence, for losses that it does not take."""
    begun = SGD.first_state(problem, stats)
    return begun._replace(monitor=begun.monitor._replace(diverged=1.0))


def prepared(
    problem: Problem, stats: ProblemStats, state: OnepassState, block: Block
) -> tuple[Problem, OnepassState, float]:
    """Prepare averaged SGD for a block; return its problem and its constant column's length."""
    if problem.loss.is_steep:
        return problem, state, 1.0
    own, sgd, length = SGD.prepared(problem, stats, state.sgd, block)
    return own, state._replace(sgd=sgd), length


def visited(
    problem: Problem, own: Problem, stats: ProblemStats, state: OnepassState, rows: Block
) -> OnepassState:
    """Visit rows with all learners; `own` is the problem of averaged SGD."""
    sgd, sums = state.sgd, state.progressive.sums
    before = sums.copy()
    t, mass, scalars = visit_rows(
        state.columns.reshape(-1), state.unit * np.array(ETAS), sums.reshape(-1),
        Clock(state.t, state.mass), pace_of(stats, state), problem, sgd.W,
        step_scalars(sgd), sgd.t0, sgd.gamma0, SGD.schedule(own), own,
        loss_of_zero(own, stats), Two(), *rows[:4],
    )  # fmt: skip
    moved = state._replace(sgd=after_steps(sgd, scalars, t), t=t, mass=mass)
    return with_losses_counted(problem, stats, moved, state, sums - before, rows)


def visited_interleaved(
    problems: list[Problem], owns: list[Problem], stats: ProblemStats,
    states: list[OnepassState], W: NDArray[np.float64], labels: list[int], rows: Block,
) -> list[OnepassState]:  # fmt: skip
    """Visit rows with several models interleaved in W."""
    clock, sums, sgds = walk_interleaved(
        problems, owns, [SGD.schedule(own) for own in owns], states, labels,
        loss_of_zero(owns[0], stats), pace_of(stats, states[0]), W, rows,
    )  # fmt: skip
    moved = []
    each = zip(problems, states, sums, sgds, labels, strict=True)
    for problem, state, own_sums, sgd, label in each:
        change = own_sums - state.progressive.sums
        state.progressive.sums[:] = own_sums
        own = state._replace(sgd=sgd, t=clock.t, mass=clock.mass)
        seen = rows._replace(y=as_sides(rows.y, label)) if state.newton.used else rows
        moved.append(with_losses_counted(problem, stats, own, state, change, seen))
    return moved


def looked_each(
    problems: list[Problem], stats: ProblemStats, states: list[OnepassState],
    lengths: list[float], W: NDArray[np.float64],
) -> list[OnepassState]:  # fmt: skip
    """Look at the learners of several models interleaved in W."""
    each = zip(problems, states, lengths, squares_of_each(states, W), strict=True)
    return [
        looked(problem, stats, state, as_shown(state, length), squares)
        for problem, state, length, squares in each
    ]


def reported_together(states: list[OnepassState]) -> tuple[int, float]:
    """Return the rows whose losses several models report, and the sum of these losses."""
    reported = [state.progressive.reported for state in states]
    return sum(one.n_monitored for one in reported), sum(one.loss_sum for one in reported)


def with_losses_counted(
    problem: Problem, stats: ProblemStats, moved: OnepassState, before: OnepassState,
    change: NDArray[np.float64], rows: Block,
) -> OnepassState:  # fmt: skip
    """Fit streaming Newton to the rows, and count the losses of the output best before them."""
    newton, output = moved.newton, before.chosen
    if newton.used:
        newton = take(problem, newton, rows, pace_of(stats, moved).horizon)
    reported = before.progressive.reported
    if output == NEWTON:
        reported = reported.add(
            newton.rows - before.newton.rows, newton.losses - before.newton.losses
        )
    else:
        reported = reported.add(len(rows.order), float(change[1, output]))
    progressive = moved.progressive._replace(reported=reported)
    return moved._replace(newton=newton, progressive=progressive, proof=Proof())


def next_piece(start: int, stop: int, to_look: int) -> tuple[slice, bool]:
    """Return the next rows of a section, and whether the learners are looked at after them.

    They are 2048 at most, after which the best output is determined anew, and `to_look` at most.
    """
    end = min(stop, (start // PIECE + 1) * PIECE, start + to_look)
    return slice(start, end), end == start + to_look


def on_lines(state: OnepassState) -> OnepassState:
    """Copy a state so that every column's record is in one cache line.

    A pass over imdb, with 738,000 columns, takes 0.6 of the time otherwise.
    """
    columns = from_line(state.columns.size).reshape(state.columns.shape)
    columns[:] = state.columns
    copied: OnepassState = copy_state(state._replace(columns=columns[:0]))
    return copied._replace(columns=columns)


def progress(state: OnepassState) -> dict[str, float]:
    """Return the losses before the steps of the output that was best."""
    return state.progressive.reported.metrics()
