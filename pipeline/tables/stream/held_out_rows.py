"""Rows of a source that are not learnt from: held-out rows, and bad ones that were left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.source_position import LeftOut
from fewpass.pipeline.tables.ingest.partition import LISTED, PARTITION
from fewpass.pipeline.tables.readers.source import Parsed
from fewpass.storage.table import Table, concatenate, n_bytes, take


def with_skipped(before: LeftOut, parsed: Parsed) -> LeftOut:
    """Count a piece's bad rows, too; the first of all are listed with their reason."""
    more = LISTED - len(before.listed)
    listed = (f"{r.file}, line {r.line}: {r.reason}" for r in parsed.skipped[:more])
    return LeftOut(before.rows + parsed.n_skipped, (*before.listed, *listed))


class HeldOutRows:
    """Held-out rows within a budget of memory, a uniform sample of all.

    Every row has a random number; where the rows are too many, the upper half is dropped.
    """

    def __init__(self, most_bytes: int, seed: int) -> None:
        self._most_bytes, self._seed, self._below = most_bytes, seed, 1.0
        self._tables: list[Table] = []
        self._keys: list[NDArray[np.float64]] = []

    def add(self, table: Table, piece: int) -> None:
        """Add the held-out rows of a piece."""
        key = np.random.default_rng([self._seed, PARTITION, piece, 1]).random(table.n_rows)
        self._add_below(table, key)
        while sum(map(n_bytes, self._tables)) > self._most_bytes and self._below > 1e-9:
            self._below *= 0.5
            before, self._tables, self._keys = (self._tables, self._keys), [], []
            for one, keys in zip(*before, strict=True):
                self._add_below(one, keys)

    def _add_below(self, table: Table, key: NDArray[np.float64]) -> None:
        chosen = np.flatnonzero(key < self._below)
        if len(chosen):
            self._tables.append(take(table, chosen))
            self._keys.append(key[chosen])

    def table(self) -> Table | None:
        """Return all of them; None where there are none."""
        return concatenate(self._tables) if self._tables else None
