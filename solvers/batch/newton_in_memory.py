"""Newton's method for rows in memory, where a pass costs no more than its arithmetic.

Most of that is H.  So the method begins with a row of every 32, then of every 4, until the
predicted decrease of a step is below the sampling error, (d + 1)/m of the objective.  (Not for the
squared loss: there H is constant, and normal_equations.py needs one reading.)  H is retained, with
updates by the change of the gradient along each step,

    H <- H - (H s)(H s)^T / (s . H s) + y y^T / (s . y)        (BFGS; Nocedal and Wright, (6.19))

on samples of (s . y) / (s . H s) times H, as curvatures fall together on the way from zero
(Nocedal and Wright, (6.20)).  It is recomputed where steps promise hardly less than those before,
or do not bring what they promise.  docs/methods.md, section 8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.cholesky import solved
from fewpass.solvers.batch.newton import CurvedPart, add_squares, whole_curvature
from fewpass.solvers.batch.normal_equations import Moments, least_squares, moments_of
from fewpass.solvers.certified_minimum import AfterReading, Minimum, Sizes
from fewpass.solvers.gradient import (
    RISE,
    SUFFICIENT_DECREASE,
    Bounds,
    add_gradient,
    certificate,
    no_gradient,
    whole_gradient,
)
from fewpass.solvers.kernels.rows import DenseRows, Rows
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, ProblemStats, Weights

SAMPLES = (32, 4)  # every 32nd row, every 4th row
ENOUGH = 15  # rows of a sample per column, at least
SAMPLED = 11  # what a random generator is for
MOST_STEPS = 12  # on a sample
MOST_HALVINGS = 30
FRESH_DIGITS = 2.0  # of the gap, that a step by a fresh H brings more than one by a kept one
IN_CACHE = 64  # columns, up to which H is in the innermost cache
FINE, EXACT, MOST_BEYOND = 1e-6, 1e-12, 3  # see `_is_done`
LEAST_CURVATURE = 1e-12  # least s . y / (s . H s) of an update

Vector = NDArray[np.float64]  # (d + 1,), the intercept last


class EvaluatedPoint(NamedTuple):
    """Weights with gradient and certificate over some rows."""

    x: Vector
    g: Vector
    certificate: Certificate

    @property
    def weights(self) -> Weights:
        """Coefficients and intercept."""
        return Weights(self.x[:-1].copy(), float(self.x[-1]))


def minimise(
    problem: Problem,
    stats: ProblemStats | Sizes,
    block: Block,
    tol: float,
    most: float,
    start: Weights | None = None,
    after_reading: AfterReading = lambda _passes, _certified: None,
    sums: Moments | None = None,
) -> Minimum:
    """Minimise until the certified relative gap is at most `tol`, in about `most` passes at most.

    Parameters
    ----------
    problem
        The loss must be smooth.
    stats
        Number of rows and columns.
    block
        All rows, with weights of mean 1, in stored order.
    start
        A model to start from; samples are skipped then.
    after_reading
        Called after every pass with the passes so far and, after a pass over all rows, the
        certificate; an exception that it raises ends the search.
    sums
        Of the squared loss: those of all rows, where they are added up already.
    """
    rows = _Readings(problem, stats, block, after_reading)
    constants = stats.constants[:1]
    if sums or (start is None and problem.loss.is_quadratic and tol > FINE):
        x, proven = rows.least_squares(sums)
        proven = proven.with_constants(constants)
        if proven.relative <= tol:
            return Minimum(Weights(x[:-1].copy(), float(x[-1])), proven, rows.passes)
        start = Weights(x[:-1], float(x[-1])) if np.isfinite(x).all() else None
    x, H = rows.sampled() if start is None else (np.append(*start), None)
    here, last = rows.point(x), np.inf
    bounds, beyond = Bounds().moved(here.certificate), 0 if start is None else MOST_BEYOND
    while (
        not _is_done(bounds.certificate.with_constants(constants), tol, beyond)
        and rows.passes < most
    ):
        before_step = H
        H, p, promised = rows.step(here, before_step, last)
        there = _searched(rows, here, p, 1 if H is before_step else MOST_HALVINGS, most)
        if there is None and H is before_step:
            H, last = None, np.inf
            continue
        if there is None:
            break
        before, bounds = bounds, bounds.moved(there.certificate)
        H = None if rows.few else corrected(H, there.x - here.x, there.g - here.g)
        reached = before.certificate.with_constants(constants).relative <= tol
        here, last, beyond = there, promised, beyond + 1 if reached else 0
    return Minimum(here.weights, bounds.certificate.with_constants(constants), rows.passes)


def _is_done(certified: Certificate, tol: float, beyond: int) -> bool:
    """Return whether the tolerance is reached, for fine tolerances with up to three more steps.

    With a tolerance of 1e-6 users compare coefficients, which have half the digits of the
    objective.
    """
    left = certified.relative
    return left <= tol and (tol > FINE or left <= EXACT or beyond >= MOST_BEYOND)


def _searched(
    rows: _Readings, here: EvaluatedPoint, p: Vector, trials: int, most: float
) -> EvaluatedPoint | None:
    """Return the first of x + p, x + p/2, ... with a sufficient decrease; None without one."""
    slope, t = float(here.g @ p), 1.0
    for _ in range(trials):
        there, promised = rows.point(here.x + t * p), SUFFICIENT_DECREASE * t * slope
        if there.certificate.objective <= here.certificate.objective * (1.0 + RISE) + promised:
            return there
        if rows.passes >= most:
            return None
        t *= 0.5
    return None


def corrected(
    H: NDArray[np.float64], s: Vector, y: Vector, *, scaled: bool = False
) -> NDArray[np.float64] | None:
    """Return H (d + 1, d + 1) updated so that H s = y; None without curvature along s.

    Scaled, all of it is first multiplied by what the curvature along s has changed by.
    """
    Hs, sy = H @ s, float(s @ y)
    sHs = float(s @ Hs)
    if not sy > LEAST_CURVATURE * sHs:
        return None
    share = sy / sHs if scaled else 1.0
    return share * H - np.outer(Hs, Hs * (share / sHs)) + np.outer(y, y / sy)


def slow_above(rows: Rows, d: int) -> float:
    """Return how much of what a step promised the next may promise, for H to be kept.

    A fresh H brings `FRESH_DIGITS`, for which about 1 + k gradients could be read: rows are added
    to H in k times the time of a gradient.
    """
    if isinstance(rows, DenseRows):
        k = d / 10.0
    else:
        k = len(rows.indices) / (len(rows.indptr) - 1) / (6.0 if d <= IN_CACHE else 2.0)
    return float(10.0 ** (-FRESH_DIGITS / (1.0 + k)))


class _Readings:
    """Rows in memory, and a count of the passes over them."""

    def __init__(
        self, problem: Problem, stats: ProblemStats | Sizes, block: Block, tell: AfterReading
    ) -> None:
        self._problem, self._stats = problem, stats
        self._block, self._tell = block, tell
        self._slow = slow_above(block.rows, stats.d)
        self._samples: dict[int, Block] = {}
        self.passes = 0.0

    @property
    def few(self) -> bool:
        """Return whether there are too few rows for a sample, so that H is cheap."""
        return not self._is_enough(SAMPLES[-1])

    def point(self, x: Vector, every: int = 1) -> EvaluatedPoint:
        """Return objective and gradient at x, over every `every`-th row."""
        block, at = self._read(every), Weights(x[:-1], float(x[-1]))
        part = add_gradient(self._problem, at, block, no_gradient(at))
        certified = certificate(self._problem, at, part)
        self._tell(self.passes, certified if every == 1 else None)
        return EvaluatedPoint(x, np.append(*whole_gradient(self._problem, at, part)), certified)

    def least_squares(self, sums: Moments | None) -> tuple[Vector, Certificate]:
        """Return the minimum of the squared loss by sums over all rows, and what they prove."""
        sums = sums or moments_of(self._problem, self._stats.d, self._read(1))
        x, certified = least_squares(self._problem, sums)
        self._tell(self.passes, certified)
        return x, certified

    def curvature(self, x: Vector, every: int = 1) -> NDArray[np.float64]:
        """Return H (d + 1, d + 1) at x, over every `every`-th row."""
        block, d = self._read(every), self._stats.d
        H = np.zeros((d + 1, d + 1))
        add_squares(H, x[:-1], float(x[-1]), self._problem, *block[:4])
        n = block.order.shape[0]
        lower = np.tril(whole_curvature(self._problem, CurvedPart(0.0, x[:-1], 0.0, n, H, n)))
        self._tell(self.passes, None)
        return lower + np.tril(lower, -1).T

    def step(
        self, here: EvaluatedPoint, H: NDArray[np.float64] | None, last: float, every: int = 1
    ) -> tuple[NDArray[np.float64], Vector, float]:
        """Return H, the step by it, and the decrease that the step promises.

        H is recomputed where there is none, or where the step promises hardly less than the one
        before it, which promised `last`.
        """
        if H is not None:
            p = -solved(H.copy(), here.g)
            promised = -float(here.g @ p)
            if promised <= self._slow * last:
                return H, p, promised
        H = self.curvature(here.x, every)
        p = -solved(H.copy(), here.g)
        return H, p, -float(here.g @ p)

    def sampled(self) -> tuple[Vector, NDArray[np.float64] | None]:
        """Return weights and H after the samples; zero and None with too few rows for any."""
        x, H = np.append(np.zeros(self._stats.d), self._problem.level), None
        for every in () if self._problem.loss.is_quadratic else SAMPLES:
            if self._is_enough(every):
                x, H = self._on_sample(x, every)
        return x, H

    def _on_sample(self, x: Vector, every: int) -> tuple[Vector, NDArray[np.float64] | None]:
        """Step on a sample while the predicted decrease exceeds the sampling error."""
        left_open = (self._stats.d + 1) * every / self._stats.n
        here, last = self.point(x, every), np.inf
        H: NDArray[np.float64] | None = None
        for _ in range(MOST_STEPS):
            before_step = H
            H, p, promised = self.step(here, before_step, last, every)
            if promised <= left_open * here.certificate.objective:
                return here.x + p, H
            there = self.point(here.x + p, every)
            if there.certificate.objective < here.certificate.objective:
                H = corrected(H, there.x - here.x, there.g - here.g, scaled=True)
                here, last = there, promised
            elif H is before_step:
                H, last = None, np.inf
            else:
                break
        return here.x, H

    def _is_enough(self, every: int) -> bool:
        return self._stats.n >= every * ENOUGH * (self._stats.d + 1)

    def _read(self, every: int) -> Block:
        """Count a pass; return the rows."""
        self.passes += 1.0 / every
        if every == 1:
            return self._block
        if every not in self._samples:
            self._samples[every] = self._block._replace(order=self._drawn(every))
        return self._samples[every]

    def _drawn(self, every: int) -> NDArray[np.int64]:
        """Return one random row of every few: rows may repeat themselves with a period."""
        order, rng = self._block.order, np.random.default_rng([every, SAMPLED])
        first = np.arange(0, len(order) - every + 1, every)
        drawn: NDArray[np.int64] = order[first + rng.integers(every, size=len(first))]
        return drawn
