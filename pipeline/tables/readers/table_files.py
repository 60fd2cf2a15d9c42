"""Tables that a log or a catalog makes of Parquet files: Delta Lake, Iceberg.

Their own library says of one version which files, columns and deleted rows it has; files are read
as any Parquet file is, in bounded pieces and in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.plain_types import plain_schema
from fewpass.pipeline.tables.readers.arrow_numbers import ArrowNumbers, require_numbers
from fewpass.pipeline.tables.readers.arrow_rows import CELL_BYTES, NUMBER_BYTES, TypedRows
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.parquet_file import MOST_CELLS, batches, opened_parquet
from fewpass.pipeline.tables.readers.seen_files import NothingNew
from fewpass.pipeline.tables.readers.source import Expected, Piece, SourceFile

#: What a column chunk takes, decompressed, in units of its file, where no file was looked at.
_EXPANDS = 3.0


def nothing_deleted() -> NDArray[np.int64]:
    """Return the positions of deleted rows of a file that has none."""
    return np.empty(0, np.int64)


class DataFile(NamedTuple):
    """A Parquet file of a table."""

    address: Address
    n_rows: int | None  # those that are deleted among them
    same: Mapping[str, Any]  # Arrow scalars of columns that all its rows have, and it has not
    #: Return the positions (m,) of deleted rows, ascending.
    deleted: Callable[[], NDArray[np.int64]] = nothing_deleted


class VersionOfTable(NamedTuple):
    """A table as one version of it is."""

    version: str  # as `table_version` takes it
    schema: Any  # Arrow's
    files: Sequence[DataFile]
    n_rows: int | None  # None: its log does not say
    #: By column of the table, what a file of that Arrow schema calls it; others are not in it.
    names_in: Callable[[Any], Mapping[str, str]]
    id: str  # of the table, wherever it lies

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


@contextmanager
def of_table(address: Address, kind: str, library: str, extra: str) -> Iterator[None]:
    """Say what the library of a table raises as BadInput, also that it is not installed."""
    try:
        with parsing(address.name, f"the table of {kind} cannot be read", "Check the table."):
            yield
    except BadInput as error:
        if isinstance(error.__cause__, ImportError):
            raise BadInput(
                f"{address.name} needs {library}, which is not installed. Install it with pip "
                f"install 'fewpass[{extra}]'."
            ) from error
        raise


class TableFileRows(TypedRows):
    """Rows of one version of a table; see `TableRows` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""
    kind: ClassVar[str]  # what the table is called

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, self.kind)
        address = only_table(addresses)
        self._table = self.opened(address, options.table_version)
        sizes = [file.address.size for file in self._table.files]
        whole = None if None in sizes else sum(size for size in sizes if size)
        own = SourceFile(
            address.name, whole, self._table.version, place=f"{self.kind} {self._table.id}"
        )
        if expected.seen is not None and (last := expected.seen.last_of(own)) is not None:
            self._table = self._new_of(address, last)
        if not self._table.files:
            raise BadInput(
                f"{address.name}: version {self._table.version} of the table has no rows. Name "
                "another (`table_version`)."
            )
        stored = self._table.schema
        schema = stored if expected.plain else plain_schema(stored)
        super().__init__([address], [schema], options, expected)
        self._cell_bytes = NUMBER_BYTES if expected.plain else CELL_BYTES
        self._fields = tuple(_field_of(name, stored) for name in self.names)
        sizes = [file.address.size for file in self._table.files]
        self._bytes = None if None in sizes else sum(size for size in sizes if size)
        self.files = (own,)
        self.decided = {"table_version": self._table.version}
        self.n_rows = self._table.n_rows
        self.notes = (f"{address.name}: version {self._table.version} of the table was read.",)

    def _new_of(self, address: Address, last: str) -> VersionOfTable:
        """Return the table with the files that came after a version that was taken."""
        try:
            new = self._table.since(self.opened(address, last))
            why = "rows of that one were deleted or written anew"
        except (BadInput, FileNotFoundError):
            new, why = None, "that one is not there any more"
        if new is None:
            raise BadInput(
                f"{address.name}: version {last} of the table was taken before, and which rows of "
                f"version {self._table.version} are new cannot be told: {why}. Ingest the table "
                "anew, or append all rows of this version as well: `again=true`."
            )
        if not new:
            raise NothingNew(
                f"{address.name}: version {self._table.version} of the table has no rows that "
                f"version {last} had not, which was taken before."
            )
        return self._table._replace(files=new, n_rows=None)

    def opened(self, address: Address, version: str | None) -> VersionOfTable:
        """Look a version of the table up, None: the newest; BadInput where it cannot be read."""
        raise NotImplementedError

    def expands_to(self) -> float:
        """Estimate the bytes of all files, decompressed, by the first one."""
        first = self._table.files[0].address
        with opened_parquet(first) as file:
            groups = (file.metadata.row_group(k) for k in range(file.metadata.num_row_groups))
            size = sum(group.total_byte_size for group in groups)
        rate = size / first.size if first.size else _EXPANDS
        return float(rate * (self._bytes or 0))

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Pieces of rows; a piece has rows of one file."""
        rows = max(1, piece_bytes // (self._cell_bytes * max(1, len(used))))
        wanted = list(dict.fromkeys(self._fields[k] for k in used))
        for file in self._table.files:
            row, deleted = 0, file.deleted()
            names = self._names_in(file)
            stored = [names[name] for name in wanted if name in names]
            columns = stored or [next(iter(names.values()))]  # one tells how many rows there are
            for batch in batches(file.address, rows, MOST_CELLS * piece_bytes, columns):
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
                with parsing(f"{file.address.name}, column {name}"):
                    columns.append(_cast(batch.column(names[name]), kind))
            else:
                value = file.same.get(name, pa.scalar(None, kind))
                columns.append(pa.repeat(value.cast(kind), batch.num_rows))
        return pa.record_batch(columns, names=list(wanted))

    def numbers(self, columns: TableColumns, _options: SourceOptions) -> ArrowNumbers:
        require_numbers(self.files[0].name, self._table.schema, self._table.schema, columns)
        return ArrowNumbers(columns, self.types, self.cells)


def _field_of(name: str, schema: Any) -> str:
    """Return the column of the table that a dotted name is a part of."""
    if name in schema.names:
        return name
    return str(next(field for field in schema.names if name.startswith(f"{field}.")))


def _cast(column: Any, kind: Any) -> Any:
    """Return a column as the table has it, whose type may be wider than the file's by now."""
    if column.type == kind:
        return column
    return column.cast(kind, safe=not pa.types.is_timestamp(kind))


def _without(batch: Any, deleted: NDArray[np.int64], start: int) -> Any:
    """Return a batch, whose first row has a position in the file, without its deleted rows."""
    first, last = np.searchsorted(deleted, [start, start + batch.num_rows])
    if first == last:
        return batch
    there = np.ones(batch.num_rows, np.bool_)
    there[deleted[first:last] - start] = False
    return batch.filter(pa.array(there))
