"""Types of the minimisers of rows in memory: what they are called with, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fewpass.solvers.protocol import Certificate, Weights

#: Called with the passes so far and, after a pass over all rows, the certificate.
AfterReading = Callable[[float, Certificate | None], None]


class Sizes(NamedTuple):
    """Sizes of the rows, and F_0, before they are read."""

    n: int
    d: int
    constants: tuple[float, ...]  # F_0 (protocol.Certificate)


class Minimum(NamedTuple):
    """The result of a minimisation."""

    weights: Weights
    certificate: Certificate
    passes: float  # rows read / number of rows
