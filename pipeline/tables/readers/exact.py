"""Numbers inside text, all as `float()` has them: compiled, with a second look where needed.

`decimals` leaves a few numbers undecided (of more than 19 digits, about one in a thousand).  A
parser notes where they stand, `float()` rounds them, and the text is parsed again with those.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.decimals import HARD, INFINITE, OK, Position, decimal
from fewpass.solvers.kernels.dispatch import exact_part, kernel
from fewpass.solvers.kernels.shapes import Bytes

_NUMBER = re.compile(rb"[-+]?[\d.]+(?:[eE][-+]?\d+)?")
_FEW = 64


class Rounded(NamedTuple):
    """Numbers that `float()` rounded, by ascending position in the text."""

    at: NDArray[np.int64]  # (m,)
    value: NDArray[np.float64]  # (m,)


class Counted(Protocol):
    """What a parser returns, as far as it matters here."""

    @property
    def hard(self) -> int:
        """Numbers left to `float()`."""


Counts = TypeVar("Counts", bound=Counted)


@kernel
def count_byte(text: Bytes, wanted: int) -> int:
    """Return the number of times that a byte occurs."""
    count = 0
    for c in text:
        count += c == wanted
    return count


@exact_part
def number(
    text: Bytes, at: Position, rounded: Rounded, hard: NDArray[np.int64], n_hard: int
) -> tuple[int, float, Position, int]:
    """`decimal`, with the HARD ones looked up in `rounded`, or noted in `hard`.

    Returns status, value and the position behind, as `decimal` does, and the new `n_hard`, which
    may exceed the size of `hard`.
    """
    status, value, behind = decimal(text, at)
    if status != HARD:
        return status, value, behind, n_hard
    place = np.searchsorted(rounded.at, np.int64(at))
    if place < rounded.at.size:
        value = rounded.value[place]
        return (OK if np.isfinite(value) else INFINITE), value, behind, n_hard
    if n_hard < hard.size:
        hard[n_hard] = at
    return OK, 0.0, behind, n_hard + 1


def parse_exactly(text: Bytes, parse: Callable[[Rounded, NDArray[np.int64]], Counts]) -> Counts:
    """Run `parse(rounded, hard)` until every number is known."""
    nothing = Rounded(np.empty(0, np.int64), np.empty(0))
    hard = np.empty(_FEW, np.int64)
    counts = parse(nothing, hard)
    if counts.hard > hard.size:
        hard = np.empty(counts.hard, np.int64)
        counts = parse(nothing, hard)
    if counts.hard:
        at = hard[: counts.hard].copy()
        counts = parse(Rounded(at, _rounded(text, at)), hard)
    return counts


def _rounded(text: Bytes, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    view = text.data
    matches = [_NUMBER.match(view, int(at)) for at in positions]
    return np.array([float(match.group()) for match in matches if match])
