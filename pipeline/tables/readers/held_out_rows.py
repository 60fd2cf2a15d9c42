"""Rows that are held out: drawn at random, or by a column, the same in ingest and training.

At random a share of every piece is, and of its rows of every target.  By a column every row has a
key (`split_column`), and rows of a key from some threshold on are held out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.source import ParsedRows, PiecePlace, Source, SplitBy
from fewpass.storage.table import Table, take

if TYPE_CHECKING:
    from fewpass.pipeline.settings.ingest_plan import IngestPlan
    from fewpass.pipeline.settings.source_reading import SourceReading

Keys = NDArray[np.float64]
Mask = NDArray[np.bool_]
Seed = tuple[int, ...]
#: First word after the seed of what is drawn in here.
HELD_OUT = 2


def split_asked(plan: IngestPlan | SourceReading, seed: int) -> SplitBy | None:
    """Return the column that rows are held out by; None where they are drawn one by one."""
    if plan.test_by is not None:
        return SplitBy(plan.test_by, "by", seed)
    return None if plan.test_group is None else SplitBy(plan.test_group, "group", seed)


def threshold_in(source: Source, split: SplitBy | None, fraction: float) -> float | None:
    """Read a source once for the key from which on rows are held out; None where none is asked.

    BadInput where its format has no columns to hold out by, or where it can be read once only.
    """
    if split is None or not fraction:
        return None
    threshold = source.threshold()
    if threshold is None:
        raise BadInput(
            f"Rows are held out by a column (`{split.setting}`), and this format has none with a "
            "name. Leave it out."
        )
    return threshold


class HeldOutShare(NamedTuple):
    """A share of rows, and by what they are held out."""

    fraction: float
    seed: Seed
    threshold: float | None = None  # of the keys that rows are held out by; None: at random

    def of(self, parsed: ParsedRows, place: PiecePlace) -> Mask:
        """Return which rows (n,) of a piece are held out."""
        if not self.fraction:
            return np.zeros(parsed.table.n_rows, np.bool_)
        if self.threshold is not None:
            assert parsed.split is not None, "the source was asked for it"
            return parsed.split >= self.threshold
        target = parsed.table.target if parsed.among is None else parsed.among.target
        held_out = held_out_at_random(target, self.fraction, self.seed, place)
        return held_out if parsed.among is None else held_out[parsed.among.good]

    def learnt_from(self, parsed: ParsedRows, place: PiecePlace) -> Table:
        """Return the other rows of a piece."""
        if not self.fraction:
            return parsed.table
        return take(parsed.table, np.flatnonzero(~self.of(parsed, place)))


def held_out_at_random(target: Keys, fraction: float, seed: Seed, place: PiecePlace) -> Mask:
    """Draw the held-out rows among the rows (n,) of a piece: deterministic given seed and place."""
    return stratified(target, np.random.default_rng([*seed, HELD_OUT, *place]), fraction)


def stratified(target: Keys, random: np.random.Generator, fraction: float) -> Mask:
    """Draw a share of rows (n,), and of the rows of every target: exact up to a row.

    Every row has the same chance.  What is left of a target's share beyond whole rows is its
    chance of one more: a systematic sample of the targets, in random order, with these chances.
    To give it to the largest remainders would hold out no row of a target that is there once.
    """
    n = len(target)
    draws = random.random(n)
    _, kind, counts = np.unique(target, return_inverse=True, return_counts=True)
    quota = fraction * counts
    taken = np.floor(quota + 1e-9)
    order = random.permutation(len(counts))
    ends = np.cumsum(np.maximum(0.0, quota - taken)[order])
    taken[order] += np.diff(np.floor(ends + random.random() + 1e-9), prepend=0.0)
    by_draw = np.lexsort((draws, kind))
    place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)  # within its kind
    chosen = np.zeros(n, np.bool_)
    chosen[by_draw[place < taken[kind[by_draw]]]] = True
    return chosen
