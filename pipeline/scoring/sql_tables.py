"""Tables of SQLite, DuckDB and PostgreSQL that predictions are put into."""

# ruff: noqa: S608 - a table's name was looked at, and all else is quoted

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.scoring.output_table import (
    OutputTable,
    Replaced,
    WaitingRows,
    conditions_of,
    literal,
)
from fewpass.pipeline.tables.readers.databases import cancellable, quoted_name
from fewpass.pipeline.tables.readers.library_errors import quoted
from fewpass.pipeline.tables.readers.postgresql import ask, connection_to
from fewpass.storage.addresses import local_path
from fewpass.storage.redaction import without_words_of

_WAITING = "fewpass_waiting"
_BUSY_S = 60.0  # that SQLite waits for another writer
_DUCKDB = {"memory_limit": "256MB", "threads": 1}
#: Held in PostgreSQL by who puts predictions into a table, so that two do not put the same.
_LOCK = int.from_bytes(b"fewpass")
_PG_SESSION = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET standard_conforming_strings = on",
    "SET timezone = 'UTC'",
)


class SqlTable(OutputTable):
    """A table of a database that is asked in SQL."""

    def library(self) -> ModuleType:
        """Return the module of the database's library that has its errors; BadInput without one."""
        raise NotImplementedError

    def connected(self) -> Any:
        """Return a connection in which a transaction begins; closed, it is undone."""
        raise NotImplementedError

    def is_there(self) -> bool:
        """Say whether there is such a database; OSError where there cannot be one."""
        raise NotImplementedError

    def rows_of(self, connection: Any, query: str) -> list[Any]:
        """Return what is selected."""
        return list(connection.execute(query).fetchall())

    def run(self, connection: Any, statement: str) -> None:
        """Run a statement that selects nothing."""
        connection.execute(statement)

    def types(self, connection: Any) -> dict[str, str]:
        """Return the table's columns, with the types that cells are cast to; none: no table.

        It may be what ends a transaction where there is none.
        """
        raise NotImplementedError

    def take(self, connection: Any, rows: WaitingRows) -> None:
        """Make the rows those of a temporary table or view."""
        raise NotImplementedError

    def create(self, connection: Any) -> None:
        """Create the table if it is not there, with the columns of the rows that wait."""
        empty = f"SELECT * FROM {_WAITING} WHERE 1 = 0"
        self.run(connection, f"CREATE TABLE IF NOT EXISTS {self.name} AS {empty}")

    def commit(self, connection: Any) -> None:
        """End the transaction."""
        connection.commit()

    def said(self, error: BaseException) -> str:
        """Return the words of an error, without those of a secret."""
        return quoted(error)

    def columns(self) -> Sequence[str] | None:
        if not self.is_there():
            return None
        with self._asked() as connection:
            return [*self.types(connection)] or None

    def scored(self) -> set[tuple[str, str | None]]:
        if self.columns() is None:
            return set()
        with self._asked() as connection:
            listed = self.rows_of(
                connection, f"SELECT DISTINCT source, source_version FROM {self.name}"
            )
        return {(source, version) for source, version in listed}

    def put(self, rows: WaitingRows, replaced: Replaced | None) -> None:
        with self._asked() as connection:
            self.take(connection, rows)
            self.create(connection)
            types = self.types(connection)
            self.require_columns([*types], rows.reader().schema.names)
            for condition in conditions_of(replaced):
                self.run(connection, f"DELETE FROM {self.name} WHERE {condition}")
            names = ", ".join(map(quoted_name, types))
            cells = ", ".join(_as_type(name, kind) for name, kind in types.items())
            selected = f"SELECT {cells} FROM {_WAITING}"
            self.run(connection, f"INSERT INTO {self.name} ({names}) {selected}")
            self.commit(connection)

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """Yield a connection; what is not committed in it is undone.

        What may go well the next time, such as when another process has the file, is an OSError.
        """
        library, connection = self.library(), None
        try:
            connection = self.connected()
            yield connection
        except library.Error as error:
            said = f"{self.called}: the table stays as it was ({self.said(error)})."
            if isinstance(error, library.OperationalError):
                raise OSError(f"{said} Put that right, and give the same command again.") from None
            raise BadInput(f"{said} Check the table, its types and the address.") from None
        finally:
            if connection is not None:
                connection.close()


def _as_type(name: str, kind: str) -> str:
    return f"CAST({quoted_name(name)} AS {kind})" if kind else quoted_name(name)


class _FileOfTables(SqlTable):
    """A table of a database that is one file of this machine."""

    @property
    def path(self) -> Path:
        path = local_path(self.url)
        assert path is not None, "other addresses were refused"
        return path

    def is_there(self) -> bool:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"{self.path.parent}: no such folder. Make it first.")
        return self.path.exists()


class SqliteTable(_FileOfTables):
    """A table of a file of SQLite."""

    kind: ClassVar[str] = "SQLite"

    def library(self) -> ModuleType:
        return sqlite3

    def connected(self) -> Any:
        return sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)

    def types(self, connection: Any) -> dict[str, str]:
        try:
            head = connection.execute(f"SELECT * FROM {self.name} LIMIT 0").description
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return {}
            raise
        return {column[0]: "" for column in head}  # whose affinity casts

    def take(self, connection: Any, rows: WaitingRows) -> None:
        reader = rows.reader()
        names = [quoted_name(name) for name in reader.schema.names]
        kinds = [_kind_in_sqlite(field) for field in reader.schema]
        typed = ", ".join(map(" ".join, zip(names, kinds, strict=True)))
        connection.execute("BEGIN")
        connection.execute(f"CREATE TEMP TABLE {_WAITING} ({typed})")
        insert = f"INSERT INTO {_WAITING} VALUES ({', '.join('?' * len(names))})"
        for batch in reader:
            cells = [_cells(*pair) for pair in zip(batch.columns, kinds, strict=True)]
            connection.executemany(insert, zip(*cells, strict=True))
        connection.commit()
        connection.execute("BEGIN IMMEDIATE")  # from here on nobody else writes


def _kind_in_sqlite(field: Any) -> str:
    kind, types = field.type, pa.types
    if types.is_nested(kind):
        raise BadInput(
            f"Column {shown_name(field.name)} holds {kind} values, which SQLite cannot. Leave it "
            "out of `keep`."
        )
    if types.is_integer(kind) or types.is_boolean(kind):
        return "INTEGER"
    if types.is_floating(kind):
        return "REAL"
    return "BLOB" if types.is_binary(kind) or types.is_large_binary(kind) else "TEXT"


def _cells(column: Any, kind: str) -> list[Any]:
    """Return cells as Python's library of SQLite takes them."""
    as_type = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}.get(kind)
    cells: list[Any] = (column if as_type is None else column.cast(as_type)).to_pylist()
    return cells


class DuckdbTable(_FileOfTables):
    """A table of a file of DuckDB."""

    kind: ClassVar[str] = "DuckDB"

    def library(self) -> ModuleType:
        try:
            import duckdb  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise BadInput(
                f"{self.shown} needs duckdb, which is not installed. Install it with pip install "
                "'fewpass[duckdb]'."
            ) from error
        library: ModuleType = duckdb
        return library

    def connected(self) -> Any:
        connection = self.library().connect(str(self.path), config=_DUCKDB)
        connection.execute("SET enable_progress_bar = false")  # on standard output
        connection.execute("BEGIN")
        return connection

    def types(self, connection: Any) -> dict[str, str]:
        library: Any = self.library()
        try:
            described = connection.execute(f"DESCRIBE {self.name}").fetchall()
        except library.CatalogException:
            return {}
        return {name: kind for name, kind, *_ in described}

    def take(self, connection: Any, rows: WaitingRows) -> None:
        selected = f"SELECT * FROM read_parquet({literal(rows.path)})"
        connection.execute(f"CREATE TEMP VIEW {_WAITING} AS {selected}")


class PostgresTable(SqlTable):
    """A table of PostgreSQL, reached by ADBC."""

    kind: ClassVar[str] = "PostgreSQL"

    def library(self) -> ModuleType:
        try:
            from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - an extra
        except ImportError:
            connection_to(self.url, self.shown)  # which refuses
            raise
        library: ModuleType = dbapi
        return library

    def connected(self) -> Any:
        connection = connection_to(self.url, self.shown)
        for setting in _PG_SESSION:
            self.run(connection, setting)
        connection.adbc_connection.set_autocommit(enabled=False)
        return connection

    def is_there(self) -> bool:
        return True

    def rows_of(self, connection: Any, query: str) -> list[Any]:
        with connection.cursor() as cursor:
            ask(cursor, query)
            return list(cursor.fetchall())

    def run(self, connection: Any, statement: str) -> None:
        with connection.cursor() as cursor:
            ask(cursor, statement)

    def types(self, connection: Any) -> dict[str, str]:
        described = self.rows_of(
            connection,
            "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = "
            f"to_regclass({literal(self.name or '')}) AND attnum > 0 AND NOT attisdropped "
            "ORDER BY attnum",
        )
        return dict(described)

    def take(self, connection: Any, rows: WaitingRows) -> None:
        with connection.cursor() as cursor:
            put = partial(cursor.adbc_ingest, _WAITING, rows.reader(), "create", temporary=True)
            cancellable(put, cursor.adbc_cancel)
        self.run(connection, f"SELECT pg_advisory_xact_lock({_LOCK})")

    def create(self, connection: Any) -> None:
        if not self.types(connection):  # one who may not create tables may fill one
            super().create(connection)

    def commit(self, connection: Any) -> None:
        cancellable(connection.adbc_connection.commit)

    def said(self, error: BaseException) -> str:
        return quoted(ValueError(without_words_of(self.url, str(error))))
