"""Decisions by a source's first rows for all of them: targets, scaling, how many there are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.source_order import advice
from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.layout import require_scalable, scaling_of
from fewpass.pipeline.tables.ingest.reading import raw_bytes, stamps
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare
from fewpass.pipeline.tables.readers.source import Source
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT, is_standard_input
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece
from fewpass.storage.column_file import StoredColumns
from fewpass.storage.column_schema import Schema
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table, take


def decided_targets(
    pieces: Sequence[ParsedPiece], plan: TrainingPlan, held_out: HeldOutShare, *, whole: bool
) -> tuple[Labels | Values, bool]:
    """Return labels or numbers of the rows to learn from, and whether labels are words.

    One label of these alone is refused.
    """
    assert plan.source is not None, "the plan names a source"
    counts = LabelCounts(plan.source.task)
    for piece in pieces:
        own = LabelCounts(plan.source.task, piece.where)
        targets, test = own.listed(piece.parsed), held_out.of(piece.parsed, piece.place)
        for group, rows in enumerate((~test, test)):
            own.count(targets.of(np.flatnonzero(rows)), group)
        counts.add(own)
    if not counts.n_rows[0]:
        raise BadInput(
            f"All of the first {counts.n_rows[1]:,} rows are held out, and none is left to learn "
            "from. Hold out fewer (`test_fraction`), or shuffle the source."
        )
    learnt = [label for label, (rows, _) in counts.label_counts().items() if rows]
    if counts.is_classification() and len(learnt) == 1 and not whole:
        raise BadInput(
            f"The first {counts.n_rows[0]:,} rows to learn from, all that the memory holds, have "
            f"the label {learnt[0]}: the source is sorted by label. "
            f"{advice(format_bytes(plan.memory))}"
        )
    return TargetMap(counts, None).targets(0), counts.are_words


def decided_scaler(
    source: Source, pieces: Sequence[ParsedPiece], held_out: HeldOutShare,
    scale: ScalingKind | Literal["auto"],
) -> Scaler:  # fmt: skip
    """Return the scaling that is asked for, measured on those of the first rows to learn from."""
    require_scalable(scale, source)
    tables = (held_out.learnt_from(piece.parsed, piece.place) for piece in pieces)
    learnt = [table for table in tables if table.n_rows]
    kind, columns = scaling_of(scale, source, learnt[0])
    if kind in ("maxabs", "rms") and source.n_features is None:
        raise BadInput(
            "Scaling by column needs to know how many there are, and the source is read once. "
            "Give `n_features`, or choose the scaling unit-rows or none."
        )
    if columns is not None:
        for table in learnt:
            columns.add(table)
    return Scaler.fitted(kind, columns, source.n_features or 0)


def expected_rows(
    source: Source, plan: TrainingPlan, learnt: int, seen: int, in_memory: int
) -> int:
    """Return the number of rows to learn from, about, by those of a part of the source.

    Parameters
    ----------
    learnt
        The part's rows to learn from.
    seen, in_memory
        Its bytes, as they were read and as tables in memory.
    """
    asked = plan.source
    assert asked is not None, "the plan names a source"
    if asked.expected_rows:
        return max(int(asked.expected_rows * (1.0 - asked.test_fraction)), learnt)
    whole = raw_bytes(source)
    if whole is not None:
        return max(int(learnt * whole / seen), learnt)
    if not is_standard_input(asked.sources):
        return max(int(learnt * source.estimated_bytes() / in_memory), learnt)
    if plan.lam.has("/n"):
        raise BadInput(
            f"lam is {plan.lam}, and how many rows {STANDARD_INPUT} has it does not say. "
            "Give `expected_rows`, or `lam` as a number."
        )
    return max(learnt, 1_000_000)


def fingerprint_of(source: Source, plan: TrainingPlan) -> str:
    """SHA-256 of what is read and how: names, sizes and times of the files."""
    assert plan.source is not None, "the plan names a source"
    how = plan.source.model_dump(mode="json", exclude={"sources"})
    stamped = json.dumps([stamps(source), how, plan.memory], sort_keys=True)
    return hashlib.sha256(stamped.encode()).hexdigest()


class RowsOfSource(MemoryDataset):
    """Rows of a source in memory, described as the data set that it could have become."""

    def __init__(
        self, table: Table, n_features: int, targets: Labels | Values, scaler: Scaler,
        schema: Schema | None, names: HashedNames, place: str, **measured: Any,
    ) -> None:  # fmt: skip
        super().__init__(table, n_features, targets)
        self._source_schema, self._scaler, self.place = schema, scaler, place
        self._names = names
        stored = dict.fromkeys(scaler.columns(), StoredColumns("float64", ()))
        self.manifest = self.manifest.model_copy(
            update={"scaling": scaler.describe(), "columns": stored} | measured
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
