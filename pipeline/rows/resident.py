"""Rows that stay in memory, decoded, from pass to pass: in each process those that it reads.

A data set that fits into the plan's budget whole is decoded once into one table, and windows are
orders over it.  The order of visits is the same as without, and so are the bits.  Rows are freed
when the run ends; a killed run leaves them in workers until these work on another data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from threading import Lock

import numpy as np

from fewpass.pipeline.rows.buffers import (
    WindowRows,
    cut_rows,
    dataset_block,
    free_buffers,
    numbers_per_row,
    row_view,
)
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.storage.dataset import Dataset
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import cut
from fewpass.storage.whole_table import WholeTable


def rows_in_memory(dataset: Dataset, rule: TargetRule) -> MemoryRows | None:
    """Return the rows of a data set in memory; None of one that is to be read."""
    return MemoryRows(dataset, rule) if isinstance(dataset, MemoryDataset) else None


class MemoryRows:
    """The rows of a data set in memory."""

    def __init__(self, dataset: MemoryDataset, rule: TargetRule) -> None:
        block = dataset_block(dataset.table, dataset, rule)
        self._rows, self._y, self._weight, self._offset = *block[:3], block.offset
        self._places = [slice(0, dataset.n_rows)]

    def prefetch(self, chunk: int) -> None:
        """Do nothing: all rows are here."""

    def load(self, chunks: Sequence[int]) -> WindowRows:  # noqa: ARG002 - there is one
        """Return all rows."""
        return WindowRows(self._rows, self._y, self._weight, self._places, 0, self._offset)


class ResidentRows:
    """All rows of a data set, each chunk decoded when it is first asked for."""

    def __init__(self, dataset: Dataset, rule: TargetRule) -> None:
        self._dataset, self._rule = dataset, rule
        self._whole = WholeTable(dataset.manifest)
        self._rows = row_view(self._whole.table)
        self._y = self._whole.table.target  # as stored, until the chunk is whole
        self._weight = np.empty(dataset.n_rows)
        self._offset = None if rule.folds else self._whole.table.offset
        self._here = [False] * dataset.n_chunks
        self._locks = [Lock() for _ in self._here]

    def prefetch(self, chunk: int) -> None:
        """Have the disk fetch the chunk unless it is decoded."""
        if not self._here[chunk]:
            self._dataset.prefetch(chunk)

    def load(self, chunks: Sequence[int]) -> WindowRows:
        """Return these chunks' rows; where they do not follow each other, among all others."""
        read = [self._read(chunk) for chunk in chunks]
        follow = all(b == a + 1 for a, b in pairwise(chunks))
        first, stop = (chunks[0], chunks[-1] + 1) if follow else (0, len(self._here))
        starts = self._whole.starts
        a, b = starts[first], starts[stop]
        return WindowRows(
            rows=cut_rows(self._rows, a, b),
            y=self._y[a:b],
            weight=self._weight[a:b],
            places=[slice(starts[k] - a, starts[k + 1] - a) for k in chunks],
            bytes_read=sum(read),
            offset=None if self._offset is None else self._offset[a:b],
        )

    def _read(self, chunk: int) -> int:
        """Decode a chunk unless it is here; return the bytes read."""
        with self._locks[chunk]:
            if self._here[chunk]:
                return 0
            size = self._dataset.read_into(chunk, self._whole.slot(chunk))
            a, b = self._whole.starts[chunk : chunk + 2]
            table = cut(self._whole.table, a, b)
            self._y[a:b], self._weight[a:b], _ = numbers_per_row(table, self._dataset, self._rule)
            self._here[chunk] = True
            return size


_retained: dict[tuple[str, TargetRule], ResidentRows] = {}
_keeping = Lock()


def resident_rows(dataset: Dataset, rule: TargetRule) -> ResidentRows:
    """Return this process's rows of a data set; those of another one are freed."""
    key = (dataset.manifest.fingerprint, rule)
    with _keeping:
        if key not in _retained:
            _retained.clear()  # one data set at a time: the budget is one plan's
            _retained[key] = ResidentRows(dataset, rule)
        return _retained[key]


def free_rows() -> None:
    """Free this process's rows and buffers, once no span uses them."""
    free_buffers()
    with _keeping:
        _retained.clear()
