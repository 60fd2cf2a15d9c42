"""Rows in parts and their counts, which the first phase of an ingest leaves to the second."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan, ScalingKind
from fewpass.pipeline.tables.ingest.frequency_order import orders_as_state, orders_from_state
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.piece_map import Natural, ReadCounts
from fewpass.pipeline.tables.ingest.row_parts import RowParts
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.folder import Folder

Pair = tuple[Natural, Natural]  # of training and test rows
Moments = Annotated[list[float], Field(min_length=3, max_length=5)]


class _Record(BaseModel):
    """A part of the record of rows in files, with nothing in it but what it names."""

    model_config = ConfigDict(defer_build=True, strict=True, extra="forbid", allow_inf_nan=False)


class _Counts(_Record):
    are_words: bool
    labels: list[tuple[str | float, Pair]] | None
    whole: bool
    moments: tuple[Moments, Moments]


class _Parts(_Record):
    kind: tuple[
        Literal["dense", "sparse"], Literal["float32", "float64"], Natural | None, bool, bool,
        Natural, bool,
    ]  # fmt: skip
    n_buckets: Annotated[int, Field(ge=1, le=1 << 16)]
    n_groups: Annotated[int, Field(ge=1, le=2)]
    rows: list[Natural]
    values: list[Natural]
    part_ends: list[tuple[list[Natural], list[Natural]]]
    parts: list[tuple[str, list[str | float] | None]]


class _Scaler(_Record):
    kind: ScalingKind
    scale: str | None
    shift: str | None


class _Mapped(_Record):
    n_features: Natural
    counts: _Counts
    scaler: _Scaler | None
    parts: _Parts
    read: ReadCounts
    orders: list[tuple[str, str] | None]
    threshold: float | None


class MappedSource(NamedTuple):
    """All rows, in memory or on local disk, and their targets, scaling and columns."""

    n_features: int
    counts: LabelCounts
    scaler: Scaler | None  # None: taken over from another data set
    parts: RowParts
    read: ReadCounts
    orders: tuple[ColumnOrder, ...]  # of the columns, of training rows and of test rows
    threshold: float | None = None  # of the keys that rows are held out by

    def state(self) -> dict[str, Any] | None:
        """Return everything but the rows, as JSON; None where these are nowhere but in memory."""
        if self.parts.are_in_memory:
            return None
        return {
            "n_features": self.n_features,
            "threshold": self.threshold,
            "read": self.read.model_dump(),
            "counts": self.counts.state(),
            "scaler": None if self.scaler is None else self.scaler.state(),
            "parts": self.parts.state(),
            "orders": orders_as_state(self.orders),
        }

    @classmethod
    def from_state(
        cls, plan: IngestPlan, folder: Folder, identity: str, state: dict[str, Any]
    ) -> MappedSource:
        """Inverse of `state`; ValueError says which member is none that it writes."""
        _require_record(state, 2 if plan.test_fraction else 1)
        return cls(
            state["n_features"],
            LabelCounts.from_state(plan.task, state["counts"]),
            None if state["scaler"] is None else Scaler.from_state(state["scaler"]),
            RowParts.from_state(folder, identity, state["parts"]),
            ReadCounts.model_validate(state["read"]),
            orders_from_state(state["orders"]),
            state["threshold"],
        )


def _require_record(state: dict[str, Any], groups: int) -> None:
    try:
        _Mapped.model_validate_json(json.dumps(state))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    parts = state["parts"]
    for name, has, expected in (
        ("parts.n_groups", parts["n_groups"], groups),
        ("orders", len(state["orders"]), groups),
        ("parts.rows", len(parts["rows"]), groups * parts["n_buckets"]),
        ("parts.values", len(parts["values"]), groups * parts["n_buckets"]),
    ):
        if has != expected:
            raise ValueError(f"{name}: it has {has}, where {expected} were expected")
