"""First phase of an ingest: every row gets a random key, and goes to a part of the rows.

Threads parse pieces of the sources, draw keys, count targets and columns, and group rows by bucket.
One thread takes the pieces in their order, and adds up what was counted.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Executor as Pool
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.passes.ordered_tasks import (
    ordered_results,
    result_or_refusal,
    tasks_of_a_process,
)
from fewpass.pipeline.passes.turns import Turns
from fewpass.pipeline.rows.row_summary import none_counts
from fewpass.pipeline.rows.scaling import Measured, Scaler
from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.pipeline.tables.ingest.frequency_order import ColumnCounts
from fewpass.pipeline.tables.ingest.ingest_job import IngestJob
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.layout import is_encoded, scaling_of
from fewpass.pipeline.tables.ingest.mapped_source import MappedSource
from fewpass.pipeline.tables.ingest.piece_map import (
    MappedPiece,
    PieceMap,
    ReadCounts,
    rows_in_words,
)
from fewpass.pipeline.tables.ingest.progress import IngestProgress, Reports
from fewpass.pipeline.tables.ingest.row_parts import (
    PartsInTheMaking,
    RowParts,
    buckets_needed,
    part_bytes_of,
)
from fewpass.pipeline.tables.ingest.span_map import (
    MappedSpan,
    SpanMap,
    map_again,
    map_span,
    span_of,
)
from fewpass.pipeline.tables.readers.counting_rows import counting
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare, split_asked, threshold_in
from fewpass.pipeline.tables.readers.source import PIECE_BYTES, ParsedRows, Piece, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import in_chain, pieces_read_ahead
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.manifest import RETAINED_BYTES
from fewpass.storage.ordered import ordered_map
from fewpass.storage.part_files import RowKind
from fewpass.storage.table import SparseTable, Table

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor

#: Threads that read text for those that parse it: one reads some GB a second.
READERS = 2


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
        of_rows = (source.has_weight, source.has_offset, RETAINED_BYTES * len(job.retained))
        self.kind = RowKind(
            source.layout, plan.options.dtype, source.n_features, *of_rows, plan.shuffle
        )
        if job.codes is not None:
            self.kind = RowKind("dense", "float64", job.codes, *of_rows, plan.shuffle)
        self.counts, self.read = LabelCounts(plan.task), ReadCounts()
        self.scale: ScalingKind | None = None  # the first rows decide on `auto`
        self.columns: Measured | None = None
        threshold = job.threshold
        if threshold is None:
            split = split_asked(plan, plan.seed)
            threshold = threshold_in(source, split, plan.test_fraction)
        held_out = HeldOutShare(plan.test_fraction, job.seed, threshold)
        self._piece_map = PieceMap(source, plan, job.retained, held_out)
        self.n_groups = self._piece_map.n_groups
        own_order = plan.column_order == "frequency" and plan.like is None
        renumbers = self.kind.layout == "sparse" and own_order
        self._column_counts = [ColumnCounts() for _ in range(self.n_groups if renumbers else 0)]
        self._asked = plan.scale if plan.like is None else "none"
        if self._asked != "auto" or source.layout == "sparse" or is_encoded(source):
            self._decide_on_scaling(None)

    @cached_property
    def spans(self) -> list[SourceSpan]:
        """The spans that the source can be read by; files are looked into for it."""
        return self.source.spans(PIECE_BYTES)

    def map(self, threads: int) -> Generator[IngestProgress, None, MappedSource]:
        """Map all rows, and tell how far that is.

        Raises
        ------
        BadInput
            If no row is left, or a group of rows is empty.
        OSError
            If the local disk is full.
        """
        release_freed_memory()  # what choosing a recipe took
        with (
            ThreadPoolExecutor(threads, "ingest-map") as pool,
            ThreadPoolExecutor(READERS, "ingest-read") as readers,
        ):
            making = self._making(pool, threads)
            read = pieces_read_ahead(self.source, PIECE_BYTES, readers, READERS + 1)
            pieces = self._with_first_parsed(read)
            for mapped in ordered_map(pool, self._mapped, pieces, self._in_flight(threads)):
                yield from self._take_in(mapped)
                if mapped.rows is not None and mapped.n_rows:
                    making.add(mapped.rows, Budget.measured_column * self._n_features)
                    del mapped
            parts = making.finish()
        release_freed_memory()
        return self._all_of(parts)

    def map_on(self, executor: Executor) -> Generator[IngestProgress, None, MappedSource]:
        """Map all rows by tasks of a cluster, to parts in files; see `map`."""
        read = self.source.pieces(PIECE_BYTES)
        with closing(self._with_first_parsed(read)) as pieces:  # those that decide on the scaling
            while self.scale is None and next(pieces, None) is not None:
                pass
        span_map, spans = self._span_map(executor), enumerate(self.spans)
        parts = self._parts(self.source.estimated_bytes(), 0)
        task = partial(result_or_refusal, map_span)
        results = ordered_results(executor, "map", task, span_map, spans)

        def again(number: int, span: SourceSpan) -> Any:
            return executor.result(executor.submit("map", map_span, span_map, number, span))

        for mapped, _, lines in in_chain(self.spans, results, MappedSpan.read, again):
            yield from self._take_in_span(mapped, lines)
            for part in mapped.parts:
                parts.append(part)
        return self._all_of(parts)

    def mend(self, executor: Executor, part: str) -> bool:
        """Have the span mapped again that a part is of; False where it is of none."""
        numbered = span_of(part, self.spans) if self.is_divisible else None
        if numbered is not None:
            executor.result(executor.submit("map", map_again, self._span_map(executor), *numbered))
        return numbered is not None

    def _span_map(self, executor: Executor) -> SpanMap:
        estimate = self.source.estimated_bytes()
        budget, of_piece = self.plan.budget, Budget.piece * self.source.piece_bytes
        at_once = min(max(budget.pieces // of_piece, 1), tasks_of_a_process(executor))
        part_bytes = part_bytes_of(estimate, budget, at_once)
        return SpanMap(
            self._piece_map, self._parts(estimate, 0), PIECE_BYTES, part_bytes,
            counts_columns=bool(self._column_counts), turns=Turns(at_once),
        )  # fmt: skip

    def _take_in_span(self, mapped: MappedSpan, lines: int) -> Generator[IngestProgress]:
        """Add up what was counted of the next span; `lines` of its file are before it."""
        for piece in mapped.pieces:
            yield from self._take_in(_at_line(piece, lines))
        for own, more in zip(self._column_counts, mapped.column_counts, strict=True):
            own.join(more)
        if (unlike := self.source.unlike_cells) is not None:
            unlike.join_state(mapped.unlike)

    @property
    def is_divisible(self) -> bool:
        """Return whether other processes can map spans of the source.

        Columns of sparse rows are measured by one thread, as these are as wide as all rows.
        """
        measured = self.kind.layout == "sparse" and self.columns is not None
        return not measured and bool(self.spans)

    def _mapped(self, given: tuple[Piece, ParsedRows | None]) -> MappedPiece:
        return self._piece_map.mapped(*given, self._column_counts)

    def _in_flight(self, threads: int) -> int:
        """Return how many pieces are parsed at a time: two at least, where they fit at all."""
        piece, budget = self.source.piece_bytes, self.plan.budget
        least = 2 if budget.rows >= 2 * Budget.piece * piece else 1
        most = (budget.pieces - (READERS + 1) * piece) // (Budget.piece * piece)
        return min(max(least, most), threads + 2)

    def _making(self, pool: Pool, threads: int) -> PartsInTheMaking:
        plan, estimate = self.plan, self.source.estimated_bytes()
        parsing = self._in_flight(threads) * Budget.piece * self.source.piece_bytes
        in_memory = max(0, plan.budget.retained - parsing)
        in_memory = 0 if estimate > in_memory or self.job.executor else in_memory
        parts = self._parts(estimate, in_memory)
        return PartsInTheMaking(parts, plan.budget, estimate, pool, threads, in_memory)

    def _parts(self, estimate: int, in_memory: int) -> RowParts:
        """Return what becomes the parts of rows of that size, about, in files or in memory."""
        job, plan = self.job, self.plan
        n_buckets = buckets_needed(estimate, plan.budget, plan.chunk_limit, in_memory=in_memory > 0)
        n_buckets = n_buckets if plan.shuffle else 1
        return RowParts(self.kind, n_buckets, self.n_groups, job.part_folder, job.identity)

    def _with_first_parsed(
        self, pieces: Iterator[Piece]
    ) -> Generator[tuple[Piece, ParsedRows | None]]:
        """Yield all pieces; those up to the first row, if it decides on the scaling, parsed."""
        while self.scale is None and (piece := next(pieces, None)) is not None:
            parsed = counting(self.source.parse(piece))
            if parsed.table.n_rows:
                self._decide_on_scaling(parsed.table)
            yield piece, parsed
        for piece in pieces:
            yield piece, None

    def _decide_on_scaling(self, first: Table | None) -> None:
        self.scale, self.columns = scaling_of(self._asked, self.source, first)
        if self.columns is not None:
            self._piece_map = self._piece_map._replace(measured=copy(self.columns))

    # -- in their order ----------------------------------------------------------------------------

    def _take_in(self, mapped: MappedPiece) -> Reports:
        """Add up what was counted of the next piece."""
        self.read.add(mapped.read)
        self.counts.add(mapped.counts)
        columns = mapped.columns
        if self.columns is not None and isinstance(columns, SparseTable):
            # statistics are as wide as all rows: there is one of them, and no thread has another
            self.columns.widen(self._n_features)
            self.columns.add(columns)
        elif self.columns is not None and isinstance(columns, Measured):
            self.columns.join(columns)
        return self.job.ticker.partitioned(mapped.piece.n_bytes, mapped.n_rows, mapped.row_bytes)

    @property
    def _n_features(self) -> int:
        return self.source.n_features or self.read.max_index + 1

    def _all_of(self, parts: RowParts) -> MappedSource:
        self._refuse_empty(parts)
        scaler = None
        if self.plan.like is None:
            scaler = Scaler.fitted(self.scale or "none", self.columns, self._n_features)
        orders = tuple(counts.order(self._n_features) for counts in self._column_counts)
        return MappedSource(
            self._n_features, self.counts, scaler, parts, self.read,
            orders or (ColumnOrder(),) * self.n_groups, self._piece_map.held_out.threshold,
        )  # fmt: skip

    def _refuse_empty(self, parts: RowParts) -> None:
        n_skipped = sum(self.read.skipped.values())
        n_rows = [parts.n_rows(group) for group in range(self.n_groups)]
        if not sum(n_rows):
            if self.read.weightless:
                raise none_counts(self.read.weightless)
            skipped = f"; {n_skipped} bad ones were skipped" * (n_skipped > 0)
            reasons = f" First: {self.read.listed[0]}." if self.read.listed else ""
            raise BadInput(
                f"No row is left of the sources{skipped}.{reasons} "
                "Check the format and the label column."
            )
        is_append = not self.job.targets  # to sets that have rows already
        for n, name in zip(n_rows, ("training", "test"), strict=False):
            if not n and not (is_append and name == "test"):
                choice = "Append" if is_append else "Choose another test_fraction or seed, or give"
                raise BadInput(
                    f"None of the {sum(n_rows)} rows became a {name} row. {choice} more rows."
                )
        if not self._n_features:
            raise BadInput("No row has a feature. Check the sources, or give their width.")


def _at_line(piece: MappedPiece, before: int) -> MappedPiece:
    """Return what was counted of a piece that some lines of its file stand in front of."""
    if not before:
        return piece
    moved = piece.piece._replace(first_line=piece.piece.first_line + before)
    piece.counts.where = moved.where
    piece.read.listed = [*rows_in_words(piece.skipped, before)]
    return piece._replace(piece=moved)
