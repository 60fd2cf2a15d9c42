"""The first rows of a source, which decide how all of them are read.

Labels, scaling, norms, the number of columns and about that of rows: an ingest would have measured
these on all rows.  They depend on source and plan alone, so a resumed run decides the same.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np

from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.from_source import Buffer
from fewpass.pipeline.rows.row_summary import RowSummary, none_counts
from fewpass.pipeline.rows.running_moments import RunningMoments, Sums, likely_width
from fewpass.pipeline.rows.source_order import GroupSums
from fewpass.pipeline.rows.source_position import LeftOut, SourcePosition
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.encoding.schema import described_columns
from fewpass.pipeline.tables.ingest.layout import laid_out
from fewpass.pipeline.tables.ingest.notes import note_on_standardising, notes_on, notes_on_digits
from fewpass.pipeline.tables.ingest.reading import hashed_names_of, schema_of
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare, split_asked, threshold_in
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.pipeline.tables.readers.source import Source
from fewpass.pipeline.tables.readers.standard_input import is_standard_input
from fewpass.pipeline.tables.stream.first_decisions import (
    RowsOfSource,
    decided_scaler,
    decided_targets,
    expected_rows,
    fingerprint_of,
)
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece
from fewpass.pipeline.tables.stream.source_pieces import (
    ALL,
    Fixed,
    HeldOutRows,
    ReceivedRows,
    SourcePieces,
    count,
    cut,
    sums,
)
from fewpass.pipeline.tables.stream.source_plan import (
    held_out_bytes,
    require_seekable,
    with_table_version,
)
from fewpass.storage.manifest import Labels, Shuffle, WeightStats
from fewpass.storage.table import Table, concatenate, n_bytes, take

FIRST_BYTES = 12 << 20  # of first rows: none is learnt from before


class FirstRows:
    """A source that was opened, and its first rows.

    Raises
    ------
    BadInput
        Rows, labels or settings that cannot be used.

    Attributes
    ----------
    dataset : RowsOfSource
        The first rows, and what is expected of all of them.
    first : Buffer
        The first rows.
    whole : bool
        Whether these are all rows.
    """

    def __init__(self, plan: TrainingPlan, threads: int | None = None) -> None:
        assert plan.source is not None, "the plan names a source"
        self.plan, self.asked = plan, plan.source
        self.threads = threads or len(os.sched_getaffinity(0))
        self.seen = SeenFiles()
        self.source = self._opened()
        self.plan = with_table_version(plan, self.source)
        self.asked = self.plan.source or self.asked
        self.names = hashed_names_of(self.source)
        self.pieces = SourcePieces(self.source, self.threads, plan.budget)
        self._rest = iter(self.pieces)
        self._held_out = self._share()
        self._pieces: list[ParsedPiece] = []
        self.whole = False
        self.first: Buffer
        self._take_first()
        self.dataset = self._decide()
        self._on_digits = tuple(notes_on_digits(self.dataset, self.first.table))

    def _opened(self) -> Source:
        budget = self.plan.budget
        if budget.longest_row <= 0:
            raise BadInput(
                f"A memory budget of {format_bytes(self.plan.memory)} is too small to read text "
                f"by. Use more than {format_bytes(PROGRAM_BYTES)} (`memory`)."
            )
        expected = Expected(
            budget=budget, split=split_asked(self.asked, self.plan.seed), task=self.asked.task,
            held_out=self.asked.test_fraction, seed=self.plan.seed, one_pass=True, seen=self.seen,
        )  # fmt: skip
        return laid_out(
            lambda how: open_source(self.asked.sources, how, None, expected),
            self.asked.options, "auto", self.asked.scale,
        )  # fmt: skip

    def _share(self) -> HeldOutShare:
        split = split_asked(self.asked, self.plan.seed)
        threshold = threshold_in(self.source, split, self.asked.test_fraction)
        return HeldOutShare(self.asked.test_fraction, (self.plan.seed,), threshold)

    @property
    def may_grow(self) -> bool:
        return self.source.n_features is None and not self.whole

    @property
    def likely_columns(self) -> int:
        width = self.dataset.n_features
        return likely_width(width) if self.may_grow else width

    @property
    def endless(self) -> bool:
        return is_standard_input(self.asked.sources) and not self.whole

    @property
    def reserved_bytes(self) -> int:
        return held_out_bytes(self.plan) + self.pieces.n_bytes

    @property
    def left_out(self) -> LeftOut:
        return self.received.left_out

    def encoded(self) -> dict[str, str]:
        return dict(described_columns(self.dataset.schema))

    def require_seekable(self) -> None:
        require_seekable(self.plan)

    def held_out(self, n_features: int) -> RowsOfSource | None:
        table, data, fixed = self.received.held_out.table(), self.dataset, self.received.fixed
        if table is None:
            return None
        return RowsOfSource(
            table, n_features, fixed.targets, fixed.scaler, data.schema, data.hashed_names,
            data.place,
        )  # fmt: skip

    def notes(self) -> tuple[str, ...]:
        targets, kind = self.dataset.manifest.targets, self.dataset.manifest.scaling.kind
        guessed = self.asked.task == "auto"
        return (
            *self.seen.notes(),
            *notes_on(self.source, targets, guessed=guessed, whole=self.whole),
            *note_on_standardising(self.asked.scale, kind),
            *self._on_digits,
        )

    # -- reading -----------------------------------------------------------------------------------

    def buffers(self, start: SourcePosition, buffer_bytes: int) -> Generator[Buffer]:
        if not self.asked.test_fraction:
            self.pieces.passed_over = range(start.pieces)
        self.received.group_sums, self.received.left_out = start.of_pieces, start.left_out
        self.received.targets = start.targets
        with closing(self._rest) as rest:
            yield from cut(rest, self.received, start, buffer_bytes)

    def count_columns(self) -> Sums:
        if self.received.moments is None:
            self.received.moments = RunningMoments(np.zeros((self.likely_columns, 2)))
            last = self.dataset.n_features - 1
            self.first = self.first._replace(sums=count(self.received, self.first.table, last))
        assert self.first.sums is not None, "they were counted"
        return self.first.sums

    def count_on(self, sums: Sums) -> None:
        self.received.moments = RunningMoments(sums.copy())

    def free_first_rows(self) -> None:
        if self.first.table.n_rows:
            none = take(self.first.table, np.arange(0))
            self.first, self.dataset.table = self.first._replace(table=none), none

    def close(self) -> None:
        self._rest.close()

    def _take_first(self) -> None:
        """Read enough rows; while those to learn from lie sorted, as many as fit."""
        most = self.plan.budget.first_rows
        size, group_sums, last = 0, GroupSums(), None
        for piece in self._rest:
            assert piece is not None, "nothing is passed over"
            self._pieces.append(piece)
            y = self._held_out.learnt_from(piece.parsed, piece.place).target
            if (words := piece.parsed.labels) is not None:
                last = last or max(words, default=None)
                y = np.array([word == last for word in words], float)[y.astype(np.int64)]
            group_sums = group_sums.add(len(y), float(y.sum()), float(y @ y))
            size += n_bytes(piece.parsed.table)
            enough = size >= FIRST_BYTES and group_sums.varies and not group_sums.sorted
            if enough or size >= most:
                return
        self.whole = True

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(self) -> RowsOfSource:
        n_rows = sum(piece.parsed.table.n_rows for piece in self._pieces)
        weightless = sum(piece.parsed.n_weightless for piece in self._pieces)
        if not n_rows and weightless:
            raise none_counts(weightless, "all" if self.whole else "the first")
        if not n_rows:
            raise BadInput(
                "No row of the source is left to learn from. Check the format and the label column."
            )
        plan, asked = self.plan, self.asked
        targets, words = decided_targets(self._pieces, plan, self._held_out, whole=self.whole)
        scaler = decided_scaler(self.source, self._pieces, self._held_out, asked.scale)
        fixed = Fixed(targets, words, scaler, self._held_out)
        self.received = ReceivedRows(fixed, HeldOutRows(held_out_bytes(plan), plan.seed))
        self.first = self._received()
        rows, width = self.first.table, self.first.position.n_features
        expected = self._expected_of_all(rows, self.first.bytes_read)
        if isinstance(targets, Labels):
            targets = RowSummary.of(rows, targets).targets(targets)
        self._pieces.clear()
        schema = schema_of(self.source, asked.options)
        return RowsOfSource(
            rows, width, targets, scaler, schema, self.names, plan.dataset, **expected
        )

    def _received(self) -> Buffer:
        """Return the first rows as a buffer."""
        rows = concatenate([self.received.take(piece) for piece in self._pieces])
        read = sum(piece.n_bytes for piece in self._pieces)
        widest = max(piece.parsed.max_index for piece in self._pieces)
        group_sums = GroupSums().add(rows.n_rows, *sums(rows))
        read_up_to = ALL if self.whole else len(self._pieces)
        width = self.source.n_features or widest + 1
        if not width:
            raise BadInput("No row has a feature. Check the sources, or give their width.")
        at = SourcePosition(
            read_up_to, 1, rows.n_rows, width, 0, self.received.group_sums, group_sums,
            left_out=self.received.left_out, targets=self.received.targets,
        )  # fmt: skip
        return Buffer(rows, read, at)

    def _expected_of_all(self, rows: Table, read: int) -> dict[str, Any]:
        """Return the expected measurements of all rows."""
        n_rows = rows.n_rows
        if not self.whole:
            in_memory = sum(n_bytes(piece.parsed.table) for piece in self._pieces)
            n_rows = expected_rows(self.source, self.plan, n_rows, read, in_memory)
        expected: dict[str, Any] = {
            "n_rows": n_rows, "shuffle": Shuffle(seed=self.plan.seed),
            "fingerprint": fingerprint_of(self.source, self.plan),
        }  # fmt: skip
        if rows.weight is not None:
            mean, maximum = float(rows.weight.mean()), float(rows.weight.max())
            expected["weights"] = WeightStats(total=mean * n_rows, maximum=maximum)
        return expected
