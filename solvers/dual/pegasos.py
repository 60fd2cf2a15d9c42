"""Mini-batch Pegasos: stochastic subgradient steps 1/(lam t) for the hinge, with a certificate.

    for each batch A of b rows, t = 1, 2, ...
        w_t  <- G / (lam b (t - 1))                         w_1 = 0
        G    <- G + sum over i in A with y_i (w_t . x_i) < 1 of weight_i y_i x_i

which is w_(t+1) = (1 - 1/t) w_t + (1/(lam t b)) sum ... of the paper without its shrinking scale.
Here b (t - 1) is the number of rows visited before, so that a short batch is a short step.

The early iterates are useless (||w_2|| is up to R/lam), so the mean of the later half is returned:

    mean of w_t over a tail  =  (c G - V) / rows,    V += c g  for each g that is added to G,

c the running sum of 1/(lam t) since the tail began: the cost of a batch is its non-zeros.  As the
number of passes is not known before, a new tail begins at half of the first pass and after 1, 2,
4, 8 ... passes; the mean is taken over the running tail and the one before: the later half at
these moments, at most the later three quarters between them.

Rows are visited in permutations, so after E passes a_i = (violations of row i) / E lies in [0, 1]
and w = w(a) exactly: these are dual variables, and the next pass, or one last reading, certifies
last iterate and mean by the gap of duality.py.  But a remembers the first passes.  The violations
since the running tail began, e passes ago, make dual variables, too, and their w(a) is what was
added to G since, over lam n e.  For the hinge, D takes no more than their number, so each pass
brings a second and soon better lower bound for nothing.

Several streams take steps as if the rows of the others were like their own; the mean of their G is
what all rows together add up to, so a stays what w comes from.

Source: Takac, Bijral, Richtarik and Srebro 2013, Algorithm 1 and Theorem 1 (whose mean is divided
by the number of its terms here); docs/methods.md, section 7.
"""

from __future__ import annotations

from functools import reduce
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.best_weights import BestWeights, DualMethod, no_weights
from fewpass.solvers.dual.duality import Centre, Column, constant_column, lowered_gap, per_row
from fewpass.solvers.dual.gap_at_two_points import (
    GAP_AT_TWO_POINTS,
    PairSums,
    TwoPoints,
    better_of_both,
    sum_both,
)
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_both, dot, prefetch_row, side_by_side
from fewpass.solvers.kernels.shapes import Order, PerRow, RowState, SideBySide
from fewpass.solvers.loss_monitor import LossSum
from fewpass.solvers.losses import Hinge, Problem, value
from fewpass.solvers.needs import Needs
from fewpass.solvers.penalties import strength
from fewpass.solvers.protocol import (
    BatchSize,
    Block,
    Certificate,
    Goal,
    ProblemStats,
    Sum,
    Weights,
    add_parts,
)

LAST, MEAN, ADDED, LATER, BEFORE, FROM = range(6)  # columns of W


class Tail(NamedTuple):
    """The iterates that the mean is taken over: columns G, V, BEFORE and FROM of W, and these."""

    c: float = 0.0
    rows: int = 0  # of the running tail, of several streams as if each visited all ...
    rows_before: int = 0  # ... and of the one before
    began: int = 0  # passes done when the running tail began
    violated: float = 0.0  # weight of the rows violated in its passes before this one


class PegasosSums(NamedTuple):
    """Sums over the rows visited in this pass."""

    losses: NDArray[np.float64]  # (2,) at LAST and at MEAN
    gaps: NDArray[np.float64]  # (2,) brackets of the gap, likewise
    rows: int = 0
    violated: float = 0.0  # weight of those of them that were violated


class PegasosState(NamedTuple):
    """Everything that changes.  Columns of W end in the constant column's weight."""

    W: NDArray[np.float64]  # (d + 1, 6) LAST, MEAN: where the pass began; G, V; the sum of the
    # iterates of the tail before; G where the running tail began
    best: BestWeights
    lower: float  # the best D of the violations of one tail; 0 is that of none
    tail: Tail
    centre: Centre
    b_dual: float  # the intercept that goes with a under lam_b alone
    shares: NDArray[np.float64]  # (1,) of a row's violations in its dual variable: 1/E
    sums: PegasosSums
    rows: int  # visited, of several streams as if each visited all: b (t - 1)
    passes: int  # done
    monitor: LossSum  # over all passes
    row_version: int


class Pegasos(DualMethod):
    """Stochastic subgradient descent for the plain hinge, averaged over the later passes."""

    goal: ClassVar[Goal] = "passes"
    usual_passes: ClassVar[int] = 30
    needs: ClassVar[Needs] = Needs(only_loss=Hinge, numbers_per_row=1)
    states: ClassVar[tuple[type, ...]] = (PegasosState,)
    is_sublinear: ClassVar[bool] = True
    gap: ClassVar[Sum] = GAP_AT_TWO_POINTS
    kind: Literal["pegasos"] = "pegasos"
    batch_size: BatchSize = 1
    """Rows that share a step."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> PegasosState:
        """Return zero weights."""
        return PegasosState(
            W=side_by_side(stats.rows_kind, stats.d + 1, 6), best=no_weights(stats.d),
            lower=0.0, tail=Tail(), centre=Centre(constant_column(problem, stats).unit),
            b_dual=0.0, shares=np.ones(1), sums=no_sums(), rows=0, passes=0, monitor=LossSum(),
            row_version=-1,
        )  # fmt: skip

    def uncertified(self, state: PegasosState) -> Weights:
        """Return the newest mean."""
        return state.centre.weights(tail_mean(state))

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: PegasosState, block: Block
    ) -> PegasosState:
        """Visit the rows of one block; what the first half of the first pass averaged is lost."""
        left, m = -((state.rows - stats.n // 2) // stats.streams), block.order.shape[0]
        if 0 < left <= m:
            left = min(m, -(-left // self.batch_size) * self.batch_size)
            first = block._replace(order=block.order[:left])
            state = begin_tail(self._visit(problem, stats, state, first))
            state.W[:, BEFORE] = 0.0
            state = state._replace(tail=state.tail._replace(rows_before=0))
            block = block._replace(order=block.order[left:])
        return self._visit(problem, stats, state, block)

    def _visit(
        self, problem: Problem, stats: ProblemStats, state: PegasosState, block: Block
    ) -> PegasosState:
        rows, tail, before = block.order.shape[0], state.tail, state.sums
        at = TwoPoints(state.W[:, :ADDED], state.centre, state.shares)
        c, loss, violated, *sums = visit_batches(
            at, state.passes > 0, state.W[:, ADDED:BEFORE], problem, stats.streams, self.batch_size,
            state.rows, tail.c, *block[:4], per_row(block),
        )  # fmt: skip
        return state._replace(
            rows=state.rows + stats.streams * rows,
            tail=tail._replace(c=c, rows=tail.rows + stats.streams * rows),
            sums=PegasosSums(
                before.losses + sums[:2], before.gaps + sums[2:],
                before.rows + rows, before.violated + violated,
            ),
            monitor=state.monitor.add(rows, loss),
        )  # fmt: skip

    def newest(self, state: PegasosState) -> TwoPoints:
        """Read out the two points that a pass begins with."""
        return TwoPoints(state.W[:, :ADDED].copy(order="K"), state.centre, state.shares)

    def proved(
        self, problem: Problem, _stats: ProblemStats, state: PegasosState, total: PairSums,
        _sweep: int = 0,
    ) -> PegasosState:  # fmt: skip
        """Keep the better of LAST and MEAN if it is better than what there is.

        The largest dual objective so far counts, of whichever passes' violations.
        """
        new, at = better_of_both(problem, self.newest(state), state.b_dual, total)
        new = new._replace(gap=lowered_gap(new, Certificate(state.lower, 0.0)))
        best, old = state.best, state.best.certificate
        if old is not None and old.objective <= new.objective:
            return state._replace(best=best._replace(gap=lowered_gap(old, new)))
        if old is not None:
            new = new._replace(gap=lowered_gap(new, old))
        return state._replace(best=best.replaced(Weights(at.coef, at.intercept), new))

    def metrics(self, state: PegasosState) -> dict[str, float]:
        """Return the losses of rows before their steps, and the mean's brackets as seen so far."""
        gap = float(state.sums.gaps[MEAN]) / max(1, state.sums.rows)
        return {**state.monitor.metrics(), "gap": gap}

    def end_pass(
        self, problem: Problem, stats: ProblemStats, states: list[PegasosState]
    ) -> PegasosState:
        """Put the streams together, keep what the pass proved, and begin the next one."""
        state = states[0] if len(states) == 1 else mean_of_streams(states)
        if state.sums.rows < stats.n:
            return state
        state = raise_bound(problem, stats, state)
        if state.passes > 0:
            state = self.proved(problem, stats, state, PairSums(*state.sums[:3]))
        passes = state.passes + 1
        doubled = passes & (passes - 1) == 0
        if doubled:
            state = begin_tail(state)
            state = state._replace(tail=state.tail._replace(began=passes, violated=0.0))
            state.W[:, FROM] = state.W[:, ADDED]
        state.W[:, LAST] = state.W[:, ADDED] / (problem.lam * state.rows)
        state.W[:, MEAN] = tail_mean(state)
        column = constant_column(problem, stats)
        state = state._replace(
            b_dual=state.centre.unit * float(state.W[-1, LAST]) / column.ratio,
            shares=np.full(1, 1.0 / passes),
            sums=no_sums(),
            passes=passes,
        )
        return move_centre(state, column) if doubled else state


def no_sums() -> PegasosSums:
    """Return the sums at the beginning of a pass."""
    return PegasosSums(np.zeros(2), np.zeros(2))


def tail_mean(state: PegasosState) -> NDArray[np.float64]:
    """Return the mean of the iterates since the tail before began, (d + 1,)."""
    W, tail = state.W, state.tail
    total = W[:, BEFORE] + (tail.c * W[:, ADDED] - W[:, LATER])
    mean: NDArray[np.float64] = total / max(1, tail.rows_before + tail.rows)
    return mean


def begin_tail(state: PegasosState) -> PegasosState:
    """Begin a new tail; the running one is now the one before."""
    W, tail = state.W, state.tail
    W[:, BEFORE] = tail.c * W[:, ADDED] - W[:, LATER]
    W[:, LATER] = 0.0
    return state._replace(tail=tail._replace(c=0.0, rows_before=tail.rows, rows=0))


def raise_bound(problem: Problem, stats: ProblemStats, state: PegasosState) -> PegasosState:
    """Add up the violations since the running tail began, and keep their D if it is the best."""
    violated = state.tail.violated + state.sums.violated
    count = stats.n * (state.passes + 1 - state.tail.began)
    w = (state.W[:, ADDED] - state.W[:, FROM]) / (problem.lam * count)
    b = state.centre.unit * float(w[-1]) / constant_column(problem, stats).ratio
    square = problem.lam * float(w[:-1] @ w[:-1]) + problem.lam_b * b * b
    lower = max(state.lower, violated / count - 0.5 * square)
    return state._replace(lower=lower, tail=state.tail._replace(violated=violated))


def mean_of_streams(states: list[PegasosState]) -> PegasosState:
    """Return the mean of what the streams added to G, and of their tails."""
    first, total = states[0], sum(s.tail.c * s.W[:, ADDED] - s.W[:, LATER] for s in states)
    W = first.W.copy(order="K")
    for k in (ADDED, BEFORE):
        W[:, k] = np.mean([s.W[:, k] for s in states], axis=0)
    W[:, LATER] = -total / len(states)
    rows, tail, before = (
        sum(each) // len(states)
        for each in zip(*((s.rows, s.tail.rows, s.tail.rows_before) for s in states), strict=True)
    )
    return first._replace(
        W=W,
        rows=rows,
        tail=first.tail._replace(c=0.0, rows=tail, rows_before=before),
        sums=reduce(add_parts, (s.sums for s in states)),
    )


def move_centre(state: PegasosState, column: Column) -> PegasosState:
    """Charge the intercept from now on for its distance from the mean's; no point moves by it."""
    unit, offset = state.centre
    if unit == 0.0:
        return state
    mean = state.centre.intercept(state.W[-1, MEAN])
    shift = (offset - (1.0 - column.ratio) * mean) / unit
    state.W[-1, [LAST, MEAN]] += shift
    state.W[-1, BEFORE] += shift * state.tail.rows_before
    return state._replace(centre=Centre(unit, (1.0 - column.ratio) * mean))


@kernel
def visit_batches(
    at: TwoPoints, proving: bool, moving: SideBySide, problem: Problem, streams: int, batch: int,
    before: int, scale: float, rows: Rows, y: PerRow, weight: PerRow, order: Order,
    row_state: RowState,
) -> tuple[float, float, float, float, float, float, float]:  # fmt: skip
    """Algorithm 1 over batches of rows; `moving` sees W's columns G and V.

    Returns c, the sum of losses before the steps, the weight of the rows violated, and the four
    sums of `sum_both`.
    """
    loss, d, n = problem.loss, moving.shape[0] - 1, order.shape[0]
    column, shift = problem.intercept * at.centre.unit, problem.intercept * at.centre.offset
    violated, sums, loss_sum, total = np.zeros(batch, np.bool_), np.zeros(4), 0.0, 0.0
    for start in range(0, n, batch):
        stop = min(start + batch, n)
        if proving:
            four = sum_both(at, problem, rows, y, weight, order, row_state, start, stop)
            for k in range(4):
                sums[k] += four[k]
        inverse = 1.0 / (strength(problem.penalty) * before) if before > 0 else 0.0
        size = streams * (stop - start)
        scale += size * inverse
        before += size
        for r in range(start, stop):
            i = order[r]
            prefetch_row(rows, y, weight, order, r)
            p = inverse * (dot(rows, i, moving) + column * moving[d, 0]) + shift
            loss_sum += weight[i] * value(loss, p, y[i])
            violated[r - start] = y[i] * p < 1.0
        for r in range(start, stop):
            if violated[r - start]:
                i = order[r]
                row_state[i, 0] += 1.0
                total += weight[i]
                step = streams * weight[i] * y[i]
                add_both(rows, i, step, scale * step, moving)
                moving[d, 0] += step * column
                moving[d, 1] += scale * step * column
    return scale, loss_sum, total, sums[0], sums[1], sums[2], sums[3]
