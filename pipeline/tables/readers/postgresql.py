"""Rows of PostgreSQL, by ADBC: batches of Arrow as the server sends them."""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.arrow_batches import validated
from fewpass.pipeline.tables.readers.arrow_rows import Part
from fewpass.pipeline.tables.readers.databases import (
    DatabaseRows,
    OpenedTable,
    as_select,
    cancellable,
    quoted_name,
)
from fewpass.pipeline.tables.readers.finding import Address, place_of
from fewpass.pipeline.tables.readers.library_errors import parsing, quoted
from fewpass.pipeline.tables.readers.source import Expected
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
_BATCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"
_USE_COPY = "adbc.postgresql.use_copy"
#: What the driver calls the server's name of a type by, of one that Arrow has none for or has.
_TYPE_NAMES = (b"ADBC:postgresql:typname", b"POSTGRESQL:type")


class PostgresRows(DatabaseRows):
    """Rows of a query on a PostgreSQL server; see `TableReader` for the methods."""

    kind: ClassVar[str] = "PostgreSQL"

    def opened(self, address: Address, options: SourceOptions, _expected: Expected) -> OpenedTable:
        select = as_select(options.query, address.name)
        query = _PostgresQuery(address, select)
        part = Part(address.name, query.batches, address.budget)
        version = uuid4().hex  # of no other reading: the same query may have other rows
        place = f"{place_of(address)} {select}"
        note = (
            f"{address.name}: rows of a query may be others whenever it is asked, so an ingest or "
            "a training that is cut short begins anew. Ingest them and train on the data set, to "
            "be able to go on."
        )
        return OpenedTable(
            query.schema, [part], version, place, query.planned, notes=(note,),
            rounded=query.rounded,
        )  # fmt: skip


class _PostgresQuery:
    """A query in the state that the database has at first.

    Every reading has a connection of its own, as several may go on at once, and all see the state
    of a transaction which is open until this object is gone.
    """

    def __init__(self, address: Address, select: str) -> None:
        self._address, self._select = address, select
        with _plain_errors(address.name):
            first = self._connected()
            weakref.finalize(self, first.close)
            with first.cursor() as cursor:
                cursor.adbc_statement.set_options(**{_USE_COPY: "false"})
                ask(cursor, "SELECT pg_export_snapshot()")
                self._snapshot: str = cursor.fetchone()[0]
        fields = self._schema_of("*")
        self._terms = {field.name: _term(field) for field in fields}
        self.rounded = frozenset(one.name for one in fields if _called(one) == "numeric")
        self.schema = self._schema_of(", ".join(self._terms.values()))

    def _connected(self) -> Any:
        """Return a new connection, in which a transaction has begun."""
        connection = connection_to(self._address.path, self._address.name)
        with connection.cursor() as cursor:
            for setting in _SESSION:
                ask(cursor, setting)
        connection.adbc_connection.set_autocommit(enabled=False)
        return connection

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Yield what a query is run by."""
        name = self._address.name
        with _plain_errors(name), self._connected() as connection, connection.cursor() as cursor:
            ask(cursor, f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
            yield cursor

    def _schema_of(self, columns: str) -> Any:
        with self._cursor() as cursor:
            ask(cursor, f"SELECT {columns} FROM (\n{self._select}\n) AS rows LIMIT 0")
            return cursor.fetch_record_batch().schema

    def batches(self, names: Sequence[str], _rows: int, n_bytes: int) -> Iterator[Any]:
        """Yield batches of some columns; a row that is longer is one of its own."""
        names = names or [next(iter(self._terms))]
        terms = ", ".join(self._terms[name] for name in names)
        with self._cursor() as cursor:
            cursor.adbc_statement.set_options(**{_BATCH_BYTES: str(n_bytes)})
            ask(cursor, f"SELECT {terms} FROM (\n{self._select}\n) AS rows")
            read = partial(next, cursor.fetch_record_batch(), None)
            answers = iter(partial(cancellable, read, cursor.adbc_cancel), None)
            for batch in validated(answers, self._address.name):
                yield pa.record_batch(batch.columns, names=list(names))

    def planned(self, _parts: Sequence[Part]) -> float:
        """Return the bytes of rows that the server's planner expects."""
        with self._cursor() as cursor:
            cursor.adbc_statement.set_options(**{_USE_COPY: "false"})
            ask(cursor, f"EXPLAIN (FORMAT JSON) {self._select}")
            plan = json.loads(cursor.fetchone()[0])[0]["Plan"]
        return float(plan["Plan Rows"] * plan["Plan Width"])


@contextmanager
def _plain_errors(name: str) -> Iterator[None]:
    """Say what the server or the library has against a query, without a password."""
    try:
        with parsing(name, "the database cannot be read", "Check the query."):
            yield
    except BadInput as error:
        raise BadInput(str(error)) from None  # the cause may repeat the address


def _term(field: Any) -> str:
    """Return how a column is selected, so that it comes as what is read here."""
    name, kind = quoted_name(field.name), field.type
    called = _called(field)
    if called in ("numeric", "money"):  # which comes in cents
        return f"{name}::numeric::double precision AS {name}"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):  # infinite ones come as the oldest
        return f"CASE WHEN isfinite({name}) THEN {name} END AS {name}"
    is_other = isinstance(kind, pa.BaseExtensionType) or pa.types.is_interval(kind)
    if is_other or called in ("uuid", "json", "jsonb") or pa.types.is_binary(kind):
        return f"{name}::text AS {name}"
    return name


def _called(field: Any) -> str:
    """Return the server's name of a column's type."""
    said = field.metadata or {}
    return next((said[name].decode() for name in _TYPE_NAMES if name in said), "")


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
