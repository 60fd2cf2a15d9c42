"""The databases of all SQL dialects, which exported statements are run in."""

import os
from contextlib import ExitStack

import duckdb
import pyarrow as pa
import pytest

from testing.postgres_server import postgres_server, programs


class SqlDatabases:
    """A database for each dialect; PostgreSQL is started when it is needed first."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._postgres = None

    def answers(self, dialect, select, rows, name="input"):
        """Run a statement on rows; return its answers in the order of the rows."""
        place = pa.array(range(rows.num_rows), pa.int64())
        numbered = rows.append_column("row number", place)
        ordered = f'SELECT * FROM ({select}) AS q ORDER BY "row number"'
        run = {"duckdb": self._in_duckdb, "postgres": self._in_postgres}[dialect]
        return run(ordered, numbered, name).drop_columns(["row number"])

    def _in_duckdb(self, select, rows, name):
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'Europe/Oslo'")
            database.register(name, rows)
            return database.sql(select).to_arrow_table()

    def _in_postgres(self, select, rows, name):
        with self.postgres().cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode="replace")
            cursor.execute(select)
            return cursor.fetch_arrow_table()

    def postgres(self):
        """Return a connection, in a session with a zone and a style of dates of its own."""
        if self._postgres is None:
            if programs() is None and "CI" not in os.environ:
                pytest.skip("needs a PostgreSQL")
            from adbc_driver_postgresql import dbapi

            address = self._stack.enter_context(postgres_server())
            self._postgres = self._stack.enter_context(dbapi.connect(address, autocommit=True))
            with self._postgres.cursor() as cursor:
                for setting in (
                    "timezone TO 'Europe/Oslo'",
                    "datestyle TO 'SQL, DMY'",
                    "statement_timeout TO '60s'",
                ):
                    cursor.execute(f"SET {setting}")
        return self._postgres
