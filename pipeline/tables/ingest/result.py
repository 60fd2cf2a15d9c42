"""What came of an ingest."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.settings.ingest_plan import ScalingKind


class IngestResult(BaseModel):
    """What came of an ingest.

    `peak_memory_bytes` is the largest resident size of the whole process since it began, the
    libraries included. `seconds` is the time of this call: close to 0 if all was done before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    rows: int
    features: int
    nnz: int
    task: Literal["classification", "regression"]
    labels: tuple[str, ...] | tuple[float, ...] | None  # None: regression
    scale: ScalingKind
    chunks: int
    chunk_rows: int
    seconds: float
    bytes_in: int
    bytes_out: int
    peak_memory_bytes: int
    test_dataset: str | None
    test_rows: int
    skipped: int  # rows left out under on_bad_row="skip"
    skipped_rows: tuple[str, ...]  # the first of them: file, line, reason
    merged: int  # values whose index stood in their row before: added up
    beyond: int = 0  # values left out, whose index is beyond the features of `like`
    left_out: tuple[str, ...] = ()  # columns that `like` does not know
    partitioned_again: str | None = (
        None  # what was damaged of the rows that an earlier call had partitioned
    )
    encoded: tuple[tuple[str, str], ...] = ()
    """Columns by name, and what became of each; none where rows are numbers as they came."""
    notes: tuple[str, ...] = ()
    """What somebody should look at."""
    fingerprint: str
    test_fingerprint: str | None
