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

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from solvers.dispatch import kernel
from solvers.duality import Column, DualPoint, constant_column, lowered_gap, per_row
from solvers.losses import Hinge, Problem, value
from solvers.protocol import (
    Block,
    Certificate,
    Facts,
    Gather,
    Settings,
    Walk,
    Weights,
    array_bytes,
)
from solvers.rows import add_both, dot, look_ahead, side_by_side
from solvers.two_gaps import TWO_GAPS, TwoGaps, TwoPoints, better_of_both, sum_both

LAST, MEAN, ADDED, LATER, BEFORE, FROM = range(6)  # columns of W


class PegasosState(NamedTuple):
    """Everything that changes.  Columns of W end in the constant column's weight."""

    W: NDArray[np.float64]  # (d + 1, 6) LAST, MEAN: where the pass began; G, V; the sum of the
    # iterates of the tail before; G where the running tail began
    proven: NDArray[np.float64]  # (d,) the best weights with a certificate; zeros before any
    proven_b: float  # their intercept
    objective: float
    gap: float  # at most this far are they above the optimum
    lower: float  # the best D of the violations of one tail; 0 is that of none
    certified: bool  # whether there are any
    rows: int  # visited, of several streams as if each visited all: b (t - 1)
    scale: float  # c
    tail: int  # rows of the running tail ...
    tail_before: int  # ... and of the one before
    shares: NDArray[np.float64]  # (1,) of a row's violations in its dual variable: 1/E
    unit: float  # the intercept is this times the constant column's weight ...
    offset: float  # ... plus this
    b_dual: float  # the intercept that goes with a under lam_b alone
    visited: int  # rows, in this pass
    violated: float  # weight of those of them that were violated ...
    violated_before: float  # ... and of those in the running tail's passes before
    passes: int  # done
    tail_from: int  # passes done when the running tail began
    losses: NDArray[np.float64]  # (2,) over the rows visited in this pass, at LAST and at MEAN
    gaps: NDArray[np.float64]  # (2,) brackets of the gap, likewise
    loss_sum: float  # before each row's step, over all passes
    heard: int  # rows in it
    row_version: int


class Pegasos(Settings):
    """Stochastic subgradient descent for the plain hinge, averaged over the later passes."""

    kind: Literal["pegasos"] = "pegasos"
    batch_size: PositiveInt = 1
    """Rows that share a step."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (PegasosState,)

    @property
    def audit(self) -> Gather:
        """The duality gaps of the newest iterate and of the newest mean."""
        return Gather(TWO_GAPS, newest_points, prove_newest)

    def init(self, problem: Problem, facts: Facts) -> PegasosState:
        """Return zero weights; ValueError for a loss that is not the hinge."""
        if type(problem.loss) is not Hinge:
            raise ValueError(
                "pegasos is the hinge's own method: its steps and its certificate need slopes of "
                "0 or 1. Use --loss hinge, or --solver asgd or sdca for other losses."
            )
        return PegasosState(
            W=side_by_side(facts.rows_kind, facts.d + 1, 6), proven=np.zeros(facts.d),
            proven_b=0.0, objective=0.0, gap=0.0, lower=0.0, certified=False,
            rows=0, scale=0.0, tail=0, tail_before=0, shares=np.ones(1),
            unit=constant_column(problem, facts).unit, offset=0.0, b_dual=0.0,
            visited=0, violated=0.0, violated_before=0.0, passes=0, tail_from=0,
            losses=np.zeros(2), gaps=np.zeros(2),
            loss_sum=0.0, heard=0, row_version=-1,
        )  # fmt: skip

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what seven vectors take."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch; the first may take the rows as they lie."""
        return (
            Walk(
                name=f"walk-{self.kind}",
                step=self.step_rows,
                join=end_pass,
                order="stored" if epoch == 0 else "random",
                metrics=progress,
                row_state="update",
            ),
        )

    def weights(self, state: PegasosState) -> Weights:
        """Return the best certified weights; before there are any, the newest mean."""
        if state.certified:
            return Weights(state.proven, state.proven_b)
        mean = tail_mean(state)
        return Weights(mean[:-1], state.unit * float(mean[-1]) + state.offset)

    def certificate(self, state: PegasosState) -> Certificate | None:
        """Return what the passes so far proved: nothing before the second."""
        return Certificate(state.objective, state.gap) if state.certified else None

    def step_rows(
        self, problem: Problem, facts: Facts, state: PegasosState, block: Block
    ) -> PegasosState:
        """Visit the rows of one block; what the first half of the first pass averaged is lost."""
        left, m = -((state.rows - facts.n // 2) // facts.streams), block.order.shape[0]
        if 0 < left <= m:
            left = min(m, -(-left // self.batch_size) * self.batch_size)
            first = block._replace(order=block.order[:left])
            state = begin_tail(self._visit(problem, facts, state, first))
            state.W[:, BEFORE] = 0.0
            state = state._replace(tail_before=0)
            block = block._replace(order=block.order[left:])
        return self._visit(problem, facts, state, block)

    def _visit(
        self, problem: Problem, facts: Facts, state: PegasosState, block: Block
    ) -> PegasosState:
        visited = block.order.shape[0]
        at = TwoPoints(state.W[:, :ADDED], state.unit, state.offset, state.shares)
        scale, loss, violated, *sums = visit_batches(
            at, state.passes > 0, state.W[:, ADDED:BEFORE], problem, facts.streams, self.batch_size,
            state.rows, state.scale, *block[:4], per_row(block),
        )  # fmt: skip
        return state._replace(
            scale=scale,
            rows=state.rows + facts.streams * visited,
            tail=state.tail + facts.streams * visited,
            visited=state.visited + visited,
            violated=state.violated + violated,
            losses=state.losses + sums[:2],
            gaps=state.gaps + sums[2:],
            loss_sum=state.loss_sum + loss,
            heard=state.heard + visited,
        )


def tail_mean(state: PegasosState) -> NDArray[np.float64]:
    """Return the mean of the iterates since the tail before began, (d + 1,)."""
    total = state.W[:, BEFORE] + (state.scale * state.W[:, ADDED] - state.W[:, LATER])
    mean: NDArray[np.float64] = total / max(1, state.tail_before + state.tail)
    return mean


def begin_tail(state: PegasosState) -> PegasosState:
    """Begin a new tail; the running one is now the one before."""
    W = state.W
    W[:, BEFORE] = state.scale * W[:, ADDED] - W[:, LATER]
    W[:, LATER] = 0.0
    return state._replace(scale=0.0, tail_before=state.tail, tail=0)


def end_pass(problem: Problem, facts: Facts, states: list[PegasosState]) -> PegasosState:
    """Put the streams together; keep what the pass proved, and let the next prove the newest.

    In the middle of a pass the result has the weights so far, to be looked at only.
    """
    state = states[0] if len(states) == 1 else mean_of_streams(states)
    if state.visited < facts.n:
        return state
    state = raise_bound(problem, facts, state)
    if state.passes > 0:
        state = prove(problem, facts, state, TwoGaps(state.losses, state.gaps, state.visited))
    passes = state.passes + 1
    doubled = passes & (passes - 1) == 0
    if doubled:
        state = begin_tail(state)._replace(tail_from=passes, violated_before=0.0)
        state.W[:, FROM] = state.W[:, ADDED]
    state.W[:, LAST] = state.W[:, ADDED] / (problem.lam * state.rows)
    state.W[:, MEAN] = tail_mean(state)
    column = constant_column(problem, facts)
    state = state._replace(
        b_dual=state.unit * float(state.W[-1, LAST]) / (1.0 - column.kept),
        shares=np.full(1, 1.0 / passes), visited=0, passes=passes,
        losses=np.zeros(2), gaps=np.zeros(2),
    )  # fmt: skip
    return move_centre(state, column) if doubled else state


def raise_bound(problem: Problem, facts: Facts, state: PegasosState) -> PegasosState:
    """Add up the violations since the running tail began, and keep their D if it is the best."""
    violated = state.violated_before + state.violated
    count = facts.n * (state.passes + 1 - state.tail_from)
    w = (state.W[:, ADDED] - state.W[:, FROM]) / (problem.lam * count)
    b = state.unit * float(w[-1]) / (1.0 - constant_column(problem, facts).kept)
    square = problem.lam * float(w[:-1] @ w[:-1]) + problem.lam_b * b * b
    lower = max(state.lower, violated / count - 0.5 * square)
    return state._replace(lower=lower, violated=0.0, violated_before=violated)


def mean_of_streams(states: list[PegasosState]) -> PegasosState:
    """Return the mean of what the streams added to G, and of their tails."""
    first, total = states[0], sum(s.scale * s.W[:, ADDED] - s.W[:, LATER] for s in states)
    W = first.W.copy(order="K")
    for k in (ADDED, BEFORE):
        W[:, k] = np.mean([s.W[:, k] for s in states], axis=0)
    W[:, LATER] = -total / len(states)
    counts = {
        f: sum(getattr(s, f) for s in states) for f in ("visited", "violated", "losses", "gaps")
    }
    means = ("rows", "tail", "tail_before")
    counts |= {f: sum(getattr(s, f) for s in states) // len(states) for f in means}
    return first._replace(W=W, scale=0.0, **counts)


def move_centre(state: PegasosState, column: Column) -> PegasosState:
    """Charge the intercept from now on for its distance from the mean's; no point moves by it."""
    if state.unit == 0.0:
        return state
    mean = state.unit * float(state.W[-1, MEAN]) + state.offset
    shift = (state.offset - column.kept * mean) / state.unit
    state.W[-1, [LAST, MEAN]] += shift
    state.W[-1, BEFORE] += shift * state.tail_before
    return state._replace(offset=column.kept * mean)


def newest_points(state: PegasosState) -> TwoPoints:
    """Read out the two points that a pass begins with."""
    return TwoPoints(state.W[:, :ADDED].copy(order="K"), state.unit, state.offset, state.shares)


def prove_newest(
    problem: Problem, facts: Facts, state: PegasosState, total: TwoGaps, _sweep: int
) -> PegasosState:
    """Take note of what a gather proved of the points between two passes."""
    return prove(problem, facts, state, total)


def prove(problem: Problem, _facts: Facts, state: PegasosState, total: TwoGaps) -> PegasosState:
    """Keep the better of LAST and MEAN if it is better than what there is.

    The largest dual objective so far counts, of whichever passes' violations.
    """
    new, at = better_of_both(problem, newest_points(state), state.b_dual, total)
    new = new._replace(gap=lowered_gap(new, Certificate(state.lower, 0.0)))
    if not state.certified:
        return take(state, new, at)
    old = Certificate(state.objective, state.gap)
    if old.objective <= new.objective:
        return state._replace(gap=lowered_gap(old, new))
    return take(state, new._replace(gap=lowered_gap(new, old)), at)


def take(state: PegasosState, found: Certificate, at: DualPoint) -> PegasosState:
    """Keep these weights as the best certified ones."""
    state.proven[:] = at.coef
    return state._replace(
        proven_b=at.intercept, objective=found.objective, gap=found.gap, certified=True
    )


def progress(state: PegasosState) -> dict[str, float]:
    """Return the losses of rows before their steps, and the mean's brackets as seen so far."""
    gap = float(state.gaps[MEAN]) / max(1, state.visited)
    return {"loss_sum": state.loss_sum, "heard": state.heard, "gap": gap}


@kernel
def visit_batches(
    at: Any, proving: Any, moving: Any, problem: Any, streams: Any, batch: Any,
    before: Any, scale: Any, rows: Any, y: Any, weight: Any, order: Any, kept: Any,
) -> Any:  # fmt: skip
    """Algorithm 1 over batches of rows; `moving` sees W's columns G and V.

    Returns c, the sum of losses before the steps, the weight of the rows violated, and the four
    sums of `sum_both`.
    """
    loss, d, n = problem.loss, moving.shape[0] - 1, order.shape[0]
    column, shift = problem.intercept * at.unit, problem.intercept * at.offset
    violated, sums, heard, total = np.zeros(batch, np.bool_), np.zeros(4), 0.0, 0.0
    for start in range(0, n, batch):
        stop = min(start + batch, n)
        if proving:
            four = sum_both(at, problem, rows, y, weight, order, kept, start, stop)
            for k in range(4):
                sums[k] += four[k]
        inverse = 1.0 / (problem.lam * before) if before > 0 else 0.0
        size = streams * (stop - start)
        scale += size * inverse
        before += size
        for r in range(start, stop):
            i = order[r]
            look_ahead(rows, y, weight, order, r)
            p = inverse * (dot(rows, i, moving) + column * moving[d, 0]) + shift
            heard += weight[i] * value(loss, p, y[i])
            violated[r - start] = y[i] * p < 1.0
        for r in range(start, stop):
            if violated[r - start]:
                i = order[r]
                kept[i, 0] += 1.0
                total += weight[i]
                step = streams * weight[i] * y[i]
                add_both(rows, i, step, scale * step, moving)
                moving[d, 0] += step * column
                moving[d, 1] += scale * step * column
    return scale, heard, total, sums[0], sums[1], sums[2], sums[3]
