"""What the first phase of an ingest leaves to the second: rows in parts, and their counts."""

from __future__ import annotations

from typing import Any, NamedTuple

from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.frequency_order import orders_as_state, orders_from_state
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.piece_map import ReadCounts
from fewpass.pipeline.tables.ingest.row_parts import RowParts
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.folder import Folder


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
        """Inverse of `state`."""
        return cls(
            state["n_features"],
            LabelCounts.from_state(plan.task, state["counts"]),
            None if state["scaler"] is None else Scaler.from_state(state["scaler"]),
            RowParts.from_state(folder, identity, state["parts"]),
            ReadCounts.model_validate(state["read"]),
            orders_from_state(state["orders"]),
            state["threshold"],
        )
