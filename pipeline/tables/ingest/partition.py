"""First phase of an ingest: every row gets a random key, and goes into memory or to a bucket.

Threads parse pieces of the sources and count columns; one thread takes the pieces in their order,
and learns what depends on that order. Rows that fit into memory are copied there, in threads
again. Of more, threads group them by bucket, and the one spills them; a source that turns out
larger than estimated is partitioned from then on, with the rows in memory so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.rows.scaling import Measured, Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan, ScalingKind
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.ingest.buckets import Buckets, Grouped, Keys, RowKind, buckets_needed
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.frequency_order import ColumnCounts
from fewpass.pipeline.tables.ingest.label_encoder import LabelEncoder
from fewpass.pipeline.tables.ingest.layout import scaling_of
from fewpass.pipeline.tables.ingest.partitioned import Partitioned
from fewpass.pipeline.tables.ingest.read_counts import ReadCounts
from fewpass.pipeline.tables.ingest.retained_columns import RetainedCells
from fewpass.pipeline.tables.ingest.rows_in_memory import RowsInMemory
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare, split_asked, threshold_in
from fewpass.pipeline.tables.readers.source import (
    PIECE_BYTES,
    ParsedRows,
    Piece,
    Source,
)
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.manifest import RETAINED_BYTES
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import SparseTable, Table, cut, n_bytes

#: First word after the seed of everything random in here.
PARTITION = 1
TRAINING, TEST = 0, 1


class GroupRows(NamedTuple):
    """The training rows of a piece, or its test rows."""

    group: int
    rows: NDArray[np.int64] | None  # which of the piece they are; None: all
    table: Table  # as they came
    keys: Keys | None  # None: rows keep their order
    grouped: Grouped | None  # by bucket; None: they stay in memory, or keep columns
    cells: RetainedCells | None = None  # of columns that are kept as written, if there are any


class PreparedPiece(NamedTuple):
    """A parsed piece, its rows shared out with their random numbers."""

    parsed: ParsedRows
    piece_bytes: int
    file: str
    where: str
    shares: tuple[GroupRows, ...]


class Partitioner:
    """Partitions the rows of a source: into memory where they fit, else into buckets.

    Parameters
    ----------
    plan, source
        What to partition, and how.
    path
        Local directory for the buckets.
    report
        Called with the raw bytes, the rows and the decoded bytes of every piece.
    codes
        Of a row, where the source parses rows to these; None: it parses their values.
    retained
        Columns that are kept as they are written.
    threshold
        Of the keys that rows are held out by; None: the source says.
    """

    def __init__(
        self,
        plan: IngestPlan,
        source: Source,
        path: Path,
        report: Callable[[int, int, int], None],
        codes: int | None = None,
        retained: tuple[str, ...] = (),
        threshold: float | None = None,
    ) -> None:
        self.plan, self.source, self.report, self.retained = plan, source, report, retained
        dtype = plan.options.dtype
        of_rows = (source.has_weight, source.has_offset, RETAINED_BYTES * len(retained))
        self.kind = RowKind(source.layout, dtype, source.n_features, *of_rows)
        if codes is not None:
            self.kind = RowKind("dense", "float64", codes, *of_rows)
        self.encoder = LabelEncoder(plan.task)
        self.path = path
        self.rows: tuple[RowsInMemory, ...] | tuple[Buckets, ...] = ()
        self.scale: ScalingKind | None = None  # the first rows decide on `auto`
        self.columns: Measured | None = None
        own_order = plan.column_order == "frequency" and plan.like is None
        renumbers = self.kind.layout == "sparse" and own_order
        groups = 2 if plan.test_fraction else 1
        self.counts = [ColumnCounts() for _ in range(groups)] if renumbers else []
        self.read = ReadCounts()
        self._held_out = HeldOutShare(plan.test_fraction, plan.seed, threshold)
        self._copies: deque[Future[None]] = deque()  # of rows into memory

    def _buckets(self) -> Iterator[Buckets]:
        plan, size = self.plan, self.source.estimated_bytes()
        shares = [("training", 1 - plan.test_fraction), ("test", plan.test_fraction)]
        for name, share in shares[: 2 if plan.test_fraction else 1]:
            needed = buckets_needed(size * share, plan.budget) if plan.shuffle else 1
            yield Buckets(self.path / name, needed, self.kind, plan.budget, shuffled=plan.shuffle)

    def _in_memory(self, threads: int) -> tuple[RowsInMemory, ...]:
        """Return memory for all rows, if they are likely to fit next to the parsed pieces."""
        parsing = _in_flight(self.plan, threads) * Budget.piece * PIECE_BYTES
        self._most_bytes = self.plan.budget.retained - parsing
        if self.source.estimated_bytes() > self._most_bytes:
            return ()
        groups = 2 if self.plan.test_fraction else 1
        make = partial(RowsInMemory, self.kind, self._most_bytes, shuffled=self.plan.shuffle)
        return tuple(make() for _ in range(groups))

    def partition(self, threads: int) -> Partitioned:
        """Partition all rows.

        Raises
        ------
        BadInput
            If no row is left, or a group of rows is empty.
        OSError
            If the local disk is full.
        """
        plan = self.plan
        split = split_asked(plan, plan.seed)
        if self._held_out.threshold is None:
            threshold = threshold_in(self.source, split, plan.test_fraction)
            self._held_out = self._held_out._replace(threshold=threshold)
        self.rows = self._in_memory(threads) or tuple(self._buckets())
        in_flight, pieces = _in_flight(self.plan, threads), self.source.pieces(PIECE_BYTES)
        with ThreadPoolExecutor(threads, "ingest-parse") as pool:
            for prepared in ordered_map(pool, self._prepare, pieces, in_flight):
                self._take_in(prepared, pool)
                self._await_copies(in_flight)
            self._await_copies(0)
        for rows in self.rows:
            rows.finish()
        release_freed_memory()
        self._refuse_empty()
        n_features = self.source.n_features or self.read.max_index + 1
        scaler = None
        if self.plan.like is None:
            scaler = Scaler.fitted(self.scale or "none", self.columns, n_features)
        return Partitioned(
            self.kind, n_features, self.encoder, scaler, self.rows, self.read,
            self._orders(n_features), self._held_out.threshold,
        )  # fmt: skip

    def _orders(self, n_features: int) -> tuple[ColumnOrder, ...]:
        if not self.counts:
            return tuple(ColumnOrder() for _ in self.rows)
        return tuple(counts.order(n_features) for counts in self.counts)

    def _await_copies(self, most: int) -> None:
        """Wait until at most `most` pieces are still to be copied."""
        while len(self._copies) > most:
            self._copies.popleft().result()

    def _prepare(self, piece: Piece) -> PreparedPiece:
        parsed = self.source.parse(piece)
        cells = None
        if self.retained:
            cells = RetainedCells(self.retained, parsed.passed, str(piece.file))
        self._refuse_wide(parsed.max_index)
        keys = None
        if self.plan.shuffle:
            random = np.random.default_rng([self.plan.seed, PARTITION, *piece.place])
            keys = random.random(parsed.table.n_rows)
        shares = [self._share(TRAINING, None, parsed.table, keys, cells)]
        if self.plan.test_fraction:
            test = self._held_out.of(parsed, piece.place)
            every = ((TRAINING, np.flatnonzero(~test)), (TEST, np.flatnonzero(test)))
            shares = [self._share(group, rows, parsed.table, keys, cells) for group, rows in every]
        for share in shares if self.counts else ():
            self.counts[share.group].add(share.table, parsed.max_index)
        where = f"{piece.file}, after line {piece.first_line - 1}"
        return PreparedPiece(parsed, piece.n_bytes, str(piece.file), where, tuple(shares))

    def _share(
        self, group: int, rows: NDArray[np.int64] | None, table: Table, keys: Keys | None,
        cells: RetainedCells | None,
    ) -> GroupRows:  # fmt: skip
        if rows is not None:
            table = Selection(table, rows).rows()
            keys = None if keys is None else keys[rows]
            cells = cells and cells.taken(rows)
        where, grouped = self.rows[group], None
        if isinstance(where, Buckets) and cells is None:
            grouped = where.group(table, keys)
        return GroupRows(group, rows, table, keys, grouped, cells)

    def _take_in(self, prepared: PreparedPiece, pool: Executor) -> None:
        parsed = prepared.parsed
        if self.scale is None and parsed.table.n_rows:
            self._decide_on_scaling(parsed.table)
        self.read.add(ReadCounts.of(parsed, prepared.file))
        target = self.encoder.encode(
            parsed.table.target, parsed.labels, prepared.where, parsed.texts
        )
        if self._is_in_memory() and not self._fits(prepared):
            self._move_to_buckets()
        for share in prepared.shares:
            self._add(share, target if share.rows is None else target[share.rows], pool)
        self.report(prepared.piece_bytes, parsed.table.n_rows, n_bytes(parsed.table))

    def _decide_on_scaling(self, first: Table) -> None:
        asked = self.plan.scale if self.plan.like is None else "none"
        self.scale, self.columns = scaling_of(asked, self.source, first)

    def _add(self, share: GroupRows, target: NDArray[np.float64], pool: Executor) -> None:
        number, table = share.group, share.table
        self.encoder.count(target, number)
        if self.columns is not None and number == TRAINING:
            if isinstance(table, SparseTable):
                self.columns.widen(self.read.max_index + 1)
            self.columns.add(table)
        if not table.n_rows:
            return
        rows = self.rows[number]
        if isinstance(rows, RowsInMemory):
            copy = rows.add(table._replace(target=target), share.keys, share.cells)
            self._copies.append(pool.submit(copy))
            return
        if share.cells is not None:
            self._spill_retained(rows, share, table._replace(target=target), share.cells)
            return
        grouped = share.grouped or rows.group(table, share.keys)
        grouped_target = target if grouped.order is None else target[grouped.order]
        rows.add(grouped._replace(table=grouped.table._replace(target=grouped_target)))

    def _spill_retained(
        self, rows: Buckets, share: GroupRows, table: Table, cells: RetainedCells
    ) -> None:
        """Spill rows with the columns that they keep, some at a time."""
        width = self.kind.retained_bytes
        most = max(1, Budget.retained_cells // width)
        for start in range(0, table.n_rows, most):
            stop = min(start + most, table.n_rows)
            space = np.empty((stop - start, width), np.uint8)
            retained = cells.between(start, stop).as_bytes(space)
            keys = None if share.keys is None else share.keys[start:stop]
            rows.add_rows(cut(table, start, stop)._replace(retained=retained), keys)

    def _is_in_memory(self) -> bool:
        return isinstance(self.rows[TRAINING], RowsInMemory)

    def _fits(self, prepared: PreparedPiece) -> bool:
        """Whether a piece fits into memory, with the statistics of every column."""
        groups = cast("tuple[RowsInMemory, ...]", self.rows)
        parsed = prepared.parsed.table
        size = sum(rows.memory_bytes for rows in groups) + n_bytes(parsed)
        size += self.kind.retained_bytes * parsed.n_rows
        size += Budget.measured_column * (self.source.n_features or self.read.max_index + 1)
        shares = prepared.shares
        return size <= self._most_bytes and all(groups[s.group].fits(s.table) for s in shares)

    def _move_to_buckets(self) -> None:
        """Move the rows in memory into buckets, as there are more than estimated."""
        self._await_copies(0)
        groups, self.rows = cast("tuple[RowsInMemory, ...]", self.rows), tuple(self._buckets())
        for rows, buckets in zip(groups, self.rows, strict=True):
            for table, keys in rows.pieces():
                buckets.add_rows(table, keys)

    def _refuse_empty(self) -> None:
        n_skipped = sum(self.read.skipped.values())
        n_rows = [rows.n_rows for rows in self.rows]
        if not sum(n_rows):
            reasons = f" First: {self.read.listed[0]}." if self.read.listed else ""
            raise BadInput(
                f"No row is left of the sources; {n_skipped} bad ones were skipped.{reasons} "
                "Check the format and the label column."
            )
        for n, name in zip(n_rows, ("training", "test"), strict=False):
            if not n:
                raise BadInput(
                    f"None of the {sum(n_rows)} rows became a {name} row. "
                    "Choose another test_fraction or seed, or give more rows."
                )
        if not (self.source.n_features or self.read.max_index + 1):
            raise BadInput("No row has a feature. Check the sources, or give their width.")

    def _refuse_wide(self, max_index: int) -> None:
        n_features = self.source.n_features or max_index + 1
        need = n_features * Budget.measured_column
        if need > self.plan.budget.rows:
            least = format_bytes(self.plan.memory + need - self.plan.budget.rows)
            schema = self.source.schema
            hashed = self.source.hashes_names or (schema and schema.encoding)
            fewer = ", or hash to fewer columns (`hash_bits`)" if hashed else ""
            raise BadInput(
                f"The statistics of {n_features} columns take {format_bytes(need)}, more than "
                f"the memory has room for. Give at least {least}{fewer}."
            )


def _in_flight(plan: IngestPlan, threads: int) -> int:
    """How many pieces are parsed at a time: two at least, where they fit at all."""
    piece, budget = Budget.piece * PIECE_BYTES, plan.budget
    least = 2 if budget.rows >= 2 * piece else 1
    return min(max(least, budget.pieces // piece), threads + 2)
