"""The rate of a certificate's fall, by its last three passes, and the passes left at that rate.

Digits of a relative gap fall about evenly where a method converges linearly.  What was predicted
before the training knows nothing of these rows; the last three passes do.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from pydantic import Field

from fewpass.solvers.protocol import Certificate

RECENT = 3.0  # passes that the rate looks back on
ROUNDING = 1e-6  # of passes, which add up from rows
SMALLEST = 1e-300  # relative gap


class Mark(NamedTuple):
    """The state of a training at some moment."""

    passes: Annotated[float, Field(ge=0.0)]
    digits: Annotated[float, Field(ge=0.0, le=301.0)]  # of the certificate: 3 for 1e-3, relative

    @classmethod
    def of(cls, passes: float, certificate: Certificate) -> Mark:
        """Read a certificate; one that proves nothing has no digits."""
        return cls(passes, -math.log10(min(1.0, max(certificate.relative, SMALLEST))))


Marks = tuple[Mark, ...]


def noted(marks: Marks, now: Mark) -> Marks:
    """Return the marks with a new one, and without those that the rate no longer looks at."""
    before = tuple(mark for mark in marks if mark.passes < now.passes)
    old = [k for k, mark in enumerate(before) if now.passes - mark.passes >= RECENT - ROUNDING]
    return (*before[old[-1] if old else 0 :], now)


def rate(marks: Marks) -> float | None:
    """Return digits per pass over the last three passes; None before there are as many."""
    if len(marks) < 2 or marks[-1].passes - marks[0].passes < RECENT - ROUNDING:
        return None
    return (marks[-1].digits - marks[0].digits) / (marks[-1].passes - marks[0].passes)


def left_passes(marks: Marks, tol: float) -> float | None:
    """Return the passes to a tolerance at that rate; None where it is unknown or not above 0."""
    speed = rate(marks)
    if speed is None or not speed > 0.0:
        return None
    return max(0.0, -math.log10(tol) - marks[-1].digits) / speed
