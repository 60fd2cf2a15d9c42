"""Tables of an SQLite file, by Python's own library.

SQLite has types of values, not of columns: one reading of all rows tells what each column holds,
and how long its texts are. SQLite itself makes no cell that is longer than a row may be.
"""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.queried import (
    QueriedRows,
    added_up,
    cancellable,
    quoted_name,
)
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.storage.source_file import changed

_ROWS = 8192  # that are fetched at once, if they are not long
_CELL_BYTES = 64  # a Python object and its place
_ASKED = 1999  # columns at once: SQLite's answers have 2,000 at most
_MOST_LENGTH = (1 << 31) - 1  # that SQLite can be told
#: What the largest value of a column is measured as; where there is a text, as its bytes.
_INTEGER, _REAL = -2, -1
_CASTS = {pa.large_string(): "TEXT", pa.float64(): "REAL", pa.int64(): "INTEGER"}


class SqliteRows(QueriedRows):
    """Rows of a query on an SQLite file; see `TableRows` for the methods.

    Every reading is a transaction of its own; a file that is written meanwhile is refused.
    """

    extensions: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"SQLite format 3\x00"
    dialect: ClassVar[str] = "SQLite"

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Open the file; BadInput where it fails, SourceChanged where it became another."""
        import sqlite3  # noqa: PLC0415 - for who reads such a file

        where = f"file:{quote(self._address.path)}?mode=ro"
        with (
            parsing(self.name, "the database cannot be read", "Check the query and the file."),
            closing(sqlite3.connect(where, uri=True, check_same_thread=False)) as connection,
        ):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(self._most, _MOST_LENGTH))
            yield connection
            if self.state() != self.version:
                raise changed(self.name, "the database was written to")

    @contextmanager
    def _answered(self, query: str) -> Iterator[tuple[Any, Callable[[], None]]]:
        """Run a query; yield its cursor, and what interrupts it."""
        with self._connected() as connection:
            ask = partial(connection.execute, query)
            with closing(cancellable(ask, connection.interrupt)) as cursor:
                yield cursor, connection.interrupt

    def state(self) -> str:
        if not self._address.is_local or self._address.compression:
            raise BadInput(
                f"{self.name}: SQLite reads files of this machine as they are. Fetch it, unpacked."
            )
        path = Path(self._address.path)
        stamps = [(path.stat().st_size, path.stat().st_mtime_ns)]
        log = path.with_name(f"{path.name}-wal")  # of what is not in the file yet
        if log.exists() and log.stat().st_size:
            stamps.append((log.stat().st_size, log.stat().st_mtime_ns))
        return " ".join(f"{size}:{time}" for size, time in stamps)

    def _notes(self) -> tuple[str, ...]:
        note = (
            f"{self.name}: the query has no ORDER BY, and another time rows may come in another "
            "order, which a training that was cut short cannot go on with. End it with ORDER BY "
            "and a unique column."
        )
        return () if self.is_ordered else (note,)

    def require_new(self, seen: SeenFiles) -> None:
        seen.require_new(self.files[0])

    def only_name(self) -> str:
        listed = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        with self._answered(listed) as (cursor, _):
            names = [quoted_name(name) for (name,) in cursor]
        if len(names) == 1:
            return names[0]
        raise BadInput(
            f"{self.name} has {len(names)} tables ({', '.join(names[:20])}). Say which one "
            "(`query`)."
        )

    def described(self) -> Any:
        with self._answered(f"SELECT * FROM (\n{self._select}\n) LIMIT 0") as (cursor, _):
            names = [column[0] for column in cursor.description]
        read = self.read_among(names)
        try:
            measured = self._measured(read)
        except BadInput as error:
            if type(error.__cause__).__name__ == "DataError":  # a cell that is not made
                self._refuse_long_row(read)
            raise
        self._longest = {name: max(0, value or 0) for name, value in measured.items()}
        if sum(self._longest.values()) > self._most:
            self._refuse_long_row(read)
        return pa.schema((name, _kind_of(measured.get(name))) for name in names)

    def _measured(self, names: Sequence[str]) -> dict[str, int | None]:
        """Return what the largest value of every column is measured as; count the rows."""
        values: list[int | None] = []
        for start in range(0, max(1, len(names)), _ASKED):
            asked = map(_measure, names[start : start + _ASKED])
            query = f"SELECT {', '.join(['count(*)', *asked])} FROM (\n{self._select}\n)"
            with self._answered(query) as (cursor, _):
                self.n_rows, *some = cursor.fetchone()
            values += some
        return dict(zip(names, values, strict=True))

    def _refuse_long_row(self, names: Sequence[str]) -> None:
        """Refuse the first row that is longer than one may be, where there is one."""
        row, size = self._long_row(names) or (0, 0)
        if size:
            self._address.budget.require_row(size, f"{self.name}, row {row:,}")
        if not row:
            return
        row += not self._long_row(names, row)  # Python fetches a row ahead
        place = "a row" if row == 1 and self.is_ordered else f"row {row:,}"  # sorted before
        raise BadInput(
            f"{self.name}, {place}: {self._long_column(names, row)} is longer than "
            f"{format_bytes(self._most)}, and a memory budget of "
            f"{format_bytes(self._address.budget.memory)} has room for no more. Leave the column "
            "out (`drop`), or give more `memory`."
        )

    def _long_row(self, names: Sequence[str], only: int = 0) -> tuple[int, int] | None:
        """Return the first row that is too long, or the `only` one if it is, and its bytes.

        Where SQLite does not make a cell of it, they are 0, and the row is that one or the next.
        """
        sizes = added_up([f"coalesce({_bytes_of(name)}, 0)" for name in names])
        query = f"SELECT {sizes} FROM (\n{self._select}\n)"
        query += f" LIMIT 1 OFFSET {only - 1}" if only else ""

        def look(connection: Any) -> tuple[int, int] | None:
            from sqlite3 import DataError  # noqa: PLC0415 - as above

            row = 0
            try:
                for row, (size,) in enumerate(connection.execute(query), 1):
                    if size > self._most:
                        return row, size
            except DataError:
                return row + 1, 0
            return None

        with self._connected() as connection:
            return cancellable(partial(look, connection), connection.interrupt)

    def _long_column(self, names: Sequence[str], row: int) -> str:
        """Return in words which cell of a row is too long, where its column can be seen."""
        if self._long_row([], row):
            return "a cell"
        while len(names) > 1:
            half = names[: len(names) // 2]
            names = half if self._long_row(half, row) == (1, 0) else names[len(half) :]
        return f"the cell of column {shown_name(names[0])}"

    def selected(self, names: Sequence[str], n_bytes: int) -> Iterator[Any]:
        schema = pa.schema([self.schema.field(name) for name in names])
        columns = [f"CAST({quoted_name(field.name)} AS {_CASTS[field.type]})" for field in schema]
        longest = sum(_CELL_BYTES + self._longest.get(name, 0) for name in names)
        most = int(np.clip(n_bytes // longest, 1, _ROWS))
        query = f"SELECT {', '.join(columns)} FROM (\n{self._select}\n)"
        with self._answered(query) as (cursor, stop):
            fetch = partial(cancellable, partial(cursor.fetchmany, most), stop)
            for rows in iter(fetch, []):
                cells = zip(*rows, strict=True)
                arrays = [pa.array(c, one.type) for c, one in zip(cells, schema, strict=True)]
                yield pa.record_batch(arrays, schema=schema)

    def expands_to(self) -> float:
        """Return the file's bytes, which are about those of the rows of a single table."""
        return float(self._address.size or 0)


def _bytes_of(name: str) -> str:
    return f"length(CAST({quoted_name(name)} AS BLOB))"


def _measure(name: str) -> str:
    return (
        f"max(CASE typeof({quoted_name(name)}) WHEN 'null' THEN NULL WHEN 'integer' THEN "
        f"{_INTEGER} WHEN 'real' THEN {_REAL} ELSE {_bytes_of(name)} END)"
    )


def _kind_of(largest: int | None) -> Any:
    """Return the type that takes all values of a column; numbers where there are none."""
    if largest is None or largest == _REAL:
        return pa.float64()
    return pa.int64() if largest == _INTEGER else pa.large_string()
