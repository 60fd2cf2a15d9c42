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
batches inside a window make of it, is asdca_theta.py's.

Dual variables lie next to the data, one number per row.  w and x of the start of a pass lie next to
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
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.asdca_batches import GAP_U, LOSS_U, LOSS_W, LOSS_X, SUMS, visit_batches
from fewpass.solvers.dual.asdca_theta import (
    Scale,
    Theta,
    estimated_sigma_share,
    largest_theta,
    scale_of,
    short_column,
    theta_of_paper,
    uniform_variance,
    usual_batch,
    variance,
)
from fewpass.solvers.dual.best_weights import BestWeights, DualMethod, no_weights
from fewpass.solvers.dual.duality import (
    LARGEST,
    Centre,
    DualPoint,
    GapPart,
    gap_certificate,
    require_pair,
)
from fewpass.solvers.dual.sdca_state import UNBOUNDED
from fewpass.solvers.dual.warm_start import (
    SLOPES_AS_DUALS,
    DualsPart,
    best_share,
    proven_of_given,
    started_at,
)
from fewpass.solvers.kernels.rows import side_by_side
from fewpass.solvers.loss_monitor import LossSum
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import (
    BatchSize,
    Block,
    Certificate,
    Diverged,
    ProblemStats,
    Reduce,
    Weights,
)

X_START, W_START, RUNNING, LAG, NEXT = 0, 1, 2, 3, 4  # columns of W; LAG: h, x = w + s h
RISE = 1e-12  # of the potential, relative; less is rounding


class Momentum(NamedTuple):
    """Facts that theta goes by, and its history."""

    sigma_share: float  # S: sigma^2 over the square of the longest row
    doubled: int = 0  # how often S was
    theta: float = 0.0  # of the newest batch
    batch: int = 1  # rows of the largest batch so far
    potential: float = 0.0  # m P(x) - n D(a) at the start of the pass before


class AsdcaState(NamedTuple):
    """Everything that changes.  Columns of W end in the constant column's weight."""

    W: NDArray[np.float64]  # (d + 1, 5) columns X_START, W_START, RUNNING, LAG, NEXT
    best: BestWeights
    s: float  # scale of LAG
    momentum: Momentum
    centre: Centre
    offset_before: float  # the centre's, a pass ago
    share: float  # of the numbers kept per row; 1 after the first pass
    sums: NDArray[np.float64]  # (6,) over this pass: asdca_batches.py
    rows: int  # visited in this pass
    passes: int  # done
    monitor: LossSum  # at u before each batch's step, over all passes
    row_version: int


class Asdca(DualMethod):
    """Accelerated mini-batch dual coordinate ascent: no step size, smooth losses, one stream."""

    needs: ClassVar[Needs] = Needs(
        loss="smooth", numbers_per_row=1, one_stream="'s momentum goes from batch to batch"
    )
    states: ClassVar[tuple[type, ...]] = (AsdcaState,)
    kind: Literal["asdca"] = "asdca"
    batch_size: BatchSize | None = None
    """m, rows of a mini-batch; default R^2 / sigma^2, up to which a row of a batch does nearly as
    much as one alone."""
    theta: Theta = "sigma"
    """Share of the gradients that a step takes over: the paper's (3); the largest that the theorem
    allows, knowing the longest row only (exact) or how alike rows are, too (sigma); or a number."""

    @property
    def warm_start_pass(self) -> Reduce:
        """The dual variables that a given x stands for."""
        return Reduce(SLOPES_AS_DUALS, given_weights, begin_at_duals)

    def first_state(self, problem: Problem, stats: ProblemStats) -> AsdcaState:
        """Return zero weights, from zero dual variables."""
        return AsdcaState(
            W=side_by_side(stats.rows_kind, stats.d + 1, 5), best=no_weights(stats.d),
            s=1.0, momentum=Momentum(self._first_sigma_share(problem, stats)),
            centre=Centre(short_column(problem, stats).unit, problem.level),
            offset_before=problem.level, share=1.0,
            sums=np.zeros(SUMS), rows=0, passes=0, monitor=LossSum(), row_version=-1,
        )  # fmt: skip

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, _rows_before: int
    ) -> AsdcaState:
        """Return given weights; the warm start's pass finds dual variables for them."""
        started: AsdcaState = started_at(self.init(problem, stats), weights)
        return started

    def uncertified(self, state: AsdcaState) -> Weights:
        """Return the running x."""
        return state.centre.weights(state.W[:, RUNNING] + state.s * state.W[:, LAG])

    def newest(self, state: AsdcaState) -> DualPoint:
        """Read out the x that a pass begins with, and how its dual variables are kept."""
        return DualPoint(*given_weights(state), np.array([state.share]))

    def proved(
        self, problem: Problem, stats: ProblemStats, state: AsdcaState, total: GapPart, _sweep: int
    ) -> AsdcaState:
        """Record what a reduction proved of the newest x."""
        return prove(state, certificate_of(problem, stats, state, X_START, total), X_START)

    def metrics(self, state: AsdcaState) -> dict[str, float]:
        """Return losses of rows before their steps, the gap as this pass has seen it, and theta."""
        gap = float(state.sums[GAP_U]) / max(1, state.rows)
        theta, doubled = state.momentum.theta, state.momentum.doubled
        return {**state.monitor.metrics(), "gap": gap, "theta": theta, "doubled": doubled}

    def step_rows(
        self, problem: Problem, stats: ProblemStats, state: AsdcaState, block: Block
    ) -> AsdcaState:
        """Visit the rows of one block in batches as even as can be, none longer than m."""
        rows = block.order.shape[0]
        batches = max(1, math.ceil(rows / self.rows_per_batch(problem, stats)))
        momentum = state.momentum
        m = max(momentum.batch, math.ceil(rows / batches))
        column, of = short_column(problem, stats).value, scale_of(problem, stats)
        V = variance(of, stats, block, column, m)
        theta = self._largest(of, m, momentum.sigma_share, V)
        before = state.sums[LOSS_U]
        s = visit_batches(
            state.W, state.W[:, RUNNING:], state.W[:, NEXT:], state.s, theta, problem, column,
            state.centre.offset, 1.0 / (problem.lam * stats.n), state.share, *block[:5], batches,
            state.sums,
        )  # fmt: skip
        return state._replace(
            s=s, momentum=momentum._replace(theta=theta, batch=m), rows=state.rows + rows,
            monitor=state.monitor.add(rows, float(state.sums[LOSS_U] - before)),
        )  # fmt: skip

    def rows_per_batch(self, problem: Problem, stats: ProblemStats) -> int:
        """Return m, where windows are not smaller."""
        return min(stats.n, self.batch_size or usual_batch(problem, stats))

    def foreseen_theta(self, problem: Problem, stats: ProblemStats) -> float | None:
        """Return theta for such batches; None where it will take the windows to know."""
        m = self.rows_per_batch(problem, stats)
        if not stats.shuffled and m > 1:
            return None
        S = self._first_sigma_share(problem, stats)
        return self._largest(scale_of(problem, stats), m, S, uniform_variance(stats.n, m))

    def _first_sigma_share(self, problem: Problem, stats: ProblemStats) -> float:
        computed = self.theta in ("paper", "exact")
        return 1.0 if computed else estimated_sigma_share(problem, stats)

    def _largest(self, of: Scale, m: int, S: float, V: float) -> float:
        if not isinstance(self.theta, str):
            return self.theta
        return theta_of_paper(of, m) if self.theta == "paper" else largest_theta(of, m, S, V)

    def end_pass(
        self, problem: Problem, stats: ProblemStats, states: list[AsdcaState]
    ) -> AsdcaState:
        """Certify both weights that the pass began with, and begin the next one."""
        (state,) = states
        if state.rows < stats.n:
            return state
        state = self._watched(problem, stats, state)
        loss = float(state.sums[LOSS_W]) / state.rows
        require_pair(problem, state.W[:, RUNNING], state.W[:, NEXT], loss)
        if state.passes > 0:
            for column, first in ((W_START, LOSS_W), (X_START, LOSS_X)):
                certificate = certificate_of(problem, stats, state, column, sums_at(state, first))
                state = prove(state, certificate, column)
        return begin_pass(problem, stats, state)

    def _watched(self, problem: Problem, stats: ProblemStats, state: AsdcaState) -> AsdcaState:
        """Double S if the pass before has raised the potential, which it does not on average."""
        momentum, now = state.momentum, potential(problem, stats, state, state.offset_before)
        if not abs(now) < LARGEST:
            raise Diverged(
                f"The objective left all bounds with theta = {momentum.theta:g}. Leave "
                "solver.theta out to have it found; the weights of an older snapshot are still "
                "good."
            )
        slack = RISE * (abs(momentum.potential) + abs(now))
        if state.passes > 0 and self.theta == "sigma" and now > momentum.potential + slack:
            S, doubled = min(1.0, 2.0 * momentum.sigma_share), momentum.doubled + 1
            momentum = momentum._replace(sigma_share=S, doubled=doubled)
        now = potential(problem, stats, state, state.centre.offset)
        return state._replace(momentum=momentum._replace(potential=now))


def begin_pass(problem: Problem, stats: ProblemStats, state: AsdcaState) -> AsdcaState:
    """Replace w by what the rows' dual variables say, and centre the intercept on x's own."""
    W, column = state.W, short_column(problem, stats)
    W[:, W_START] = W[:, RUNNING] = W[:, NEXT]
    W[:, LAG] *= state.s
    W[:, NEXT] = 0.0
    b = state.centre.intercept(W[-1, RUNNING] + W[-1, LAG])
    unit, offset = state.centre.unit, column.offset(b)
    if unit > 0.0:  # x stays where it is, for it is the answer; e follows w
        W[-1, LAG] = (b - offset) / unit - W[-1, RUNNING]
    W[:, X_START] = W[:, RUNNING] + W[:, LAG]
    return state._replace(
        s=1.0, share=1.0, centre=Centre(unit, offset), offset_before=state.centre.offset, rows=0,
        passes=state.passes + 1, sums=np.zeros(SUMS),
    )  # fmt: skip


def given_weights(state: AsdcaState) -> Weights:
    """Read out the x that a pass begins with."""
    return state.centre.weights(state.W[:, X_START].copy())


def begin_at_duals(
    problem: Problem, stats: ProblemStats, state: AsdcaState, total: DualsPart, sweep: int
) -> AsdcaState:
    """Warm start at x, with theta a, theta maximising D."""
    W, b, column = state.W, state.centre.offset, short_column(problem, stats)
    centre = column.offset(b)
    w = np.append(total.V, column.unit * total.v_b) / (problem.lam * total.rows)
    worth = (total.worth - total.v_b * centre) / total.rows
    share = best_share(worth, 0.5 * problem.lam * float(w @ w))
    given = Weights(W[:-1, X_START].copy(), b)
    best = state.best.replaced(given, proven_of_given(problem, given, total))
    W[:, W_START] = W[:, RUNNING] = share * w
    W[-1, X_START] = (b - centre) / column.unit if column.unit > 0.0 else 0.0
    W[:, LAG] = W[:, X_START] - W[:, RUNNING]
    return state._replace(
        centre=Centre(column.unit, centre), offset_before=centre, share=share, best=best, passes=1,
        momentum=state.momentum._replace(potential=UNBOUNDED), row_version=sweep,
    )  # fmt: skip


def sums_at(state: AsdcaState, first: int) -> GapPart:
    """Return what the pass has summed at the x or w(a) that it began with, `first` its loss."""
    loss, gap = state.sums[first : first + 2].tolist()
    return GapPart(loss, gap, state.rows)


def certificate_of(
    problem: Problem, stats: ProblemStats, state: AsdcaState, column: int, total: GapPart
) -> Certificate:
    """Turn sums over all rows into what they prove of x or w at the start of a pass."""
    at = state.centre.weights(state.W[:, column].copy())
    difference = state.W[:-1, column] - state.W[:-1, W_START]
    away = problem.lam * float(difference @ difference)
    b_dual = short_column(problem, stats).under_lam_b(float(state.W[-1, W_START]))
    return gap_certificate(problem, DualPoint(*at, np.ones(1)), b_dual, total, away)


def prove(state: AsdcaState, certificate: Certificate, column: int) -> AsdcaState:
    """Keep x or w as the best certified weights, unless those there are have the smaller gap."""
    at = state.centre.weights(state.W[:, column])
    return state._replace(best=state.best.smaller_gap(at, certificate))


def potential(problem: Problem, stats: ProblemStats, state: AsdcaState, offset: float) -> float:
    """m P(x) - n D(a) at the start of a pass, by the sums of the pass.

    P and D are those of the problem that steps are taken for: the intercept is charged for its
    distance from the centre, which is what `offset` says.
    """
    certificate = certificate_of(problem, stats, state, X_START, sums_at(state, LOSS_X))
    P, D = certificate.objective, certificate.objective - certificate.gap
    unit = state.centre.unit
    if unit > 0.0:
        v, b = float(state.W[-1, W_START]), state.centre.intercept(state.W[-1, X_START])
        s_b, level = problem.lam * v / unit, problem.level  # lam_b (b(a) - b_0)
        P += 0.5 * problem.lam * ((b - offset) / unit) ** 2 - 0.5 * problem.lam_b * (b - level) ** 2
        D += s_b * (0.5 * s_b / problem.lam_b + level) - problem.lam * v * (0.5 * v + offset / unit)
    return state.momentum.batch * P - stats.n * D
