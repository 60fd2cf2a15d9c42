"""The chunks of a data set in its manifest: their table, or what is known of one elsewhere.

The table of many chunks lies in pages of its own; that of a view's chunks in the manifests of the
data sets that these are of.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fewpass.storage.objects import StoredObject

Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

#: Chunks up to which the table is a part of the manifest, some MB: it is read and checked whole.
MOST_IN_MANIFEST: Final = 8192


class ManifestPart(BaseModel):
    """A part of a manifest, immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ChunkRecord(ManifestPart):
    """Record of a written chunk; stored as JSON, it lets an ingest be resumed."""

    rows: Positive
    nnz: Natural
    target_sum: float
    max_square: float  # largest ||x||^2
    sum_square: float  # sum of ||x||^2
    sum_fourth: float  # sum of ||x||^4
    objects: dict[str, StoredObject]  # by key


class ChunkFacts(NamedTuple):
    """What is recorded of one chunk."""

    rows: int
    nnz: int
    target_sum: float
    max_square: float
    sum_square: float
    objects: dict[str, StoredObject | None]  # by key with {chunk} left open; None: no object

    def named(self, k: int) -> dict[str, StoredObject]:
        """Return the objects by the keys that they have as those of chunk `k`."""
        every = ((key.format(chunk=k), stored) for key, stored in self.objects.items())
        return {key: stored for key, stored in every if stored is not None}


class SquaresBetween(NamedTuple):
    """Sums of squares between chunks: of rows times (mean of the chunk - mean of all)^2."""

    targets: float
    norms: float  # of ||x||^2


class ChunkTable(ManifestPart):
    """The records of all chunks as columns, with one entry per chunk."""

    rows: tuple[Positive, ...]
    nnz: tuple[Natural, ...]
    target_sum: tuple[float, ...]
    max_square: tuple[float, ...]
    sum_square: tuple[float, ...]
    objects: dict[
        str, tuple[StoredObject | None, ...]
    ]  # by key with {chunk} left open; None: no object

    @model_validator(mode="after")
    def _same_lengths(self) -> ChunkTable:
        columns: list[Sequence[Any]] = [self.nnz, self.target_sum, self.max_square]
        columns += [self.sum_square, *self.objects.values()]
        if any(len(column) != len(self.rows) for column in columns):
            raise ValueError("the chunk table's columns have different lengths")
        return self

    @classmethod
    def of(cls, records: Sequence[ChunkRecord], templates: Sequence[str]) -> ChunkTable:
        """Return the records, in the order of the chunks, as columns."""
        return cls(
            rows=tuple(record.rows for record in records),
            nnz=tuple(record.nnz for record in records),
            target_sum=tuple(record.target_sum for record in records),
            max_square=tuple(record.max_square for record in records),
            sum_square=tuple(record.sum_square for record in records),
            objects={
                key: tuple(r.objects.get(key.format(chunk=k)) for k, r in enumerate(records))
                for key in templates
            },
        )

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.rows)

    @property
    def templates(self) -> list[str]:
        """Keys of the objects of a chunk, its number left open."""
        return list(self.objects)

    @property
    def largest(self) -> tuple[tuple[int, int], ...]:
        """Rows and values of the largest but the last, if there are others, and of the last."""
        *others, _ = self.nnz
        last = (self.rows[-1], self.nnz[-1])
        return ((self.rows[0], max(others)), last) if others else (last,)

    def add_up_to(self, n_rows: int, chunk_rows: int, nnz: int) -> bool:
        """Whether these are the chunks of a set of these rows and values."""
        full, last = divmod(n_rows, chunk_rows)
        rows = (chunk_rows,) * full + ((last,) if last else ())
        return self.rows == rows and sum(self.nnz) == nnz

    def rows_of(self, k: int) -> int:
        """Return the rows of chunk `k`."""
        return self.rows[k]

    def facts_of(self, k: int) -> ChunkFacts:
        """Return what is recorded of chunk `k`."""
        return ChunkFacts(
            self.rows[k], self.nnz[k], self.target_sum[k], self.max_square[k], self.sum_square[k],
            {key: column[k] for key, column in self.objects.items()},
        )  # fmt: skip

    def nnz_between(self, first: int, stop: int) -> Sequence[int]:
        """Return the values of chunks first <= k < stop."""
        return self.nnz[first:stop]

    def sizes(self) -> Iterable[tuple[int, int]]:
        """Return rows and values of chunks, those of the largest among them."""
        return zip(self.rows, self.nnz, strict=True)

    def largest_together(self, n: int) -> tuple[int, int]:
        """Return the most rows, and the most values, that `n` chunks can have."""
        rows, nnz = (sorted(counts, reverse=True)[:n] for counts in (self.rows, self.nnz))
        return sum(rows), sum(nnz)

    def squares_between(self) -> SquaresBetween:
        """Return how far the chunks' means lie apart."""
        return SquaresBetween(
            squares_between(self.rows, self.target_sum), squares_between(self.rows, self.sum_square)
        )

    def bytes_of(self, keys: Iterable[str]) -> int:
        """Return the stored bytes of some objects of all chunks."""
        stored = (each for key in keys for each in self.objects[key] if each is not None)
        return sum(each.length for each in stored)

    def largest_of(self, keys: Iterable[str]) -> int:
        """Return the stored bytes of the largest among some objects of all chunks."""
        stored = (each for key in keys for each in self.objects[key] if each is not None)
        return max(each.length for each in stored)


class ObjectSizes(NamedTuple):
    """Bytes of the objects of one key, of all chunks."""

    total: Natural
    largest: Natural


class ChunkSums(ManifestPart):
    """What planning asks of all chunks, where their table lies elsewhere."""

    target_between: float
    norm_between: float
    objects: dict[str, ObjectSizes]  # by key with {chunk} left open

    @property
    def templates(self) -> list[str]:
        """Keys of the objects of a chunk, its number left open."""
        return list(self.objects)

    def squares_between(self) -> SquaresBetween:
        """Return how far the chunks' means lie apart."""
        return SquaresBetween(self.target_between, self.norm_between)

    def bytes_of(self, keys: Iterable[str]) -> int:
        """Return the stored bytes of some objects of all chunks."""
        return sum(self.objects[key].total for key in keys)

    def largest_of(self, keys: Iterable[str]) -> int:
        """Return the stored bytes of the largest among some objects of all chunks."""
        return max(self.objects[key].largest for key in keys)


class ChunkIndex(ChunkSums):
    """What the manifest has in place of the table of many chunks, which lies in pages.

    Pages of equal length are one after the other in objects of `range_pages` pages each, and are
    read one by one (chunk_pages.py).
    """

    n_chunks: Annotated[int, Field(ge=2)]
    page_chunks: Annotated[int, Field(ge=1, le=1 << 16)]
    range_pages: Annotated[int, Field(ge=1, le=1 << 16)]
    pages: tuple[Digest, ...]  # SHA-256 of each
    largest: tuple[tuple[Positive, Natural], tuple[Positive, Natural]]
    """Rows and values of the largest but the last, and of the last chunk."""

    @model_validator(mode="after")
    def _has_all_pages(self) -> ChunkIndex:
        if len(self.pages) != -(-self.n_chunks // self.page_chunks):
            raise ValueError("the pages of its chunk table are not those of all chunks")
        return self

    def rows_of(self, k: int) -> int:
        """Return the rows of chunk `k`."""
        return self.largest[k == self.n_chunks - 1][0]

    def add_up_to(self, n_rows: int, chunk_rows: int, nnz: int) -> bool:
        """Whether these can be the chunks of a set of these rows and values."""
        last = n_rows - (self.n_chunks - 1) * chunk_rows
        rows, most = [own for own, _ in self.largest], max(values for _, values in self.largest)
        are_all = 0 < last <= chunk_rows and rows == [chunk_rows, last]
        return are_all and most <= nnz <= most * self.n_chunks

    def sizes(self) -> Iterable[tuple[int, int]]:
        """Return rows and values of chunks, those of the largest among them."""
        return self.largest

    def largest_together(self, n: int) -> tuple[int, int]:
        """Return the most rows that `n` chunks have, and no less than the most values."""
        (full, _), (last, _) = self.largest
        rows = full * n if n < self.n_chunks else full * (n - 1) + last
        return rows, n * max(nnz for _, nnz in self.largest)


class PartRecord(ManifestPart):
    """One of the data sets that a view has the chunks of."""

    way: str  # to it: from the view, or from anywhere
    fingerprint: Digest
    n_chunks: Positive
    nnz: Natural
    largest: Annotated[tuple[tuple[Positive, Natural], ...], Field(min_length=1, max_length=2)]
    """Rows and values of the largest but the last, if there are others, and of the last chunk."""

    @model_validator(mode="after")
    def _has_both(self) -> PartRecord:
        if len(self.largest) != min(2, self.n_chunks):
            raise ValueError("the largest chunks of a part are not those of all its chunks")
        return self

    @property
    def sizes(self) -> Iterator[tuple[int, int]]:
        """Rows, and most values, of each of its chunks."""
        yield from itertools.repeat(self.largest[0], self.n_chunks - 1)
        yield self.largest[-1]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return (self.n_chunks - 1) * self.largest[0][0] + self.largest[-1][0]


class PartIndex(ChunkSums):
    """What a view's manifest has in place of a chunk table: whose chunks it has, in this order."""

    parts: Annotated[tuple[PartRecord, ...], Field(min_length=1)]

    @cached_property
    def starts(self) -> list[int]:
        """First chunk of each part, and the end of the last one."""
        return list(itertools.accumulate((part.n_chunks for part in self.parts), initial=0))

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self.starts[-1]

    def place_of(self, k: int) -> tuple[int, int]:
        """Return of which part chunk `k` is, by its number, and which of its chunks."""
        if not 0 <= k < self.n_chunks:
            raise IndexError(f"there are {self.n_chunks} chunks, and none of number {k}")
        part = bisect_right(self.starts, k) - 1
        return part, k - self.starts[part]

    def rows_of(self, k: int) -> int:
        """Return the rows of chunk `k`."""
        number, own = self.place_of(k)
        part = self.parts[number]
        return part.largest[-1 if own == part.n_chunks - 1 else 0][0]

    def add_up_to(self, n_rows: int, chunk_rows: int, nnz: int) -> bool:
        """Whether these can be the chunks of a set of these rows and values."""
        own = sum(part.n_rows for part in self.parts), sum(part.nnz for part in self.parts)
        return own == (n_rows, nnz) and chunk_rows == max(rows for rows, _ in self.sizes())

    def sizes(self) -> Iterable[tuple[int, int]]:
        """Return rows and values of chunks, those of the largest among them."""
        return itertools.chain.from_iterable(part.largest for part in self.parts)

    def largest_together(self, n: int) -> tuple[int, int]:
        """Return the most rows that `n` chunks have, and no less than the most values."""
        every = list(itertools.chain.from_iterable(part.sizes for part in self.parts))
        rows, nnz = (sorted(counts, reverse=True)[:n] for counts in zip(*every, strict=True))
        return sum(rows), sum(nnz)


def squares_between(rows: Sequence[int], sums: ArrayLike) -> float:
    """Return the sum of rows times the square of (mean of a chunk - mean of all)."""
    n, totals = np.asarray(rows, float), np.asarray(sums)
    mean = totals.sum() / n.sum()
    return float(n @ (totals / n - mean) ** 2)
