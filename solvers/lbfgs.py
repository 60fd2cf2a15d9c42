"""Limited-memory BFGS (Nocedal 1980), every objective and gradient a gather over all rows.

The direction p = -H g comes from the last pairs of steps and gradient changes by the two-loop
recursion; along it a length t is sought with Wolfe's conditions,

    f(x + t p) <= f(x) + c1 t g.p        and        grad f(x + t p) . p >= c2 g.p

Every trial is one sweep, and the search's bracket is part of the state: a run goes on at any
evaluation, which a library's routine, whose state is its own, would not let it.  Most trials are
the first ones (t = 1), so an iteration costs little more than one pass.

Near the optimum rounding hides the decrease; there the first condition is taken from the slopes
(Hager and Zhang 2005).  Vectors have d + 1 numbers, the intercept last in units of its column's
length (intercept.py).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from solvers.gradient import GRADIENT, RISE, GradientPart, certificate, tightened
from solvers.intercept import column_length
from solvers.losses import Problem
from solvers.protocol import Certificate, Facts, Gather, Settings, Weights, array_bytes
from solvers.smoothness import refuse_kink, smoothness

DECREASE = 1e-4  # c1
FLATTENING = 0.9  # c2
MOST_TRIALS = 20  # of one search; then the pairs are forgotten
LEAST_CURVATURE = 1e-12  # s.y over ||s|| ||y|| that a pair must have to be kept
SHRINK = (0.1, 0.5)  # where in the bracket the next trial may lie
GROW = (2.0, 10.0)  # times the trial that was too short
OPEN = 0.0  # the upper end of a bracket while no trial was too long


class Bracket(NamedTuple):
    """What a search knows: f falls at `low`, and a good length lies between `low` and `high`."""

    t: float  # the trial
    low: float
    high: float
    f_low: float
    slope_low: float  # along p
    trials: int  # made before this one


class LbfgsState(NamedTuple):
    """Everything that changes: the point, the search from it, and the pairs."""

    x: NDArray[np.float64]  # (d + 1,)
    g: NDArray[np.float64]  # (d + 1,) gradient at x
    p: NDArray[np.float64]  # (d + 1,) direction of the search
    S: NDArray[np.float64]  # (memory, d + 1) steps, one row after the other, around
    Y: NDArray[np.float64]  # (memory, d + 1) how they changed the gradient
    pairs: int  # kept since they were last forgotten
    t: float  # Bracket, in order
    low: float
    high: float
    f_low: float
    slope_low: float
    trials: int
    evaluations: int
    objective: float  # at x
    gap: float  # at most this far is x above the optimum
    lower: float  # the optimum is not below
    length: float  # of the intercept's column
    L: float  # curvature of f, estimated

    @property
    def bracket(self) -> Bracket:
        """The search."""
        return Bracket(self.t, self.low, self.high, self.f_low, self.slope_low, self.trials)


class Lbfgs(Settings):
    """Limited-memory BFGS: the choice for few columns and dense, correlated features."""

    kind: Literal["lbfgs"] = "lbfgs"
    memory: PositiveInt = 10
    """Pairs of vectors that stand for the curvature."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (LbfgsState,)

    def init(self, problem: Problem, facts: Facts) -> LbfgsState:
        """Start at zero weights; ValueError for the plain hinge."""
        refuse_kink(problem)
        size = facts.d + 1
        return LbfgsState(
            np.zeros(size), np.zeros(size), np.zeros(size),
            np.zeros((self.memory, size)), np.zeros((self.memory, size)), 0,
            *Bracket(0.0, 0.0, OPEN, 0.0, 0.0, 0),
            evaluations=0, objective=0.0, gap=0.0, lower=0.0,
            length=column_length(problem, facts),
            L=smoothness(problem, facts, facts.sigma_square),
        )  # fmt: skip

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> LbfgsState:
        """Return the state whose first gradient is taken at given weights."""
        state = self.init(problem, facts)
        return state._replace(x=np.append(weights.coef, weights.intercept / state.length))

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what three vectors take, and two per pair."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Gather, ...]:  # noqa: ARG002
        """One trial."""
        return (Gather(GRADIENT, self.trial, self.absorb),)

    def trial(self, state: LbfgsState) -> Weights:
        """Return the point that the next gradient is taken at."""
        return as_weights(state.x + state.t * state.p, state.length)

    def weights(self, state: LbfgsState) -> Weights:
        """Return the newest point that a search ended at."""
        return as_weights(state.x, state.length)

    def certificate(self, state: LbfgsState) -> Certificate | None:
        """Return what the gradients proved."""
        return Certificate(state.objective, state.gap) if state.evaluations > 0 else None

    def absorb(
        self,
        problem: Problem,
        facts: Facts,  # noqa: ARG002
        state: LbfgsState,
        total: GradientPart,
        sweep: int,  # noqa: ARG002
    ) -> LbfgsState:
        """Judge a trial: go on from it, or choose the next one."""
        at = self.trial(state)
        found = certificate(problem, at, total)
        g = whole_gradient(problem, at, total, state.length)
        gap, lower = tightened(found, state.lower)
        state = state._replace(lower=lower, evaluations=state.evaluations + 1)
        slope, verdict = float(g @ state.p), "accept"
        if state.evaluations > 1:
            verdict = judge(state, found.objective, slope)
        if verdict == "accept":
            state = state._replace(objective=found.objective, gap=gap)
            return begin_search(accept(state, g))
        state = state._replace(gap=min(state.gap, state.objective * (1.0 + RISE) - lower))
        if state.trials + 1 >= MOST_TRIALS:
            return begin_search(state._replace(pairs=0))
        advance = shorten if verdict == "shorter" else lengthen
        return state._replace(**advance(state.bracket, found.objective, slope)._asdict())


def as_weights(v: NDArray[np.float64], length: float) -> Weights:
    """Return d + 1 numbers as weights."""
    return Weights(v[:-1].copy(), float(v[-1]) * length)


def whole_gradient(
    problem: Problem, at: Weights, total: GradientPart, length: float
) -> NDArray[np.float64]:
    """Return the gradient of the objective as d + 1 numbers."""
    g_b = total.g_b / total.rows + problem.lam_b * at.intercept
    return np.append(total.G / total.rows + problem.lam * at.coef, length * g_b)


def judge(state: LbfgsState, f: float, slope: float) -> Literal["accept", "shorter", "longer"]:
    """Say what Wolfe's conditions want; a trial that is no number was too long."""
    at_zero = float(state.g @ state.p)
    fell = f <= state.objective + DECREASE * state.t * at_zero
    level = f <= state.objective * (1.0 + RISE) and slope <= (2.0 * DECREASE - 1.0) * at_zero
    if not (fell or level):
        return "shorter"
    return "longer" if slope < FLATTENING * at_zero else "accept"


def shorten(bracket: Bracket, f: float, slope: float) -> Bracket:
    """Return the search after a trial that was too long: the least of the parabola through both."""
    width = bracket.t - bracket.low
    rise = f - bracket.f_low - bracket.slope_low * width
    share = -0.5 * bracket.slope_low * width / rise if 0.0 < rise < math.inf else SHRINK[0]
    t = bracket.low + min(max(share, SHRINK[0]), SHRINK[1]) * width
    return bracket._replace(t=t, high=bracket.t, trials=bracket.trials + 1)


def lengthen(bracket: Bracket, f: float, slope: float) -> Bracket:
    """Return the search after a trial that was too short: where the slopes' line reaches zero."""
    t, change = bracket.t, slope - bracket.slope_low
    wish = t - slope * (t - bracket.low) / change if change > 0.0 else math.inf
    if bracket.high != OPEN:
        width = bracket.high - t
        wish = t + min(max(wish - t, SHRINK[0] * width), SHRINK[1] * width)
    else:
        wish = min(max(wish, GROW[0] * t), GROW[1] * t)
    return Bracket(wish, t, bracket.high, f, slope, bracket.trials + 1)


def accept(state: LbfgsState, g: NDArray[np.float64]) -> LbfgsState:
    """Move to the trial and keep the pair, in place, where it has curvature."""
    s, y = state.t * state.p, g - state.g
    curved = s @ y > LEAST_CURVATURE * np.linalg.norm(s) * np.linalg.norm(y)
    if curved:
        row = state.pairs % len(state.S)
        state.S[row], state.Y[row] = s, y
    return state._replace(x=state.x + s, g=g, pairs=state.pairs + int(curved))


def begin_search(state: LbfgsState) -> LbfgsState:
    """Choose a direction from x and try its full length."""
    p = direction(state)
    start = Bracket(1.0, 0.0, OPEN, state.objective, float(state.g @ p), 0)
    return state._replace(p=p, **start._asdict())


def direction(state: LbfgsState) -> NDArray[np.float64]:
    """Return -H g by the two-loop recursion; -g/L where there are no pairs."""
    held = min(state.pairs, len(state.S))
    rows = [(state.pairs - 1 - k) % len(state.S) for k in range(held)]  # newest first
    q, shares = -state.g, []
    for row in rows:
        s, y = state.S[row], state.Y[row]
        share = float(s @ q) / float(s @ y)
        q = q - share * y
        shares.append(share)
    if not rows:
        return q / state.L
    s, y = state.S[rows[0]], state.Y[rows[0]]
    p: NDArray[np.float64] = float(s @ y) / float(y @ y) * q
    for row, share in zip(reversed(rows), reversed(shares), strict=True):
        s, y = state.S[row], state.Y[row]
        p = p + (share - float(y @ p) / float(s @ y)) * s
    return p
