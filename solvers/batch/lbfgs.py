"""Limited-memory BFGS (Nocedal 1980), every objective and gradient a reduction over all rows.

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
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.estimates.expected_passes import condition_of_all, conditioning, digits
from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.gradient import Bounds
from fewpass.solvers.intercept import column_length
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ExpectedPasses, Part, ProblemStats, Weights

DECREASE = 1e-4  # c1
FLATTENING = 0.9  # c2
MOST_TRIALS = 20  # of one search; then the pairs are forgotten
LEAST_CURVATURE = 1e-12  # s.y over ||s|| ||y|| that a pair must have to be kept
SHRINK = (0.1, 0.5)  # where in the bracket the next trial may lie
GROW = (2.0, 10.0)  # times the trial that was too short
OPEN = 0.0  # the upper end of a bracket while no trial was too long
START, PER_DIGIT = 4.0, 0.5  # passes to expect, the latter times the cube root of kappa_f


class Bracket(NamedTuple):
    """What a search knows: f falls at `low`, and a good length lies between `low` and `high`."""

    t: float = 0.0  # the trial
    low: float = 0.0
    high: float = OPEN
    f_low: float = 0.0
    slope_low: float = 0.0  # along p
    trials: int = 0  # made before this one


class CurvaturePairs(NamedTuple):
    """The last steps, one row after the other, around, and how they changed the gradient."""

    S: NDArray[np.float64]  # (memory, d + 1)
    Y: NDArray[np.float64]  # (memory, d + 1)
    kept: int = 0  # since they were last forgotten


class LbfgsState(NamedTuple):
    """Everything that changes: the point, the search from it, and the pairs."""

    x: NDArray[np.float64]  # (d + 1,)
    g: NDArray[np.float64]  # (d + 1,) gradient at x
    p: NDArray[np.float64]  # (d + 1,) direction of the search
    search: Bracket
    pairs: CurvaturePairs
    bounds: Bounds  # at x
    length: float  # of the intercept's column
    L: float  # curvature of f, estimated
    evaluations: int = 0


class Lbfgs(BatchMethod):
    """Limited-memory BFGS: the choice for few columns and dense, correlated features."""

    states: ClassVar[tuple[type, ...]] = (LbfgsState,)
    kind: Literal["lbfgs"] = "lbfgs"
    memory: int = Field(10, ge=1, le=10_000)
    """Pairs of vectors that stand for the curvature."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> LbfgsState:
        """Start at zero weights."""
        size = stats.d + 1
        return LbfgsState(
            np.zeros(size),
            np.zeros(size),
            np.zeros(size),
            Bracket(),
            CurvaturePairs(np.zeros((self.memory, size)), np.zeros((self.memory, size))),
            Bounds(),
            length=column_length(problem, stats),
            L=smoothness(problem, stats, stats.sigma_square),
        )

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> LbfgsState:
        """Return the state whose first gradient is taken at given weights."""
        state: LbfgsState = self.init(problem, stats)
        return state._replace(x=np.append(weights.coef, weights.intercept / state.length))

    def expected_passes(self, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
        """One gradient a trial; there is no theory with numbers in it."""
        if conditioning(problem, stats) is None or not tol < 1.0:
            return ExpectedPasses(None, None, 1.0)
        per_digit = PER_DIGIT * condition_of_all(problem, stats) ** (1.0 / 3.0)
        return ExpectedPasses(theory=None, usual=START + per_digit * digits(tol), reductions=1.0)

    def newest(self, state: LbfgsState) -> Weights:
        """Return the point that the next gradient is taken at."""
        return as_weights(state.x + state.search.t * state.p, state.length)

    def weights(self, state: LbfgsState) -> Weights:
        """Return the newest point that a search ended at."""
        return as_weights(state.x, state.length)

    def is_good(self, state: LbfgsState, trial: Trial) -> bool:
        """Say whether Wolfe's conditions hold."""
        return judge(state, trial) == "accept"

    def go_on(
        self,
        _problem: Problem,
        _stats: ProblemStats,
        state: LbfgsState,
        trial: Trial,
        _total: Part,
    ) -> LbfgsState:
        """Keep the pair, and begin the next search."""
        state = state._replace(bounds=state.bounds.moved(trial.found))
        return begin_search(accept(state, as_vector(trial.g, state.length)))

    def go_back(self, state: LbfgsState, trial: Trial) -> LbfgsState:
        """Try another length; after too many, another direction."""
        slope, verdict = slope_at(state, trial), judge(state, trial)
        state = state._replace(bounds=state.bounds.stayed(trial.found))
        if state.search.trials + 1 >= MOST_TRIALS:
            return begin_search(state._replace(pairs=state.pairs._replace(kept=0)))
        advance = shorten if verdict == "shorter" else lengthen
        return state._replace(search=advance(state.search, trial.found.objective, slope))


def as_weights(v: NDArray[np.float64], length: float) -> Weights:
    """Return d + 1 numbers as weights."""
    return Weights(v[:-1].copy(), float(v[-1]) * length)


def as_vector(g: Weights, length: float) -> NDArray[np.float64]:
    """Return a gradient as d + 1 numbers, the intercept's in units of its column's length."""
    return np.append(g.coef, length * g.intercept)


def slope_at(state: LbfgsState, trial: Trial) -> float:
    """Return the slope along p."""
    return float(as_vector(trial.g, state.length) @ state.p)


def judge(state: LbfgsState, trial: Trial) -> Literal["accept", "shorter", "longer"]:
    """Say what Wolfe's conditions want; a trial that is no number was too long."""
    f, slope, at_zero = trial.found.objective, slope_at(state, trial), float(state.g @ state.p)
    fell = f <= state.bounds.objective + DECREASE * state.search.t * at_zero
    level = not state.bounds.has_risen(f) and slope <= (2.0 * DECREASE - 1.0) * at_zero
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
    s, y, pairs = state.search.t * state.p, g - state.g, state.pairs
    curved = s @ y > LEAST_CURVATURE * np.linalg.norm(s) * np.linalg.norm(y)
    if curved:
        row = pairs.kept % len(pairs.S)
        pairs.S[row], pairs.Y[row] = s, y
        pairs = pairs._replace(kept=pairs.kept + 1)
    return state._replace(x=state.x + s, g=g, pairs=pairs)


def begin_search(state: LbfgsState) -> LbfgsState:
    """Choose a direction from x and try its full length."""
    p = direction(state.pairs, state.g, state.L)
    slope = float(state.g @ p)
    start = Bracket(t=1.0, f_low=state.bounds.objective, slope_low=slope)
    return state._replace(p=p, search=start)


def direction(pairs: CurvaturePairs, g: NDArray[np.float64], L: float) -> NDArray[np.float64]:
    """Return -H g by the two-loop recursion; -g/L where there are no pairs."""
    held = min(pairs.kept, len(pairs.S))
    rows = [(pairs.kept - 1 - k) % len(pairs.S) for k in range(held)]  # newest first
    q, shares = -g, []
    for row in rows:
        s, y = pairs.S[row], pairs.Y[row]
        share = float(s @ q) / float(s @ y)
        q = q - share * y
        shares.append(share)
    if not rows:
        return q / L
    s, y = pairs.S[rows[0]], pairs.Y[rows[0]]
    p: NDArray[np.float64] = float(s @ y) / float(y @ y) * q
    for row, share in zip(reversed(rows), reversed(shares), strict=True):
        s, y = pairs.S[row], pairs.Y[row]
        p = p + (share - float(y @ p) / float(s @ y)) * s
    return p
