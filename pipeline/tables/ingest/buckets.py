"""Rows in a random order that depends on the seed alone, out of core.

Every row carries a random key; the order is that of the keys. A bucket holds the rows of one range
of keys, so how many buckets there are (a question of memory) has no say in the order.

Buckets are spilled in generations: when the sources turn out larger than estimated, a new
generation begins before any bucket of the old one outgrows the memory. A bucket that is too large
over all its generations is partitioned once more, by the same keys, into smaller ones. Rows that
keep their order have no keys and one bucket, and their generations simply follow each other.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.storage.spill import Spill
from fewpass.storage.table import DenseTable, Table, concatenate, cut, n_bytes

Keys = NDArray[np.float64]

#: Rows of a piece are grouped by bucket, which costs more than it brings beyond this many.
MOST_BUCKETS = 2048
#: Partitioning takes several times the memory of the rows that are partitioned at once.
PIECE_BYTES = 8 << 20


class RowKind(NamedTuple):
    """What all rows of a source look like."""

    layout: Literal["dense", "sparse"]
    dtype: Literal["float32", "float64"]
    n_features: int | None
    has_weight: bool
    has_offset: bool = False
    retained_bytes: int = 0  # of each row, of columns kept as they are written


def buckets_needed(n_bytes: float, budget: Budget) -> int:
    """Return how many buckets `n_bytes` of rows should be partitioned into."""
    return int(np.clip(np.ceil(n_bytes / budget.planned_bucket), 1, MOST_BUCKETS))


class Grouped(NamedTuple):
    """Rows put together by bucket, those of each in the order in which they came."""

    table: Table
    keys: Keys | None  # (n,) None: rows keep their order
    order: (
        NDArray[np.int64] | None
    )  # (n,) which of the rows each was; None: all are where they were
    ends: NDArray[np.int64]  # (n_buckets,) where each bucket's rows end


class Buckets:
    """Rows on local disk, added in source order, read in the order of their keys.

    Parameters
    ----------
    path
        Directory of the bucket files.
    n_buckets
        Buckets per generation; 1 for rows that have no keys.
    kind
        What the rows look like.
    budget
        Has shares for one bucket, and for what is being written.
    shuffled
        Whether rows have keys.
    lasting
        Whether `reopened` is to find them (the default).
    """

    def __init__(
        self,
        path: Path,
        n_buckets: int,
        kind: RowKind,
        budget: Budget,
        *,
        shuffled: bool,
        lasting: bool = True,
    ) -> None:
        self.path, self.n_buckets, self.kind, self.budget = path, n_buckets, kind, budget
        self.shuffled, self.lasting = shuffled, lasting
        self.share: Callable[[Keys], Keys] = _whole
        self.n_rows = self.nnz = self.n_bytes = 0
        self._generations: list[tuple[Spill, Spill | None]] = []
        self._filled = 0  # bytes partitioned into the last generation

    def group(self, table: Table, keys: Keys | None) -> Grouped:
        """Group rows by bucket, by their keys in [0, 1) if they are shuffled; safe in threads."""
        if keys is None:
            return Grouped(table, None, None, np.array([table.n_rows]))
        places = self._places(keys)
        # 16-bit numbers take NumPy's radix sort, several times as fast as sorting wider ones
        narrow = places.astype(np.uint16 if self.n_buckets <= 1 << 16 else np.int64)
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=self.n_buckets))
        return Grouped(Selection(table, order).rows(), keys[order], order, ends)

    def add(self, rows_by_bucket: Grouped) -> None:
        """Append rows that `group` has grouped, after those added before."""
        table, keys, _, ends = rows_by_bucket
        if not self._generations or self._filled > 0.8 * self.budget.bucket * self.n_buckets:
            self._begin_generation()
        rows, order = self._generations[-1]
        if keys is not None and order is not None:
            order.append(DenseTable(np.empty((keys.size, 0)), keys, None), ends)
        rows.append(table, ends)
        added_bytes = n_bytes(table)
        self._filled += added_bytes
        self.n_rows += table.n_rows
        self.nnz += table.nnz
        self.n_bytes += added_bytes

    def add_rows(self, table: Table, keys: Keys | None) -> None:
        """Group and append rows of any number, in parts: grouping copies them."""
        rows = max(1, table.n_rows * PIECE_BYTES // max(n_bytes(table), 1))
        for start in range(0, table.n_rows, rows):
            stop = min(start + rows, table.n_rows)
            own = None if keys is None else keys[start:stop]
            self.add(self.group(cut(table, start, stop), own))

    def finish(self) -> None:
        """Write what is still in memory."""
        for rows, order in self._generations[-1:]:
            rows.finish()
            if order is not None:
                order.finish()

    def _begin_generation(self) -> None:
        self.finish()
        number, n, budget = len(self._generations), self.n_buckets, self.budget
        place, lasting = self.path / f"rows-{number:04d}", self.lasting
        rows = Spill(place, n, *self.kind[:4], budget.spilled_rows, *self.kind[4:], lasting=lasting)
        order = None
        if self.shuffled:
            keys = ("dense", "float64", 0, False)
            place = self.path / f"keys-{number:04d}"
            order = Spill(place, n, *keys, budget.spilled_keys, lasting=lasting)  # type: ignore[arg-type]
        self._generations.append((rows, order))
        self._filled = 0

    def state(self) -> dict[str, Any]:
        """Return the facts that `reopened` needs, as JSON."""
        return {
            "n_buckets": self.n_buckets,
            "kind": list(self.kind),
            "shuffled": self.shuffled,
            "n_rows": self.n_rows,
            "nnz": self.nnz,
            "n_bytes": self.n_bytes,
            "generations": len(self._generations),
        }

    @classmethod
    def reopened(cls, path: Path, state: dict[str, Any], budget: Budget) -> Buckets:
        """Return buckets that an earlier process finished.

        Raises
        ------
        FileNotFoundError, DamagedSpill
            When their indices are not as they were left.
        """
        kind = RowKind(*state["kind"])
        buckets = cls(path, state["n_buckets"], kind, budget, shuffled=state["shuffled"])
        buckets.n_rows, buckets.nnz = state["n_rows"], state["nnz"]
        buckets.n_bytes = state["n_bytes"]
        for number in range(state["generations"]):
            rows = Spill.open(path / f"rows-{number:04d}")
            order = Spill.open(path / f"keys-{number:04d}") if buckets.shuffled else None
            buckets._generations.append((rows, order))
        return buckets

    def selections(self, n_features: int) -> Iterator[Selection]:
        """Yield all rows, in order, as many at a time as fit into the memory.

        Raises
        ------
        DamagedSpill
            When a bucket is damaged, or has columns beyond `n_features`.
        """
        for b in range(self.n_buckets):
            size = sum(rows.n_bytes(b) for rows, _ in self._generations)
            if self.shuffled and size > self.budget.bucket and len(self._generations) > 1:
                yield from self._partitioned_again(b, size, n_features)
            else:
                yield from self._read(b, n_features)

    def _read(self, b: int, n_features: int) -> Iterator[Selection]:
        if not self.shuffled:
            for rows, _ in self._generations:
                table = rows.read(b, n_features)
                yield Selection(table, np.arange(table.n_rows))
            return
        parts = [part for part in self._parts(b, n_features) if part[1].size]
        if not parts:
            return
        keys = np.concatenate([keys for _, keys in parts])
        table = parts[0][0] if len(parts) == 1 else concatenate([table for table, _ in parts])
        del parts
        yield Selection(table, np.argsort(keys, kind="stable"))

    def _parts(self, b: int, n_features: int) -> Iterator[tuple[Table, Keys]]:
        for rows, order in self._generations:
            assert order is not None
            yield rows.read(b, n_features), order.read(b).target

    def _partitioned_again(self, b: int, size: int, n_features: int) -> Iterator[Selection]:
        path = self.path / f"again-{b:06d}"
        shutil.rmtree(path, ignore_errors=True)  # from an ingest that was killed here
        n_buckets = buckets_needed(size, self.budget)
        smaller = Buckets(path, n_buckets, self.kind, self.budget, shuffled=True, lasting=False)
        smaller.share = lambda keys: np.clip(self.share(keys) * self.n_buckets - b, 0, 1)
        for table, keys in self._parts(b, n_features):
            smaller.add_rows(table, keys)
        smaller.finish()
        yield from smaller.selections(n_features)
        shutil.rmtree(path)

    def _places(self, keys: Keys) -> NDArray[np.int64]:
        """Bucket of every key; a larger key has no smaller one, however products are rounded."""
        places = (self.share(keys) * self.n_buckets).astype(np.int64)
        return np.minimum(places, self.n_buckets - 1)


def _whole(keys: Keys) -> Keys:
    return keys
