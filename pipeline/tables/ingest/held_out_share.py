"""Which rows of a piece are held out: the same in an ingest and in a training from files."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.source import Parsed, SplitBy
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT

Mask = NDArray[np.bool_]
#: Held-out rows of a piece, below which their number is drawn: rounded it might be 0 in all pieces.
FEW_ROWS = 10.0


class AsksForSplit(Protocol):
    """A plan with the settings that say which rows are held out."""

    @property
    def test_by(self) -> str | int | None:
        """Column whose last rows are."""

    @property
    def test_group(self) -> str | int | None:
        """Column whose groups are."""


def split_asked(plan: AsksForSplit, seed: int) -> SplitBy | None:
    """Return the column that rows are held out by; None where they are drawn one by one."""
    if plan.test_by is not None:
        return SplitBy(plan.test_by, "by", seed)
    return None if plan.test_group is None else SplitBy(plan.test_group, "group", seed)


def threshold_in(source: Any, split: SplitBy | None, fraction: float) -> float | None:
    """Read a source once for the key from which on rows are held out; None where none is asked.

    BadInput where its format has no columns to hold out by, or where it can be read once only.
    """
    if split is None or not fraction:
        return None
    if not hasattr(source, "threshold"):
        raise BadInput(
            f"Rows are held out by a column (`{split.setting}`), and this format has none with a "
            "name. Leave it out."
        )
    if source.files[0].name == STANDARD_INPUT:
        raise BadInput(
            f"`{split.setting}` reads all rows once before, and {STANDARD_INPUT} is read once "
            "only. Leave it out, or name a file."
        )
    threshold: float = source.threshold(fraction)
    return threshold


def held_out_of(
    parsed: Parsed, random: np.random.Generator, fraction: float, threshold: float | None
) -> Mask:
    """Say which rows (n,) of a piece are held out."""
    if threshold is not None:
        assert parsed.split is not None, "the source was asked for it"
        return parsed.split >= threshold
    return stratified(parsed.table.target, random, fraction)


def stratified(target: NDArray[np.float64], random: np.random.Generator, fraction: float) -> Mask:
    """Draw a share of rows (n,), and of the rows of every target: exact up to a row."""
    n = len(target)
    chosen = np.zeros(n, np.bool_)
    draws = random.random(n)
    if not n:
        return chosen
    _, kind, counts = np.unique(target, return_inverse=True, return_counts=True)
    quota = fraction * counts
    taken = np.floor(quota + 1e-9)
    rest = _whole(fraction * n, random) - int(taken.sum())
    remainders = np.lexsort((random.random(len(counts)), -(quota - taken)))
    taken[remainders[: max(0, rest)]] += 1.0
    order = np.lexsort((draws, kind))
    place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)  # within its kind
    chosen[order[place < taken[kind[order]]]] = True
    return chosen


def _whole(number: float, random: np.random.Generator) -> int:
    """Round a number of rows; where there are few, up or down by chance, right on average."""
    if number >= FEW_ROWS:
        return round(number)
    return int(np.floor(number + random.random() * (abs(number - round(number)) > 1e-9)))
