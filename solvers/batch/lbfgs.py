"""Limited-memory BFGS (Nocedal 1980), every objective and gradient a reduction over all rows.

The direction p = -H g comes from the last pairs of steps and gradient changes by the two-loop
recursion; along it a length t is sought with Wolfe's conditions,

    f(x + t p) <= f(x) + c1 t g.p        and        grad f(x + t p) . p >= c2 g.p

Every trial is one sweep, and the bracket of the search is part of the state: a run can be resumed
at any evaluation, which is impossible with the hidden state of a library routine.  Most searches
accept their first trial (t = 1), so an iteration costs little more than one pass.

Near the optimum rounding hides the decrease; the first condition is then evaluated by the slopes
(Hager and Zhang 2005).  Vectors have d + 1 numbers; the last one is the intercept, in units of its
column's length (intercept.py).
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.gradient import SUFFICIENT_DECREASE, Bounds
from fewpass.solvers.intercept import column_length
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Part, ProblemStats, Sum, Weights
from fewpass.solvers.wide_gradient import WIDE_GRADIENT

FLATTENING = 0.9  # c2
MOST_TRIALS = 20  # of one search; then the pairs are dropped
LEAST_CURVATURE = 1e-12  # least s.y / (||s|| ||y||) of a stored pair
SHRINK = (0.1, 0.5)  # range of the next trial, as a fraction of the bracket
GROW = (2.0, 10.0)  # range of the next trial, as a multiple of one that was too short
OPEN = 0.0  # upper end of a bracket without a trial that was too long


class Bracket(NamedTuple):
    """State of a line search: f falls at `low`, and a good length is between `low` and `high`."""

    t: float = 0.0  # the trial
    low: float = 0.0
    high: float = OPEN
    f_low: float = 0.0
    slope_low: float = 0.0  # along p
    trials: int = 0  # before this one


class CurvaturePairs(NamedTuple):
    """The last steps and the changes of the gradient, in ring buffers."""

    S: NDArray[np.float64]  # (memory, d + 1)
    Y: NDArray[np.float64]  # (memory, d + 1)
    n_pairs: int = 0  # stored since they were last dropped


class LbfgsState(NamedTuple):
    """The state: the point, the search from it, and the pairs."""

    x: NDArray[np.float64]  # (d + 1,)
    g: NDArray[np.float64]  # (d + 1,) gradient at x
    p: NDArray[np.float64]  # (d + 1,) direction of the search
    search: Bracket
    pairs: CurvaturePairs
    bounds: Bounds  # at x
    length: float  # of the intercept's column
    L: float  # estimated curvature of f
    evaluations: int = 0


class Lbfgs(BatchMethod):
    """Limited-memory BFGS: for few columns, and dense, correlated features."""

    states: ClassVar[tuple[type, ...]] = (LbfgsState,)
    kind: Literal["lbfgs"] = "lbfgs"
    memory: int = Field(10, ge=1, le=10_000)
    """Pairs of vectors that approximate the curvature."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> LbfgsState:
        K, length = problem.loss.width, column_length(problem, stats)
        size = K * (stats.d + 1)
        x = np.zeros(size)
        x[-K:] = np.divide(problem.level, length)
        return LbfgsState(
            x,
            np.zeros(size),
            np.zeros(size),
            Bracket(),
            CurvaturePairs(np.zeros((self.memory, size)), np.zeros((self.memory, size))),
            Bounds(),
            length=length,
            L=smoothness(problem, stats, stats.sigma_square),
        )

    def at(self, state: LbfgsState, weights: Weights) -> LbfgsState:
        return state._replace(x=as_vector(weights, 1.0 / state.length))

    def newest(self, state: LbfgsState) -> Weights:
        return self.read(state.x + state.search.t * state.p, state.length)

    def weights(self, state: LbfgsState) -> Weights:
        """Return the end of the last search."""
        return self.read(state.x, state.length)

    def read(self, v: NDArray[np.float64], length: float) -> Weights:
        """Return the weights that a vector holds."""
        return Weights(v[:-1].copy(), float(v[-1]) * length)

    def is_good(self, state: LbfgsState, trial: Trial) -> bool:
        """Return whether Wolfe's conditions hold."""
        return wolfe(state, trial) == "accept"

    def go_on(
        self, _problem: Problem, _stats: ProblemStats, state: LbfgsState, trial: Trial, _total: Part
    ) -> LbfgsState:
        """Store the pair, and begin the next search."""
        state = state._replace(bounds=state.bounds.moved(trial.certificate))
        return begin_search(accept(state, as_vector(trial.g, state.length)))

    def go_back(self, state: LbfgsState, trial: Trial) -> LbfgsState:
        """Try another length; after too many, another direction."""
        slope, verdict = slope_at(state, trial), wolfe(state, trial)
        state = state._replace(bounds=state.bounds.stayed(trial.certificate))
        if state.search.trials + 1 >= MOST_TRIALS:
            return begin_search(state._replace(pairs=state.pairs._replace(n_pairs=0)))
        advance = shorten if verdict == "shorter" else lengthen
        return state._replace(search=advance(state.search, trial.certificate.objective, slope))


class WideLbfgs(Lbfgs):
    """L-BFGS for several scores; a vector has K times d weights, then K intercepts."""

    needs: ClassVar[Needs] = Needs(loss="smooth", several_scores=True)
    sum: ClassVar[Sum] = WIDE_GRADIENT
    width: PositiveInt
    """K, the number of scores."""

    def read(self, v: NDArray[np.float64], length: float) -> Weights:
        """Return the weights that a vector holds."""
        K = self.width
        return Weights(v[:-K].reshape(K, -1).copy(), length * v[-K:])


def as_vector(g: Weights, length: float) -> NDArray[np.float64]:
    """Convert a gradient to d + 1 numbers, the intercept's in units of its column's length.

    Of several scores all coefficients come first.
    """
    return np.append(g.coef, length * g.intercept)


def slope_at(state: LbfgsState, trial: Trial) -> float:
    """Return the slope of f along p at a trial."""
    return float(as_vector(trial.g, state.length) @ state.p)


def wolfe(state: LbfgsState, trial: Trial) -> Literal["accept", "shorter", "longer"]:
    """Evaluate Wolfe's conditions; a trial that is not a number is too long."""
    f, slope, at_zero = (
        trial.certificate.objective,
        slope_at(state, trial),
        float(state.g @ state.p),
    )
    fell = f <= state.bounds.objective + SUFFICIENT_DECREASE * state.search.t * at_zero
    level = not state.bounds.has_risen(f) and slope <= (2.0 * SUFFICIENT_DECREASE - 1.0) * at_zero
    if not (fell or level):
        return "shorter"
    return "longer" if slope < FLATTENING * at_zero else "accept"


def shorten(bracket: Bracket, f: float, slope: float) -> Bracket:
    """Return the search after a trial that was too long: the minimum of a parabola."""
    width = bracket.t - bracket.low
    rise = f - bracket.f_low - bracket.slope_low * width
    share = -0.5 * bracket.slope_low * width / rise if 0.0 < rise < math.inf else SHRINK[0]
    t = bracket.low + min(max(share, SHRINK[0]), SHRINK[1]) * width
    return bracket._replace(t=t, high=bracket.t, trials=bracket.trials + 1)


def lengthen(bracket: Bracket, f: float, slope: float) -> Bracket:
    """Return the search after a trial that was too short: the zero of the interpolated slope."""
    t, change = bracket.t, slope - bracket.slope_low
    wish = t - slope * (t - bracket.low) / change if change > 0.0 else math.inf
    if bracket.high != OPEN:
        width = bracket.high - t
        wish = t + min(max(wish - t, SHRINK[0] * width), SHRINK[1] * width)
    else:
        wish = min(max(wish, GROW[0] * t), GROW[1] * t)
    return Bracket(wish, t, bracket.high, f, slope, bracket.trials + 1)


def accept(state: LbfgsState, g: NDArray[np.float64]) -> LbfgsState:
    """Move to the trial, and store the pair in place if its curvature is positive."""
    s, y, pairs = state.search.t * state.p, g - state.g, state.pairs
    curved = s @ y > LEAST_CURVATURE * np.linalg.norm(s) * np.linalg.norm(y)
    if curved:
        row = pairs.n_pairs % len(pairs.S)
        pairs.S[row], pairs.Y[row] = s, y
        pairs = pairs._replace(n_pairs=pairs.n_pairs + 1)
    return state._replace(x=state.x + s, g=g, pairs=pairs)


def begin_search(state: LbfgsState) -> LbfgsState:
    """Choose a direction from x and try its full length."""
    p = direction(state.pairs, state.g, state.L)
    slope = float(state.g @ p)
    start = Bracket(t=1.0, f_low=state.bounds.objective, slope_low=slope)
    return state._replace(p=p, search=start)


def direction(pairs: CurvaturePairs, g: NDArray[np.float64], L: float) -> NDArray[np.float64]:
    """Return -H g by the two-loop recursion; -g/L where there are no pairs."""
    stored = min(pairs.n_pairs, len(pairs.S))
    rows = [(pairs.n_pairs - 1 - k) % len(pairs.S) for k in range(stored)]  # newest first
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
