"""The size of chunks in rows, and rows of a table that are copied when they are needed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.prefetch import prefetch_span
from fewpass.solvers.kernels.shapes import Floats
from fewpass.storage.table import DenseTable, Integers, SparseTable, Table

#: A store needs a request for each object of a chunk, and a training has each chunk on record.
MOST_CHUNKS = 1 << 16
#: Rows asked for ahead of the one that is copied: they may lie anywhere in memory.
AHEAD = 8


@kernel
def _copy_rows(
    starts: Integers, stops: Integers, data: Floats, indices: Integers, new_data: Floats,
    new: Integers,
) -> None:  # fmt: skip
    at = 0
    for i in range(starts.shape[0]):
        ahead = min(i + AHEAD, starts.shape[0] - 1)
        prefetch_span(data, starts[ahead], stops[ahead], 0)
        prefetch_span(indices, starts[ahead], stops[ahead], 0)
        for k in range(starts[i], stops[i]):
            new_data[at] = data[k]
            new[at] = indices[k]
            at += 1


class Selection(NamedTuple):
    """Rows `order` of a table, which copies are made of when they are needed."""

    table: Table
    order: Integers  # (n,) int64

    def rows(self) -> Table:
        """Return `take(table, order)`, without its temporary arrays and with the GIL released."""
        table, order = self
        if isinstance(table, DenseTable):
            return _dense_rows(table, order)
        starts, stops = table.indptr[order], table.indptr[order + 1]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(stops - starts)])
        data = np.empty(indptr[-1], table.data.dtype)
        indices = np.empty(indptr[-1], table.indices.dtype)
        _copy_rows(starts, stops, table.data, table.indices, data, indices)
        return SparseTable(
            data, indices, indptr, table.target[order], *_parts_per_row(table, order)
        )


def _dense_rows(table: DenseTable, order: Integers) -> DenseTable:
    X = np.take(table.X, order, axis=0, mode="clip")  # other modes, and indexing, keep the GIL
    return DenseTable(X, table.target[order], *_parts_per_row(table, order))


def _parts_per_row(table: Table, order: Integers) -> list[Any]:
    """Return weights, offsets and kept columns in an order."""
    parts = (table.weight, table.offset, table.retained)
    return [None if part is None else part[order] for part in parts]


def rows_per_chunk(plan: IngestPlan, n_rows: int, n_bytes: int) -> int:
    """Rows of every chunk but the last, for `n_rows` rows of `n_bytes` decoded bytes together.

    Chunks grow with the set, unless somebody gave their size, as far as memory allows.
    """
    per_row, limit = max(n_bytes / max(n_rows, 1), 1.0), plan.chunk_limit
    if plan.chunk_bytes is None:
        limit = min(max(limit, n_bytes // MOST_CHUNKS), plan.budget.chunk)
    return max(1, min(int(limit / per_row), n_rows))
