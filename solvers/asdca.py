"""Accelerated dual coordinate ascent in mini-batches: from SDCA (m = 1) to AGD (m = n).

    u     = (1 - theta) x + theta w(a)
    a_i  <- (1 - theta) a_i - theta phi'(s_i u . x_i) s_i         for the m rows i of a batch
    x    <- (1 - theta) x + theta w(a)

All rows of a batch are predicted by the same weights u, whatever m is, so that a batch can be as
large as a machine likes; x is the answer.  With e = x - w(a) both vectors move only where a batch
has values,

    dw = (1/(lam n)) sum of weight_i (change of a_i) s_i x_i,    w <- w + dw,
    e <- (1 - theta) (e - dw)

and e = s h keeps its shrinking in a number (asdca_batches.py).  How large theta may be, and what
batches inside a window make of it, is momentum.py's.

Dual variables lie beside the data, one number per row.  Both w and x of a pass's start stand beside
the running ones, and rows are predicted by them, too, so that a pass certifies both by its end.
The weights are added up afresh from the rows' new dual variables in every pass and replaced at its
end, as in SDCA.

Theorem 1 bounds m (P(x) - P*) + n (D* - D(a)).  Its change over a pass is known, though P* and D*
are not: where it has grown, sigma^2 was too small, and is doubled.

Source: Shalev-Shwartz and Zhang 2013, "Accelerated Mini-Batch Stochastic Dual Coordinate Ascent".
docs/methods.md, section 7.7.
"""

from __future__ import annotations

import math
import sys
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from solvers.asdca_batches import GAP_U, GAP_W, GAP_X, LOSS_U, LOSS_W, LOSS_X, SUMS, visit_batches
from solvers.dual_start import SLOPES_AS_DUALS, DualsPart, best_share, proven_of_given
from solvers.duality import (
    GAP,
    DualPoint,
    GapPart,
    gap_certificate,
    lowered_gap,
)
from solvers.losses import Problem
from solvers.momentum import (
    Scale,
    Theta,
    estimated_spread,
    largest_theta,
    printed_theta,
    scale_of,
    short_column,
    uniform_variance,
    usual_batch,
    variance,
)
from solvers.protocol import (
    Block,
    Certificate,
    Diverged,
    Facts,
    Gather,
    Settings,
    Walk,
    Weights,
    array_bytes,
)
from solvers.rows import side_by_side
from solvers.smoothness import refuse_kink

X_START, W_START, RUNNING, LAG, NEXT = 0, 1, 2, 3, 4  # columns of W; LAG: h, x = w + s h
ANY = sys.float_info.max  # a potential that none exceeds, for infinity is not stored
RISE = 1e-12  # of the potential, relative; less is rounding


class AsdcaState(NamedTuple):
    """Everything that changes.  Columns of W end in the constant column's weight."""

    W: NDArray[np.float64]  # (d + 1, 5) columns X_START, W_START, RUNNING, LAG, NEXT
    proven: NDArray[np.float64]  # (d,) the best weights with a certificate; zeros before any
    proven_b: float  # their intercept
    objective: float
    gap: float  # at most this far are they above the optimum
    certified: bool  # whether there are any
    s: float  # scale of LAG
    theta: float  # of the newest batch
    spread: float  # S: sigma^2 over the square of the longest row
    doubled: int  # how often S was
    batch: int  # rows of the largest batch so far
    unit: float  # the intercept is this times the constant column's weight ...
    offset: float  # ... plus this
    offset_before: float  # the same, a pass ago
    potential: float  # m P(x) - n D(a) at the start of the pass before
    share: float  # of the numbers kept per row; 1 after the first pass
    rows: int  # visited in this pass
    passes: int  # done
    sums: NDArray[np.float64]  # (6,) over this pass: asdca_batches.py
    loss_sum: float  # at u before each batch's step, over all passes
    heard: int  # rows in it
    row_version: int


class Asdca(Settings):
    """Accelerated mini-batch dual coordinate ascent: no step size, smooth losses, one stream."""

    kind: Literal["asdca"] = "asdca"
    batch_size: PositiveInt | None = None
    """m, rows of a mini-batch; default R^2 / sigma^2, up to which a row of a batch does nearly as
    much as one alone."""
    theta: Theta = "sigma"
    """Share of the gradients that a step takes over: the paper's (3); the largest that the theorem
    allows, knowing the longest row only (exact) or how alike rows are, too (sigma); or a number."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (AsdcaState,)

    @property
    def audit(self) -> Gather:
        """The duality gap of the newest x."""
        return Gather(GAP, newest_point, prove_newest)

    def init(self, problem: Problem, facts: Facts) -> AsdcaState:
        """Return zero weights, from zero dual variables; ValueError for the hinge and streams."""
        refuse_kink(problem)
        if facts.streams > 1:
            raise ValueError(
                f"asdca's momentum goes from batch to batch and cannot walk {facts.streams} "
                "streams. Use --streams 1, or --solver sdca."
            )
        return AsdcaState(
            W=side_by_side(facts.rows_kind, facts.d + 1, 5), proven=np.zeros(facts.d),
            proven_b=0.0, objective=0.0, gap=0.0, certified=False, s=1.0, theta=0.0,
            spread=self._first_spread(problem, facts), doubled=0, batch=1,
            unit=short_column(problem, facts).unit, offset=0.0, offset_before=0.0,
            potential=0.0, share=1.0, rows=0, passes=0, sums=np.zeros(SUMS), loss_sum=0.0, heard=0,
            row_version=-1,
        )  # fmt: skip

    @property
    def opening(self) -> Gather:
        """The dual variables that a given x stands for."""
        return Gather(SLOPES_AS_DUALS, given_weights, begin_at_duals)

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> AsdcaState:
        """Return given weights; the opening finds dual variables for them."""
        state = self.init(problem, facts)
        state.W[:-1, X_START] = weights.coef
        return state._replace(offset=weights.intercept)

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what six vectors take."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch; the first may take the rows as they lie."""
        return (
            Walk(
                name=f"walk-{self.kind}",
                step=self.step_rows,
                join=self.end_pass,
                order="stored" if epoch == 0 else "random",
                metrics=running_gap,
                row_state="update",
            ),
        )

    def weights(self, state: AsdcaState) -> Weights:
        """Return the best certified weights; before there are any, the running x."""
        if state.certified:
            return Weights(state.proven, state.proven_b)
        return read_out(state, state.W[:, RUNNING] + state.s * state.W[:, LAG])

    def certificate(self, state: AsdcaState) -> Certificate | None:
        """Return what the passes so far proved: nothing before the second."""
        return Certificate(state.objective, state.gap) if state.certified else None

    def step_rows(
        self, problem: Problem, facts: Facts, state: AsdcaState, block: Block
    ) -> AsdcaState:
        """Visit the rows of one block in batches as even as can be, none longer than m."""
        rows = block.order.shape[0]
        batches = max(1, math.ceil(rows / self.rows_per_batch(problem, facts)))
        m = max(state.batch, math.ceil(rows / batches))
        column, of = short_column(problem, facts).value, scale_of(problem, facts)
        V = variance(of, facts, block, column, m)
        theta = self._largest(of, m, state.spread, V)
        before = state.sums[LOSS_U]
        s = visit_batches(
            state.W, state.W[:, RUNNING:], state.W[:, NEXT:], state.s, theta, problem, column,
            state.offset, 1.0 / (problem.lam * facts.n), state.share, *block, batches, state.sums,
        )  # fmt: skip
        return state._replace(
            s=s, theta=theta, batch=m, rows=state.rows + rows,
            loss_sum=state.loss_sum + float(state.sums[LOSS_U] - before), heard=state.heard + rows,
        )  # fmt: skip

    def rows_per_batch(self, problem: Problem, facts: Facts) -> int:
        """Return m, where windows are not smaller."""
        return min(facts.n, self.batch_size or usual_batch(problem, facts))

    def foreseen_theta(self, problem: Problem, facts: Facts) -> float | None:
        """Return theta for such batches; None where it will take the windows to know."""
        m = self.rows_per_batch(problem, facts)
        if not facts.shuffled and m > 1:
            return None
        S = self._first_spread(problem, facts)
        return self._largest(scale_of(problem, facts), m, S, uniform_variance(facts.n, m))

    def _first_spread(self, problem: Problem, facts: Facts) -> float:
        known = self.theta in ("paper", "exact")
        return 1.0 if known else estimated_spread(problem, facts)

    def _largest(self, of: Scale, m: int, S: float, V: float) -> float:
        if not isinstance(self.theta, str):
            return self.theta
        return printed_theta(of, m) if self.theta == "paper" else largest_theta(of, m, S, V)

    def end_pass(self, problem: Problem, facts: Facts, states: list[AsdcaState]) -> AsdcaState:
        """Certify the weights that the pass began with, and begin the next one.

        In the middle of a pass the state is handed back, to be looked at only.
        """
        (state,) = states
        if state.rows < facts.n:
            return state
        state = self._watched(problem, facts, state)
        if state.passes > 0:
            for column, total in ((W_START, sums_at_w(state)), (X_START, sums_at_x(state))):
                found = certificate_of(problem, facts, state, column, total)
                state = prove(state, found, column)
        return begin_pass(problem, facts, state)

    def _watched(self, problem: Problem, facts: Facts, state: AsdcaState) -> AsdcaState:
        """Double S if the pass before has raised the potential, which it does not on average."""
        now = potential(problem, facts, state, state.offset_before)
        if not math.isfinite(now):
            raise Diverged(
                f"The objective left all bounds with theta = {state.theta:g}. Leave solver.theta "
                "out to have it found; the weights of an older snapshot are still good."
            )
        slack = RISE * (abs(state.potential) + abs(now))
        if state.passes > 0 and self.theta == "sigma" and now > state.potential + slack:
            state = state._replace(spread=min(1.0, 2.0 * state.spread), doubled=state.doubled + 1)
        return state._replace(potential=potential(problem, facts, state, state.offset))


def begin_pass(problem: Problem, facts: Facts, state: AsdcaState) -> AsdcaState:
    """Replace w by what the rows' dual variables say, and centre the intercept on x's own."""
    W, column = state.W, short_column(problem, facts)
    W[:, W_START] = W[:, RUNNING] = W[:, NEXT]
    W[:, LAG] *= state.s
    W[:, NEXT] = 0.0
    b = state.unit * float(W[-1, RUNNING] + W[-1, LAG]) + state.offset
    offset = column.kept * b
    if state.unit > 0.0:  # x stays where it is, for it is the answer; e follows w
        W[-1, LAG] = (b - offset) / state.unit - W[-1, RUNNING]
    W[:, X_START] = W[:, RUNNING] + W[:, LAG]
    return state._replace(
        s=1.0, share=1.0, offset=offset, offset_before=state.offset, rows=0,
        passes=state.passes + 1, sums=np.zeros(SUMS),
    )  # fmt: skip


def given_weights(state: AsdcaState) -> Weights:
    """Read out the x that a pass begins with."""
    return read_out(state, state.W[:, X_START])


def begin_at_duals(
    problem: Problem, facts: Facts, state: AsdcaState, total: DualsPart, sweep: int
) -> AsdcaState:
    """Begin the first pass at a given x and at its dual variables, as many of them as help."""
    W, b, column = state.W, state.offset, short_column(problem, facts)
    centre = column.kept * b
    w = np.append(total.V, column.unit * total.v_b) / (problem.lam * total.rows)
    worth = (total.worth - total.v_b * centre) / total.rows
    share = best_share(worth, 0.5 * problem.lam * float(w @ w))
    state.proven[:] = W[:-1, X_START]
    objective, gap = proven_of_given(problem, Weights(state.proven, b), total)
    W[:, W_START] = W[:, RUNNING] = share * w
    W[-1, X_START] = (b - centre) / column.unit if column.unit > 0.0 else 0.0
    W[:, LAG] = W[:, X_START] - W[:, RUNNING]
    return state._replace(
        offset=centre, offset_before=centre, share=share, proven_b=b, objective=objective,
        gap=gap, certified=True, passes=1, potential=ANY, row_version=sweep,
    )  # fmt: skip


def read_out(state: AsdcaState, v: NDArray[np.float64]) -> Weights:
    """Read weights out of a vector with the constant column's at its end."""
    return Weights(v[:-1].copy(), state.unit * float(v[-1]) + state.offset)


def newest_point(state: AsdcaState) -> DualPoint:
    """Read out the x that a pass begins with, and how its dual variables are kept."""
    return DualPoint(*read_out(state, state.W[:, X_START]), np.array([state.share]))


def prove_newest(
    problem: Problem, facts: Facts, state: AsdcaState, total: GapPart, _sweep: int
) -> AsdcaState:
    """Take note of what a gather proved of the newest x."""
    found = certificate_of(problem, facts, state, X_START, total)
    return prove(state, found, X_START)


def sums_at_x(state: AsdcaState) -> GapPart:
    """Return what the pass has summed at the x that it began with."""
    return GapPart(float(state.sums[LOSS_X]), float(state.sums[GAP_X]), state.rows)


def sums_at_w(state: AsdcaState) -> GapPart:
    """Return what the pass has summed at the w(a) that it began with."""
    return GapPart(float(state.sums[LOSS_W]), float(state.sums[GAP_W]), state.rows)


def certificate_of(
    problem: Problem, facts: Facts, state: AsdcaState, column: int, total: GapPart
) -> Certificate:
    """Turn sums over all rows into what they prove of x or w at the start of a pass."""
    at = read_out(state, state.W[:, column])
    away = state.W[:-1, column] - state.W[:-1, W_START]
    charge = 1.0 - short_column(problem, facts).kept
    b_dual = state.unit * float(state.W[-1, W_START]) / charge
    return gap_certificate(problem, DualPoint(*at, np.ones(1)), b_dual, total, float(away @ away))


def prove(state: AsdcaState, found: Certificate, column: int) -> AsdcaState:
    """Keep x or w as the best certified weights, unless those there are have the smaller gap."""
    if state.certified:
        gap = lowered_gap(Certificate(state.objective, state.gap), found)
        if gap < found.gap:
            return state._replace(gap=gap)
    at = read_out(state, state.W[:, column])
    state.proven[:] = at.coef
    return state._replace(
        proven_b=at.intercept, objective=found.objective, gap=found.gap, certified=True
    )


def potential(problem: Problem, facts: Facts, state: AsdcaState, offset: float) -> float:
    """m P(x) - n D(a) at the start of a pass, by the sums of the pass.

    P and D are those of the problem that steps are taken for: the intercept is charged for its
    distance from the centre, which is what `offset` says.
    """
    found = certificate_of(problem, facts, state, X_START, sums_at_x(state))
    P, D = found.objective, found.objective - found.gap
    if state.unit > 0.0:
        v, b = float(state.W[-1, W_START]), read_out(state, state.W[:, X_START]).intercept
        b_dual = state.unit * v / (1.0 - short_column(problem, facts).kept)
        P += 0.5 * problem.lam * ((b - offset) / state.unit) ** 2 - 0.5 * problem.lam_b * b**2
        D += 0.5 * problem.lam_b * b_dual**2 - problem.lam * v * (0.5 * v + offset / state.unit)
    return state.batch * P - facts.n * D


def running_gap(state: AsdcaState) -> dict[str, float]:
    """Return the losses of rows before their steps, the gap as this pass has seen it, and theta."""
    gap = float(state.sums[GAP_U]) / max(1, state.rows)
    return {
        "loss_sum": state.loss_sum, "heard": state.heard, "gap": gap,
        "theta": state.theta, "doubled": state.doubled,
    }  # fmt: skip
