"""Xu (2011), "Towards optimal one pass large scale learning with averaged SGD".

Equations (2), (3) and (6), and the search for t0 of section 5, with dense vectors: the same
theta_t and bar_t as its Algorithm 1, which makes a row cost its non-zeros only.

The kernel (sgd/steps.py) differs: u starts at theta_0; both vectors are written back when alpha has
grown; gamma0 is tried out on the first rows.  With the squared hinge a row takes its own exact
step, which is no part of the paper and is here, too (`exact`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem

Floats = NDArray[np.float64]
Phi = Callable[[Floats | float, Floats | float], tuple[Floats, Floats]]

LISTEN = 0.01  # rate of the moving average of theta, and of both smoothed losses
FEWEST_ROWS = 100  # before averaging may begin where t0 is looked for


class Averaged(NamedTuple):
    """The last iterate, the averaged one and the moving average, each with its intercept."""

    theta: Floats
    b: float
    bar: Floats
    b_bar: float
    t0: int | None
    ema: Floats


def gamma(gamma0: float, a: float, c: float, t: int | Floats) -> float | Floats:
    """Return the step size (3)."""
    return gamma0 * (1.0 + a * gamma0 * t) ** (-c)


def asgd(
    phi: Phi, problem: Problem, X: Floats, y: Floats, weight: Floats,
    schedule: tuple[float, float, float], t0: int | None, latest: int = 0, *, exact: bool = False,
) -> Averaged:  # fmt: skip
    """Visit the rows once, in order.

    Parameters
    ----------
    phi, problem, X, y, weight
        As the package says.
    schedule
        gamma0, a and c of (3).
    t0
        After how many rows averaging begins; None: where the moving average of theta predicts
        better than theta itself, after `latest` rows at the latest.
    exact
        Whether a row's step goes to the minimum of its own squared loss.
    """
    theta, b = np.zeros(X.shape[1]), 0.0
    ema, b_ema = theta, b
    bar, b_bar = theta, b
    losses = np.zeros(2)  # of theta and of the moving average, smoothed
    for t, (x, target, v) in enumerate(zip(X, y, weight, strict=True), start=1):
        value, slope = phi(x @ theta + problem.intercept * b, target)
        if t0 is None:
            rate = max(LISTEN, 1.0 / t)
            value_ema, _ = phi(x @ ema + problem.intercept * b_ema, target)
            losses += rate * (np.array([value, value_ema]) - losses)
        step = gamma(*schedule, t)
        if exact:
            slope = slope / (1.0 + step * v * (x @ x + problem.intercept**2))
        theta = (1.0 - problem.lam * step) * theta - step * v * slope * x  # (2)
        b = b - step * (problem.lam_b * b + problem.intercept * v * slope)
        if t0 is None:
            ema, b_ema = ema + LISTEN * (theta - ema), b_ema + LISTEN * (b - b_ema)
            if t >= FEWEST_ROWS and (losses[1] < losses[0] or t >= latest):
                t0 = t
        eta = 1.0 if t0 is None or t <= t0 else 1.0 / (t - t0)
        bar, b_bar = (1.0 - eta) * bar + eta * theta, (1.0 - eta) * b_bar + eta * b  # (6)
    return Averaged(theta, float(b), bar, float(b_bar), t0, ema)
