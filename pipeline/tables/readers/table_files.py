"""Tables that a log or a catalog makes of Parquet files: Delta Lake, Iceberg.

Their own library says of one version which files, columns and deleted rows it has; files are read
as any Parquet file is, in pieces and in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.plain_types import plain_schema
from fewpass.pipeline.tables.readers.arrow_files import (
    decompressed_bytes,
    opened_parquet,
    parquet_batches,
)
from fewpass.pipeline.tables.readers.arrow_numbers import require_numbers
from fewpass.pipeline.tables.readers.arrow_rows import CELL_BYTES, NUMBER_BYTES, TypedRows
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.seen_files import NothingNew
from fewpass.pipeline.tables.readers.source import Expected, NumberColumns, Piece, SourceFile

Positions = NDArray[np.int64]
#: Settings of s3fs, as the environment has them for all libraries of that store, and as pyiceberg.
_STORE_SETTINGS = {
    "key": ("AWS_ACCESS_KEY_ID", "s3.access-key-id"),
    "secret": ("AWS_SECRET_ACCESS_KEY", "s3.secret-access-key"),
    "token": ("AWS_SESSION_TOKEN", "s3.session-token"),
    "endpoint_url": ("AWS_ENDPOINT_URL", "s3.endpoint"),
    "region_name": ("AWS_REGION", "s3.region"),
}


def _nothing_deleted() -> Positions:
    """Return the positions of deleted rows of a file that has none."""
    return np.empty(0, np.int64)


class DataFile(NamedTuple):
    """A Parquet file of a table."""

    address: Address
    n_rows: int | None  # those that are deleted among them
    same: Mapping[str, Any]  # Arrow scalars of columns that all its rows have, and it has not
    deleted: Callable[[], Positions] = _nothing_deleted  # (m,) rows, ascending


class VersionOfTable(NamedTuple):
    """A table as one version of it is."""

    version: str  # as `table_version` takes it
    schema: Any  # Arrow's
    files: Sequence[DataFile]
    #: By column of the table, what a file of that Arrow schema calls it; others are not in it.
    names_in: Callable[[Any], Mapping[str, str]]
    id: str  # of the table, wherever it lies

    @property
    def n_rows(self) -> int | None:
        """Rows, where the log says so; those of files with deleted ones are not counted."""
        counts = [file.n_rows for file in self.files]
        return None if None in counts else sum(n for n in counts if n)

    @property
    def n_bytes(self) -> int | None:
        """Bytes of all files as stored; None where a store does not say."""
        sizes = [file.address.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size)

    def since(self, before: VersionOfTable) -> list[DataFile] | None:
        """Return the files that came after another version; None where rows of that one went."""
        own = {file.address.name: file for file in self.files}
        for old in before.files:
            now = own.pop(old.address.name, None)
            if now is None or not np.array_equal(now.deleted(), old.deleted()):
                return None
        return list(own.values())


def only_table(addresses: Sequence[Address]) -> Address:
    """Return the address of a table; BadInput where there are more."""
    if len(addresses) > 1:
        raise BadInput(
            f"{addresses[0].name} is a table, and {addresses[1].name} was named, too. Read one "
            "table at a time."
        )
    return addresses[0]


def store_settings(store: Any, place: int = 0) -> dict[str, str]:
    """Return the settings that a file system of fsspec was made with, by the names of others.

    Parameters
    ----------
    store
        The file system.
    place
        0: as the environment has them; 1: as pyiceberg does.

    Raises
    ------
    BadInput
        A setting that has no other name.
    """
    given = dict(getattr(store, "storage_options", None) or {})
    given |= given.pop("client_kwargs", None) or {}
    given = {name: value for name, value in given.items() if value not in (None, False)}
    unknown = [name for name in given if name not in (*_STORE_SETTINGS, "auto_mkdir")]
    if unknown:
        raise BadInput(
            f"The library of such tables has no storage option like {unknown[0]!r}. Known are "
            f"{', '.join(_STORE_SETTINGS)}; set others in the environment."
        )
    settings = {
        names[place]: str(given[name]) for name, names in _STORE_SETTINGS.items() if name in given
    }
    if place == 0 and settings.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        settings["AWS_ALLOW_HTTP"] = "true"
    return settings


class TableFileRows(TypedRows):
    """Rows of one version of a table; see `TableRows` for the methods."""

    kind: ClassVar[str]  # what the table is called
    library: ClassVar[str]  # what reads its log
    extra: ClassVar[str]  # what installs that

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, self.kind)
        address = only_table(addresses)
        self._table = table = self._looked_up(address, options.table_version)
        place = f"{self.kind} {table.id}"
        self.files = (SourceFile(address.name, table.n_bytes, table.version, place=place),)
        if expected.seen is not None:
            last = expected.seen.last_of(self.files[0])
            self._table = table = table if last is None else self._new_of(address, last)
        if not table.files:
            raise BadInput(
                f"{address.name}: version {table.version} of the table has no rows. Name "
                "another (`table_version`)."
            )
        own = self.files
        super().__init__([address], [plain_schema(table.schema)], options, expected)
        self.files = own
        self._cell_bytes = CELL_BYTES
        self._fields = tuple(_field_of(name, table.schema) for name in self.names)
        self.decided = {"table_version": table.version}
        self.n_rows = table.n_rows
        self.notes = (f"{address.name}: version {table.version} of the table was read.",)

    def _looked_up(self, address: Address, version: str | None) -> VersionOfTable:
        """Look a version up; what its library raises, or that it is not installed, as BadInput."""
        what = f"the table of {self.kind} cannot be read"
        try:
            with parsing(address.name, what, "Check the table."):
                return self.opened(address, version)
        except BadInput as error:
            if isinstance(error.__cause__, ImportError):
                raise BadInput(
                    f"{address.name} needs {self.library}, which is not installed. Install it "
                    f"with pip install 'fewpass[{self.extra}]'."
                ) from error
            raise

    def _new_of(self, address: Address, last: str) -> VersionOfTable:
        """Return the table with the files that came after a version that was taken."""
        table = self._table
        try:
            new = table.since(self._looked_up(address, last))
            why = "rows of that one were deleted or written anew"
        except (BadInput, FileNotFoundError):
            new, why = None, "that one is not there any more"
        if new is None:
            raise BadInput(
                f"{address.name}: version {last} of the table was taken before, and which rows of "
                f"version {table.version} are new cannot be told: {why}. Ingest the table "
                "anew, or append all rows of this version as well: `again=true`."
            )
        if not new:
            raise NothingNew(
                f"{address.name}: version {table.version} of the table has no rows that "
                f"version {last} had not, which was taken before."
            )
        return table._replace(files=new)

    def opened(self, address: Address, version: str | None) -> VersionOfTable:
        """Return a version of the table, None: the newest; any error where it cannot be read."""
        raise NotImplementedError

    def expands_to(self) -> float:
        """Estimate the bytes of all files, decompressed, by the first one."""
        first = self._table.files[0].address
        with opened_parquet(first) as file:
            size = decompressed_bytes(file)
        return float(size / (first.size or size or 1) * (self._table.n_bytes or 0))

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Pieces of rows; a piece has rows of one file."""
        rows = max(1, piece_bytes // (self._cell_bytes * max(1, len(used))))
        wanted = list(dict.fromkeys(self._fields[k] for k in used))
        for file in self._table.files:
            row, deleted = 0, file.deleted()
            names = self._names_in(file)
            stored = [names[name] for name in wanted if name in names]
            columns = stored or [next(iter(names.values()))]  # one tells how many rows there are
            for batch in parquet_batches(file.address, rows, piece_bytes, columns):
                left = _without(batch, deleted, row)
                if left.num_rows:
                    part = self._of_table(left, file, names, wanted)
                    yield Piece(file.address.name, row + 1, part, part.nbytes)
                row += batch.num_rows

    def _names_in(self, file: DataFile) -> Mapping[str, str]:
        with opened_parquet(file.address) as parquet:
            names = self._table.names_in(parquet.schema_arrow)
        if not names:
            raise BadInput(f"{file.address.name}: the file has no column of its table. Check both.")
        return names

    def _of_table(
        self, batch: Any, file: DataFile, names: Mapping[str, str], wanted: Sequence[str]
    ) -> Any:
        """Return rows of a file as rows of the table, whatever types and columns the file has."""
        columns = []
        for name in wanted:
            kind = self._table.schema.field(name).type
            if name in names:
                with parsing(f"{file.address.name}, column {name}"):  # it may be wider by now
                    own = batch.column(names[name])
                    columns.append(own.cast(kind, safe=not pa.types.is_timestamp(kind)))
            else:
                value = file.same.get(name, pa.scalar(None, kind))
                columns.append(pa.repeat(value.cast(kind), batch.num_rows))
        return pa.record_batch(columns, names=list(wanted))

    def use_stored_types(self) -> None:
        self._cell_bytes, first = NUMBER_BYTES, self._table.schema
        self._stored = self.names = self._fields = tuple(first.names)
        self.types = tuple(map(str, first.types))

    def as_numbers(self, columns: TableColumns, _options: SourceOptions) -> NumberColumns:
        schema = self._table.schema
        return NumberColumns(
            self.types, require_numbers(self.files[0].name, schema, schema, columns)
        )


def _field_of(name: str, schema: Any) -> str:
    """Return the column of the table that a dotted name is a part of."""
    names = (field for field in schema.names if name == field or name.startswith(f"{field}."))
    return str(next(names))


def _without(batch: Any, deleted: Positions, start: int) -> Any:
    """Return a batch, whose first row has a position in the file, without its deleted rows."""
    first, last = np.searchsorted(deleted, [start, start + batch.num_rows])
    there = np.ones(batch.num_rows, np.bool_)
    there[deleted[first:last] - start] = False
    return batch if first == last else batch.filter(pa.array(there))


def without_metadata(schema: Any) -> Any:
    """Return an Arrow schema of the same columns, whose fields say nothing else."""
    return pa.schema([field.remove_metadata() for field in schema])
