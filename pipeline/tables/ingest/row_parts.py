"""The rows of a source in parts, in memory or in files, and any stretch of their random order.

Every row has a random key; the order is that of the keys.  A bucket holds the rows of one range of
keys, so how many buckets there are (a question of memory) has no say in the order, and neither have
parts.  Rows that keep their order have no keys: their parts follow each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.label_counts import Label, ListedTargets, listed_together
from fewpass.pipeline.tables.ingest.retained_columns import RetainedCells
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.storage.folder import Folder
from fewpass.storage.part_files import GroupedRows, Keys, PartPlace, RowKind, RowSpace, write_part
from fewpass.storage.table import Table, concatenate, cut, index_dtype, n_bytes

#: Buckets, training and test rows together: 16-bit numbers take NumPy's radix sort.
MOST_BUCKETS = 1 << 16
#: Those of rows in memory; and those of more rows than memory holds, where nobody knows how many.
FEWEST, MOST_IN_MEMORY, MOST_UNTOLD = 1 << 8, 1 << 12, 1 << 13
#: Buckets of a run of rows, which is read at once: those at its ends are read for neighbours, too.
BUCKETS_OF_RUN = 4
#: Parts that rows in files are to have, about, and the least bytes of one: each is read once a run.
PARTS, PART_BYTES = 250, 4 << 20
#: Parts that threads of a process put together, at least: one waits for its last rows.
PARTS_AT_ONCE = 2


class KeyedRows(NamedTuple):
    """Rows as they came, with their random numbers."""

    table: Table
    targets: ListedTargets  # in place of the table's
    keys: Keys | None  # (n,) in [0, 1); None: rows keep their order
    held_out: NDArray[np.bool_] | None  # (n,) which are test rows; None: none is
    cells: RetainedCells | None  # of columns that are kept as written

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows, without cells that are kept."""
        return n_bytes(self.table)

    def between(self, start: int, stop: int) -> KeyedRows:
        """Return the rows start <= i < stop."""
        rows = slice(start, stop)
        return KeyedRows(
            cut(self.table, start, stop),
            self.targets.of(rows),
            None if self.keys is None else self.keys[rows],
            None if self.held_out is None else self.held_out[rows],
            self.cells and self.cells.between(start, stop),
        )


class RowPart(NamedTuple):
    """A part of the rows: of each bucket training rows, behind all of these test rows."""

    name: str
    labels: tuple[Label, ...] | None  # that its targets are places in
    rows: GroupedRows | None  # None: they are in its file


class MadePart(NamedTuple):
    """A part, and how much it has of every bucket."""

    part: RowPart
    rows: NDArray[np.int64]
    values: NDArray[np.int64]
    length: int = 0  # of its file in bytes; 0: it is in memory

    def state(self) -> list[Any]:
        """Return everything but the rows, as JSON."""
        name, labels, _ = self.part
        return [name, labels, self.rows.tolist(), self.values.tolist(), self.length]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> MadePart:
        """Inverse of `state`."""
        name, labels, rows, values, length = state
        part = RowPart(name, None if labels is None else tuple(labels), None)
        return cls(part, np.array(rows, np.int64), np.array(values, np.int64), length)


class RowParts:
    """The parts of a source, and what is known of all of them.

    Parameters
    ----------
    kind
        What rows look like.
    n_buckets
        For the keys of each group of rows; 1 for rows that have none.
    n_groups
        2 where there are test rows.
    folder
        Where files of parts lie.
    identity
        A digest of all that decides on the rows.
    """

    def __init__(
        self, kind: RowKind, n_buckets: int, n_groups: int, folder: Folder, identity: str
    ) -> None:
        self.kind, self.n_buckets, self.n_groups = kind, n_buckets, n_groups
        self.folder, self.identity = folder, identity
        self.parts: list[RowPart] = []
        self.part_ends: list[tuple[list[int], list[int]]] = []  # rows, values; of rows without keys
        self.rows, self.values = (np.zeros(n_buckets * n_groups, np.int64) for _ in range(2))
        self.memory_bytes = 0

    def state(self) -> dict[str, Any]:
        """Return everything but the rows, as JSON."""
        return {
            "kind": list(self.kind),
            "n_buckets": self.n_buckets,
            "n_groups": self.n_groups,
            "rows": self.rows.tolist(),
            "values": self.values.tolist(),
            "part_ends": self.part_ends,
            "parts": [[part.name, part.labels] for part in self.parts],
        }

    @classmethod
    def from_state(cls, folder: Folder, identity: str, state: dict[str, Any]) -> RowParts:
        """Return parts that an earlier process has left in files."""
        kind = RowKind(*state["kind"])
        made = cls(kind, state["n_buckets"], state["n_groups"], folder, identity)
        made.rows, made.values = (np.array(state[name], np.int64) for name in ("rows", "values"))
        made.part_ends = state["part_ends"]
        made.parts = [
            RowPart(name, None if labels is None else tuple(labels), None)
            for name, labels in state["parts"]
        ]
        return made

    @property
    def are_in_memory(self) -> bool:
        """Return whether all rows are in memory."""
        return all(part.rows is not None for part in self.parts)

    def _of(self, group: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts[group * self.n_buckets : (group + 1) * self.n_buckets]

    def n_rows(self, group: int) -> int:
        """Return the number of rows of a group."""
        return int(self._of(group, self.rows).sum())

    def n_values(self, group: int) -> int:
        """Return the number of values of a group."""
        return int(self._of(group, self.values).sum())

    def size(self, group: int) -> tuple[int, int]:
        """Return the number of rows of a group, and their bytes in memory."""
        rows = self.n_rows(group)
        return rows, self._bytes_of(rows, self.n_values(group))

    def _bytes_of(self, rows: int, values: int) -> int:
        kind = self.kind
        of_value = np.dtype(kind.dtype).itemsize + 4 * (kind.layout == "sparse")
        of_row = 8 * (1 + kind.has_weight + kind.has_offset + (kind.layout == "sparse"))
        return values * of_value + rows * (of_row + kind.retained_bytes)

    # -- made --------------------------------------------------------------------------------------

    def grouped(self, name: str, rows: Sequence[KeyedRows]) -> RowPart:
        """Group rows that follow each other by bucket; safe in threads."""
        table = _together(rows, self.kind)
        targets = listed_together([one.targets for one in rows])
        table = table._replace(target=targets.values)
        keys = np.concatenate([one.keys for one in rows if one.keys is not None] or [np.empty(0)])
        places = self._places(keys if self.kind.has_keys else None, rows, table.n_rows)
        n_places = self.n_buckets * self.n_groups
        ends = np.cumsum(np.bincount(places, minlength=n_places))
        if n_places > 1:
            order = np.argsort(places.astype(np.uint16), kind="stable")
            table, keys = Selection(table, order).rows(), keys[order] if keys.size else keys
        own = GroupedRows(table, keys if self.kind.has_keys else None, ends)
        return RowPart(name, targets.labels, own)

    def _places(self, keys: Keys | None, rows: Sequence[KeyedRows], n: int) -> NDArray[np.int64]:
        """Bucket of every row; a larger key has no smaller one, however products are rounded."""
        places = np.zeros(n, np.int64)
        if keys is not None:
            places = np.minimum((keys * self.n_buckets).astype(np.int64), self.n_buckets - 1)
        if self.n_groups > 1:
            held_out = np.concatenate([one.held_out for one in rows if one.held_out is not None])
            places += self.n_buckets * held_out
        return places

    def made(self, part: RowPart, *, keep: bool) -> MadePart:
        """Return a part that was grouped just now, and its counts; write it unless it is kept."""
        rows = part.rows
        assert rows is not None, "it was grouped just now"
        n_rows, values = (np.diff(ends, prepend=0) for ends in (rows.ends, rows.value_ends))
        if keep:
            return MadePart(part, n_rows, values)
        length = write_part(self.folder, PartPlace(self.identity, part.name), rows)
        return MadePart(part._replace(rows=None), n_rows, values, length)

    def append(self, made: MadePart) -> None:
        """Take the next part in."""
        self.parts.append(made.part)
        self.rows += made.rows
        self.values += made.values
        if not self.kind.has_keys:
            self.part_ends.append((made.rows.tolist(), made.values.tolist()))

    def regrouped(self, n_buckets: int) -> Iterator[RowPart]:
        """Yield parts that are in memory anew, by another number of buckets of each group."""
        before, self.n_buckets, self.part_ends = self.n_buckets, n_buckets, []
        self.rows, self.values = (np.zeros(n_buckets * self.n_groups, np.int64) for _ in range(2))
        parts, self.parts = self.parts, []
        for name, labels, rows in reversed([parts.pop() for _ in range(len(parts))]):
            assert rows is not None, "it is in memory"
            table, keys, ends = rows
            held_out = np.arange(table.n_rows) >= ends[before - 1]
            targets = ListedTargets(table.target, labels)
            yield self.grouped(name, [KeyedRows(table, targets, keys, held_out, None)])

    # -- read --------------------------------------------------------------------------------------

    def run(self, group: int, first: int, stop: int, targets: TargetMap, width: int) -> Selection:
        """Return rows first <= i < stop of the order of a group, with targets as stored.

        `width` is the number of columns.  Raises DamagedPart.
        """
        begins, parts, buckets = self._needed(group, first, stop)
        rows, values = self._counts(parts, buckets)
        space = RowSpace(self.kind, rows, values, index_dtype(width))
        for number in parts:
            here = self._taken(space, number, buckets)
            labels = self.parts[number].labels
            space.table.target[here] = targets.apply(space.table.target[here], labels)
        table = space.whole()
        order = np.arange(rows) if space.keys is None else order_of(space.keys)
        return Selection(table, order[first - begins : stop - begins])

    def _needed(self, group: int, first: int, stop: int) -> tuple[int, range, range]:
        """Return the first row, the parts and the buckets of them that some rows are in."""
        own = self._of(group, self.rows)
        if not self.kind.has_keys:
            own = np.array([rows[group] for rows, _ in self.part_ends])
        ends = np.cumsum(own)
        begin = int(np.searchsorted(ends, first, side="right"))
        end = int(np.searchsorted(ends, stop, side="left")) + 1
        before = int(ends[begin - 1]) if begin else 0
        if not self.kind.has_keys:
            return before, range(begin, end), range(group, group + 1)
        at = group * self.n_buckets
        return before, range(len(self.parts)), range(at + begin, at + end)

    def _counts(self, parts: range, buckets: range) -> tuple[int, int]:
        if self.kind.has_keys:
            own = slice(buckets.start, buckets.stop)
            return int(self.rows[own].sum()), int(self.values[own].sum())
        every = self.part_ends[parts.start : parts.stop]
        rows, values = (sum(ends[k][buckets.start] for ends in every) for k in range(2))
        return rows, values

    def _taken(self, space: RowSpace, number: int, buckets: range) -> slice:
        name, _, rows = self.parts[number]
        if rows is not None:
            return space.take(rows, buckets.start, buckets.stop)
        place = PartPlace(self.identity, name)
        return space.read(self.folder, place, buckets.start, buckets.stop)


class PartsInTheMaking:
    """Rows put together to parts, grouped, and written where they go to files, by threads.

    Parameters
    ----------
    parts
        Those that are made.
    budget
        Of memory.
    estimate
        Bytes of all rows, about.
    pool, threads
        Of threads, and how many.
    in_memory
        Bytes that rows may take that stay in memory; 0: none does.
    """

    def __init__(
        self, parts: RowParts, budget: Budget, estimate: int, pool: Executor, threads: int,
        in_memory: int,
    ) -> None:  # fmt: skip
        self.parts, self._pool, self._most_bytes = parts, pool, in_memory
        self._part_bytes = part_bytes_of(estimate, budget, PARTS_AT_ONCE)
        at_once = budget.grouping // (Budget.part_copies * max(self._part_bytes, PART_BYTES))
        self._at_once = int(np.clip(at_once, 1, threads + 1))
        self._waiting: list[KeyedRows] = []
        self._waiting_bytes = 0
        self._made: deque[Future[MadePart]] = deque()
        self._begun = 0

    def add(self, rows: KeyedRows, columns_bytes: int) -> None:
        """Add rows after those added before; `columns_bytes` is what their columns take."""
        for own in with_few_cells(rows, self.parts.kind.retained_bytes):
            size = own.n_bytes + self.parts.kind.retained_bytes * own.table.n_rows
            if self._most_bytes:
                self.parts.memory_bytes += size + Budget.retained_row * own.table.n_rows
                if self.parts.memory_bytes + columns_bytes > self._most_bytes:
                    self._to_files()
            self._waiting.append(own)
            self._waiting_bytes += size
            if self._most_bytes or own.cells is not None or self._waiting_bytes > self._part_bytes:
                self._begin()

    def finish(self) -> RowParts:
        """All rows are there: wait until they are in parts, and return these."""
        if self._waiting:
            self._begin()
        self._await(0)
        return self.parts

    def _begin(self) -> None:
        """Begin the part of the rows that wait."""
        rows, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._await(self._at_once - 1)
        made = self._pool.submit(self._made_of, self._begun, rows, keep=self._most_bytes > 0)
        self._made.append(made)
        self._begun += 1

    def _made_of(self, number: int, rows: list[KeyedRows], *, keep: bool) -> MadePart:
        part = self.parts.grouped(f"part-{number:06d}", rows)
        rows.clear()
        return self.parts.made(part, keep=keep)

    def _await(self, most: int) -> None:
        """Wait until at most `most` parts are still in the making."""
        while len(self._made) > most:
            self.parts.append(self._made.popleft().result())

    def _to_files(self) -> None:
        """Move the rows in memory to files: there are more than estimated, who knows how many."""
        self._await(0)
        self._most_bytes = self.parts.memory_bytes = 0
        n_buckets = MOST_UNTOLD // self.parts.n_groups if self.parts.kind.has_keys else 1
        for part in self.parts.regrouped(n_buckets):
            self.parts.append(self.parts.made(part, keep=False))


def part_bytes_of(estimate: int, budget: Budget, at_once: int) -> int:
    """Return how many bytes of rows go to a file together, of `estimate` bytes in all.

    `at_once`: how many files of a process are in the making.
    """
    most = budget.grouping // (Budget.part_copies * at_once)
    return int(np.clip(estimate // PARTS, PART_BYTES, max(most, 1)))


def buckets_needed(estimate: float, budget: Budget, chunk_bytes: int, *, in_memory: bool) -> int:
    """Return how many buckets rows of `estimate` bytes should be grouped by."""
    if in_memory:
        return int(np.clip(BUCKETS_OF_RUN * estimate / chunk_bytes, FEWEST, MOST_IN_MEMORY))
    return int(np.clip(BUCKETS_OF_RUN * estimate / budget.least_run, FEWEST, MOST_BUCKETS // 2))


def order_of(keys: Keys) -> NDArray[np.int64]:
    """Return the stable order of keys; the quick one, unless equal keys make a difference."""
    order = np.argsort(keys)
    in_order = keys[order]
    if (in_order[1:] == in_order[:-1]).any():
        order = np.argsort(keys, kind="stable")
    return order


def _together(rows: Sequence[KeyedRows], kind: RowKind) -> Table:
    """Return all rows, with the columns that they keep."""
    tables = []
    for one in rows:
        table = one.table
        if one.cells is not None:
            space = np.empty((table.n_rows, kind.retained_bytes), np.uint8)
            table = table._replace(retained=one.cells.as_bytes(space))
        tables.append(table)
    return tables[0] if len(tables) == 1 else concatenate(tables)


def with_few_cells(rows: KeyedRows, retained_bytes: int) -> Iterator[KeyedRows]:
    """Yield rows some at a time where they keep cells, which take many times as much as bytes."""
    if rows.cells is None:
        yield rows
        return
    most = max(1, Budget.retained_cells // retained_bytes)
    for start in range(0, rows.table.n_rows, most):
        yield rows.between(start, min(start + most, rows.table.n_rows))
