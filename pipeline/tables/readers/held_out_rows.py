"""Which rows are held out: drawn at random, or by a column, the same in ingest and training.

At random a share of every piece is, and of its rows of every target.  By a column every row has a
key, and rows of a key from some threshold on are held out.  Keys of numbers and dates are these, so
that the last rows are; those of groups are random, the same for all rows of a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.cells import read_numbers, words_of
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.encoding.inference import Inferred, infer
from fewpass.pipeline.tables.encoding.moments import read_moments
from fewpass.pipeline.tables.readers.source import Parsed, SplitBy

if TYPE_CHECKING:
    from fewpass.pipeline.settings.ingest_plan import IngestPlan
    from fewpass.pipeline.settings.source_reading import SourceReading

Keys = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: First word after the seed of what is drawn in here.
HELD_OUT = 2
#: Keys that are sorted at a time; of more, some count for others.
MOST_KEYS = 1 << 22


def split_asked(plan: IngestPlan | SourceReading, seed: int) -> SplitBy | None:
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
    threshold: float = source.threshold()
    return threshold


class HeldOutShare(NamedTuple):
    """A share of rows, and by what they are held out."""

    fraction: float
    seed: int
    threshold: float | None = None  # of the keys that rows are held out by; None: at random

    def of(self, parsed: Parsed, piece: int) -> Mask:
        """Return which rows (n,) of the piece of that number are held out."""
        if self.threshold is not None:
            assert parsed.split is not None, "the source was asked for it"
            return parsed.split >= self.threshold
        target = parsed.table.target if parsed.among is None else parsed.among.target
        held_out = held_out_at_random(target, self.fraction, self.seed, piece)
        return held_out if parsed.among is None else held_out[parsed.among.good]


def held_out_at_random(target: Keys, fraction: float, seed: int, piece: int) -> Mask:
    """Draw the held-out rows among the rows (n,) of a piece: deterministic given seed and piece."""
    return stratified(target, np.random.default_rng([seed, HELD_OUT, piece]), fraction)


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


class SplitColumn(NamedTuple):
    """A column that rows are held out by, and how its cells become keys."""

    name: str
    how: Literal["by", "group"]
    inferred: Inferred  # what its cells hold
    seed: int

    @classmethod
    def of(cls, name: str, how: Literal["by", "group"], cells: Any, seed: int) -> SplitColumn:
        """Look at the cells of a sample; BadInput where rows have no order by them."""
        inferred = infer(name, cells)
        if how == "by" and inferred.kind not in ("number", "date"):
            raise BadInput(
                f"`test_by={name}` holds out the last rows by a column of dates or numbers, but "
                f"this one holds words ({inferred.kind}). Name another, or hold out groups "
                f"(`test_group={name}`)."
            )
        return cls(name, how, inferred, seed)

    def keys(self, cells: Any) -> Keys:
        """Return the keys of rows (n,): missing dates come first, missing words are a group."""
        if self.how == "group":
            words = words_of(cells).fill_null("")
            return hashes(words, f"{self.seed}:").astype(np.float64)
        kind, written, form, missing, _ = self.inferred
        if kind == "date":
            values = read_moments(cells, form, missing).values
        else:
            values = read_numbers(cells, written, missing).values
        return np.where(np.isnan(values), -math.inf, values)


def threshold_of(split: SplitColumn, parts: Iterable[Keys], fraction: float) -> float:
    """Return the key from which on rows are held out, so that they are nearest to a share of all.

    Rows of one key stay together.  BadInput where all rows have the same.
    """
    keys, counts = counted(parts)
    if len(keys) < 2:
        raise BadInput(
            f"Column {split.name!r} has one value in all rows, so none of them can be held out "
            "by it. Name another (`test_by`, `test_group`)."
        )
    later = np.cumsum(counts[::-1])[::-1]  # rows of this key and above
    best = 1 + int(np.abs(later[1:] - fraction * later[0]).argmin())
    return float(keys[best])


def counted(parts: Iterable[Keys], most: int = MOST_KEYS) -> tuple[Keys, NDArray[np.float64]]:
    """Return the different keys, ascending, and how many rows have each.

    Of more than `most` keys at a time at most half are retained, evenly among the rows, and the
    rows of others count for the one before: shares are then off by about 1/most each time.
    """
    keys: Keys = np.empty(0)
    counts: Keys = np.empty(0)
    for part in parts:
        own, times = np.unique(part, return_counts=True)
        both, at = np.unique(np.concatenate([keys, own]), return_inverse=True)
        every = np.concatenate([counts, times.astype(np.float64)])
        keys, counts = both, np.bincount(at, every).astype(np.float64)
        if len(keys) > most:
            before = np.cumsum(counts) - counts
            starts = np.unique(np.floor(before * (most // 2 / counts.sum())), return_index=True)[1]
            keys, counts = keys[starts], np.add.reduceat(counts, starts)
    return keys, counts
