"""The plan of an ingest."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.settings.encoding import several
from fewpass.pipeline.settings.model_config import ADDRESSED, Workers
from fewpass.pipeline.settings.source_options import Column, SourceOptions
from fewpass.pipeline.sizes import ByteSize, format_bytes
from fewpass.solvers.described import Described
from fewpass.storage.redaction import shown_address

ScalingKind = Literal["none", "maxabs", "rms", "unit-rows", "standard"]

#: Decoded bytes of a chunk when nobody says otherwise: reading is fastest at 8 to 16 MB.
CHUNK_BYTES = 8 << 20
LEAST_MEMORY = 128_000_000

#: Settings that say how to run, not what comes out.
_EXECUTION = {
    "dataset",
    "test_dataset",
    "memory",
    "spill",
    "threads",
    "column_copy",
    "storage_options",
    "overwrite",
}


def require_fraction(fraction: float, by: Column | None, group: Column | None) -> None:
    """Refuse a column to hold out by without a share, and two of them; ValueError."""
    if by is not None and group is not None:
        raise ValueError("test_by and test_group are both given. Leave one of them out.")
    name = "test_group" if by is None else "test_by"
    if (by is not None or group is not None) and not fraction:
        raise ValueError(
            f"{name} says which rows are held out, and test_fraction how many. Give a fraction, "
            "too."
        )


#: Secrets in the address of a source open it, and are in nothing that is written of the plan.
SourceAddress = Annotated[str, PlainSerializer(shown_address, return_type=str)]


class IngestPlan(Described):
    """Settings of an ingest: files to read, and the data set to make of them.

    The same plan on the same files gives the same data set, byte for byte, with any number of
    threads and any memory limit, except that a limit below 16 chunks makes the chunks smaller, and
    one below 256 MiB may make the sample smaller that decides how columns are encoded.
    """

    model_config = ADDRESSED

    sources: tuple[SourceAddress, ...] = Field(min_length=1)
    """Files, globs or addresses."""
    dataset: str = Field(min_length=1)
    """Folder or address of the data set to write."""
    options: SourceOptions = SourceOptions.usual()
    """How to read the sources."""
    task: Literal["auto", "classification", "regression"] = "auto"
    """What the targets are; auto: labels if they are words, or whole numbers with at most 20
    different values, or at most 1000 with ten rows each."""
    test_fraction: float = Field(0.0, ge=0, lt=1)
    """Share of rows put into a test data set. They are drawn by the seed, of every label the same
    share."""
    test_by: Column | None = None
    """Column of dates or numbers, by name or position: the last rows by it are held out, a
    `test_fraction` of all, in place of rows drawn at random.  Tables are encoded then."""
    test_group: Column | None = None
    """Column, by name or position, whose values stay together: all rows of one are held out, or
    none.  Tables are encoded then."""
    test_dataset: str | None = None
    """Folder or address of the second data set [default: DATASET-test]."""
    scale: ScalingKind | Literal["auto"] = "auto"
    """Scaling of the stored features; models are for unscaled rows in any case.  auto: `standard`
    for dense numbers of at most 2000 columns with more than half of the cells filled, or whose
    columns differ in size by more than a factor of 100; `rms` (divided by the root of the mean
    square) for at most 2000 dense columns that are mostly zero and reach beyond 100; else none."""
    layout: Literal["auto", "dense", "sparse"] = "auto"
    """How rows of LIBSVM text and the like are stored; dense ones are as wide as `n_features`, else
    as the first rows.  auto: dense if more than half of all cells have a value and columns differ
    in size by more than a factor of 100, so that they can be standardised."""
    keep: Annotated[tuple[str, ...], BeforeValidator(several)] = ()
    """Column to keep next to the rows as it is written, such as an id, up to 64 bytes of a cell,
    and not to learn from; may be repeated.  What `forget` finds rows by."""
    like: str | None = None
    """Data set to encode rows alike, for testing. Its columns, encoding, labels and scaling are
    used."""
    shuffle: bool = True
    """Store the rows in random order."""
    column_order: Literal["frequency", "source"] = "frequency"
    """Order in which the columns of sparse rows are stored: by how many rows have a value, which
    trains wide data faster and shows in no result, or as in the source."""
    seed: int = Field(0, ge=0)
    """Seed of all randomness."""
    memory: ByteSize = 1 << 30
    """Memory limit, such as 256MB; in addition to what the libraries take."""
    chunk_bytes: Annotated[ByteSize, Field(ge=1024)] | None = None
    """Size of a chunk in memory [default: 8 MiB; of a set beyond half a terabyte a 65,536th of it,
    up to a sixteenth of the memory]."""
    spill: str | None = None
    """Local folder for unfinished work [default: inside a local data set, else the temporary
    folder]."""
    threads: Workers | None = None
    """Threads that parse and compress [default: one per core]."""
    overwrite: bool = False
    """Replace a data set that exists already."""
    column_copy: bool = False
    """Store the data set by column as well, as `fewpass column-copy` does; local data sets only."""
    storage_options: dict[str, Any] = Field(default_factory=dict, repr=False)
    """For fsspec: endpoint, credentials."""

    @model_validator(mode="after")
    def _fits_together(self) -> IngestPlan:
        require_fraction(self.test_fraction, self.test_by, self.test_group)
        if self.test_dataset is not None and not self.test_fraction:
            raise ValueError("test_dataset is given, but test_fraction is 0. Give a fraction, too.")
        if self.like is not None and (self.test_fraction or self.scale not in ("auto", "none")):
            raise ValueError(
                "`like` takes scaling and labels over from a finished data set. "
                "Leave test_fraction and scale out."
            )
        if self.like is not None and self.layout != "auto":
            raise ValueError(
                "`like` stores rows as those of a finished data set are. Leave layout out."
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
        """Address of the test rows; None without a test fraction."""
        if not self.test_fraction:
            return None
        return self.test_dataset or f"{self.dataset.rstrip('/')}-test"

    @property
    def budget(self) -> Budget:
        """Shares of the memory."""
        return Budget.of(self.memory)

    @property
    def chunk_limit(self) -> int:
        """Decoded bytes that no chunk shall exceed (if it has more than one row)."""
        return min(self.chunk_bytes or CHUNK_BYTES, self.budget.chunk)

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
