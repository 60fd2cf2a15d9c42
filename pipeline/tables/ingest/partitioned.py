"""What the first phase of an ingest leaves to the second, in memory and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.buckets import Buckets, RowKind
from fewpass.pipeline.tables.ingest.frequency_order import orders_as_state, orders_from_state
from fewpass.pipeline.tables.ingest.held import HeldRows
from fewpass.pipeline.tables.ingest.partition_record import require_record
from fewpass.pipeline.tables.ingest.target_map import LabelEncoder
from fewpass.storage.column_order import ColumnOrder

Rows = Buckets | HeldRows


class Partitioned(NamedTuple):
    """All rows, in memory or on local disk, and what was learnt of them."""

    kind: RowKind
    n_features: int
    encoder: LabelEncoder
    scaler: Scaler | None  # None: taken over from another data set
    buckets: tuple[Rows, ...]  # of the training rows; of the test rows, if there are any
    n_skipped: dict[str, int]  # per file
    skipped: list[str]  # the first of them, as sentences
    n_merged: int  # values added to the one before, of the same index in the row
    n_beyond: int  # values left out, beyond the features asked for
    orders: tuple[ColumnOrder, ...]  # of the columns, for each of the buckets


def partition_as_state(partitioned: Partitioned) -> dict[str, Any] | None:
    """Everything but the rows, as JSON; None where the rows are nowhere but in memory."""
    buckets = [rows.state() for rows in partitioned.buckets if isinstance(rows, Buckets)]
    if not buckets:
        return None
    scaler = partitioned.scaler
    return {
        "n_features": partitioned.n_features,
        "encoder": partitioned.encoder.state(),
        "scaler": None if scaler is None else scaler.state(),
        "buckets": buckets,
        "n_skipped": partitioned.n_skipped,
        "skipped": partitioned.skipped,
        "n_merged": partitioned.n_merged,
        "n_beyond": partitioned.n_beyond,
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
        Buckets.reopened(path / name, kept, plan.budget)
        for name, kept in zip(("training", "test"), state["buckets"], strict=False)
    )
    return Partitioned(
        kind=buckets[0].kind,
        n_features=state["n_features"],
        encoder=LabelEncoder.from_state(plan.task, state["encoder"]),
        scaler=None if state["scaler"] is None else Scaler.from_state(state["scaler"]),
        buckets=buckets,
        n_skipped=state["n_skipped"],
        skipped=state["skipped"],
        n_merged=state["n_merged"],
        n_beyond=state["n_beyond"],
        orders=orders_from_state(state["orders"]),
    )
