"""How long a training may be silent, by its own pace: alive and stuck is told from slow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from fewpass.pipeline.runs.run_folder import RunFolder

TIMES = 10.0  # its usual span
FLOOR_S = 60.0  # what is silent for less is not looked at
FEWEST = 3  # spans, from which on there is a usual one
NEWEST = 50  # that it is the median of
BEGINS = ("start", "resume")


class Silence(NamedTuple):
    """How long a training has been silent, and how long it may be."""

    seconds: float
    usual: float  # seconds from one sign of progress to the next
    most: float

    @property
    def is_stalled(self) -> bool:
        """Whether it has been silent for longer than it may."""
        return self.seconds > self.most

    def sentence(self) -> str:
        """Say it."""
        return f"no progress for {self.seconds:.0f} s, where {self.usual:.1f} s are usual"


def silence(spans: Sequence[float], seconds: float, floor: float = FLOOR_S) -> Silence | None:
    """Judge a silence by the spans before it; None while too few are known.

    Parameters
    ----------
    spans
        Seconds between signs of progress, the newest last.
    seconds
        Since the last one.
    floor
        Seconds that any training may be silent.
    """
    if len(spans) < FEWEST:
        return None
    usual = median(spans[-NEWEST:])
    return Silence(seconds, usual, max(TIMES * usual, floor))


def silence_of(run: RunFolder, now: datetime | None = None) -> Silence | None:
    """Judge the silence of a run by its log, since it was last begun or resumed."""
    times: list[datetime] = []
    for event in run.events():
        if event["event"] in BEGINS:
            times = []
        times.append(datetime.fromisoformat(event["time"]))
    if not times:
        return None
    spans = [(b - a).total_seconds() for a, b in pairwise(times)]
    return silence(spans, ((now or datetime.now(UTC)) - times[-1]).total_seconds())
