"""What the first phase of an ingest leaves to the second, in memory and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan, ScalingKind
from fewpass.pipeline.tables.ingest.buckets import Buckets, RowKind
from fewpass.pipeline.tables.ingest.frequency_order import orders_as_state, orders_from_state
from fewpass.pipeline.tables.ingest.label_encoder import LabelEncoder
from fewpass.pipeline.tables.ingest.read_counts import Natural, ReadCounts
from fewpass.pipeline.tables.ingest.rows_in_memory import RowsInMemory
from fewpass.storage.column_order import ColumnOrder

Pair = tuple[Natural, Natural]  # of training and test rows
Rows = Buckets | RowsInMemory


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, strict=True, extra="forbid", allow_inf_nan=False)


class _Targets(_Strict):
    words: list[str]
    names: list[str] = []
    word_counts: list[Pair]
    numbers: list[tuple[float, Pair]] | None
    whole: bool
    n_rows: Pair
    mean: tuple[float, float]
    deviation: tuple[float, float]
    range: tuple[tuple[float, float] | None, tuple[float, float] | None]


class _Buckets(_Strict):
    n_buckets: Annotated[int, Field(ge=1, le=1 << 20)]
    kind: tuple[
        Literal["dense", "sparse"], Literal["float32", "float64"], Natural | None, bool, bool,
        Natural,
    ]  # fmt: skip
    shuffled: bool
    n_rows: Natural
    nnz: Natural
    n_bytes: Natural
    generations: Annotated[int, Field(ge=1, le=1 << 20)]


class _Scaler(_Strict):
    kind: ScalingKind
    scale: str | None
    shift: str | None


class _Partitioned(_Strict):
    n_features: Natural
    encoder: _Targets
    scaler: _Scaler | None
    buckets: Annotated[list[_Buckets], Field(min_length=1, max_length=2)]
    read: ReadCounts
    orders: list[tuple[str, str] | None]
    threshold: float | None


def require_record(state: dict[str, Any], groups: int) -> None:
    """Refuse what `partition_as_state` does not write; ValueError says which member.

    `groups` is 2 where there are test rows.
    """
    try:
        _Partitioned.model_validate_json(json.dumps(state))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    for name in ("buckets", "orders"):
        if len(state[name]) != groups:
            raise ValueError(f"{name}: it has {len(state[name])}, where {groups} were expected")


class Partitioned(NamedTuple):
    """All rows, in memory or on local disk, and their targets, scaling and columns."""

    kind: RowKind
    n_features: int
    encoder: LabelEncoder
    scaler: Scaler | None  # None: taken over from another data set
    buckets: tuple[Rows, ...]  # of the training rows; of the test rows, if there are any
    read: ReadCounts
    orders: tuple[ColumnOrder, ...]  # of the columns, for each of the buckets
    threshold: float | None = None  # of the keys that rows are held out by


def partition_as_state(partitioned: Partitioned) -> dict[str, Any] | None:
    """Everything but the rows, as JSON; None where the rows are nowhere but in memory."""
    buckets = [rows.state() for rows in partitioned.buckets if isinstance(rows, Buckets)]
    if not buckets:
        return None
    scaler = partitioned.scaler
    return {
        "n_features": partitioned.n_features,
        "threshold": partitioned.threshold,
        "read": partitioned.read.model_dump(),
        "encoder": partitioned.encoder.state(),
        "scaler": None if scaler is None else scaler.state(),
        "buckets": buckets,
        "orders": orders_as_state(partitioned.orders),
    }


def partition_from_state(plan: IngestPlan, path: Path, state: dict[str, Any]) -> Partitioned:
    """Inverse of `partition_as_state`.

    Raises
    ------
    FileNotFoundError, DamagedSpill
        When the rows are not as they were left.
    ValueError
        When the state is none.
    """
    require_record(state, 2 if plan.test_fraction else 1)
    buckets = tuple(
        Buckets.reopened(path / name, stored, plan.budget)
        for name, stored in zip(("training", "test"), state["buckets"], strict=False)
    )
    return Partitioned(
        kind=buckets[0].kind,
        n_features=state["n_features"],
        encoder=LabelEncoder.from_state(plan.task, state["encoder"]),
        scaler=None if state["scaler"] is None else Scaler.from_state(state["scaler"]),
        buckets=buckets,
        read=ReadCounts.model_validate(state["read"]),
        orders=orders_from_state(state["orders"]),
        threshold=state["threshold"],
    )
