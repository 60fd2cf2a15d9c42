"""The proximal centre of `psdca`: where it goes from pass to pass, and how much it weighs.

A pass takes SDCA's steps for the objective with reg in place of lam and kap = reg - lam charged
for the distance from a centre z,

    w = (s + kap z) / reg,      s = (1/n) sum_i weight_i a_i s_i x_i = reg w - kap z

so that v = s / lam is the w(a) of duality.py.  With reg = r lam, and after a pass that ended at x':

    if P rose since the pass before:        alpha = 1, no momentum this time
    if the gap fell by less than asked:     r <- min(r + 1, most)
    w  <- (s + kap z) / reg                 reg and kap anew
    q   = 1 / r                             alpha' > 0:  alpha'^2 = (1 - alpha') alpha^2 + q alpha'
    z' <- x' + beta (x' - x)                beta = alpha (1 - alpha) / (alpha^2 + alpha')
    w  <- w + (kap/reg) (z' - z)

With an l1 penalty the steps move u = s + kap z, and the weights are w = shrunk(u) / reg, shrunk
taking l1 from every |u_j|; the state has u / reg in w's place.  r multiplies a base, which is at
least such that the conditioning of a pass's steps is `MOST_STEEP`, for an l1 penalty alone charges
no squares; q = lam / reg above, and r does not grow.  What is certified is a share theta of a
(scaled_gap.py), whatever z and reg are.

On many columns and a few very long rows the centre may pull some columns more than others
(`next_trial`): with h_j the larger the larger the values of column j are, reg is
lam + (r - 1) lam h_j there, and all else as above, column by column.

The intercept has a centre of its own next to z, as in SDCA: what it is charged for leaving it grows
with r like kap, and it moves with the same momentum.  The constant column's entry of z stays 0.

Sources: Shalev-Shwartz and Zhang 2014, "Accelerated Proximal Stochastic Dual Coordinate Ascent";
Lin, Mairal and Harchaoui 2015, "A Universal Catalyst for First-Order Optimization", for alpha and
beta.  That one pass is made per centre, and how r grows, is ours.  docs/methods.md, section 7.10.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import GapPart, constant_column, gap_certificate
from fewpass.solvers.dual.rounds import owed_after
from fewpass.solvers.dual.sdca_state import (
    ALIKE,
    BACK,
    EMPTY,
    RUNNING,
    START,
    TRIED,
    UNBOUNDED,
    PerColumnTrial,
    Proximal,
    SdcaState,
    newest_point,
    weights_of_steps,
)
from fewpass.solvers.estimates.smoothness import columns_are_few
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, ProblemStats
from fewpass.solvers.scaled_gap import dual_scale, proven_zeros

FEATURES, CONSTANT = slice(None, -1), -1  # of arrays whose last column is the constant one
MOST_R = 1e12  # so that a number of this type has it exactly
MOST_STEEP = 0.5  # K = curvature mean ||x||^2 / (base n), where the penalty is not smooth
FIRST_R = 16.0  # largest r of the first pass
AT_ONCE = 1 << 13  # numbers of each array: 64 KB, and too few for threads of a BLAS
BEARABLE = 0.125  # K, to which r brings losses of unbounded curvature from the first pass on
LONG = 50.0  # square of the longest row over the mean, from which on columns apart are tried
MANY = 1000  # columns, likewise; up to there `newton` is at hand
FROM_R = 3  # r = 2 comes by chance, and most problems need no more
POWER = 2.0 / 3.0  # of a column's mean square, in h


class Growth(NamedTuple):
    """Rules for the weight of the centre, and its maximum."""

    above: float  # share of the gap that a pass leaves
    most: int  # largest r


def step_problem(problem: Problem, stats: ProblemStats) -> Problem:
    """Return the problem whose strength r multiplies: with at least `base` where R is not smooth.

    Source: docs/methods.md, section 7.11, for the base.
    """
    if problem.penalty.is_smooth:
        return problem
    base = (
        problem.loss.rate(stats.target_mean) * (stats.mean_square or 1.0) / (MOST_STEEP * stats.n)
    )
    return problem._replace(penalty=problem.penalty.with_strength(base))


def proven_at_x(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: GapPart
) -> Certificate:
    """Return what sums over all rows prove of x, the weights that the pass before ended at."""
    at = newest_point(state)
    b_dual: Any = constant_column(step_problem(problem, stats), stats).under_lam_b(
        state.proximal.dual_v
    )
    if np.ndim(b_dual):  # padded
        b_dual = b_dual[: len(at.intercept)]
    return gap_certificate(problem, at, b_dual, total, state.proximal.away)


def next_proximal(
    proximal: Proximal, certificate: Certificate, growth: Growth, *, first: bool
) -> Proximal:
    """Return how much the centre weighs next, now that a pass has certified its x.

    The first pass certifies zero weights, which nothing rises from.
    """
    P, D = certificate.objective, certificate.objective - certificate.gap
    lowest, highest = min(proximal.lowest, P), max(proximal.highest, D)
    rose = not proximal.objective >= P  # nan is no fall
    slow = lowest - highest > growth.above * (proximal.lowest - proximal.highest)
    r = max(proximal.r, min(proximal.r + 1, growth.most)) if slow else proximal.r
    return proximal._replace(
        r=r, alpha=1.0 if rose else proximal.alpha,
        objective=UNBOUNDED if first else min(UNBOUNDED, P), lowest=lowest, highest=highest,
    )  # fmt: skip


def first_r(problem: Problem, stats: ProblemStats, most: int) -> int:
    """Return the first reg / lam, by K = curvature mean ||x||^2 / (lam n): 2 K, up to `FIRST_R`.

    Where there is a kink K is that of `rate`, and K / 2 is enough, as windows are visited often.
    With more columns than a tenth of the rows K foretells nothing: 1.  Losses of unbounded
    curvature begin with what makes K bearable: they do not arrive with r growing by 1.  A count of
    a thousand is curved as a thousand rows of another loss are.
    """
    loss = problem.loss
    K = loss.rate(stats.target_mean) * stats.mean_square / (problem.lam * stats.n)
    if loss.is_steep:
        return max(1, math.ceil(min(K / BEARABLE, MOST_R)))
    if not columns_are_few(stats.n, stats.d):
        return 1
    return int(min(FIRST_R, most, max(1.0, (2.0 if loss.is_smooth else 0.5) * K)))


def momentum(alpha: float, q: float) -> tuple[float, float]:
    """Return alpha' and beta."""
    half = 0.5 * (q - alpha * alpha)
    after = half + math.sqrt(half * half + alpha * alpha)
    return after, alpha * (1.0 - alpha) / (alpha * alpha + after)


def move_centre(
    problem: Problem, stats: ProblemStats, state: SdcaState, proximal: Proximal, worth: float = 0.0
) -> SdcaState:
    """Make the weights that a pass ended at x, and move the centre ahead of them."""
    step, W, z, own = step_problem(problem, stats), state.W, proximal.z, proximal.own
    w, x = W[:, RUNNING], W[:, START]
    alpha, beta = momentum(proximal.alpha, own / proximal.r)
    reached, before = weights_of_steps(step, state), state.proximal.charged
    b, b_before = state.centre.intercept(reached[-1]), state.centre.intercept(x[-1])
    owed = owed_after(state, z, before, proximal.charged)
    move(w, x, z, reached, beta, Charges(before, proximal.charged, own))

    reg = float(np.ravel(proximal.charged)[-1])
    offset = constant_column(step, stats).offset(b + beta * (b - b_before), reg)
    centre = state.centre._replace(offset=offset)
    x[-1] = (b - offset) / centre.unit if centre.unit > 0.0 else 0.0
    proximal = proximal._replace(alpha=alpha, rounds=proximal.rounds._replace(owed=owed))
    moved = state._replace(centre=centre, proximal=proximal)
    return at_pass_start(problem, stats, moved, worth)


def at_pass_start(
    problem: Problem, stats: ProblemStats, state: SdcaState, worth: float = 0.0
) -> SdcaState:
    """Note where a pass begins; `worth` is about U(1) of its dual variables."""
    w, proximal = state.W[:, RUNNING], state.proximal
    charges = Charges(proximal.charged, proximal.charged, proximal.own)
    if not proximal.shrinks:
        far = squared_distance(state.W[:-1, START], w[:-1], proximal.z[:-1], charges.of(FEATURES))
        last = steps_alone(w[-1], proximal.z[-1], charges.of(CONSTANT))
        dual_v = last if np.ndim(last) else float(last)
        return state._replace(proximal=proximal._replace(away=problem.lam * far, dual_v=dual_v))
    step, at, v = (
        step_problem(problem, stats),
        newest_point(state),
        steps_alone(w, proximal.z, charges),
    )
    s, dual_v = step.lam * v[:-1], float(v[-1])
    b_dual = constant_column(step, stats).under_lam_b(dual_v)
    s_b = problem.lam_b * (b_dual - problem.level) if problem.intercept else 0.0
    theta = dual_scale(problem, s, s_b, worth)
    proximal.s[:] = theta * s
    far = 2.0 * problem.penalty.brackets(at.coef, proximal.s)
    pairing = float(proximal.s @ at.coef) + theta * s_b * at.intercept
    return state._replace(
        proximal=proximal._replace(away=far, dual_v=theta * dual_v, theta=theta, pairing=pairing)
    )


def zeros_for_certain(
    problem: Problem, stats: ProblemStats, proximal: Proximal, certificate: Certificate
) -> int:
    """Return how many columns are proven to be 0 at the optimum, by the best pass so far."""
    if not proximal.shrinks:
        return 0
    return max(proximal.zeros, proven_zeros(problem, stats, proximal.s, certificate.gap))


def worth_of(proximal: Proximal, total: GapPart) -> float:
    """Return U(theta) / theta of a pass's dual variables, from its sums: at least about U(1)."""
    U = (total.loss - total.gap) / total.rows + proximal.pairing
    return U / proximal.theta if proximal.theta > 0.0 else 0.0


# Between two passes arrays are changed part by part, and each part stays in a core's cache: of a
# million columns, or of a hundred classes, whole arrays are tens of megabytes, and what is done to
# them one after the other costs as much as a pass over the rows.


class Charges(NamedTuple):
    """The cost of squares next to the scale of the steps: of all columns, or one by one."""

    before: Any
    now: Any  # reg
    own: float  # the penalty's: the rest of reg, kap, is the centre's

    def of(self, part: slice | int) -> Charges:
        """Return those of some columns."""
        before, now = (one[part] if np.ndim(one) else one for one in (self.before, self.now))
        return Charges(before, now, self.own)


def parts_of(w: NDArray[np.float64]) -> Iterator[slice]:
    """Yield slices of the columns of w, (d + 1,) or (d + 1, wide)."""
    columns = max(1, AT_ONCE * len(w) // max(1, w.size))
    for first in range(0, len(w), columns):
        yield slice(first, min(first + columns, len(w)))


def move(
    w: NDArray[np.float64], x: NDArray[np.float64], z: NDArray[np.float64],
    reached: NDArray[np.float64], beta: float, charges: Charges,
) -> None:  # fmt: skip
    """Make x what a pass reached, z ahead of it by beta (x' - x), and w go with z, in place.

    Where reg is not what it was, s = reg w - kap z stays.  The last column is the constant one,
    whose entry of z stays 0.
    """
    for part in parts_of(w):
        before, reg, own = charges.of(part)
        ahead = reached[part] - x[part]
        ahead *= beta
        ahead += reached[part]
        if part.stop == len(w):
            ahead[-1] = 0.0
        x[part] = reached[part]
        if np.any(before != reg):
            w[part] = (before * w[part] + (reg - before) * z[part]) / reg
        if np.any(reg != own):
            w[part] += (reg - own) / reg * (ahead - z[part])
        z[part] = ahead


def squared_distance(
    x: NDArray[np.float64], w: NDArray[np.float64], z: NDArray[np.float64], charges: Charges
) -> float:
    """Return ||x - v||^2, v being what the steps alone added up."""
    total = 0.0
    for part in parts_of(w):
        away = (x[part] - steps_alone(w[part], z[part], charges.of(part))).ravel()
        total += float(away @ away)
    return total


def steps_alone(w: Any, z: Any, charges: Charges) -> Any:
    """Return v = reg w - kap z."""
    return charges.now * w - (charges.now - charges.own) * z


# -- per-column strengths --------------------------------------------------------------------------

# Word counts have a few values that are far larger than the others, most of them in frequent
# columns, and one weight of the centre for all columns goes by these.  With h_j it is
# (r - 1) lam h_j in column j.  On some texts that halves the passes, on others it takes four times
# as many, and nothing that ingest measures tells which.  So it is tried: all columns are pulled
# alike until r would become `FROM_R`, then apart, and alike for good, with r as it was before, once
# three passes apart left more of the gap than the last three alike had.  docs/methods.md, 7.10.


def strengths(problem: Problem, stats: ProblemStats) -> NDArray[np.float64]:
    """Return h, the per-column strengths: m_j^(2/3) for the mean square m_j of column j.

    The constant column counts.  h is scaled so that sum m_j / h_j = sum m_j: a typical row's
    ||x||^2 / reg falls with r as it does where h_j = 1 everywhere.  Where nothing is known of
    columns h is empty: all are alike.
    """
    if stats.columns is None:
        return EMPTY
    moments = stats.columns()
    m = np.append(moments.share * moments.square, constant_column(problem, stats).value ** 2)
    with np.errstate(over="ignore", invalid="ignore"):
        h = np.where(m > 0.0, m, 1.0) ** POWER
        h *= float((m / h).sum()) / float(m.sum() or 1.0)
    return h if np.isfinite(h).all() and h.all() else EMPTY


def next_trial(before: Proximal, proximal: Proximal) -> Proximal:
    """Update the per-column trial after a pass, which was made with `before`."""
    trial, gap = proximal.trial, min(UNBOUNDED, proximal.lowest - proximal.highest)
    complete = 0.0 < trial.third < UNBOUNDED
    left = gap / trial.third if complete else 1.0
    if complete and trial.stage == ALIKE and proximal.r >= FROM_R:
        trial = PerColumnTrial(TRIED, before.r, left, first=gap)
        return proximal._replace(trial=trial, r=max(2, before.r))
    if complete and trial.stage == TRIED and left > trial.left:
        return proximal._replace(trial=PerColumnTrial(BACK), r=trial.r)
    trial = trial._replace(first=gap, second=trial.first, third=trial.second)
    return proximal._replace(trial=trial)
