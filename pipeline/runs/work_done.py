"""How much work a training has done at some moment; speeds are differences of two moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    interval, before, speeds_so_far = (
        min(max(SHORTEST_S, whole / 100), whole),
        WorkDone(),
        list[WorkDone](),
    )
    for mark in marks:
        took = mark.since(before)
        if took.seconds >= interval > 0.0:
            each = (amount / took.seconds for amount in took[1:])
            speeds_so_far.append(WorkDone(mark.seconds, *each))
            before = mark
    return speeds_so_far
