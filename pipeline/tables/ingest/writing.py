"""Second phase of an ingest: the rows, in the order of their keys, become chunks of a data set.

The chunks are cut into leaves, by the data set alone.  Threads take a leaf each: they read a run of
its rows after the other, put them in order, store chunks, and measure columns on the way.  What was
measured of leaves is joined in their order, so neither memory nor threads have a say in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.ordered_tasks import ordered_results
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.frequency_order import renumber
from fewpass.pipeline.tables.ingest.row_parts import RowParts
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.pipeline.tables.ingest.work_dir import WorkDir
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.objects import fault
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import DenseTable, SparseTable, Table, index_dtype
from fewpass.storage.writer import DatasetWriter

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor
    from fewpass.pipeline.tables.encoding.expansion import Expansion

#: Values of a leaf, at least: joining its statistics takes a few of those of a column each.
LEAF_VALUES, LEAF_COLUMNS, MOST_LEAVES = 1 << 20, 8, 1 << 14


class WrittenRows(NamedTuple):
    """Records of chunks that follow each other, and the statistics of their rows."""

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
    """Turns rows into stored chunks; used by several threads at once.

    Parameters
    ----------
    writer, stored
        Where to, and what rows become.
    work_dir, name
        Where finished chunks are recorded, so that an ingest that was killed does not write them
        again. Their bytes are checked before they are believed.
    """

    def __init__(
        self, writer: DatasetWriter, stored: StoredAs, work_dir: WorkDir, name: str
    ) -> None:
        self.writer, self.stored, self.scaler = writer, stored, stored.scaler
        self.work_dir, self.name = work_dir, f"chunks-{name}"
        entries = work_dir.entries(self.name)
        self.known = {e["k"]: ChunkRecord.of_json(e["record"]) for e in entries}

    def make(self, number: int, rows: Table) -> tuple[ChunkRecord, Table]:
        """Make sure that a chunk of rows is stored; return its record, and its rows as stored."""
        codes: NDArray[np.float64] | None = None
        if self.stored.expansion is not None and isinstance(rows, DenseTable):
            codes = np.ascontiguousarray(rows.X.T, np.float64)
            parts = self.stored.expansion.csr(codes, self.writer.dtype)
            rows = SparseTable(*parts, rows.target, rows.weight, rows.offset, rows.retained)
        table = self._as_stored(rows)
        record = self.known.get(number)
        if record is None or record.rows != table.n_rows or not self._is_whole(number, record):
            record = self.writer.write_chunk(number, table, codes)
        return record, table

    def note(self, first: int, records: list[ChunkRecord]) -> None:
        """Record chunks from a number on as finished."""
        for number, record in enumerate(records, first):
            if self.known.get(number) != record:
                self.work_dir.append(self.name, {"k": number, "record": record})

    def _as_stored(self, table: Table) -> Table:
        table = self.scaler.apply(table)
        if isinstance(table, DenseTable):
            return table
        dtype = index_dtype(self.writer.n_features)
        table = table._replace(indices=table.indices.astype(dtype, copy=False))
        renumber(table, self.stored.order)  # in place: the rows are a copy
        return table

    def _is_whole(self, k: int, record: ChunkRecord) -> bool:
        folder = self.writer.folder
        return all(fault(folder, key, stored) is None for key, stored in record.named(k).items())


@unpickled_once
class GroupWriter:
    """Stores the rows of one group as the chunks of a data set.

    Parameters
    ----------
    maker
        Stores one chunk.
    parts, group
        The rows, and which of them.
    chunk_bytes
        Decoded bytes of a chunk.
    budget
        Of the memory of each process.
    """

    def __init__(
        self, maker: ChunkMaker, parts: RowParts, group: int, chunk_bytes: int, budget: Budget
    ) -> None:
        self.maker, self.parts, self.group, self.budget = maker, parts, group, budget
        self.writer, self.chunk_bytes = maker.writer, max(chunk_bytes, 1)
        self._chunks_of_run = 1

    def write(self, threads: int, report: Callable[[int, int], None]) -> WrittenRows:
        """Store all rows, and reduce the statistics on the way.

        Parameters
        ----------
        threads
            How many leaves may be stored at once, where memory has room.
        report
            Called with the rows and the stored bytes of each leaf.
        """
        at_once = self._share_out(threads)
        leaves = self.leaves
        with ThreadPoolExecutor(at_once, "ingest-write") as pool:
            return self._taken_in(ordered_map(pool, self.written, leaves, at_once), report)

    def write_on(self, executor: Executor, report: Callable[[int, int], None]) -> WrittenRows:
        """Do the same by tasks of a cluster."""
        self._share_out(executor.threads)
        leaves = ((leaf,) for leaf in self.leaves)
        return self._taken_in(ordered_results(executor, "write", write_leaf, self, leaves), report)

    @property
    def leaves(self) -> list[range]:
        """The chunks of each leaf."""
        return leaves_of(self.writer, self.parts.n_values(self.group))

    def _taken_in(
        self, written: Iterable[WrittenRows], report: Callable[[int, int], None]
    ) -> WrittenRows:
        """Take leaves in, in their order."""
        whole: WrittenRows | None = None
        first = 0
        for own in written:
            self.maker.note(first, own.records)
            first += len(own.records)
            report(own.rows.n_rows, _bytes_of(own.records))
            whole = own if whole is None else _joined(whole, own)
            del own
        assert whole is not None, "a data set has rows"
        return whole

    def _share_out(self, threads: int) -> int:
        """Return how many leaves are stored at once; decide how many chunks a run of rows has."""
        of_columns = self.writer.n_features * (Budget.measured_column // 2)
        scaled = self.maker.scaler.kind != "none"
        copies = Budget.scaled_chunk if scaled else Budget.written_chunk
        budget, (_, n_bytes) = self.budget, self.parts.size(self.group)
        raw = n_bytes / self.writer.n_rows * self.writer.chunk_rows
        left = budget.rows - self.parts.memory_bytes - of_columns
        each = of_columns + copies * self.chunk_bytes
        run = Budget.run_copies * max(raw, budget.run)
        at_once = int(np.clip(left // (each + run), 1, threads))
        most = min((left / at_once - each) / Budget.run_copies, budget.run)
        self._chunks_of_run = max(1, int(most // max(raw, 1)))
        return at_once

    def written(self, leaf: range) -> WrittenRows:
        """Store the chunks of a leaf."""
        columns = ColumnStatistics(self.writer.layout, self.writer.n_features)
        records: list[ChunkRecord] = []
        rows: RowSummary | None = None
        for number, chunk in self._chunks(leaf):
            record, table = self.maker.make(number, chunk)
            records.append(record)
            columns.add(table)
            own = RowSummary.of(table)
            rows = own if rows is None else rows.joined(own)
            del chunk, table
        assert rows is not None, "a leaf has chunks"
        return WrittenRows(records, columns, rows)

    def _chunks(self, leaf: range) -> Iterator[tuple[int, Table]]:
        """Yield the chunks of a leaf before they are stored: number and rows."""
        size = self.writer.chunk_rows
        for first in range(leaf.start, leaf.stop, self._chunks_of_run):
            stop = min(first + self._chunks_of_run, leaf.stop)
            start, end = first * size, min(stop * size, self.writer.n_rows)
            table, order = self.parts.run(
                self.group, start, end, self.maker.stored.targets, self.writer.n_features
            )
            for number in range(first, stop):
                at = number * size - start
                yield number, Selection(table, order[at : at + size]).rows()
            del table, order


def write_leaf(group: GroupWriter, leaf: range) -> WrittenRows:
    """Store a leaf, in any process."""
    return_freed_memory(group.budget.rows)
    return group.written(leaf)


def leaves_of(writer: DatasetWriter, n_values: int) -> list[range]:
    """Return the chunks of each leaf: by the data set alone, as bits depend on them."""
    least = max(LEAF_VALUES, LEAF_COLUMNS * writer.n_features)
    n = int(np.clip(n_values // least, 1, min(writer.n_chunks, MOST_LEAVES)))
    return [range(*ends) for ends in pairwise(k * writer.n_chunks // n for k in range(n + 1))]


def _joined(one: WrittenRows, other: WrittenRows) -> WrittenRows:
    """Return what is known of both; the first is changed."""
    one.columns.join(other.columns)
    one.records.extend(other.records)
    return one._replace(rows=one.rows.joined(other.rows))


def _bytes_of(records: list[ChunkRecord]) -> int:
    return sum(one.length for record in records for one in record.objects.values() if one)
