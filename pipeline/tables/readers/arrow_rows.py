"""Parquet and Arrow IPC (Feather) as rows of typed columns.

Columns of structures are taken apart: their fields are columns of dotted names.  Folders of Parquet
files may name columns, as in rows/year=2026/country=DE/part-0.parquet: Hive's custom.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct, require_same, shown_name
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.cells import is_numeric
from fewpass.pipeline.tables.encoding.plain_types import (
    plain_schema,
    plain_table,
    plain_type,
    text_in,
)
from fewpass.pipeline.tables.readers.arrow_batches import cut
from fewpass.pipeline.tables.readers.arrow_files import (
    FILE_MARK,
    STREAM_MARK,
    RowGroup,
    opened_ipc,
    opened_parquet,
    parquet_batches,
    row_groups,
)
from fewpass.pipeline.tables.readers.columns import ROLES, TableColumns
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.source import (
    MOST_SPANS,
    SPAN_BYTES,
    Expected,
    Extent,
    NumberColumns,
    Piece,
    PiecePlace,
    SourceSpan,
    TableCells,
    TableReader,
    numbered,
)
from fewpass.storage.column_schema import Schema

#: Bytes that a cell is taken to need: the same of all columns, whatever becomes of them, as pieces
#: decide which rows are held out.
CELL_BYTES = 16
#: Of a row and the number of a piece in one: a file has fewer pieces.
_NUMBER_BITS = 24
_MISSING = "__HIVE_DEFAULT_PARTITION__"
#: A whole number that is written as one: with zeros in front it is a code, and text.
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_TEXT, _NUMBER = pa.large_string(), pa.int64()


def index_of(schema: Any) -> tuple[str, ...]:
    """Return the columns of an Arrow schema that pandas (or Dask) wrote its index into."""
    try:
        written = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        stated = [name for name in written.get("index_columns", ()) if isinstance(name, str)]
    except (ValueError, AttributeError):  # what somebody else wrote there
        return ()
    return tuple(name for name in stated if name in schema.names)


def left_out(
    index: Sequence[str], names: Sequence[str], options: SourceOptions, expected: Expected
) -> tuple[str, ...]:
    """Return the columns of an index that are left out: those nobody asks for, or knows."""
    schema = expected.schema
    if schema is not None and options.by_position and len(schema.types) == len(names):
        return ()
    crossed = {name for pair in options.cross for name in pair.split(",")}
    roles = {getattr(options, role) for role in ROLES}
    asked = {*roles, *options.column, *options.drop, *crossed}
    used = set() if schema is None else {*(schema.feature_names or ())}
    if schema is not None and schema.names is not None:
        places = (getattr(schema, role) for role in ROLES)
        used |= {schema.names[k] for k in places if k is not None}
    return tuple(name for name in index if name not in asked | used)


def sentence(index: Sequence[str], schema: Any) -> tuple[str, ...]:
    """Tell which columns were left out, and how to keep one."""
    if not index:
        return ()
    first = index[0]
    what = ", ".join(map(shown_name, index))
    said = (
        f"{what}: the index of the pandas frame that was written, left out as no column of it. Say "
        f"`column={first}={_kind(schema.field(first).type)}` to keep it."
    )
    return (said,)


def _kind(kind: Any) -> str:
    if pa.types.is_temporal(kind):
        return "date"
    return "number" if is_numeric(kind) else "category"


def cells_of(piece: Piece, table: Any, names: Sequence[str], used: Sequence[int]) -> TableCells:
    """Return the columns `used`, of those names, of a table."""
    table = plain_table(table)
    # Copies: a sample of a batch would have all of it in memory.
    columns = tuple(text_in(table.column(names[k]).combine_chunks()) for k in used)
    return TableCells(columns, table.num_rows, numbered(piece, table.num_rows))


def require_alike(looks: Sequence[tuple[str, Any]]) -> None:
    """Refuse files (name, schema) with other columns than the first one, in any order."""
    first = looks[0][1].names
    require_distinct(first, looks[0][0])
    for name, schema in looks:
        require_same(first, schema.names, name)


def _named_in(path: str) -> dict[str, str | None]:
    """Return the columns that the folders of a path name, and their values as text."""
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    named = {unquote(key): unquote(value) for key, equals, value in parts if equals and key}
    return {name: None if value == _MISSING else value for name, value in named.items()}


class FolderColumns(NamedTuple):
    """Columns that the folders of files name, the same in all rows of a file."""

    types: Mapping[str, Any]  # of Arrow, by column
    values: Mapping[str, Mapping[str, str | None]]  # by file and column

    @classmethod
    def of(cls, files: Sequence[str], stored: Sequence[str], like: Schema | None) -> FolderColumns:
        """Read the folders of files: whole numbers are such, all else is text; as in `like`.

        Raises
        ------
        BadInput
            Folders of files differ in their columns, one is a column of the files (`stored`), or
            holds no whole number where one is expected.
        """
        values = {file: _named_in(file) for file in files}
        names = tuple(values[files[0]])
        for file, columns in values.items():
            if tuple(columns) != names:
                raise BadInput(
                    f"{file} is in folders that name {_listed(columns)}, and {files[0]} in such "
                    f"that name {_listed(names)}. Read files of like folders together."
                )
        if double := set(names) & set(stored):
            raise BadInput(
                f"{files[0]}: a folder names the column {min(double)!r}, which the file has "
                "itself. Rename one of them, or read a copy of the files elsewhere."
            )
        types = {name: _type_of(name, values.values(), like) for name in names}
        return cls(types, values)

    def added(self, table: Any, file: str) -> Any:
        """Return an Arrow table of a file's rows with the columns that its folders name."""
        for name, kind in self.types.items():
            value = pa.scalar(self.values[file][name], _TEXT).cast(kind)
            table = table.append_column(name, pa.repeat(value, table.num_rows))
        return table


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"


def _type_of(name: str, values: Iterable[Mapping[str, str | None]], like: Schema | None) -> Any:
    """Return the type of a folder's column: the one it had before, or as its values are."""
    had = None
    if like is not None and like.names is not None and name in like.names:
        had = like.types[like.names.index(name)]
    written = [text for columns in values if (text := columns[name]) is not None]
    other = next((value for value in written if not _WHOLE.fullmatch(value)), None)
    if had == str(_NUMBER) and other is not None:
        raise BadInput(
            f"The folder {name}={other} names no whole number, and the column holds such "
            "elsewhere. Rename the folder."
        )
    is_number = written and other is None if had is None else had == str(_NUMBER)
    return _NUMBER if is_number else _TEXT


class Part(NamedTuple):
    """A part that is read on its own: a file, or the rows of a query."""

    name: str
    #: By columns, rows and bytes: validated batches that have those columns, of about that size.
    batches: Callable[[Sequence[str], int, int], Iterator[Any]]
    budget: Budget
    n_rows: int | None = None
    n_bytes: int | None = None  # as stored
    deletes: tuple[str, ...] = ()  # files that name deleted rows

    @property
    def identity(self) -> tuple[str, tuple[str, ...]]:
        """Return a key that is equal where the rows are."""
        return self.name, self.deletes


class TypedRows(TableReader):
    """Parts of typed columns; see `TableReader` for the methods."""

    packed, cuts_by_columns = True, True
    names: tuple[str, ...]

    def __init__(
        self,
        addresses: Sequence[Address],
        schemas: Sequence[Any],
        options: SourceOptions,
        expected: Expected,
    ) -> None:
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._schemas = [plain_schema(schema) for schema in schemas]
        first = self._schemas[0]
        self._stored = self.names = tuple(first.names)
        self.types = tuple(map(str, first.types))
        expected.budget.require_columns(len(first), addresses[0].name, "typed")
        looks = zip(addresses, self._schemas, strict=True)
        require_alike([(address.name, schema) for address, schema in looks])
        self._n_parts = len(addresses)
        self.index = left_out(index_of(first), self._stored, options, expected)
        self.notes = sentence(self.index, first)

    def part(self, number: int) -> Part:
        """Return a part, by its number in the order in which they are read."""
        raise NotImplementedError

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        for number in range(self._n_parts):
            yield from self.pieces_of(SourceSpan(number), piece_bytes, used)

    def pieces_of(self, span: SourceSpan, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Pieces of rows of one part; they do not depend on its batches."""
        part, row = self.part(span.file), 1
        rows, names = self._rows_of_piece(piece_bytes, used), self._stored_of(used)
        batches = part.batches(names, rows, piece_bytes)
        for number, batch in enumerate(cut(batches, rows, piece_bytes, part.name, part.budget)):
            yield Piece(PiecePlace(number, span.file), part.name, row, batch, batch.nbytes)
            row += batch.num_rows

    def _rows_of_piece(self, piece_bytes: int, used: Sequence[int]) -> int:
        """Return the rows of a piece, where its cells take no more than they are taken to."""
        return max(1, piece_bytes // (CELL_BYTES * max(1, len(used))))

    def _stored_of(self, used: Sequence[int]) -> list[str]:
        return [self._stored[k] for k in used if k < len(self._stored)]

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        return cells_of(piece, pa.Table.from_batches([piece.content]), self.names, used)

    def use_stored_types(self) -> None:
        """Change nothing: all columns are stored."""

    def as_numbers(self, columns: TableColumns, _options: SourceOptions) -> NumberColumns:
        for address, schema in zip(self._addresses, self._schemas, strict=True):
            are_words = _require_numbers(address.name, schema, self._schemas[0], columns)
        return NumberColumns(self.types, are_words)


def _require_numbers(name: str, schema: Any, first: Any, columns: TableColumns) -> bool:
    """Return whether targets are words.

    BadInput for other columns than the first file's, and for columns of no use as what they are.
    """
    require_same(first.names, schema.names, name)
    types = [plain_type(schema.field(one).type) for one in first.names]
    for column in (*columns.features, columns.weight):
        if column is not None and not _is_number(types[column]):
            raise BadInput(
                f"{name}, row 1: {columns.title(column)} holds {types[column]} "
                "values, numbers were expected. Leave the column out "
                f"({columns.advice(column)}) or encode it as numbers."
            )
    label = columns.label
    if label is not None and not (_is_number(kind := types[label]) or _is_text(kind)):
        raise BadInput(
            f"{name}: the label, {columns.title(label)}, holds {kind} values, numbers or "
            "words were expected. Name another column (`label`)."
        )
    if label is not None and _is_text(types[label]) != _is_text(plain_type(first.types[label])):
        raise BadInput(
            f"{name}: the labels are words in one file and numbers in another. Write them alike."
        )
    return label is not None and _is_text(types[label])


def _is_number(kind: Any) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    exact = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
    return bool(exact or types.is_floating(kind) or types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


class ParquetRows(TypedRows):
    """Parquet files; see `TableReader` for the methods.

    Folders named `column=value` are columns, the same in all rows of a file: whole numbers, or
    words; where columns are not to be encoded they are passed over.
    """

    extensions: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"PAR1"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "Parquet")
        looks = [_look(address) for address in addresses]
        super().__init__(addresses, [schema for schema, _ in looks], options, expected)
        self._groups = [groups for _, groups in looks]
        self.n_rows = sum(group.rows for groups in self._groups for group in groups)
        files = [address.name for address in addresses]
        self._folders = FolderColumns.of(files, self._stored, expected.schema)
        self.names = (*self._stored, *self._folders.types)
        self.types = (*self.types, *map(_called, self._folders.types.values()))

    @property
    def has_folders(self) -> bool:
        return len(self.names) > len(self._stored)

    def expands_to(self) -> float:
        """Return the bytes of all column chunks, decompressed."""
        return float(sum(group.n_bytes for groups in self._groups for group in groups))

    def spans(self, piece_bytes: int) -> list[SourceSpan]:  # noqa: ARG002
        n_bytes = max(SPAN_BYTES, int(self.expands_to()) // MOST_SPANS)
        files = enumerate(self._groups)
        return [span for file, groups in files for span in _spans(file, groups, n_bytes)]

    def pieces_of(self, span: SourceSpan, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        address, starts = self._addresses[span.file], self._starts_of(span.file)
        rows, names = self._rows_of_piece(piece_bytes, used), self._stored_of(used)
        at = PieceStart.of(span, starts, rows)
        first, stop = at.row, starts[-1 if span.stop is None else span.stop]
        batches = parquet_batches(address, names, rows, piece_bytes, first)
        pieces = cut(batches, rows, piece_bytes, address.name, address.budget, first + 1)
        while at.row < stop and (batch := next(pieces, None)) is not None:
            end = PieceStart(at.row + batch.num_rows, at.number + 1)
            extent = Extent(batch.num_rows, at.position, end.position)
            place, row = PiecePlace(at.number, span.file), span.lines + at.row - first + 1
            yield Piece(place, address.name, row, batch, batch.nbytes, extent)
            at = end

    def _starts_of(self, file: int) -> list[int]:
        """Return the first row of every row group of a file, and the number of all rows."""
        return [0, *accumulate(group.rows for group in self._groups[file])]

    def use_stored_types(self) -> None:
        self._folders = FolderColumns({}, {})
        self.names, self.types = self._stored, self.types[: len(self._stored)]

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        table = plain_table(pa.Table.from_batches([piece.content]))
        if self._folders.types:
            table = self._folders.added(table, piece.file)
        return cells_of(piece, table, self.names, used)


def _called(kind: Any) -> str:
    """Return what the type of a column that a folder names is called in a schema."""
    return str(kind) if is_numeric(kind) else "text"


def _look(address: Address) -> tuple[Any, list[RowGroup]]:
    """Return a file's schema, and its row groups."""
    with opened_parquet(address) as file:
        return file.schema_arrow, row_groups(file)


def _spans(file: int, groups: Sequence[RowGroup], span_bytes: int) -> list[SourceSpan]:
    """Return spans of a Parquet file: of row groups that follow each other."""
    firsts, n_bytes = [0], 0
    for number, group in enumerate(groups):
        if n_bytes >= span_bytes:
            firsts.append(number)
            n_bytes = 0
        n_bytes += group.n_bytes
    stops = [*firsts[1:], None]
    return [SourceSpan(file, *ends) for ends in zip(firsts, stops, strict=True)]


class PieceStart(NamedTuple):
    """The place where a piece begins, and the number of pieces of its file before."""

    row: int
    number: int

    @property
    def position(self) -> int:
        """Both, as one number."""
        return self.row << _NUMBER_BITS | self.number

    @classmethod
    def of(cls, span: SourceSpan, starts: Sequence[int], rows: int) -> PieceStart:
        """Return that of the first piece of a span of row groups, that begin at some rows.

        Where nobody tells, the pieces before are taken to have `rows` rows each: true unless words
        are so long that they have fewer.
        """
        if span.begin is not None:
            return cls(span.begin >> _NUMBER_BITS, span.begin & (1 << _NUMBER_BITS) - 1)
        number = -(-starts[span.first] // rows)
        return cls(number * rows, number)


class IpcRows(TypedRows):
    """Arrow IPC, files (Feather) and streams; see `TableReader` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = (".arrow", ".arrows", ".feather", ".ipc")
    magic: ClassVar[bytes | tuple[bytes, ...]] = (FILE_MARK, STREAM_MARK)

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "Arrow IPC")
        schemas = []
        for address in addresses:
            with opened_ipc(address) as file:
                schemas.append(file.schema)
        super().__init__(addresses, schemas, options, expected)

    def expands_to(self) -> float:
        """Return the files' bytes."""
        return float(sum(file.bytes or 0 for file in self.files))

    def part(self, number: int) -> Part:
        address = self._addresses[number]
        return Part(address.name, partial(_ipc_batches, address), address.budget)

    def spans(self, piece_bytes: int) -> list[SourceSpan]:  # noqa: ARG002
        return [*map(SourceSpan, range(len(self._addresses)))]


def _ipc_batches(address: Address, *_size: Any) -> Iterator[Any]:
    """Yield a file's batches as they are stored, with all columns."""
    with opened_ipc(address) as file:
        yield from file.batches
