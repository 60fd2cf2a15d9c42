"""Second phase of an ingest: the rows, in the order of their keys, become chunks of a data set.

The chunks are cut into leaves, by the data set alone.  Threads take a leaf each: they read a run of
its rows after the other, put them in order, store chunks, and measure columns on the way.  What was
measured of leaves is joined in their order, so neither memory nor threads have a say in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.ordered_tasks import ordered_results, tasks_of_a_process
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.passes.turns import Turns
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.frequency_order import renumber
from fewpass.pipeline.tables.ingest.progress import IngestProgress, Reports
from fewpass.pipeline.tables.ingest.row_parts import RowParts
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.pipeline.tables.ingest.work_dir import WorkDir
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.objects import fault
from fewpass.storage.ordered import ordered_map
from fewpass.storage.part_files import DamagedPart
from fewpass.storage.table import DenseTable, Table, concatenate, index_dtype
from fewpass.storage.writer import DatasetWriter

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor
    from fewpass.pipeline.tables.encoding.expansion import Expansion

Tell = Callable[[int, int], Reports]
#: Values of a leaf, at least: joining its statistics takes a few of those of a column each.
LEAF_VALUES, LEAF_COLUMNS, MOST_LEAVES = 1 << 20, 8, 1 << 14


class WrittenRows(NamedTuple):
    """Records of chunks that follow each other, and the statistics of their rows."""

    records: list[ChunkRecord]
    columns: ColumnStatistics  # in stored order
    rows: RowSummary  # without targets that are numbers: those are summed in the source's order


class StoredAs(NamedTuple):
    """Changes to rows before they are stored."""

    targets: TargetMap
    scaler: Scaler
    order: ColumnOrder
    expansion: Expansion | None = None  # None: they are no codes


class UnfilledChunk(NamedTuple):
    """Rows of another data set, as it has them stored, that stand in the first chunk."""

    rows: Table  # codes in place of values where the set stores codes
    order: NDArray[np.int64] | None  # of these and of the rest of the chunk; None: these first

    def with_rest(self, rest: Table) -> Table:
        """Return the rows of the first chunk, of which `rest` is the others."""
        every = concatenate([self.rows, rest])
        return every if self.order is None else Selection(every, self.order).rows()


class ChunkMaker:
    """Turns rows into stored chunks; used by several threads at once.

    Parameters
    ----------
    writer, stored
        Where to, and what rows become.
    unfilled
        What stands in the first chunk with the first rows; nothing by default.
    work_dir, name
        Where finished chunks are recorded, so that an ingest that was killed does not write them
        again. Their bytes are checked before they are believed.
    """

    def __init__(
        self, writer: DatasetWriter, stored: StoredAs, work_dir: WorkDir, name: str,
        unfilled: UnfilledChunk | None = None,
    ) -> None:  # fmt: skip
        self.writer, self.stored, self.scaler = writer, stored, stored.scaler
        self.unfilled = unfilled
        self.work_dir, self.name = work_dir, f"chunks-{name}"
        entries = work_dir.entries(self.name)
        self.known = {e["k"]: ChunkRecord.of_json(e["record"]) for e in entries}

    def make(self, number: int, rows: Table) -> tuple[ChunkRecord, Table]:
        """Make sure that a chunk of rows is stored; return its record, and these rows as stored.

        Those of the unfilled chunk are not among them.
        """
        stored = self._as_stored(rows)
        whole = stored if number or self.unfilled is None else self.unfilled.with_rest(stored)
        record = self.known.get(number)
        if record is None or record.rows != whole.n_rows or not self._is_whole(number, record):
            table, codes = self._with_values(whole)
            record = self.writer.write_chunk(number, table, codes)
            if whole is stored:
                return record, table
        return record, self._with_values(stored)[0]

    @property
    def n_before(self) -> int:
        """Rows of the unfilled chunk."""
        return 0 if self.unfilled is None else self.unfilled.rows.n_rows

    def note(self, first: int, records: list[ChunkRecord]) -> None:
        """Record chunks from a number on as finished."""
        for number, record in enumerate(records, first):
            if self.known.get(number) != record:
                self.work_dir.append(self.name, {"k": number, "record": record})

    def _with_values(self, table: Table) -> tuple[Table, NDArray[np.float64] | None]:
        """Return rows with their values, and the codes (m, n) in whose place these are."""
        if self.stored.expansion is None:
            return table, None
        return self.stored.expansion.with_values(table, self.writer.dtype)

    def _as_stored(self, table: Table) -> Table:
        if self.stored.expansion is not None:
            return table  # codes, which are stored as they are
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
        self._share_out(1)

    def write(self, threads: int, tell: Tell) -> Generator[IngestProgress, None, WrittenRows]:
        """Store all rows, and reduce the statistics on the way.

        Parameters
        ----------
        threads
            How many leaves may be stored at once, where memory has room.
        tell
            Makes reports of the rows and the stored bytes of each leaf.
        """
        self._share_out(threads)
        leaves = self.leaves
        with ThreadPoolExecutor(self.turns.at_once, "ingest-write") as pool:
            written = ordered_map(pool, self.written, leaves, self.turns.at_once)
            return (yield from self._taken_in(written, tell))

    def write_on(
        self, executor: Executor, tell: Tell, mend: Callable[[str], bool]
    ) -> Generator[IngestProgress, None, WrittenRows]:
        """Do the same by tasks of a cluster.

        `mend` makes a damaged part anew, by its name, and says whether it could.
        """
        self._share_out(tasks_of_a_process(executor))
        leaves = ((leaf,) for leaf in self.leaves)
        results = ordered_results(executor, "write", leaf_or_damage, self, leaves)
        return (yield from self._taken_in(self._mended(executor, results, mend), tell))

    def _mended(
        self, executor: Executor, results: Iterable[WrittenRows | DamagedPart],
        mend: Callable[[str], bool],
    ) -> Iterator[WrittenRows]:  # fmt: skip
        """Yield leaves; one that met a damaged part is written once that is mended."""
        mended = set[str]()
        for leaf, own in zip(self.leaves, results, strict=True):
            written, tried = own, set[str]()
            while isinstance(written, DamagedPart):
                part = written.part
                if part is None or part in tried or not (part in mended or mend(part)):
                    raise written
                tried.add(part)
                mended.add(part)
                written = executor.result(executor.submit("write", leaf_or_damage, self, leaf))
            yield written

    @property
    def leaves(self) -> list[range]:
        """The chunks of each leaf."""
        return leaves_of(self.writer, self.parts.n_values(self.group))

    def _taken_in(
        self, written: Iterable[WrittenRows], tell: Tell
    ) -> Generator[IngestProgress, None, WrittenRows]:
        """Take leaves in, in their order."""
        whole: WrittenRows | None = None
        first = 0
        for own in written:
            self.maker.note(first, own.records)
            first += len(own.records)
            yield from tell(own.rows.n_rows, _bytes_of(own.records))
            whole = own if whole is None else _joined(whole, own)
            del own
        assert whole is not None, "a data set has rows"
        return whole

    def _share_out(self, threads: int) -> None:
        """Decide how many leaves a process stores at once, and how many chunks a run has."""
        of_columns = self.writer.n_features * (Budget.measured_column // 2)
        scaled = self.maker.scaler.kind != "none"
        copies = Budget.scaled_chunk if scaled else Budget.written_chunk
        budget, (_, n_bytes) = self.budget, self.parts.size(self.group)
        raw = n_bytes / self.writer.n_rows * self.writer.chunk_rows
        left = budget.rows - self.parts.memory_bytes - of_columns
        each = of_columns + copies * self.chunk_bytes
        run = Budget.run_copies * max(raw, budget.least_run)
        self.turns = Turns(int(np.clip(left // (each + run), 1, threads)))
        most = min((left / self.turns.at_once - each) / Budget.run_copies, budget.run)
        self._chunks_of_run = max(1, int(most // max(raw, 1)))

    def written(self, leaf: range) -> WrittenRows:
        """Store the chunks of a leaf."""
        columns = ColumnStatistics(self.writer.layout, self.writer.n_features)
        records: list[ChunkRecord] = []
        rows: RowSummary | None = None
        labels = self.maker.stored.targets.labels_of(self.group)
        for number, chunk in self._chunks(leaf):
            record, table = self.maker.make(number, chunk)
            records.append(record)
            columns.add(table)
            own = RowSummary.of(table, labels)
            rows = own if rows is None else rows.joined(own)
            del chunk, table
        assert rows is not None, "a leaf has chunks"
        return WrittenRows(records, columns, rows)

    def _chunks(self, leaf: range) -> Iterator[tuple[int, Table]]:
        """Yield the chunks of a leaf before they are stored: number and the rows that come."""
        size, before = self.writer.chunk_rows, self.maker.n_before
        for first in range(leaf.start, leaf.stop, self._chunks_of_run):
            stop = min(first + self._chunks_of_run, leaf.stop)
            start = max(first * size - before, 0)
            end = min(stop * size, self.writer.n_rows) - before
            table, order = self.parts.run(
                self.group, start, end, self.maker.stored.targets, self.writer.n_features
            )
            for number in range(first, stop):
                at = max(number * size - before, 0) - start
                behind = (number + 1) * size - before - start
                yield number, Selection(table, order[at:behind]).rows()
            del table, order


def leaf_or_damage(group: GroupWriter, leaf: range) -> WrittenRows | DamagedPart:
    """Store a leaf, in any process; return what is damaged of the parts that it is read from."""
    return_freed_memory(group.budget.rows)
    try:
        with group.turns:
            return group.written(leaf)
    except DamagedPart as error:
        error.__cause__ = error.__context__ = None  # they would keep the rows read so far
        return error.with_traceback(None)


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
