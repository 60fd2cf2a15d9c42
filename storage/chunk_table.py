"""The chunk table of a data set: one binary record for each chunk, read whole with the manifest.

A terabyte in chunks of 8 MiB has some 13 MB of records, which are decoded in milliseconds.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from fewpass.storage.objects import StoredObject

Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

#: Sums over the rows of a chunk, as records have them.
SUMS = ("target_sum", "max_square", "sum_square", "sum_fourth")


class ManifestPart(BaseModel):
    """A part of a manifest, immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ChunkRecord(NamedTuple):
    """The record of a chunk."""

    rows: int
    nnz: int
    target_sum: float
    max_square: float  # largest ||x||^2
    sum_square: float  # sum of ||x||^2
    sum_fourth: float  # sum of ||x||^4
    objects: dict[str, StoredObject | None]  # by key with {chunk} left open; None: no object

    @classmethod
    def of_json(cls, fields: Sequence[Any]) -> ChunkRecord:
        """Return the record that was written as a JSON list."""
        *numbers, objects = fields
        stored = {key: one and StoredObject(*one) for key, one in objects.items()}
        return cls._make((*numbers, stored))

    def named(self, k: int) -> dict[str, StoredObject]:
        """Return the objects by the keys that they have as those of chunk `k`."""
        every = ((key.format(chunk=k), stored) for key, stored in self.objects.items())
        return {key: stored for key, stored in every if stored is not None}


class SquaresBetween(NamedTuple):
    """Sums of squares between chunks: of rows times (mean of the chunk - mean of all)^2."""

    targets: float
    norms: float  # of ||x||^2


@lru_cache(maxsize=64)
def record_type(objects: int) -> np.dtype[Any]:
    """Return the type of a chunk's record with `objects` objects; length 0 means no object."""
    numbers = [("rows", "<i8"), ("nnz", "<i8"), *((name, "<f8") for name in SUMS)]
    return np.dtype([*numbers, ("length", "<u4", (objects,)), ("crc32c", "<u4", (objects,))])


def _decoded(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ValueError("it is no text of base64")  # noqa: TRY004 - which pydantic takes for one
    return b64decode(value, validate=True)


def _encoded(value: bytes) -> str:
    return b64encode(value).decode("ascii")


#: Bytes, in base64 in JSON.
Packed = Annotated[bytes, BeforeValidator(_decoded), PlainSerializer(_encoded, when_used="json")]


class ChunkTable(ManifestPart):
    """The records of all chunks, in their order."""

    objects: tuple[str, ...]  # keys of the objects of a chunk, its number left open
    records: Packed

    @model_validator(mode="after")
    def _is_possible(self) -> ChunkTable:
        size = record_type(len(self.objects)).itemsize
        if not self.records or len(self.records) % size:
            raise ValueError(f"{len(self.records)} bytes are no records of {size} bytes each")
        table = self._table
        if table["rows"].min() < 1 or table["nnz"].min() < 0:
            raise ValueError("a chunk has no rows, or less than no values")
        if not all(np.isfinite(table[name]).all() for name in SUMS):
            raise ValueError("a sum over a chunk is not finite")
        return self

    @classmethod
    def of(cls, records: Sequence[ChunkRecord], templates: Sequence[str]) -> ChunkTable:
        """Return the table of records, in the order of the chunks."""
        table = np.zeros(len(records), record_type(len(templates)))
        for k, record in enumerate(records):
            stored = [record.objects[key] or StoredObject(0, 0) for key in templates]
            lengths, checksums = zip(*stored, strict=True) if stored else ((), ())
            table[k] = (*record[:-1], lengths, checksums)
        return cls(objects=tuple(templates), records=table.tobytes())

    @classmethod
    def joined(cls, tables: Sequence[ChunkTable]) -> ChunkTable:
        """Return the table of all chunks of data sets whose chunks have the same objects."""
        return cls(objects=tables[0].objects, records=b"".join(one.records for one in tables))

    @property
    def _table(self) -> NDArray[Any]:
        return np.frombuffer(self.records, record_type(len(self.objects)))

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self._table)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of each chunk."""
        return self._table["rows"]

    @property
    def nnz(self) -> NDArray[np.int64]:
        """Values of each chunk."""
        return self._table["nnz"]

    def sums(self, name: str) -> NDArray[np.float64]:
        """Return one of `SUMS` of each chunk."""
        return self._table[name]

    def record(self, k: int) -> ChunkRecord:
        """Return the record of chunk `k`."""
        *numbers, lengths, checksums = self._table[k].item()
        stored = map(StoredObject, map(int, lengths), map(int, checksums))
        every = zip(self.objects, stored, strict=True)
        objects = {key: one if one.length else None for key, one in every}
        return ChunkRecord._make((*numbers, objects))

    def between(self, first: int, stop: int) -> ChunkTable:
        """Return the table of chunks first <= k < stop."""
        size = self._table.itemsize
        return ChunkTable(objects=self.objects, records=self.records[first * size : stop * size])

    def add_up_to(self, n_rows: int, nnz: int) -> bool:
        """Return whether the chunks have these rows and values in all."""
        return (sum(self.rows.tolist()), sum(self.nnz.tolist())) == (n_rows, nnz)

    def are_full(self, chunk_rows: int) -> bool:
        """Return whether all chunks but the last have these rows, and the last one no more."""
        return bool((self.rows[:-1] == chunk_rows).all() and self.rows[-1] <= chunk_rows)

    def lack_only(self, may_lack: Sequence[str]) -> bool:
        """Return whether each chunk has all objects, save some where it has no values."""
        empty = (self.nnz == 0)[:, None] & np.isin(self.objects, may_lack)
        return bool(((self._table["length"] == 0) == empty).all())

    def largest_together(self, n: int) -> tuple[int, int]:
        """Return the most rows, and the most values, that `n` chunks can have."""
        rows, nnz = (int(np.sort(counts)[-n:].sum()) for counts in (self.rows, self.nnz))
        return rows, nnz

    def squares_between(self) -> SquaresBetween:
        """Return how far the chunks' means lie apart."""
        sums = (self.sums("target_sum"), self.sums("sum_square"))
        return SquaresBetween(*(squares_between(self.rows, each) for each in sums))

    def bytes_of(self, keys: Iterable[str]) -> int:
        """Return the stored bytes of some objects of all chunks."""
        return int(self._lengths(keys).sum(dtype=np.int64))

    def largest_of(self, keys: Iterable[str]) -> int:
        """Return the stored bytes of the largest among some objects of all chunks."""
        return int(self._lengths(keys).max())

    def _lengths(self, keys: Iterable[str]) -> NDArray[np.uint32]:
        return self._table["length"][:, [self.objects.index(key) for key in keys]]


def squares_between(rows: ArrayLike, sums: ArrayLike) -> float:
    """Return the sum of rows times the square of (mean of a chunk - mean of all)."""
    n, totals = np.asarray(rows, float), np.asarray(sums)
    mean = totals.sum() / n.sum()
    return float(n @ (totals / n - mean) ** 2)
