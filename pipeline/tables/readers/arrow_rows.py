"""Parquet and Arrow IPC (Feather) as rows of typed columns.

Columns of structures are taken apart: their fields are columns of dotted names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal
from urllib.parse import unquote

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct, require_same
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.plain_types import plain_schema, plain_table, text_in
from fewpass.pipeline.tables.readers.arrow_sizes import cut
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.ipc_file import FILE_MARK, STREAM_MARK, opened_ipc
from fewpass.pipeline.tables.readers.pandas_index import index_of, left_out, sentence
from fewpass.pipeline.tables.readers.parquet_file import MOST_CELLS, batches, opened_parquet
from fewpass.pipeline.tables.readers.raw_rows import Cells, numbered
from fewpass.pipeline.tables.readers.source import Expected, Piece

#: Bytes that a cell is taken to need where a file does not tell.
_CELL_BYTES = 16


def cells_of(piece: Piece, table: Any, names: Sequence[str], used: Sequence[int]) -> Cells:
    """Return the columns `used`, of those names, of a table."""
    table = plain_table(table)
    columns = tuple(text_in(table.column(names[k]).combine_chunks()) for k in used)
    return Cells(columns, table.num_rows, numbered(piece, table.num_rows))


def require_alike(looks: Sequence[tuple[str, Any]]) -> None:
    """Refuse files (name, schema) whose columns differ from the first one's, order aside."""
    first = looks[0][1].names
    require_distinct(first, looks[0][0])
    for name, schema in looks:
        require_same(first, schema.names, name)


def partition_of(name: str) -> dict[str, str]:
    """Return the columns that a path names, as in rows/year=2026/part.parquet; Hive's custom."""
    parts = [part.partition("=") for part in name.split("/")[:-1]]
    return {unquote(key): unquote(value) for key, equals, value in parts if equals and key}


class ParquetRows:
    """Parquet files as typed columns; see `RawRows` for the methods.

    Folders named `column=value` are columns of words, the same in all rows of a file.
    """

    extensions: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"PAR1"
    packed: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, str]] = MappingProxyType({})
    decided: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    unit: ClassVar[Literal["line", "row"]] = "row"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "Parquet")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        looks = [self._look(address) for address in addresses]
        expected.room.require_columns(len(looks[0][0]), addresses[0].name, "typed")
        require_alike(
            [(address.name, look[0]) for address, look in zip(addresses, looks, strict=True)]
        )
        self._stored = tuple(looks[0][0].names)
        self.index = left_out(index_of(looks[0][0]), self._stored, options, expected)
        self.notes = sentence(self.index, looks[0][0])
        self._partitions = {address.name: partition_of(address.name) for address in addresses}
        self._folders = self._require_same_folders()
        self.names: tuple[str, ...] = (*self._stored, *self._folders)
        self.types = (*map(str, looks[0][0].types), *("text" for _ in self._folders))
        self._bytes = sum(look[1] for look in looks)

    @property
    def has_folders(self) -> bool:
        """Whether some columns are names of folders."""
        return bool(self._folders)

    def _require_same_folders(self) -> tuple[str, ...]:
        found = [tuple(partition) for partition in self._partitions.values()]
        if len(set(found)) > 1 or set(found[0]) & set(self._stored):
            raise BadInput(
                f"{self.files[0].name}: the folders name columns that other files do not have, or "
                "that the file has itself. Read files of like folders together."
            )
        return found[0]

    def _look(self, address: Address) -> tuple[Any, int]:
        with opened_parquet(address) as file:
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
            return plain_schema(file.schema_arrow), sum(group.total_byte_size for group in groups)

    def expands_to(self) -> float:
        """Return the bytes of all column chunks, decompressed."""
        return float(self._bytes)

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Pieces of rows; a row group may be cut."""
        rows = max(1, piece_bytes // (_CELL_BYTES * max(1, len(used))))
        names = [self._stored[k] for k in used if k < len(self._stored)]
        for address in self._addresses:
            row = 1
            for batch in batches(address, rows, MOST_CELLS * piece_bytes, names):
                yield Piece(address.name, row, batch, batch.nbytes)
                row += batch.num_rows

    def cells(self, piece: Piece, used: Sequence[int]) -> Cells:
        """Take columns out of a piece."""
        table = plain_table(pa.Table.from_batches([piece.content]))
        for name, value in self._partitions[piece.file].items():
            missing = value == "__HIVE_DEFAULT_PARTITION__"
            same = pa.scalar(None if missing else value, pa.large_string())
            table = table.append_column(name, pa.repeat(same, table.num_rows))
        return cells_of(piece, table, self.names, used)


class IpcRows:
    """Arrow IPC, files (Feather) and streams, as typed columns; see `RawRows` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = (".arrow", ".arrows", ".feather", ".ipc")
    magic: ClassVar[bytes | tuple[bytes, ...]] = (FILE_MARK, STREAM_MARK)
    packed: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, str]] = MappingProxyType({})
    decided: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    unit: ClassVar[Literal["line", "row"]] = "row"
    has_folders: ClassVar[bool] = False

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "Arrow IPC")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        looks = []
        for address in addresses:
            with opened_ipc(address) as file:
                looks.append((address.name, plain_schema(file.schema)))
        expected.room.require_columns(len(looks[0][1]), addresses[0].name, "typed")
        require_alike(looks)
        self.names: tuple[str, ...] = tuple(looks[0][1].names)
        self.index = left_out(index_of(looks[0][1]), self.names, options, expected)
        self.notes = sentence(self.index, looks[0][1])
        self.types = tuple(map(str, looks[0][1].types))

    def expands_to(self) -> float:
        """Return the files' bytes."""
        return float(sum(file.bytes or 0 for file in self.files))

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Pieces of rows; a record batch may be cut."""
        rows = max(1, piece_bytes // (_CELL_BYTES * max(1, len(used))))
        for address in self._addresses:
            row = 1
            with opened_ipc(address) as file:
                size = MOST_CELLS * piece_bytes
                for part in cut(file.batches, rows, size, address.name, address.room):
                    yield Piece(address.name, row, part, part.nbytes)
                    row += part.num_rows

    def cells(self, piece: Piece, used: Sequence[int]) -> Cells:
        """Take columns out of a piece."""
        return cells_of(piece, pa.Table.from_batches([piece.content]), self.names, used)
