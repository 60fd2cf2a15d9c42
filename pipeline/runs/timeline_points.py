"""What a timeline has of single moments: losses, certificates, workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: What a gap as large as the objective is: no loss is below 0, which nobody doubts.
NO_BOUND = "no useful bound yet"


def written_gap(gap: float | None, relative: float | None, spec: str = ".3g") -> str | None:
    """Write a gap alone; None without one."""
    if gap is None:
        return None
    return NO_BOUND if relative is not None and relative >= 1.0 else f"{gap:{spec}}"


class Point(NamedTuple):
    """Progressive loss at one moment: of rows before they were learnt from."""

    passes: float
    average: float | None  # since the first row
    since_last: float | None  # since the point before
    seconds: float = 0.0
    step: float | None = None  # size of the method's step


class Certified(NamedTuple):
    """A certificate at one moment."""

    passes: float
    objective: float
    gap: float
    seconds: float = 0.0
    relative: float = 0.0  # what is compared with the tolerance

    def gap_at(self, tol: float) -> float | None:
        """Return the gap of a tolerance, by this certificate; None where nothing is left."""
        return tol * self.gap / self.relative if self.relative > 0.0 else None


def useful(certificates: Iterable[Certified]) -> list[Certified]:
    """Leave out the certificates that say nothing: bars from an objective to 0 flatten a curve."""
    return [one for one in certificates if one.gap < one.objective]


class Worker(NamedTuple):
    """What one process did."""

    rows: int = 0  # of the current pass
    memory: int = 0  # bytes, the most ever
    seconds: float = 0.0  # when it was last heard of
