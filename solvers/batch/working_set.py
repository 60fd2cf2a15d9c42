"""Newton's method with an l1 penalty, on a working set of columns: any number of columns.

A pass sums the gradient over all columns, and second derivatives over a working set W.  Between
passes a model over W is minimised, l1 included (column_model.py):

    min over v:  g_W . v + 1/2 v . (H + l2 I + kappa diag(q m_j)) v + l1 sum_W |w_j + v_j|

The next W are the columns that are not 0, and those of the largest gradient.  As the gradient of
every pass is over all columns, its certificate counts all of them, and W proves nothing.

kappa is Levenberg's damping, in units of each column: q is the loss's bound on curvature, m_j the
column's mean square.  Where the best of the steps whose losses a pass sums is below a quarter,
kappa grows.  docs/methods.md, section 8.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.batch_method import Trial
from fewpass.solvers.batch.column_model import minimised
from fewpass.solvers.batch.group_model import minimised_by_groups
from fewpass.solvers.batch.newton import thinning
from fewpass.solvers.batch.working_set_sums import SHORTER, SetPart, SetPoint, set_point
from fewpass.solvers.gradient import (
    RISE,
    SUFFICIENT_DECREASE,
    Bounds,
    scaled_certificate,
    whole_gradient,
)
from fewpass.solvers.kernels.shapes import Matrix
from fewpass.solvers.losses import Problem
from fewpass.solvers.penalties import Penalty
from fewpass.solvers.protocol import Outgrown, ProblemStats, Weights
from fewpass.solvers.registry import DUAL
from fewpass.solvers.scaled_gap import FIRST, knots, proven_zeros

ALL_COLUMNS = 500  # up to here W has every column
LEAST_SET, PER_NONZERO, MOST_SET = 64, 2.0, 1500  # columns of W
ROUGHLY, FINELY, EXACTLY = 1e-2, 1e-3, 1e-10  # of the model's violation that is left
NEAR = 1e-3  # relative gap, below which the model is solved finely
SHORT = 0.25  # best step, below which the model is damped
DAMPED, MORE_DAMPED, LESS_DAMPED, UNDAMPED = 3e-4, 16.0, 8.0, 1e-5  # kappa
FULL, PATIENCE = 0.95, 8  # share of MOST_SET that is not 0, and passes of it, before giving up
MOST_HALVINGS = 40  # of the least gradient of a column in W

Vector = NDArray[np.float64]


class SetState(NamedTuple):
    """The state; the next point is x + t p.  The last number of a vector is the intercept."""

    x: Vector  # (d + 1,)
    p: Vector  # (d + 1,) the step under trial; zeros: none
    chosen: NDArray[np.bool_]  # (d,): W
    bounds: Bounds  # at x
    thinned: int = 1  # H is summed over every thinned-th row
    t: float = 0.0
    slope: float = 0.0  # of the objective at x along p, l1's change included
    kappa: float = 0.0
    theta: float = FIRST  # of the last certificate
    evaluations: int = 0
    shortened: int = 0  # steps that were too long
    n_full_passes: int = 0  # in a row, in which W had no room left
    zeros: int = 0  # columns that are proven to be 0 at the optimum
    rows_left: int = 0  # that the start is made of; 0: there are weights to begin with


def newest_of(state: SetState) -> Weights:
    """Return the weights of the next pass."""
    there = state.x + state.t * state.p if state.t else state.x
    return Weights(there[:-1], float(there[-1]))


def point_of(state: SetState) -> SetPoint:
    """Return where the next pass sums."""
    before = Weights(state.x[:-1] if state.t == 1.0 else np.empty(0), float(state.x[-1]))
    chosen = np.flatnonzero(state.chosen)
    return set_point(newest_of(state), before, chosen, state.theta, state.thinned)


def tried(problem: Problem, state: SetState, total: SetPart) -> Trial:
    """Return objective, gradient and certificate of the point of a pass."""
    at, thetas = newest_of(state), knots(state.theta)
    proven = scaled_certificate(problem, at, total, state.theta, thetas, total.brackets)
    return Trial(at, whole_gradient(problem, at, total), *proven)


def absorbed(problem: Problem, stats: ProblemStats, state: SetState, total: SetPart) -> SetState:
    """Accept the point of a pass, or shorten the step that led to it."""
    trial = tried(problem, state, total)
    s = -trial.theta * total.G / total.rows
    zeros = proven_zeros(problem, stats, s, trial.certificate.gap)
    state = state._replace(evaluations=state.evaluations + 1, zeros=max(state.zeros, zeros))
    promised = SUFFICIENT_DECREASE * state.t * state.slope
    most = state.bounds.objective + RISE * abs(state.bounds.objective) + promised
    if state.evaluations == 1 or state.t == 0.0 or trial.certificate.objective <= most:
        return accepted(problem, stats, state, trial, total)
    return shortened(problem, state, trial, total)


def accepted(
    problem: Problem, stats: ProblemStats, state: SetState, trial: Trial, total: SetPart
) -> SetState:
    """Go to the point, and take the next step and the next working set."""
    kappa = state.kappa / LESS_DAMPED if state.t == 1.0 else state.kappa
    kappa = kappa if kappa >= UNDAMPED else 0.0
    bounds = state.bounds.moved(trial.certificate)
    state = state._replace(x=np.append(*trial.at), bounds=bounds, kappa=kappa, theta=trial.theta)
    return next_step(problem, stats, state, trial.g, total)


def shortened(problem: Problem, state: SetState, trial: Trial, total: SetPart) -> SetState:
    """Take the best of the shorter steps; where there is none, stay and damp the model."""
    best, t = state.bounds.objective, 0.0
    for k in range(total.shorter.shape[0]):
        there = state.x + SHORTER[k] * state.p
        charged = (
            problem.penalty.value(there[:-1])
            + 0.5 * problem.lam_b * (there[-1] - problem.level) ** 2
        )
        objective = total.shorter[k] / total.rows + charged
        promised = SUFFICIENT_DECREASE * SHORTER[k] * state.slope if t == 0.0 else 0.0
        if objective < best + promised:
            best, t = objective, float(SHORTER[k])
    damped = max(MORE_DAMPED * state.kappa, DAMPED) if t < SHORT else state.kappa
    return state._replace(
        t=t, kappa=damped, thinned=1, shortened=state.shortened + 1,
        bounds=state.bounds.stayed(trial.certificate),
    )  # fmt: skip


def next_step(
    problem: Problem, stats: ProblemStats, state: SetState, g: Weights, total: SetPart
) -> SetState:
    """Minimise the model at x; return the state with the step under trial and the next W."""
    chosen, penalty = np.flatnonzero(state.chosen), problem.penalty
    own, l1 = penalty.among(chosen), l1_of(penalty)
    w, b = state.x[:-1], float(state.x[-1])
    A = whole_matrix(problem, stats, state.kappa, total)
    r, start = np.append(g.coef[chosen], g.intercept), np.append(w[chosen], b)
    near = state.bounds.certificate.relative <= NEAR
    share = EXACTLY if problem.loss.is_quadratic else FINELY if near else ROUGHLY
    slopes = r.copy()
    new = minimiser(own, A, r, start, share)
    p = np.zeros_like(state.x)
    p[chosen], p[-1] = new[:-1] - start[:-1], new[-1] - start[-1]
    there = w.copy()
    there[chosen] = new[:-1]
    g.coef[chosen] = r[:-1]
    change = l1 * (own.size(new[:-1]) - own.size(start[:-1]))
    state = state._replace(
        p=p, t=1.0, slope=min(0.0, float(slopes @ (new - start)) + change),
        chosen=next_set(penalty, there, g.coef),
        thinned=1 if state.shortened else thinning(problem, stats, chosen.shape[0]),
    )  # fmt: skip
    return with_full_passes(penalty, state, there, g.coef)


def l1_of(penalty: Penalty) -> float:
    """Return l1 of a penalty that has it."""
    l1: float = penalty.l1  # type: ignore[attr-defined]
    return l1


def minimiser(own: Penalty, A: Matrix, r: Vector, start: Vector, share: float) -> Vector:
    """Return the minimiser of the model (k + 1,), for the penalty of its columns."""
    if own.by_column:
        return minimised(A, r, start, l1_of(own), share)
    return minimised_by_groups(own, A, r, start, share)


def whole_matrix(
    problem: Problem, stats: ProblemStats, kappa: float, total: SetPart
) -> NDArray[np.float64]:
    """Return H (k + 1, k + 1) with the quadratic charges and the damping, both triangles."""
    H = np.tril(total.H)
    H /= max(1, total.H_rows)
    H += np.tril(H, -1).T
    own = np.append(total.squares / max(1, total.H_rows), problem.intercept)
    unit = problem.loss.rate(math.sqrt(stats.target_square))
    H[np.diag_indices_from(H)] += kappa * unit * own
    k = len(total.squares)
    H[np.arange(k), np.arange(k)] += problem.lam
    if problem.intercept:
        H[k, k] += problem.lam_b
    return H


def has_every_column(d: int) -> bool:
    """Return whether W is all of d columns."""
    return d <= ALL_COLUMNS


def next_set(penalty: Penalty, w: Vector, g: Vector) -> NDArray[np.bool_]:
    """Return the columns that are not 0 at w, and those of the largest gradient g, (d,).

    Groups enter whole; the last one may exceed the size, up to MOST_SET.
    """
    d, nonzero = w.shape[0], penalty.whole(w != 0.0)
    if has_every_column(d):
        return np.full(d, fill_value=True)
    count = int(nonzero.sum())
    size = min(d, MOST_SET, max(LEAST_SET, int(PER_NONZERO * count)))
    chosen: NDArray[np.bool_] = nonzero.copy()
    score = np.where(nonzero, 0.0, penalty.slopes(g))
    chosen[largest(score, size - count)] = True
    whole = penalty.whole(chosen)
    return whole if np.count_nonzero(whole) <= MOST_SET else penalty.complete(chosen)


def cut_to_set(penalty: Penalty, w: Vector) -> None:
    """Set all but the largest weights (d,) to 0 where more are not 0 than W has room for."""
    if np.count_nonzero(penalty.whole(w != 0.0)) > MOST_SET:
        stays = np.zeros(w.shape[0], np.bool_)
        stays[np.argsort(-penalty.slopes(w), kind="stable")[:MOST_SET]] = True
        w[~penalty.complete(stays)] = 0.0


def largest(score: Vector, size: int) -> NDArray[np.int64]:
    """Return where the `size` largest numbers >= 0 are, of equal ones the first.

    Only those above a power of 1/2 of the largest are sorted: most columns of text are alike.
    """
    least = float(score.max(initial=0.0))
    for _ in range(MOST_HALVINGS):
        if np.count_nonzero(score >= least) >= size:
            break
        least *= 0.5
    else:
        least = 0.0
    above = np.flatnonzero(score >= least)
    order: NDArray[np.int64] = above[np.argsort(-score[above], kind="stable")[:size]]
    return order


def with_full_passes(penalty: Penalty, state: SetState, w: Vector, g: Vector) -> SetState:
    """Count consecutive passes with a full working set that leaves columns out."""
    taken = np.count_nonzero(penalty.whole(w != 0.0)) + penalty.widest - 1
    if taken <= FULL * MOST_SET:
        return state._replace(n_full_passes=0)
    left_out = penalty.slopes(g)[~state.chosen].max(initial=0.0) > l1_of(penalty)
    return state._replace(n_full_passes=state.n_full_passes + 1 if left_out else 0)


def refuse_full(state: SetState) -> None:
    """Raise Outgrown where there is no room for the weights that are not 0."""
    if state.n_full_passes > PATIENCE:
        raise Outgrown(
            f"More than {MOST_SET:,} weights are not 0 at this `lam`, and newton keeps a matrix of "
            f"those columns by those columns. Take `solver={DUAL}`, or a larger `lam`."
        )
