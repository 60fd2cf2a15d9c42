"""Rows of chunks, decoded into buffers that are used again and again.

Memory that is new costs a third of what decoding into it does: so buffers outlive the span that
they were made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.targets import TargetRule
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.storage.dataset import Dataset, TableBuffer
from fewpass.storage.table import DenseTable, Table

AMPLE = 2  # times the room that is needed; a larger buffer is let go


class WindowRows(NamedTuple):
    """The rows of a window's chunks, maybe among others."""

    rows: Rows
    y: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,)
    places: list[slice]  # where each chunk's rows are
    bytes_read: int
    fetch_s: float  # of reading them: the store's part


class RowSource(Protocol):
    """Something that has the rows of chunks."""

    def prefetch(self, chunk: int) -> None:
        """Say that a chunk is about to be asked for."""

    def load(self, chunks: Sequence[int]) -> WindowRows:
        """Return the rows of these chunks."""


class DecodedRows:
    """A window's rows, decoded one chunk after the other into a buffer that is used again."""

    def __init__(self, dataset: Dataset, rule: TargetRule, buffer: TableBuffer) -> None:
        self._dataset, self._rule = dataset, rule
        self.buffer, self.fingerprint = buffer, dataset.manifest.fingerprint

    def prefetch(self, chunk: int) -> None:
        """Let the disk fetch what will be decoded."""
        self._dataset.prefetch(chunk)

    def load(self, chunks: Sequence[int]) -> WindowRows:
        """Return the rows of these chunks; those asked for before are overwritten."""
        buffer, fetched = self.buffer, self.buffer.fetch_s
        buffer.clear()
        size, ends = 0, [0]
        for chunk in chunks:
            size += self._dataset.read_into(chunk, buffer)
            ends.append(buffer.n_rows)
        table = buffer.table()
        return WindowRows(
            rows=row_view(table),
            y=np.ascontiguousarray(self._rule.read(table.target)),
            weight=unit_weights(table, self._dataset, self._rule),
            places=[slice(a, b) for a, b in pairwise(ends)],
            bytes_read=size,
            fetch_s=buffer.fetch_s - fetched,
        )


_idle: list[tuple[str, TableBuffer]] = []  # with the fingerprint of the data set that they are for
_giving = Lock()


def borrowed(dataset: Dataset, rule: TargetRule, capacity: tuple[int, int]) -> DecodedRows:
    """Return rows in a buffer that nobody uses, or in a new one; what does not suit is let go."""
    fingerprint = dataset.manifest.fingerprint
    with _giving:
        _idle[:] = [(of, one) for of, one in _idle if of == fingerprint and suits(one, capacity)]
        buffer = _idle.pop()[1] if _idle else TableBuffer(dataset.manifest, *capacity)
    return DecodedRows(dataset, rule, buffer)


def suits(buffer: TableBuffer, capacity: tuple[int, int]) -> bool:
    """Say whether there is room for so many rows and values, and not far more."""
    room = (buffer.most_rows, buffer.most_nnz)
    return all(n <= m <= AMPLE * n + 1 for n, m in zip(capacity, room, strict=True))


def give_back(source: RowSource) -> None:
    """Leave a buffer to whoever reads next in this process."""
    if isinstance(source, DecodedRows):
        with _giving:
            _idle.append((source.fingerprint, source.buffer))


def let_go_of_buffers() -> None:
    """Give those that nobody uses back to the system."""
    with _giving:
        _idle.clear()


def cut_rows(rows: Rows, start: int, stop: int) -> Rows:
    """See rows start <= i < stop; no copy."""
    if isinstance(rows, DenseRows):
        return DenseRows(rows.X[start:stop])
    return rows._replace(indptr=rows.indptr[start : stop + 1])


def row_view(table: Table) -> Rows:
    """See a table as kernels do; no copy."""
    if isinstance(table, DenseTable):
        return DenseRows(table.X)
    unsigned = np.uint32 if table.indices.itemsize == 4 else np.uint64
    return SparseRows(table.data, table.indices.view(unsigned), table.indptr)


def unit_weights(table: Table, dataset: Dataset, rule: TargetRule) -> NDArray[np.float64]:
    """Row weights scaled so that their mean over the whole set is 1, times their class's."""
    weights = dataset.manifest.weights
    if table.weight is None or weights is None:
        return rule.weigh(table.target)
    return rule.weigh(table.target) * table.weight * (dataset.manifest.n_rows / weights.total)
