"""Second phase of an ingest: buckets become chunks, and the chunks a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.tables.ingest.chunking import ChunkOrder, Selection, cut_into_chunks
from fewpass.pipeline.tables.ingest.frequency_order import renumber
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.pipeline.tables.ingest.work_dir import WorkDir
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.objects import fault
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import DenseTable, SparseTable, Table, index_dtype, n_bytes
from fewpass.storage.writer import DatasetWriter

if TYPE_CHECKING:
    from fewpass.pipeline.tables.encoding.expansion import Expansion


class WrittenChunks(NamedTuple):
    """Records of all chunks of a data set, and the statistics of its rows."""

    records: list[ChunkRecord]
    columns: ColumnStatistics  # in stored order
    rows: RowSummary  # without targets, which were counted in the source's order


class StoredAs(NamedTuple):
    """What rows become before they are stored."""

    targets: TargetMap
    scaler: Scaler
    order: ColumnOrder
    expansion: Expansion | None = None  # None: they are no codes


class ChunkMaker:
    """Turns spilled rows into stored chunks; used by several threads at once.

    Parameters
    ----------
    writer, stored
        Where to, and what spilled rows become.
    work_dir, name
        Where finished chunks are recorded, so that an ingest that was killed does not write them
        again. Their bytes are checked before they are believed.
    """

    def __init__(
        self,
        writer: DatasetWriter,
        stored: StoredAs,
        work_dir: WorkDir,
        name: str,
    ) -> None:
        self.writer, self.stored, self.scaler = writer, stored, stored.scaler
        self.work_dir, self.name = work_dir, f"chunks-{name}"
        entries = work_dir.entries(self.name)
        self.known = {e["k"]: ChunkRecord.of_json(e["record"]) for e in entries}

    def make(self, order: ChunkOrder) -> tuple[int, ChunkRecord, Table]:
        """Make sure that the chunk is stored; return its number, its record and its rows."""
        rows = order.rows()
        codes: NDArray[np.float64] | None = None
        if self.stored.expansion is not None and isinstance(rows, DenseTable):
            codes = np.ascontiguousarray(rows.X.T, np.float64)
            parts = self.stored.expansion.csr(codes, self.writer.dtype)
            rows = SparseTable(*parts, rows.target, rows.weight, rows.offset, rows.retained)
        table = self._as_stored(rows)
        record = self.known.get(order.number)
        if (
            record is None
            or record.rows != table.n_rows
            or not self._is_whole(order.number, record)
        ):
            record = self.writer.write_chunk(order.number, table, codes)
        return order.number, record, table

    def note(self, number: int, record: ChunkRecord) -> None:
        """Record a chunk as finished."""
        if self.known.get(number) != record:
            self.work_dir.append(self.name, {"k": number, "record": record})

    def _as_stored(self, table: Table) -> Table:
        target = self.stored.targets.apply(table.target)
        table = self.scaler.apply(table._replace(target=target))
        if isinstance(table, DenseTable):
            return table
        dtype = index_dtype(self.writer.n_features)
        table = table._replace(indices=table.indices.astype(dtype, copy=False))
        renumber(table, self.stored.order)  # in place: the rows were copied out of their bucket
        return table

    def _is_whole(self, k: int, record: ChunkRecord) -> bool:
        folder = self.writer.folder
        return all(fault(folder, key, stored) is None for key, stored in record.named(k).items())


def write_chunks(
    maker: ChunkMaker,
    buckets: Iterable[Selection],
    threads: int,
    memory: int,
    report: Callable[[int, int], None],
) -> WrittenChunks:
    """Store all rows of the buckets, in order, and reduce the statistics on the way.

    Parameters
    ----------
    maker
        Stores one chunk.
    buckets
        All rows of the data set.
    threads, memory
        How many chunks may be made at once: as many as threads, in at most `memory` bytes.
    report
        Called with the rows and the stored bytes of each chunk.
    """
    writer = maker.writer
    records: list[ChunkRecord] = []
    columns = ColumnStatistics(writer.layout, writer.n_features)
    rows: RowSummary | None = None
    for number, record, table in _made(maker, buckets, threads, memory):
        maker.note(number, record)
        records.append(record)
        columns.add(table)
        own = RowSummary.of(table)
        rows = own if rows is None else rows.joined(own)
        report(record.rows, sum(each.length for each in record.named(number).values()))
    assert rows is not None, "a data set has rows"
    return WrittenChunks(records, columns, rows)


def _made(
    maker: ChunkMaker, buckets: Iterable[Selection], threads: int, memory: int
) -> Iterator[tuple[int, ChunkRecord, Table]]:
    orders = cut_into_chunks(buckets, maker.writer.chunk_rows)
    first = next(orders)
    result = maker.make(first)
    copies = Budget.written_chunk if maker.scaler.kind == "none" else Budget.scaled_chunk
    fits = memory // max(copies * n_bytes(result[2]), 1)
    yield result
    del first, result
    with ThreadPoolExecutor(threads, "ingest-write") as pool:
        yield from ordered_map(pool, maker.make, orders, int(np.clip(fits, 1, threads + 1)))
