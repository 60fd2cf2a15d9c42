"""Tables of an SQLite file, by Python's own library.

SQLite has types of values, not of columns: one reading of all rows tells what each column holds,
and how long its texts are.
"""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.arrow_rows import Part
from fewpass.pipeline.tables.readers.databases import (
    DatabaseRows,
    OpenedTable,
    as_select,
    cancellable,
    quoted_name,
)
from fewpass.pipeline.tables.readers.finding import Address, place_of
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.source import Expected
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.storage.source_file import changed

_ROWS = 8192  # that are fetched at once, if they are not long
_CELL_BYTES = 64  # a Python object and its place
_ASKED = 1999  # columns at once: SQLite's answers have 2,000 at most
#: What the largest value of a column is measured as; where there is a text, as its bytes.
_INTEGER, _REAL = -2, -1
_CASTS = {pa.large_string(): "TEXT", pa.float64(): "REAL", pa.int64(): "INTEGER"}
_ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)


class SqliteRows(DatabaseRows):
    """Rows of a query on an SQLite file; see `TableReader` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"SQLite format 3\x00"
    kind: ClassVar[str] = "SQLite"

    def opened(self, address: Address, options: SourceOptions, expected: Expected) -> OpenedTable:
        query = _SqliteQuery(address, options.query, expected.passed)
        part = Part(address.name, query.batches, address.budget)
        place, size = f"{place_of(address)} {query.select}", address.size
        note = (
            f"{address.name}: the query has no ORDER BY, and another time rows may come in another "
            "order, which a training that was cut short cannot go on with. End it with ORDER BY "
            "and a unique column."
        )
        return OpenedTable(
            query.schema, [part], query.version, place, lambda _: float(size or 0), query.n_rows,
            size, () if _ORDER.search(query.select) else (note,), query.rounded,
        )  # fmt: skip


class _SqliteQuery:
    """A query on a file; each reading is a transaction of its own.

    A file that is written meanwhile is refused.

    Attributes
    ----------
    rounded
        Columns of numbers among those kept (`exact`) that have whole ones beyond doubles.
    """

    def __init__(self, address: Address, query: str | None, exact: Collection[str]) -> None:
        self._address, self._name = address, address.name
        self.version = _state_of(address)
        self.select = as_select(query or self._only_table(), self._name)
        with self._answered(f"SELECT * FROM (\n{self.select}\n) LIMIT 0") as (cursor, _):
            names = [column[0] for column in cursor.description]
        whole = [name for name in names if name in exact]
        measures = [*map(_measure, names), *map(_beyond_doubles, whole)]
        self.n_rows, values = self._measured(measures)
        self._largest = values[: len(names)]
        pairs = zip(whole, values[len(names) :], strict=True)
        self.rounded = frozenset(name for name, beyond in pairs if beyond)
        kinds = map(_kind_of, self._largest)
        self.schema = pa.schema(list(zip(names, kinds, strict=True)))

    @contextmanager
    def _answered(self, query: str) -> Iterator[tuple[Any, Callable[[], None]]]:
        """Run a query; yield its cursor, and what interrupts it.

        BadInput where it fails, SourceChanged where the file became another.
        """
        import sqlite3  # noqa: PLC0415 - for who reads such a file

        where = f"file:{quote(self._address.path)}?mode=ro"
        with (
            parsing(self._name, "the database cannot be read", "Check the query and the file."),
            closing(sqlite3.connect(where, uri=True, check_same_thread=False)) as connection,
        ):
            ask = partial(connection.execute, query)
            with closing(cancellable(ask, connection.interrupt)) as cursor:
                yield cursor, connection.interrupt
            if _state_of(self._address) != self.version:
                raise changed(self._name, "the database was written to")

    def _only_table(self) -> str:
        """Return the table to read where no query is given; BadInput where that is open."""
        listed = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        with self._answered(listed) as (cursor, _):
            names = [quoted_name(name) for (name,) in cursor]
        if len(names) == 1:
            return names[0]
        raise BadInput(
            f"{self._name} has {len(names)} tables ({', '.join(names[:20])}). Say which one "
            "(`query`)."
        )

    def _measured(self, measures: Sequence[str]) -> tuple[int, list[int | None]]:
        """Return the number of rows, and the largest of each measure of them."""
        n_rows, values = 0, list[int | None]()
        for start in range(0, len(measures), _ASKED):
            asked = measures[start : start + _ASKED]
            query = f"SELECT {', '.join(['count(*)', *asked])} FROM (\n{self.select}\n)"
            with self._answered(query) as (cursor, _):
                n_rows, *some = cursor.fetchone()
            values += some
        return n_rows, values

    def batches(self, names: Sequence[str], _rows: int, n_bytes: int) -> Iterator[Any]:
        """Yield batches of some columns, each of `n_bytes` at most if a row is no longer."""
        places = [self.schema.names.index(name) for name in names] or [0]
        schema = pa.schema([self.schema.field(k) for k in places])
        columns = [f"CAST({quoted_name(field.name)} AS {_CASTS[field.type]})" for field in schema]
        longest = sum(_CELL_BYTES + max(0, self._largest[k] or 0) for k in places)
        most = int(np.clip(n_bytes // longest, 1, _ROWS))
        query = f"SELECT {', '.join(columns)} FROM (\n{self.select}\n)"
        with self._answered(query) as (cursor, stop):
            fetch = partial(cancellable, partial(cursor.fetchmany, most), stop)
            for rows in iter(fetch, []):
                cells = zip(*rows, strict=True)
                arrays = [pa.array(c, one.type) for c, one in zip(cells, schema, strict=True)]
                yield pa.record_batch(arrays, schema=schema)


def _state_of(address: Address) -> str:
    """Return what changes with the rows of a file; BadInput where it is not on this machine."""
    if not address.is_local or address.compression:
        raise BadInput(
            f"{address.name}: SQLite reads files of this machine as they are. Fetch it, unpacked."
        )
    path = Path(address.path)
    stamps = [(path.stat().st_size, path.stat().st_mtime_ns)]
    log = path.with_name(f"{path.name}-wal")  # of what is not in the file yet
    if log.exists() and log.stat().st_size:
        stamps.append((log.stat().st_size, log.stat().st_mtime_ns))
    return " ".join(f"{size}:{time}" for size, time in stamps)


def _measure(name: str) -> str:
    """Return what the largest value of a column is measured by."""
    column = quoted_name(name)
    return (
        f"max(CASE typeof({column}) WHEN 'null' THEN NULL WHEN 'integer' THEN {_INTEGER} "
        f"WHEN 'real' THEN {_REAL} ELSE length(CAST({column} AS BLOB)) END)"
    )


def _beyond_doubles(name: str) -> str:
    """Return what tells whether a column has whole numbers of which several are one double."""
    column = quoted_name(name)
    return (
        f"max(typeof({column}) = 'integer' AND {column} NOT BETWEEN -{MOST_WHOLE} AND {MOST_WHOLE})"
    )


def _kind_of(largest: int | None) -> Any:
    """Return the type that takes all values of a column; numbers where there are none."""
    if largest is None or largest == _REAL:
        return pa.float64()
    return pa.int64() if largest == _INTEGER else pa.large_string()
