"""Newton's method for rows in memory, where a pass costs no more than its arithmetic.

Most of that is H.  So the method begins with every 32nd row, then every 4th, until the predicted
decrease of a step is below the sampling error, (d + 1)/m of the objective.  (Not for the squared
loss: there H is constant, and one step is enough.)  On all rows the last H is kept, with updates by
the change of the gradient along each step,

    H <- H - (H s)(H s)^T / (s . H s) + y y^T / (s . y)        (BFGS; Nocedal and Wright, (6.19))

and is recomputed from all rows only if the certificate decreases slowly.  docs/methods.md,
section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.newton import DECREASE, CurvedPart, add_squares, solved, whole_curvature
from fewpass.solvers.gradient import (
    RISE,
    Bounds,
    add_gradient,
    certificate,
    no_gradient,
    whole_gradient,
)
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, ProblemStats, Weights

SAMPLES = (32, 4)  # every 32nd row, every 4th row
ENOUGH = 15  # rows of a sample per column, at least
MOST_STEPS = 12  # on a sample
MOST_HALVINGS = 30
SLOW = 0.25  # fraction of the gap left after a step, above which H is recomputed
FINE, EXACT, MOST_BEYOND = 1e-6, 1e-12, 3  # see `_is_done`
LEAST_CURVATURE = 1e-12  # least s . y / (s . H s) of an update

Vector = NDArray[np.float64]  # (d + 1,), the intercept last
AfterReading = Callable[[float, Certificate | None], None]


class Minimum(NamedTuple):
    """The result of a minimisation."""

    weights: Weights
    certificate: Certificate
    passes: float  # rows read / number of rows


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
    stats: ProblemStats,
    block: Block,
    tol: float,
    most: float,
    start: Weights | None = None,
    after_reading: AfterReading = lambda _passes, _certified: None,
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
    """
    rows = _Readings(problem, stats, block, after_reading)
    x, H = rows.sampled() if start is None else (np.append(*start), None)
    here = rows.point(x)
    bounds, beyond = Bounds().moved(here.certificate), 0 if start is None else MOST_BEYOND
    constants = stats.constants[:1]
    while (
        not _is_done(bounds.certificate.with_constants(constants), tol, beyond)
        and rows.passes < most
    ):
        H = rows.curvature(here.x) if H is None else H
        there = _searched(rows, here, -solved(H.copy(), here.g), most)
        if there is None:
            break
        before, bounds = bounds, bounds.moved(there.certificate)
        slow = bounds.gap > SLOW * before.gap
        H = None if slow or rows.few else corrected(H, there.x - here.x, there.g - here.g)
        reached = before.certificate.with_constants(constants).relative <= tol
        here, beyond = there, beyond + 1 if reached else 0
    return Minimum(here.weights, bounds.certificate.with_constants(constants), rows.passes)


def _is_done(certified: Certificate, tol: float, beyond: int) -> bool:
    """Whether the tolerance is reached, for fine tolerances with up to three more steps.

    With a tolerance of 1e-6 users compare coefficients, which have half the digits of the
    objective.
    """
    left = certified.relative
    return left <= tol and (tol > FINE or left <= EXACT or beyond >= MOST_BEYOND)


def _searched(
    rows: _Readings, here: EvaluatedPoint, p: Vector, most: float
) -> EvaluatedPoint | None:
    """Return the first of x + p, x + p/2, ... with a sufficient decrease; None without one."""
    slope, t = float(here.g @ p), 1.0
    for _ in range(MOST_HALVINGS):
        there, promised = rows.point(here.x + t * p), DECREASE * t * slope
        if there.certificate.objective <= here.certificate.objective * (1.0 + RISE) + promised:
            return there
        if rows.passes >= most:
            return None
        t *= 0.5
    return None


def corrected(H: NDArray[np.float64], s: Vector, y: Vector) -> NDArray[np.float64] | None:
    """Return H (d + 1, d + 1) updated so that H s = y; None without curvature along s."""
    Hs, sy = H @ s, float(s @ y)
    sHs = float(s @ Hs)
    if not sy > LEAST_CURVATURE * sHs:
        return None
    return H - np.outer(Hs, Hs / sHs) + np.outer(y, y / sy)


class _Readings:
    """Rows in memory, and a count of the passes over them."""

    def __init__(
        self, problem: Problem, stats: ProblemStats, block: Block, tell: AfterReading
    ) -> None:
        self._problem, self._stats = problem, stats
        self._block, self._tell = block, tell
        self.passes = 0.0

    @property
    def few(self) -> bool:
        """Whether there are too few rows for a sample, so that H is cheap."""
        return not self._is_enough(SAMPLES[-1])

    def point(self, x: Vector, every: int = 1) -> EvaluatedPoint:
        """Return objective and gradient at x, over every `every`-th row."""
        block, at = self._read(every), Weights(x[:-1], float(x[-1]))
        part = add_gradient(self._problem, at, block, no_gradient(at))
        certified = certificate(self._problem, at, part)
        self._tell(self.passes, certified if every == 1 else None)
        return EvaluatedPoint(x, np.append(*whole_gradient(self._problem, at, part)), certified)

    def curvature(self, x: Vector, every: int = 1) -> NDArray[np.float64]:
        """Return H (d + 1, d + 1) at x, over every `every`-th row."""
        block, d = self._read(every), self._stats.d
        H = np.zeros((d + 1, d + 1))
        add_squares(H, x[:-1], float(x[-1]), self._problem, *block[:4])
        n = block.order.shape[0]
        lower = np.tril(whole_curvature(self._problem, CurvedPart(0.0, x[:-1], 0.0, n, H, n)))
        self._tell(self.passes, None)
        return lower + np.tril(lower, -1).T

    def sampled(self) -> tuple[Vector, NDArray[np.float64] | None]:
        """Return weights and H after the samples; zero and None with too few rows for any."""
        x, H = np.append(np.zeros(self._stats.d), self._problem.level), None
        for every in () if self._problem.loss.is_quadratic else SAMPLES:
            if self._is_enough(every):
                x, H = self._on_sample(x, every)
        return x, H

    def _on_sample(self, x: Vector, every: int) -> tuple[Vector, NDArray[np.float64]]:
        """Step on a sample while the predicted decrease exceeds the sampling error."""
        left_open = (self._stats.d + 1) * every / self._stats.n
        here, H = self.point(x, every), self.curvature(x, every)
        for _ in range(MOST_STEPS):
            p = -solved(H.copy(), here.g)
            promised = -float(here.g @ p)
            if promised <= left_open * here.certificate.objective:
                return here.x + p, H
            there = self.point(here.x + p, every)
            if not there.certificate.objective < here.certificate.objective:
                break
            here, H = there, self.curvature(there.x, every)
        return here.x, H

    def _is_enough(self, every: int) -> bool:
        return self._stats.n >= every * ENOUGH * (self._stats.d + 1)

    def _read(self, every: int) -> Block:
        """Count a pass; return the rows."""
        self.passes += 1.0 / every
        if every == 1:
            return self._block
        few = np.ascontiguousarray(self._block.order[::every])  # contiguous: one kernel
        return self._block._replace(order=few)
