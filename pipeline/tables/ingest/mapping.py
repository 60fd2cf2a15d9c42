"""First phase of an ingest: every row gets a random key, and goes to a part of the rows.

Threads parse pieces of the sources, draw keys, count targets and columns, and group rows by bucket.
One thread takes the pieces in their order, and adds up what was counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.rows.scaling import Measured, Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan, ScalingKind
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.frequency_order import ColumnCounts
from fewpass.pipeline.tables.ingest.ingest_job import IngestJob
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.layout import is_encoded, scaling_of
from fewpass.pipeline.tables.ingest.mapped_source import MappedSource
from fewpass.pipeline.tables.ingest.read_counts import ReadCounts
from fewpass.pipeline.tables.ingest.retained_columns import RetainedCells
from fewpass.pipeline.tables.ingest.row_parts import (
    KeyedRows,
    PartsInTheMaking,
    RowParts,
    buckets_needed,
)
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare, split_asked, threshold_in
from fewpass.pipeline.tables.readers.source import PIECE_BYTES, ParsedRows, Piece
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.manifest import RETAINED_BYTES
from fewpass.storage.ordered import ordered_map
from fewpass.storage.part_files import RowKind
from fewpass.storage.table import SparseTable, Table, n_bytes

#: First word after the seed of everything random in here.
KEYS = 1
TRAINING, TEST = 0, 1


class MappedPiece(NamedTuple):
    """The rows of a piece, and what is known of them."""

    rows: KeyedRows
    counts: LabelCounts
    read: ReadCounts
    columns: Measured | SparseTable | None  # of training rows: what scaling is measured on
    n_bytes: int


class RowMapper:
    """Maps the rows of a source to parts: in memory where they fit, else in files.

    Parameters
    ----------
    job
        What is read, and how.
    """

    def __init__(self, job: IngestJob) -> None:
        self.job, self.plan, self.source = job, job.plan, job.source
        plan, source = job.plan, job.source
        self.n_groups = 2 if plan.test_fraction else 1
        of_rows = (source.has_weight, source.has_offset, RETAINED_BYTES * len(job.retained))
        self.kind = RowKind(
            source.layout, plan.options.dtype, source.n_features, *of_rows, plan.shuffle
        )
        if job.codes is not None:
            self.kind = RowKind("dense", "float64", job.codes, *of_rows, plan.shuffle)
        self.counts, self.read = LabelCounts(plan.task), ReadCounts()
        self.scale: ScalingKind | None = None  # the first rows decide on `auto`
        self.columns: Measured | None = None
        own_order = plan.column_order == "frequency" and plan.like is None
        renumbers = self.kind.layout == "sparse" and own_order
        self.column_counts = [ColumnCounts() for _ in range(self.n_groups if renumbers else 0)]
        self.held_out = HeldOutShare(plan.test_fraction, plan.seed, job.threshold)

    def map(self, threads: int) -> MappedSource:
        """Map all rows.

        Raises
        ------
        BadInput
            If no row is left, or a group of rows is empty.
        OSError
            If the local disk is full.
        """
        if self.held_out.threshold is None:
            split = split_asked(self.plan, self.plan.seed)
            threshold = threshold_in(self.source, split, self.plan.test_fraction)
            self.held_out = self.held_out._replace(threshold=threshold)
        with ThreadPoolExecutor(threads, "ingest-map") as pool:
            making = self._making(pool, threads)
            pieces = self._with_first_parsed()
            for mapped in ordered_map(pool, self._mapped, pieces, _in_flight(self.plan, threads)):
                self._take_in(mapped, making)
            parts = making.finish()
        release_freed_memory()
        return self._all_of(parts)

    def _making(self, pool: Executor, threads: int) -> PartsInTheMaking:
        plan, estimate = self.plan, self.source.estimated_bytes()
        parsing = _in_flight(plan, threads) * Budget.piece * PIECE_BYTES
        in_memory = max(0, plan.budget.retained - parsing)
        in_memory = 0 if estimate > in_memory else in_memory
        n_buckets = 1
        if plan.shuffle:
            n_buckets = buckets_needed(
                estimate, plan.budget, plan.chunk_limit, in_memory=in_memory > 0
            )
        parts = RowParts(
            self.kind, n_buckets, self.n_groups, self.job.work_dir.path, self.job.identity
        )
        return PartsInTheMaking(parts, plan.budget, estimate, pool, threads, in_memory)

    def _with_first_parsed(self) -> Iterator[tuple[Piece, ParsedRows | None]]:
        """Yield all pieces; those up to the first row, if it decides on the scaling, parsed."""
        pieces = self.source.pieces(PIECE_BYTES)
        asked = self.plan.scale if self.plan.like is None else "none"
        if asked != "auto" or self.source.layout == "sparse" or is_encoded(self.source):
            self.scale, self.columns = scaling_of(asked, self.source, None)
        while self.scale is None and (piece := next(pieces, None)) is not None:
            parsed = self.source.parse(piece)
            if parsed.table.n_rows:
                self.scale, self.columns = scaling_of(asked, self.source, parsed.table)
            yield piece, parsed
        for piece in pieces:
            yield piece, None

    # -- of a piece, in any thread -----------------------------------------------------------------

    def _mapped(self, given: tuple[Piece, ParsedRows | None]) -> MappedPiece:
        piece, parsed = given
        parsed = parsed or self.source.parse(piece)
        self._refuse_wide(parsed.max_index)
        table, counts = (
            parsed.table,
            LabelCounts(self.plan.task, f"{piece.file}, after line {piece.first_line - 1}"),
        )
        targets, keys, held_out, cells = counts.listed(parsed), None, None, None
        if self.job.retained:
            cells = RetainedCells(self.job.retained, parsed.passed, str(piece.file))
        if self.plan.shuffle:
            random = np.random.default_rng([self.plan.seed, KEYS, *piece.place])
            keys = random.random(table.n_rows)
        if self.plan.test_fraction:
            held_out = self.held_out.of(parsed, piece.place)
        rows = KeyedRows(table, targets, keys, held_out, cells)
        columns: Measured | SparseTable | None = None
        training = self._counted(rows, counts, parsed.max_index)
        if self.columns is not None:
            columns = training if isinstance(training, SparseTable) else self.columns.of(training)
        return MappedPiece(rows, counts, ReadCounts.of(parsed, piece.file), columns, piece.n_bytes)

    def _counted(self, rows: KeyedRows, counts: LabelCounts, max_index: int) -> Table:
        """Count targets and columns of each group; return the training rows."""
        tables = []
        for group in range(self.n_groups):
            own, targets = rows.table, rows.targets
            if rows.held_out is not None:
                order = np.flatnonzero(rows.held_out == (group == TEST))
                targets = targets.of(order)
                if self.column_counts or (self.columns is not None and group == TRAINING):
                    own = Selection(own, order).rows()
            counts.count(targets, group)
            if self.column_counts:
                self.column_counts[group].add(own, max_index)
            tables.append(own)
        return tables[TRAINING]

    # -- in their order ----------------------------------------------------------------------------

    def _take_in(self, mapped: MappedPiece, making: PartsInTheMaking) -> None:
        self.read.add(mapped.read)
        self.counts.add(mapped.counts)
        n_features, columns = self._n_features, mapped.columns
        if self.columns is not None and isinstance(columns, SparseTable):
            # statistics are as wide as all rows: there is one of them, and no thread has another
            self.columns.widen(n_features)
            self.columns.add(columns)
        elif self.columns is not None and isinstance(columns, Measured):
            self.columns.join(columns)
        table = mapped.rows.table
        if table.n_rows:
            making.add(mapped.rows, Budget.measured_column * n_features)
        self.job.ticker.partitioned(mapped.n_bytes, table.n_rows, n_bytes(table))

    @property
    def _n_features(self) -> int:
        return self.source.n_features or self.read.max_index + 1

    def _all_of(self, parts: RowParts) -> MappedSource:
        self._refuse_empty(parts)
        scaler = None
        if self.plan.like is None:
            scaler = Scaler.fitted(self.scale or "none", self.columns, self._n_features)
        orders = tuple(counts.order(self._n_features) for counts in self.column_counts)
        return MappedSource(
            self._n_features, self.counts, scaler, parts, self.read,
            orders or (ColumnOrder(),) * self.n_groups, self.held_out.threshold,
        )  # fmt: skip

    def _refuse_empty(self, parts: RowParts) -> None:
        n_skipped = sum(self.read.skipped.values())
        n_rows = [parts.n_rows(group) for group in range(self.n_groups)]
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
        if not self._n_features:
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
