"""Rows of PostgreSQL, by ADBC: batches of Arrow as the server sends them."""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.tables.readers.library_errors import parsing, quoted
from fewpass.pipeline.tables.readers.queried import (
    QueriedRows,
    added_up,
    cancellable,
    quoted_name,
)
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.storage.redaction import without_words_of

#: One state of the database for all that is read, and rows of equal tables in an equal order.
_SESSION = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET synchronize_seqscans = off",
    "SET max_parallel_workers_per_gather = 0",
    "SET timezone = 'UTC'",
    "SET datestyle = 'ISO'",
    "SET extra_float_digits = 1",
)
_ADDRESS = (
    "Check the address, in which a password has %25 for %, %2F for /, %40 for @, %3A for : and %20 "
    "for a space, and the credentials (PGPASSWORD, ~/.pgpass)."
)
_LONG = "a row of bytes: "  # an error of the server that this reader asks for
_BATCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"
_USE_COPY = "adbc.postgresql.use_copy"
_TYPE_NAME = b"ADBC:postgresql:typname"


class PostgresRows(QueriedRows):
    """Rows of a query on a PostgreSQL server; see `TableRows` for the methods.

    Every reading has a connection of its own, as several may go on at once, and all see the state
    that the database had at first: that of a transaction which is open until this object is gone.
    """

    dialect: ClassVar[str] = "PostgreSQL"

    def described(self) -> Any:
        with self._reaching():
            self._first = self._connected()
            weakref.finalize(self, self._first.close)
            with self._first.cursor() as cursor:
                cursor.adbc_statement.set_options(**{_USE_COPY: "false"})
                ask(cursor, "SELECT pg_export_snapshot()")
                self._snapshot: str = cursor.fetchone()[0]
        stored = self._schema_of("*")
        self._terms = {field.name: _term(field) for field in stored}
        self._sizes = {field.name: _size(field) for field in stored if _may_be_long(field)}
        return self._schema_of(", ".join(self._terms.values()))

    def _connected(self) -> Any:
        """Return a new connection, in which a transaction has begun."""
        connection = connection_to(self._address.path, self.name)
        with connection.cursor() as cursor:
            for setting in _SESSION:
                ask(cursor, setting)
        connection.adbc_connection.set_autocommit(enabled=False)
        return connection

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Yield what a query is run by, in the state that the database had at first."""
        with self._reaching(), self._connected() as connection, connection.cursor() as cursor:
            ask(cursor, f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
            yield cursor

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Say what the server or the library has against it, without a password."""
        try:
            with parsing(self.name, "the database cannot be read", "Check the query."):
                yield
        except BadInput as error:
            raise BadInput(str(error)) from None  # the cause may repeat the address

    def _schema_of(self, columns: str) -> Any:
        with self._cursor() as cursor:
            ask(cursor, f"SELECT {columns} FROM (\n{self._select}\n) AS rows LIMIT 0")
            return cursor.fetch_record_batch().schema

    def _one(self, query: str) -> Any:
        """Return the only value of a query."""
        with self._cursor() as cursor:
            cursor.adbc_statement.set_options(**{_USE_COPY: "false"})
            ask(cursor, query)
            return cursor.fetchone()[0]

    def state(self) -> str:
        return uuid4().hex  # of no other reading: the same query may have other rows

    def _notes(self) -> tuple[str, ...]:
        note = (
            f"{self.name}: rows of a query may be others whenever it is asked, so an ingest or a "
            "training that is cut short begins anew. Ingest them and train on the data set, to be "
            "able to go on."
        )
        return (note,)

    def require_new(self, seen: SeenFiles) -> None:
        if seen.took(self.files[0]):
            raise BadInput(
                f"{self.name}: rows of this query were taken before, and which of its rows of now "
                "are new cannot be told. Select these alone by another query, or append all of "
                "them: `again=true`."
            )

    def selected(self, names: Sequence[str], n_bytes: int) -> Iterator[Any]:
        terms = ", ".join(self._terms[name] for name in names)
        sizes = {name: self._sizes[name] for name in names if name in self._sizes}
        size = added_up([*sizes.values()])
        query = (
            f"SELECT {terms} FROM (\n{self._select}\n) AS rows WHERE CASE WHEN {size} > "
            f"{self._most} THEN ('{_LONG}' || {size})::int IS NULL ELSE true END"
        )
        try:
            with self._cursor() as cursor:
                cursor.adbc_statement.set_options(**{_BATCH_BYTES: str(n_bytes)})
                ask(cursor, query)
                read = partial(next, cursor.fetch_record_batch(), None)
                while (batch := cancellable(read, cursor.adbc_cancel)) is not None:
                    yield pa.record_batch(batch.columns, names=list(names))
        except BadInput as error:
            if _LONG in str(error):
                self._refuse_long_row(sizes, size)
            raise

    def _refuse_long_row(self, sizes: Mapping[str, str], size: str) -> None:
        """Refuse the first row that is longer than one may be."""
        each = ", ".join(["row_number() OVER ()", *sizes.values()])
        row, *lengths = json.loads(
            self._one(
                f"SELECT array_to_json(sizes)::text FROM (SELECT ARRAY[{each}]::bigint[] AS sizes, "
                f"{size} AS size FROM (\n{self._select}\n) AS rows) AS sized "
                f"WHERE size > {self._most} LIMIT 1"
            )
        )
        longest = [*sizes][lengths.index(max(lengths))]
        where = f"{self.name}, row {row:,}, above all column {shown_name(longest)}"
        self._address.budget.require_row(sum(lengths), where)

    def expands_to(self) -> float:
        """Return the bytes of rows that the server's planner expects."""
        return self._planned

    @cached_property
    def _planned(self) -> float:
        plan = json.loads(self._one(f"EXPLAIN (FORMAT JSON) {self._select}"))[0]["Plan"]
        return float(plan["Plan Rows"] * plan["Plan Width"])


def _term(field: Any) -> str:
    """Return how a column is selected, so that it comes as what is read here."""
    name, kind = quoted_name(field.name), field.type
    called = _called(field)
    if called == "numeric":
        return f"{name}::double precision AS {name}"
    is_other = isinstance(kind, pa.BaseExtensionType) or pa.types.is_interval(kind)
    if is_other or called in ("uuid", "json", "jsonb") or _is_bytes(kind, called):
        return f"{name}::text AS {name}"
    return name


def _called(field: Any) -> str:
    """Return the server's name of a column's type."""
    return str((field.metadata or {}).get(_TYPE_NAME, b"").decode())


def _is_bytes(kind: Any, called: str) -> bool:
    """Say whether a type is one that the driver has no type for."""
    return bool(pa.types.is_binary(kind) and called != "bytea")


def _may_be_long(field: Any) -> bool:
    """Say whether cells of a column, as the server has them, take more or less bytes."""
    fixed = pa.types.is_primitive(field.type) or pa.types.is_null(field.type)
    return not fixed and _called(field) != "numeric"


def _size(field: Any) -> str:
    """Return the bytes of a column's cells in SQL."""
    name = quoted_name(field.name)
    plain = _called(field) in ("text", "varchar", "bpchar", "bytea")
    return f"coalesce(octet_length({name if plain else f'{name}::text'}), 0)::bigint"


def connection_to(address: str, name: str) -> Any:
    """Return a new connection; BadInput where there is none, without a word of the address.

    Parameters
    ----------
    address, name
        The address, and what it is called in messages.
    """
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise BadInput(
            f"{name} needs adbc-driver-postgresql, which is not installed. Install it with "
            "pip install 'fewpass[postgresql]'."
        ) from error
    try:
        return cancellable(partial(dbapi.connect, address, autocommit=True))
    except dbapi.Error as error:  # libpq repeats what it cannot read of the address
        why = quoted(ValueError(without_words_of(address, str(error))))
        raise BadInput(f"{name}: the database cannot be read ({why}). {_ADDRESS}") from None


def ask(cursor: Any, query: str) -> None:
    """Run a query, which a signal ends."""
    cancellable(partial(cursor.execute, query), cursor.adbc_cancel)
