"""Rows of chunks, decoded into buffers that are reused; and tables seen as blocks.

New memory costs a third of the time of decoding into it, so buffers outlive their span.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.targets import TargetRule
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.protocol import Block
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import DenseTable, Table
from fewpass.storage.table_buffer import TableBuffer

NO_NUMBERS = np.empty(0)  # per row
AMPLE = 2  # times the size that is needed; a larger buffer is freed


class WindowRows(NamedTuple):
    """The rows of a window's chunks, possibly among others."""

    rows: Rows
    y: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,)
    places: list[slice]  # of each chunk's rows
    bytes_read: int
    offset: NDArray[np.float64] | None = None  # (n,)


class RowSource(Protocol):
    """Loads the rows of chunks."""

    def prefetch(self, chunk: int) -> None:
        """Announce that a chunk will be loaded soon."""

    def load(self, chunks: Sequence[int]) -> WindowRows:
        """Return the rows of these chunks."""


class DecodedRows:
    """A window's rows, decoded chunk by chunk into a buffer that is reused."""

    def __init__(self, dataset: Dataset, rule: TargetRule, buffer: TableBuffer) -> None:
        self._dataset, self._rule = dataset, rule
        self.buffer, self.fingerprint = buffer, dataset.manifest.fingerprint

    def prefetch(self, chunk: int) -> None:
        """Have the disk fetch the chunk."""
        self._dataset.prefetch(chunk)

    def load(self, chunks: Sequence[int]) -> WindowRows:
        """Return the rows of these chunks; those loaded before are overwritten."""
        buffer = self.buffer
        buffer.clear()
        size, ends = 0, [0]
        for chunk in chunks:
            size += self._dataset.read_into(chunk, buffer)
            ends.append(buffer.n_rows)
        table = buffer.table()
        y, weight, offset = numbers_per_row(table, self._dataset, self._rule)
        return WindowRows(
            rows=row_view(table),
            y=y,
            weight=weight,
            offset=offset,
            places=[slice(a, b) for a, b in pairwise(ends)],
            bytes_read=size,
        )


_idle: list[tuple[str, TableBuffer]] = []  # with the fingerprint of the data set that they are for
_giving = Lock()


def borrow_rows(dataset: Dataset, rule: TargetRule, capacity: tuple[int, int]) -> DecodedRows:
    """Return rows in an idle buffer, or in a new one; idle buffers of other sizes are freed."""
    fingerprint = dataset.manifest.fingerprint
    with _giving:
        _idle[:] = [(of, one) for of, one in _idle if of == fingerprint and suits(one, capacity)]
        buffer = _idle.pop()[1] if _idle else TableBuffer(dataset.manifest, *capacity)
    return DecodedRows(dataset, rule, buffer)


def suits(buffer: TableBuffer, capacity: tuple[int, int]) -> bool:
    """Say whether a buffer fits these numbers of rows and values, and not far more."""
    own = (buffer.most_rows, buffer.most_nnz)
    return all(n <= m <= AMPLE * n + 1 for n, m in zip(capacity, own, strict=True))


def return_buffer(source: RowSource) -> None:
    """Return a buffer, for the next reader of this process."""
    if isinstance(source, DecodedRows):
        with _giving:
            _idle.append((source.fingerprint, source.buffer))


def free_buffers() -> None:
    """Free the idle buffers."""
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


def numbers_per_row(
    table: Table, dataset: Dataset, rule: TargetRule
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Return y (n,), weights (n,) of mean 1 over the set, and offsets (n,) if they stay apart."""
    y = np.ascontiguousarray(rule.read(table.target))
    weight = unit_weights(table, dataset, rule)
    if table.offset is None or rule.folds is None:
        return y, weight, table.offset
    taken = rule.folds.at_offset(y, table.offset)
    return taken.y, weight * taken.weight, None


def table_block(
    table: Table,
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    order: NDArray[np.int64] | None = None,
    row_state: NDArray[np.float64] = NO_NUMBERS,
    offset: NDArray[np.float64] | None = None,
) -> Block:
    """See the rows of a table as a block; in their order unless another is given."""
    order = np.arange(table.n_rows) if order is None else order
    return Block(row_view(table), np.ascontiguousarray(y), weight, order, row_state, offset)


def dataset_block(
    table: Table,
    dataset: Dataset,
    rule: TargetRule,
    order: NDArray[np.int64] | None = None,
    row_state: NDArray[np.float64] = NO_NUMBERS,
) -> Block:
    """See rows of a data set as a block: targets by a rule, weights of mean 1 over the set."""
    y, weight, offset = numbers_per_row(table, dataset, rule)
    return table_block(table, y, weight, order, row_state, offset)


def rows_taken(block: Block, rows: Any) -> Block:
    """Return some rows of a block, in new memory."""
    offset = None if block.offset is None else block.offset[rows]
    order = np.arange(len(rows))
    return block._replace(
        rows=_taken(block.rows, rows), y=block.y[rows], weight=block.weight[rows], order=order,
        offset=offset, folds=None,
    )  # fmt: skip


def _taken(rows: Rows, chosen: Any) -> Rows:
    if isinstance(rows, DenseRows):
        return DenseRows(rows.X[chosen])
    counts = np.diff(rows.indptr)[chosen]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    places = np.arange(indptr[-1]) + np.repeat(rows.indptr[chosen] - indptr[:-1], counts)
    return SparseRows(rows.data[places], rows.indices[places], indptr)
