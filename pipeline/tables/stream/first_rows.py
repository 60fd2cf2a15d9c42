"""The first rows of a source, which decide how all of them are read.

Labels, scaling, norms, the number of columns and about that of rows: an ingest would have measured
these on all rows.  They depend on source and plan alone, so a resumed run decides the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np

from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.from_source import Buffer
from fewpass.pipeline.rows.running_moments import RunningMoments, Sums, likely_width
from fewpass.pipeline.rows.scaling import Scaler, measured, resolved
from fewpass.pipeline.rows.source_order import GroupSums, advice
from fewpass.pipeline.rows.source_position import LeftOut, SourcePosition
from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.encoding.schema import described_columns
from fewpass.pipeline.tables.ingest.held_out_share import split_asked, threshold_in
from fewpass.pipeline.tables.ingest.layout import laid_out
from fewpass.pipeline.tables.ingest.notes import note_on_standardising, notes_on
from fewpass.pipeline.tables.ingest.reading import (
    hashed_names_of,
    raw_bytes,
    schema_of,
    stamps,
)
from fewpass.pipeline.tables.ingest.target_map import LabelEncoder, TargetMap
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.source import Source
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT, is_standard_input
from fewpass.pipeline.tables.stream.held_out_rows import HeldOutRows
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece
from fewpass.pipeline.tables.stream.source_pieces import (
    ALL,
    STEADY_BYTES,
    Fixed,
    ReceivedRows,
    SourcePieces,
    count,
    cut,
    sums,
)
from fewpass.storage.addresses import local_path
from fewpass.storage.column_schema import Schema
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.manifest import Labels, Shuffle, Values, WeightStats
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.objects import ArrayLayout
from fewpass.storage.redaction import without_secrets
from fewpass.storage.table import Table, concatenate, n_bytes, take

FIRST_BYTES = 12 << 20  # of first rows: none is learnt from before


class RowsOfSource(MemoryDataset):
    """Rows of a source in memory, described as the data set that it could have become."""

    def __init__(
        self, table: Table, n_features: int, targets: Labels | Values, scaler: Scaler,
        schema: Schema | None, names: HashedNames, place: str, **measured: Any,
    ) -> None:  # fmt: skip
        super().__init__(table, n_features, targets)
        self._source_schema, self._scaler, self.place = schema, scaler, place
        self._names = names
        parts = scaler.columns()
        layouts = {name: ArrayLayout.of(part) for name, part in parts.items()}
        self.manifest = self.manifest.model_copy(
            update={"scaling": scaler.describe(), "columns": layouts} | measured
        )

    @property
    def schema(self) -> Schema | None:
        """The columns of the source."""
        return self._source_schema

    @property
    def hashed_names(self) -> HashedNames:
        """Names of columns that names were hashed to."""
        return self._names

    def sample(self, n: int) -> Table:
        """Return n of these rows at random, the same for the same number."""
        here = self.table.n_rows
        if n >= here:
            return self.table
        return take(self.table, np.random.default_rng(0).choice(here, n, replace=False))

    def column(self, name: str) -> Any:
        """Scale or shift of every feature."""
        return self._scaler.columns()[name]


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
        self.source = self._opened()
        self.plan = with_table_version(plan, self.source)
        self.asked = self.plan.source or self.asked
        self.names = hashed_names_of(self.source)
        self.pieces = SourcePieces(self.source, self.threads, plan.budget)
        self._rest = iter(self.pieces)
        self._pieces: list[ParsedPiece] = []
        self.whole = False
        self.first: Buffer
        self._take_first()
        self.dataset = self._decide()

    def _opened(self) -> Source:
        budget = self.plan.budget
        if budget.longest_row <= 0:
            raise BadInput(
                f"A memory budget of {format_bytes(self.plan.memory)} is too small to read text "
                f"by. Use more than {format_bytes(PROGRAM_BYTES)} (`memory`)."
            )
        expected = Expected(
            budget=budget, split=split_asked(self.asked, self.plan.seed), task=self.asked.task,
            held_out=self.asked.test_fraction, seed=self.plan.seed, one_pass=True,
        )  # fmt: skip
        return laid_out(
            lambda how: open_source(self.asked.sources, how, None, expected),
            self.asked.options, "auto", self.asked.scale,
        )  # fmt: skip

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
    def bytes_to_read(self) -> int | None:
        return None if self.endless else raw_bytes(self.source)

    @property
    def reserved_bytes(self) -> int:
        return held_out_bytes(self.plan) + self.pieces.n_bytes

    def most_in_buffer(self, most: int) -> int:
        """Return the expected bytes of rows in a buffer, of `most` at most.

        As long as pieces are alike, no more than what mixes them.
        """
        return most if self.received.group_sums.sorted else min(most, STEADY_BYTES)

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
            *notes_on(self.source, targets, guessed=guessed, whole=self.whole),
            *note_on_standardising(self.asked.scale, kind),
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
        """Read enough rows; while they lie sorted, as many as fit."""
        most = self.plan.budget.first_rows
        size, group_sums, last = 0, GroupSums(), None
        for piece in self._rest:
            assert piece is not None, "nothing is passed over"
            self._pieces.append(piece.without_text())
            y = piece.parsed.table.target
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
        tables = [piece.parsed.table for piece in self._pieces if piece.parsed.table.n_rows]
        if not tables:
            raise BadInput(
                "No row of the source is left to learn from. Check the format and the label column."
            )
        targets, words = self._targets()
        scaler = self._scaler(tables)
        plan, asked = self.plan, self.asked
        threshold = threshold_in(self.source, split_asked(asked, plan.seed), asked.test_fraction)
        fixed = Fixed(targets, words, scaler, asked.test_fraction, plan.seed, threshold)
        self.received = ReceivedRows(fixed, HeldOutRows(held_out_bytes(plan), plan.seed))
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
        self.first = Buffer(rows, read, 0.0, at)
        expected = self._expected_of_all(rows, read)
        self._pieces.clear()
        schema = schema_of(self.source, self.asked.options)
        return RowsOfSource(
            rows, width, targets, scaler, schema, self.names, plan.dataset, **expected
        )

    def _expected_of_all(self, rows: Table, read: int) -> dict[str, Any]:
        """Return the expected measurements of all rows."""
        n_rows = self._expected_rows(rows.n_rows, read)
        expected: dict[str, Any] = {
            "n_rows": n_rows, "shuffle": Shuffle(seed=self.plan.seed),
            "fingerprint": self._fingerprint(),
        }  # fmt: skip
        if rows.weight is not None:
            mean = float(rows.weight.mean())
            expected["weights"] = WeightStats(total=mean * n_rows, maximum=float(rows.weight.max()))
        return expected

    def _targets(self) -> tuple[Labels | Values, bool]:
        """Return labels or numbers, by the first rows; one label alone is refused."""
        encoder = LabelEncoder(self.asked.task)
        for piece in self._pieces:
            parsed = piece.parsed
            target = encoder.encode(parsed.table.target, parsed.labels, piece.where, parsed.written)
            encoder.count(target, 0)
        counts = encoder.label_counts()
        classes = encoder.is_classification()
        if classes and len(counts) < 2 and not self.whole:
            raise BadInput(
                f"The first {encoder.n_rows[0]:,} rows, all that the memory holds, have the label "
                f"{next(iter(counts))}: the source is sorted by label. "
                f"{advice(format_bytes(self.plan.memory))}"
            )
        return TargetMap(encoder, None).targets(0), bool(encoder.words)

    def _scaler(self, tables: list[Table]) -> Scaler:
        encoded = self.source.schema is not None and self.source.schema.encoding is not None
        kind = resolved(self.asked.scale, tables[0], encoded=encoded)
        if kind == "standard" and self.source.layout == "sparse":
            raise BadInput(
                "Standard scaling would fill every zero of sparse rows. Choose the scaling "
                "unit-rows or none."
            )
        if kind in ("maxabs", "rms") and self.source.n_features is None:
            raise BadInput(
                "Scaling by column needs to know how many there are, and the source is read once. "
                "Give `n_features`, or choose the scaling unit-rows or none."
            )
        width = self.source.n_features or 0
        columns = measured(kind, self.source.layout, width)
        if columns is not None:
            for table in tables:
                columns.add(table)
        return Scaler.fitted(kind, columns, width)

    def _expected_rows(self, learnt: int, seen: int) -> int:
        """Return the number of rows to learn from, about; exactly, where all were seen."""
        if self.whole:
            return learnt
        if self.asked.expected_rows:
            return max(int(self.asked.expected_rows * (1.0 - self.asked.test_fraction)), learnt)
        whole = raw_bytes(self.source)
        if whole is not None:
            return max(int(learnt * whole / seen), learnt)
        if not is_standard_input(self.asked.sources):
            rows_bytes = sum(n_bytes(piece.parsed.table) for piece in self._pieces)
            return max(int(learnt * self.source.estimated_bytes() / rows_bytes), learnt)
        if self.plan.lam.has("/n"):
            raise BadInput(
                f"lam is {self.plan.lam}, and how many rows {STANDARD_INPUT} has it does not say. "
                "Give `expected_rows`, or `lam` as a number."
            )
        return max(learnt, 1_000_000)

    def _fingerprint(self) -> str:
        """SHA-256 of what is read and how: names, sizes and times of the files."""
        how = self.asked.model_dump(mode="json", exclude={"sources"})
        stamped = json.dumps([stamps(self.source), how, self.plan.memory], sort_keys=True)
        return hashlib.sha256(stamped.encode()).hexdigest()


def held_out_bytes(plan: TrainingPlan) -> int:
    """Return the bytes that held-out rows may take."""
    assert plan.source is not None, "the plan names a source"
    return plan.budget.held_out_rows if plan.source.test_fraction > 0.0 else 0


def with_whole_addresses(plan: TrainingPlan) -> TrainingPlan:
    """Return a plan whose sources are named independently of the working directory."""
    assert plan.source is not None, "the plan names a source"
    sources = tuple(map(_whole_address, plan.source.sources))
    source = plan.source.model_copy(update={"sources": sources})
    called = " ".join(map(without_secrets, sources))
    return plan.model_copy(update={"source": source, "dataset": called})


def with_table_version(plan: TrainingPlan, source: Source) -> TrainingPlan:
    """Return a plan that names the version of a table which was opened, so that it is read again.

    By then it may not be the newest.
    """
    asked, read = plan.source, source.schema.reading if source.schema else {}
    if asked is None or "table_version" not in read:
        return plan
    options = asked.options.model_copy(update={"table_version": read["table_version"]})
    return plan.model_copy(update={"source": asked.model_copy(update={"options": options})})


def _whole_address(spec: str) -> str:
    if spec in STANDARD_INPUT_WORDS:
        return STANDARD_INPUT_WORDS[0]
    path = local_path(spec)
    return spec if path is None else str(path)


def require_seekable(plan: TrainingPlan) -> None:
    """Refuse to go on with a source that cannot be read again; BadInput."""
    assert plan.source is not None, "the plan names a source"
    if is_standard_input(plan.source.sources):
        raise BadInput(UNSEEKABLE)


UNSEEKABLE = (
    f"{STANDARD_INPUT.capitalize()} cannot be read again from its beginning, so this training "
    "cannot go on. Its newest snapshot is a model; to be able to go on, train on a file, or keep "
    "the rows as a data set (`keep`)."
)
