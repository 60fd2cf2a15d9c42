"""A column that rows are held out by: the key of each row, and the key from which on they are.

Keys of numbers and dates are these, so that the last rows are held out; those of groups are random,
the same for all rows of a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.cells import is_text, read_numbers, without, words_of
from fewpass.pipeline.tables.encoding.date_recipe import Date, fitted_date
from fewpass.pipeline.tables.encoding.fitting import inferred_by
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.encoding.inference import Inferred
from fewpass.pipeline.tables.encoding.number_recipe import Bins, Number
from fewpass.pipeline.tables.readers.held_out_rows import Keys

#: Keys that are sorted at a time; of more, some count for others.
MOST_KEYS = 1 << 22


class SplitColumn(NamedTuple):
    """A column that rows are held out by, and how its cells become keys."""

    name: str
    how: Literal["by", "group"]
    column: Date | Number | Bins | Inferred  # how its cells are read
    seed: int

    @classmethod
    def of(
        cls, name: str, how: Literal["by", "group"], cells: Any, seed: int,
        options: SourceOptions,
    ) -> SplitColumn:  # fmt: skip
        """Look at the cells of a sample; BadInput where rows have no order by them."""
        asked = options.column.get(name, "")
        has_order = asked.startswith(("number", "bins", "date"))
        cells = without(cells, options.null_values or ()) if is_text(cells.type) else cells
        inferred = inferred_by(name, cells, asked if has_order else None, options.null_values)
        if how == "by" and inferred.kind not in ("number", "date"):
            raise BadInput(
                f"`test_by={name}` holds out the last rows by a column of dates or numbers, but "
                f"this one holds words ({inferred.kind}). Name another, or hold out groups "
                f"(`test_group={name}`)."
            )
        is_date = how == "by" and inferred.kind == "date"
        column = fitted_date(name, cells, inferred, whole=False) if is_date else inferred
        return cls(name, how, column, seed)

    def keys(self, cells: Any) -> Keys:
        """Return the keys of rows (n,): missing dates come first, missing words are a group."""
        if self.how == "group":
            words = words_of(cells).fill_null("")
            return hashes(words, f"{self.seed}:").astype(np.float64)
        if isinstance(self.column, Date):
            values = self.column.read(cells).values
        else:
            values = read_numbers(cells, self.column.written, self.column.missing).values
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
