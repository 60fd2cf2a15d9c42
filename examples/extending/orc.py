"""ORC files to dense tables: columns of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow.orc import ORCFile

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.columns import choose
from fewpass.pipeline.tables.readers.dense_rows import checked, narrowed, refuse_text_settings
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.source import (
    Expected,
    ParsedRows,
    Piece,
    PiecePlace,
    Source,
)
from fewpass.pipeline.tables.readers.streams import opened
from fewpass.storage.table import DenseTable


class OrcSource(Source):
    """ORC files as dense rows; see `Source` for the methods.

    Nulls are missing values.  Lines in messages are row numbers, from 1.
    """

    extensions: ClassVar[tuple[str, ...]] = (".orc",)
    magic: ClassVar[bytes] = b"ORC"
    packed = True
    layout: Literal["dense", "sparse"] = "dense"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "ORC")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._options = options
        looks = [_look(address) for address in addresses]
        schema = looks[0][0]
        if any(other != schema for other, _ in looks):
            raise BadInput("The ORC files have different columns. Read like files together.")
        require_distinct(schema.names, addresses[0].name)
        self._n_rows = sum(rows for _, rows in looks)
        name, width = addresses[0].name, len(schema.names)
        self._columns = choose(schema.names, width, options, name, expected)
        self.n_features = len(self._columns.features)
        self.schema = self._columns.schema([str(kind) for kind in schema.types])
        self.left_out = self._columns.left_out
        self.has_weight = self._columns.weight is not None

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory: exact."""
        features = len(self._columns.features) * np.dtype(self._options.dtype).itemsize
        return self._n_rows * (features + 8 + 8 * self.has_weight)

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """One stripe after the other, in pieces of about `piece_bytes`."""
        for number, address in enumerate(self._addresses):
            row = 1
            with opened(address) as (stream, _):
                file = _read(stream, address)
                rows = max(1, piece_bytes // (8 * len(file.schema.names)))
                for k in range(file.nstripes):
                    stripe = file.read_stripe(k)
                    for start in range(0, stripe.num_rows, rows):
                        part, place = stripe.slice(start, rows), PiecePlace(row, number)
                        yield Piece(place, address.name, row, part, part.nbytes)
                        row += part.num_rows

    def parse(self, piece: Piece) -> ParsedRows:
        """Rows of one piece."""
        columns, batch = self._columns, piece.content
        X = np.column_stack([_numbers(batch, k) for k in columns.features])
        target = np.full(len(X), np.nan)
        if columns.label is not None:
            target = _numbers(batch, columns.label)
        weight = None if columns.weight is None else _numbers(batch, columns.weight)
        table = DenseTable(narrowed(X, self._options.dtype), target, weight)
        titles = [columns.title(k) for k in columns.features]
        return checked(piece, table, None, titles, self._options)


def _look(address: Address) -> tuple[Any, int]:
    """Schema of a file, and its number of rows."""
    with opened(address) as (stream, _):
        file = _read(stream, address)
        return file.schema, file.nrows


def _read(stream: Any, address: Address) -> Any:
    try:
        return ORCFile(stream)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the disk, not the file
        raise BadInput(
            f"{address.name}: the file is not a complete ORC file ({error}). Write it anew."
        ) from error


def _numbers(batch: Any, column: int) -> NDArray[np.float64]:
    """Cells as floats, a null as NaN."""
    cells = batch.column(column).cast(pa.float64(), safe=False)
    return np.array(cells.to_numpy(zero_copy_only=False), np.float64)
