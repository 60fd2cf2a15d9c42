"""Tables of an SQLite file, by Python's own library.

SQLite has types of values, not of columns: one reading of all rows tells what each column holds.
"""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.borders import parsing
from fewpass.pipeline.tables.readers.parquet_file import MOST_CELLS
from fewpass.pipeline.tables.readers.queried import QueriedRows, quoted_name
from fewpass.storage.source_files.checked import changed

_ROWS = 8192  # that are fetched at once, if they are not wide
_CELL_BYTES = 64  # a Python object and its place
#: What columns are read as, by the types of their values; text takes all others in.
_KINDS = (("text", pa.large_string()), ("blob", pa.large_string()), ("real", pa.float64()),
          ("integer", pa.int64()))  # fmt: skip
_CASTS = {pa.large_string(): "TEXT", pa.float64(): "REAL", pa.int64(): "INTEGER"}


class SqliteRows(QueriedRows):
    """Rows of a query on an SQLite file; see `TableRows` for the methods.

    Every reading is a transaction of its own; a file that is written meanwhile is refused.
    """

    extensions: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"SQLite format 3\x00"
    dialect: ClassVar[str] = "SQLite"

    @contextmanager
    def _answered(self, query: str) -> Iterator[Any]:
        """Run a query; BadInput where it fails, SourceChanged where the file is another by then."""
        import sqlite3  # noqa: PLC0415 - for who reads such a file

        if not self._address.is_local or self._address.compression:
            raise BadInput(
                f"{self.name}: SQLite reads files of this machine as they are. Fetch it, unpacked."
            )
        before = self.version()
        where = f"file:{quote(self._address.path)}?mode=ro"
        with (
            parsing(self.name, "the database cannot be read", "Check the query and the file."),
            closing(sqlite3.connect(where, uri=True, check_same_thread=False)) as connection,
            closing(connection.execute(query)) as cursor,
        ):
            yield cursor
            if self.version() != before:
                raise changed(self.name, "the database was written to")

    def version(self) -> str:
        path = Path(self._address.path)
        stamps = [(path.stat().st_size, path.stat().st_mtime_ns)]
        log = path.with_name(f"{path.name}-wal")  # of what is not in the file yet
        if log.exists() and log.stat().st_size:
            stamps.append((log.stat().st_size, log.stat().st_mtime_ns))
        return " ".join(f"{size}:{time}" for size, time in stamps)

    def only_name(self) -> str:
        listed = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        with self._answered(listed) as cursor:
            names = [quoted_name(name) for (name,) in cursor]
        if len(names) == 1:
            return names[0]
        raise BadInput(
            f"{self.name} has {len(names)} tables ({', '.join(names[:20])}). Say which one "
            "(`query`)."
        )

    def described(self) -> Any:
        with self._answered(f"SELECT * FROM (\n{self._select}\n) LIMIT 0") as cursor:
            names = [column[0] for column in cursor.description]
        asked = [
            f"max(typeof({quoted_name(name)}) = '{kind}')" for name in names for kind, _ in _KINDS
        ]
        with self._answered(
            f"SELECT count(*), {', '.join(asked)} FROM (\n{self._select}\n)"
        ) as cursor:
            self.n_rows, *values = cursor.fetchone()
        width = len(_KINDS)
        return pa.schema(
            (name, _kind_of(values[k * width : (k + 1) * width])) for k, name in enumerate(names)
        )

    def selected(self, names: Sequence[str], n_bytes: int) -> Iterator[Any]:
        schema = pa.schema([self.schema.field(name) for name in names])
        columns = [f"CAST({quoted_name(field.name)} AS {_CASTS[field.type]})" for field in schema]
        most = max(1, min(_ROWS, MOST_CELLS * n_bytes // (_CELL_BYTES * len(names))))
        query = f"SELECT {', '.join(columns)} FROM (\n{self._select}\n)"
        with self._answered(query) as cursor:
            for rows in iter(partial(cursor.fetchmany, most), []):
                cells = zip(*rows, strict=True)
                arrays = [pa.array(c, one.type) for c, one in zip(cells, schema, strict=True)]
                yield pa.record_batch(arrays, schema=schema)

    def expands_to(self) -> float:
        """Return the file's bytes, which are about those of the rows of a single table."""
        return float(self._address.size or 0)


def _kind_of(values: Sequence[int | None]) -> Any:
    """Return the type that takes all values of a column; numbers where there are none."""
    fits = (kind for (_, kind), there in zip(_KINDS, values, strict=True) if there)
    return next(fits, pa.float64())
