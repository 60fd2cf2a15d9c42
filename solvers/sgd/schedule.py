"""The step size gamma_t = gamma0 (1 + a gamma0 t)^(-c) (Xu 2011, equation 3)."""

from __future__ import annotations

from typing import NamedTuple

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.kernels.simd.lanes import power, sqrt


class Schedule(NamedTuple):
    """Decay of the step size."""

    a: float  # a lower bound on the smallest eigenvalue of the Hessian: lam
    c: float  # power


@part_of_kernels
def step_size(schedule: Schedule, gamma0: Number, t: int) -> Number:
    """Return gamma_t, t = 1, 2, ...; the usual powers are computed by square roots."""
    x = 1.0 + schedule.a * gamma0 * t
    if schedule.c == 0.75:
        half = sqrt(x)
        return gamma0 / (half * sqrt(half))
    if schedule.c == 1.0:
        return gamma0 / x
    return gamma0 * power(x, -schedule.c)
