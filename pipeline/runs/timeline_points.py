"""Single moments of a timeline: losses, certificates, workers, work done; and silences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

#: What a gap as large as the objective is: no loss is below 0, which nobody doubts.
NO_BOUND = "no useful bound yet"


def written_gap(gap: float | None, relative: float | None, spec: str = ".3g") -> str | None:
    """Write a gap alone; None without one."""
    if gap is None:
        return None
    return NO_BOUND if relative is not None and relative >= 1.0 else f"{gap:{spec}}"


def above_optimum(gap: float | None, relative: float | None, spec: str = ".3g") -> str | None:
    """Say how far an objective is above the optimum at most; None without a gap."""
    written = written_gap(gap, relative, spec)
    return written if written in (None, NO_BOUND) else f"at most {written} above the optimum"


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
    """The work of one process."""

    rows: int = 0  # of the current pass
    memory: int = 0  # bytes, the most ever
    seconds: float = 0.0  # when it was last heard of


SHORTEST_S = 0.5  # that a speed is the mean of


class WorkDone(NamedTuple):
    """Amounts so far; all seconds but the first are added up over the workers."""

    seconds: float = 0.0
    passes: float = 0.0
    rows: float = 0  # stepped or added up
    bytes_read: float = 0
    working: float = 0.0
    waiting: float = 0.0

    def since(self, before: WorkDone) -> WorkDone:
        """Return the amounts between two moments."""
        return WorkDone(*(now - then for now, then in zip(self, before, strict=True)))

    def per_second(self, amount: float) -> float:
        """Return an amount per second; 0 of no time."""
        return amount / self.seconds if self.seconds > 0.0 else 0.0


def speeds(marks: Sequence[WorkDone]) -> list[WorkDone]:
    """Return amounts over intervals of a hundredth of the time, of half a second at least.

    `seconds` of each is its end, the other fields are per second.  A run that is shorter is one
    interval.
    """
    if not marks:
        return []
    whole = marks[-1].seconds
    interval = min(max(SHORTEST_S, whole / 100), whole)
    before, speeds_so_far = WorkDone(), list[WorkDone]()
    for mark in marks:
        took = mark.since(before)
        if took.seconds >= interval > 0.0:
            each = (amount / took.seconds for amount in took[1:])
            speeds_so_far.append(WorkDone(mark.seconds, *each))
            before = mark
    return speeds_so_far


# -- how long a training may be silent, by its own pace: a stuck one differs from a slow one -------

TIMES = 10.0  # the usual silence
FLOOR_S = 60.0  # a shorter silence is never too long
FEWEST = 3  # silences that a usual one is known from
NEWEST = 50  # that it is the median of


class Silence(NamedTuple):
    """The time a training has been silent, and how long it may be."""

    seconds: float
    usual: float  # seconds from one sign of progress to the next
    most: float

    @property
    def is_stalled(self) -> bool:
        """Return whether it has been silent for longer than it may."""
        return self.seconds > self.most

    def sentence(self) -> str:
        """Say how long it has been silent, and what is usual."""
        return f"no progress for {self.seconds:.0f} s, where {self.usual:.1f} s are usual"


def silence(before: Sequence[float], seconds: float, floor: float = FLOOR_S) -> Silence | None:
    """Compare a silence with those before it; None while they are too few.

    Parameters
    ----------
    before
        Seconds between signs of progress, the newest last.
    seconds
        Since the last one.
    floor
        Seconds that any training may be silent.
    """
    if len(before) < FEWEST:
        return None
    usual = median(before[-NEWEST:])
    return Silence(seconds, usual, max(TIMES * usual, floor))
