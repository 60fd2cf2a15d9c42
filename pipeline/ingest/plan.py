"""What an ingest is asked to do, and what came of it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.ingest.scaling import Kind
from pipeline.sizes import ByteSize, format_bytes
from pipeline.sources.options import SourceOptions

#: Decoded bytes of a chunk when nobody says otherwise: reading is fastest at 8 to 16 MB.
CHUNK_BYTES = 8 << 20
#: A set should have this many chunks, so that windows of several chunks can be dealt at random.
FEWEST_CHUNKS = 64
#: Chunks are not made smaller than this for the sake of FEWEST_CHUNKS: files have a price, too.
SMALLEST_CHUNK_BYTES = 16 << 10
#: What compiled kernels and lazily imported libraries take of the memory, measured.
CODE_BYTES = 96_000_000
LEAST_MEMORY = 128_000_000

#: Settings that say how to run, not what comes out.
_EXECUTION = {
    "dataset",
    "test_dataset",
    "memory",
    "spill",
    "threads",
    "columns",
    "storage_options",
    "overwrite",
}


class IngestPlan(BaseModel):
    """Sources, and the data set to make of them.

    The same plan on the same sources gives the same data set, byte for byte, with any number of
    threads and any memory (memory below 16 chunks makes the chunks smaller).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: tuple[str, ...] = Field(min_length=1, description="Files, globs or addresses.")
    dataset: str = Field(min_length=1, description="Folder or address of the data set to write.")
    options: SourceOptions = Field(SourceOptions(), description="How to read the sources.")
    task: Literal["auto", "classification", "regression"] = Field(
        "auto", description="auto: labels if words or at most 1000 distinct whole numbers."
    )
    test_fraction: float = Field(
        0.0, ge=0, lt=1, description="Share of the rows that goes, by seed, to a second data set."
    )
    test_dataset: str | None = Field(
        None, description="That second data set; default DATASET-test."
    )
    scale: Kind = Field("none", description="Scaling of the features, see pipeline.ingest.scaling.")
    like: str | None = Field(
        None, description="Data set whose width, labels, task and scaling are taken over."
    )
    shuffle: bool = Field(default=True, description="Lay the rows down in one random order.")
    column_order: Literal["popularity", "source"] = Field(
        "popularity",
        description="Which columns of sparse rows are stored first; nobody outside notices.",
    )
    seed: int = Field(0, ge=0, description="Where all randomness comes from.")
    memory: ByteSize = Field(
        1 << 30, description="Bytes to use at most, beyond what importing the libraries takes."
    )
    chunk_bytes: Annotated[ByteSize, Field(ge=1024)] | None = Field(
        None, description="Decoded bytes of a chunk; default 8 MiB, or 1/64 of the set if smaller."
    )
    spill: str | None = Field(
        None, description="Local folder for unfinished work; default inside a local data set."
    )
    threads: int | None = Field(None, ge=1, description="Threads; default one per processor.")
    overwrite: bool = Field(default=False, description="Replace a data set that is there already.")
    columns: bool = Field(
        default=False, description="Keep the data set by column, too; local data sets only."
    )
    storage_options: dict[str, Any] = Field(
        default_factory=dict, description="For fsspec: endpoint, credentials.", repr=False
    )

    @model_validator(mode="after")
    def _fits_together(self) -> IngestPlan:
        if self.test_dataset is not None and not self.test_fraction:
            raise ValueError("test_dataset is given, but test_fraction is 0. Give a fraction, too.")
        if self.like is not None and (self.test_fraction or self.scale != "none"):
            raise ValueError(
                "`like` takes scaling and labels over from a finished data set. "
                "Leave test_fraction and scale out."
            )
        if self.memory < LEAST_MEMORY:
            raise ValueError(
                f"memory is {format_bytes(self.memory)}, too little for an ingest. "
                f"Give at least {format_bytes(LEAST_MEMORY)}."
            )
        if not self.options.label_required:
            raise ValueError("A data set needs targets. Leave label_required as it is.")
        if self.dataset in (self.test_dataset, self.like):
            raise ValueError("Two data sets have the same place. Give each its own.")
        return self

    @property
    def test_url(self) -> str | None:
        """Where the test rows go; None without a test fraction."""
        if not self.test_fraction:
            return None
        return self.test_dataset or f"{self.dataset.rstrip('/')}-test"

    @property
    def memory_for_rows(self) -> int:
        """Bytes of the memory that rows and statistics may take."""
        return self.memory - CODE_BYTES

    @property
    def chunk_limit(self) -> int:
        """Decoded bytes that no chunk shall exceed (if it has more than one row)."""
        return min(self.chunk_bytes or CHUNK_BYTES, self.memory // 16)

    def digest(self, stamps: list[Any], like_fingerprint: str) -> str:
        """Return the digest of all that decides on the bytes of the data set.

        Parameters
        ----------
        stamps
            Name, size and time of change of every source file, as JSON.
        like_fingerprint
            Fingerprint of the data set given as `like`, or "".
        """
        decisive = self.model_dump(mode="json", exclude=_EXECUTION | {"sources", "like"})
        decisive["chunk_bytes"] = [self.chunk_limit, self.chunk_bytes is None]
        text = json.dumps([decisive, stamps, like_fingerprint], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


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
    scale: Kind
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
    fingerprint: str
    test_fingerprint: str | None
