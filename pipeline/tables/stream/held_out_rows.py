"""Rows of a source that are not learnt from: those that judge, and bad ones that were left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.source_position import LeftOut
from fewpass.pipeline.tables.ingest.partition import LISTED, PARTITION
from fewpass.pipeline.tables.readers.source import Parsed
from fewpass.storage.table import Table, concatenate, n_bytes, take


def noted(before: LeftOut, parsed: Parsed) -> LeftOut:
    """Count a piece's bad rows, too; the first of all are kept with their reason."""
    room = LISTED - len(before.listed)
    listed = (f"{r.file}, line {r.line}: {r.reason}" for r in parsed.skipped[:room])
    return LeftOut(before.rows + parsed.n_skipped, (*before.listed, *listed))


class HeldOutRows:
    """Rows that nothing is learnt from: as many as there is room for, each as likely as another.

    Every row has a random number; where there are too many, those of the larger half go.
    """

    def __init__(self, room: int, seed: int) -> None:
        self._room, self._seed, self._least = room, seed, 1.0
        self._tables: list[Table] = []
        self._keys: list[NDArray[np.float64]] = []

    def add(self, table: Table, piece: int) -> None:
        """Take in the rows of a piece that were put aside."""
        key = np.random.default_rng([self._seed, PARTITION, piece, 1]).random(table.n_rows)
        self._keep(table, key)
        while sum(map(n_bytes, self._tables)) > self._room and self._least > 1e-9:
            self._least *= 0.5
            before, self._tables, self._keys = (self._tables, self._keys), [], []
            for one, keys in zip(*before, strict=True):
                self._keep(one, keys)

    def _keep(self, table: Table, key: NDArray[np.float64]) -> None:
        chosen = np.flatnonzero(key < self._least)
        if len(chosen):
            self._tables.append(take(table, chosen))
            self._keys.append(key[chosen])

    def table(self) -> Table | None:
        """Return all that were kept."""
        return concatenate(self._tables) if self._tables else None
