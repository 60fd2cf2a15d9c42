"""Columns by frequency: counted while rows are partitioned, renumbered while chunks are written."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.column_statistics import MOST_ROWS
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Floats
from fewpass.storage.array_text import as_text, from_text
from fewpass.storage.codec import decode_into, encode, verify
from fewpass.storage.column_order import ColumnOrder, by_frequency
from fewpass.storage.table import Integers, SparseTable, Table

#: Columns whose weights, and what is stored next to these, fit the cache in any order.
CACHED_COLUMNS = 4096
#: Columns stay where they are if the first of them hold this share of what the most frequent would.
IN_ORDER = 0.95

#: Longer rows are sorted by eight bits at a time: their histogram stays in the nearest cache.
DIGIT_BITS = 8
#: Shorter rows by comparing all with all, padded to a multiple of the second number.
SHORT, TOGETHER = 96, 32


class ColumnCounts:
    """Counts of rows that have a value in each column; several threads may count at once.

    Whole numbers are added, so the order in which threads come does not matter. Four bytes count
    up to 2^32 rows.
    """

    def __init__(self) -> None:
        self._counts: NDArray[np.unsignedinteger] = np.zeros(0, np.uint32)
        self._rows = 0
        self._lock = Lock()

    def add(self, table: Table, max_index: int) -> None:
        """Count a sparse table in, whose largest column is at most `max_index`."""
        assert isinstance(table, SparseTable), "only sparse columns are renumbered"
        with self._lock:
            self._rows += table.n_rows
            if self._rows > MOST_ROWS:
                self._counts = self._counts.astype(np.uint64, copy=False)
            have = self._counts.size
            if max_index >= have:
                more = max(max_index + 1 - have, have // 2)
                self._counts = np.concatenate([self._counts, np.zeros(more, self._counts.dtype)])
            _count(self._counts, table.indices)

    def __getstate__(self) -> tuple[str, int, bytes, int]:
        """Return type, size, counts and rows; compressed, most being small, to a tenth and less."""
        counts = np.trim_zeros(self._counts, "b")
        return counts.dtype.str, counts.size, encode(counts) if counts.size else b"", self._rows

    def __setstate__(self, state: tuple[str, int, bytes, int]) -> None:
        dtype, size, raw, self._rows = state
        self._counts, self._lock = np.zeros(size, dtype), Lock()
        if size:
            verify([raw])
            decode_into(raw, self._counts)

    def state(self) -> list[Any]:
        """Return the same as JSON."""
        dtype, size, raw, rows = self.__getstate__()
        return [dtype, size, base64.b64encode(raw).decode(), rows]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> ColumnCounts:
        """Inverse of `state`."""
        made, (dtype, size, text, rows) = cls(), state
        made.__setstate__((dtype, size, base64.b64decode(text), rows))
        return made

    def join(self, other: ColumnCounts) -> None:
        """Add the counts of other rows."""
        counts = other._counts
        with self._lock:
            self._rows += other._rows
            wide = np.uint64 if self._rows > MOST_ROWS else self._counts.dtype
            large, small = sorted((self._counts, counts), key=len, reverse=True)
            self._counts = large.astype(wide)
            self._counts[: small.size] += small.astype(wide)

    def order(self, n_features: int) -> ColumnOrder:
        """Return the order of frequency, or none where it would bring little; counts no more."""
        if n_features <= CACHED_COLUMNS:
            return ColumnOrder()
        counts, self._counts = self._counts[:n_features], self._counts[:0]
        if counts.size < n_features:
            missing = np.zeros(n_features - counts.size, counts.dtype)
            counts = np.concatenate([counts, missing])
        order = by_frequency(counts)
        assert order.source is not None, "made just now"
        first, frequent = counts[:CACHED_COLUMNS], counts[order.source[:CACHED_COLUMNS]]
        return ColumnOrder() if first.sum() >= IN_ORDER * frequent.sum() else order


def renumber(table: Table, order: ColumnOrder) -> None:
    """Turn a sparse table's rows, in place, from the order of the source to the stored one."""
    if order.source is None:
        return
    assert isinstance(table, SparseTable), "only sparse columns are renumbered"
    digits = -(-int(order.source.size - 1).bit_length() // DIGIT_BITS)
    _renumber(order.place, table.indptr, table.indices, table.data, digits)


def orders_as_state(orders: Sequence[ColumnOrder]) -> list[list[str] | None]:
    """Return the orders as JSON."""
    sources = [order.source for order in orders]
    return [None if s is None else [s.dtype.str, as_text(s)] for s in sources]


def orders_from_state(state: Sequence[list[str] | None]) -> tuple[ColumnOrder, ...]:
    """Inverse of `orders_as_state`."""
    return tuple(ColumnOrder() if s is None else ColumnOrder(from_text(s[1], s[0])) for s in state)


@kernel
def _count(counts: Integers, indices: Integers) -> None:
    for k in range(indices.shape[0]):
        counts[np.uint64(indices[k])] += 1


@kernel
def _renumber(
    place: Integers, indptr: Integers, indices: Integers, data: Floats, digits: int
) -> None:
    """Give every value its column's place and sort each row by it."""
    longest = SHORT
    for i in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    count = np.empty(1 << DIGIT_BITS, np.int64)
    columns, values = np.empty(longest, place.dtype), np.empty(longest, data.dtype)
    columns_sorted, values_sorted = np.empty(longest, place.dtype), np.empty(longest, data.dtype)
    rank = np.empty(SHORT, place.dtype)
    for i in range(indptr.shape[0] - 1):
        first, stop = indptr[i], indptr[i + 1]
        n, last = stop - first, digits - 1
        for k in range(n):
            columns[k] = place[np.uint64(indices[first + k])]
            values[k] = data[first + k]
        row, row_values = indices[first:stop], data[first:stop]
        if n <= SHORT:
            _rank(columns, n, rank)
            for k in range(n):
                at = np.uint64(rank[k])
                row[at], row_values[at] = columns[k], values[k]
            continue
        for digit in range(last):
            _sort_by(columns, values, n, DIGIT_BITS * digit, count, columns_sorted, values_sorted)
            columns, columns_sorted = columns_sorted, columns
            values, values_sorted = values_sorted, values
        _sort_by(columns, values, n, DIGIT_BITS * last, count, row, row_values)


@part_of_kernels
def _rank(columns: Integers, n: int, rank: Integers) -> None:
    """Count for each of n distinct columns how many are smaller.

    Of a short row that is quicker than any sort: nothing is branched on, and a processor compares
    eight or sixteen at once. Entries after the n-th are overwritten.
    """
    padded = -(-n // TOGETHER) * TOGETHER
    columns[n:padded] = columns[0] if n > 0 else 0
    rank[:padded] = 0
    for i in range(n):
        column = columns[i]
        for k in range(padded):  # unsigned places and 32 bits: else it is not vectorised
            at = np.uint64(k)
            rank[at] += np.int32(column < columns[at])


@part_of_kernels
def _sort_by(
    columns: Integers, values: Floats, n: int, shift: int, count: Integers, columns_out: Integers,
    values_out: Floats,
) -> None:  # fmt: skip
    """Sort n pairs by one digit of their column; pairs of equal digits keep their order."""
    mask = count.shape[0] - 1
    count[:] = 0
    for k in range(n):
        count[np.uint64((columns[k] >> shift) & mask)] += 1
    before = 0
    for b in range(count.shape[0]):
        count[b], before = before, before + count[b]
    for k in range(n):
        value = np.uint64((columns[k] >> shift) & mask)
        at = np.uint64(count[value])
        count[value] += 1
        columns_out[at], values_out[at] = columns[k], values[k]
