"""Parquet to dense tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct, require_same
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.plain_types import plain, plain_type
from fewpass.pipeline.tables.readers.cells_as_written import in_cells
from fewpass.pipeline.tables.readers.columns import Columns, choose
from fewpass.pipeline.tables.readers.dense_rows import (
    Targets,
    checked,
    narrowed,
    refuse_text_settings,
)
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.pandas_index import index_of, left_out, sentence
from fewpass.pipeline.tables.readers.parquet_file import MOST_CELLS, batches, opened_parquet
from fewpass.pipeline.tables.readers.source import Expected, Parsed, Piece
from fewpass.storage.column_schema import Schema
from fewpass.storage.table import DenseTable


class _Look(NamedTuple):
    """What a Parquet file says of itself."""

    name: str
    schema: Any  # a pyarrow schema
    rows: int


class ParquetSource:
    """Parquet files as dense rows; see `Source` for the methods.

    Feature columns hold numbers or booleans, the target numbers, booleans or words; nulls are
    missing values.  Lines in messages are row numbers, from 1.
    """

    extensions: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"PAR1"
    packed: ClassVar[bool] = True
    layout: Literal["dense", "sparse"] = "dense"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "Parquet")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._options = options
        looks = [_look(address) for address in addresses]
        self._n_rows = sum(look.rows for look in looks)
        names = looks[0].schema.names
        expected.room.require_columns(len(names), addresses[0].name, "typed")
        require_distinct(names, addresses[0].name)
        index = left_out(index_of(looks[0].schema), names, options, expected)
        self.notes = sentence(index, looks[0].schema)
        chosen = options.model_copy(update={"drop": (*options.drop, *index)})
        self._columns = choose(names, len(names), chosen, addresses[0].name, expected)
        for look in looks:
            _check_schema(look, looks[0].schema, self._columns)
        self.n_features: int | None = len(self._columns.features)
        self._names = tuple(looks[0].schema.names)
        self.schema: Schema | None = self._columns.schema([*map(str, looks[0].schema.types)])
        self.left_out = self._columns.left_out
        self.has_weight = self._columns.weight is not None

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory: exact, as the files tell how many rows they have."""
        features = len(self._columns.features) * np.dtype(self._options.dtype).itemsize
        return self._n_rows * (features + 8 + 8 * self.has_weight)

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Pieces of rows, of about `piece_bytes` as float64; a row group may be cut."""
        chosen = (*self._columns.features, self._columns.label, self._columns.weight)
        used = [k for k in chosen if k is not None]
        rows = max(1, piece_bytes // (8 * len(used)))
        for address in self._addresses:
            row = 1
            names = [self._names[k] for k in used]
            for batch in batches(address, rows, MOST_CELLS * piece_bytes, names):
                content = {k: plain(batch.column(self._names[k])) for k in used}
                yield Piece(address.name, row, content, batch.nbytes)
                row += batch.num_rows

    def parse(self, piece: Piece) -> Parsed:
        """Rows of one piece."""
        columns, options, cells = self._columns, self._options, piece.content
        X = np.column_stack([_numbers(cells[k]) for k in columns.features])
        targets = Targets(np.full(len(X), np.nan), None)
        if columns.label is not None:
            targets = _targets(cells[columns.label])
        weight = None if columns.weight is None else _numbers(cells[columns.weight])
        table = DenseTable(narrowed(X, options.dtype), targets.values, weight)
        titles = [columns.title(k) for k in columns.features]
        return checked(piece, table, targets, titles, options)


def _look(address: Address) -> _Look:
    with opened_parquet(address) as file:
        return _Look(address.name, file.schema_arrow, file.metadata.num_rows)


def _check_schema(look: _Look, first: Any, columns: Columns) -> None:
    """Refuse other columns than the first file's, and columns of no use as what they are."""
    names = look.schema.names
    require_same(first.names, names, look.name)
    types = [plain_type(look.schema.types[names.index(name)]) for name in first.names]
    for column in (*columns.features, columns.weight):
        if column is not None and not _is_number(types[column]):
            raise BadInput(
                f"{look.name}, row 1: {columns.title(column)} holds {types[column]} "
                "values, numbers were expected. Leave the column out "
                f"({columns.advice(column)}) or encode it as numbers."
            )
    label = columns.label
    if label is not None and not (_is_number(kind := types[label]) or _is_text(kind)):
        raise BadInput(
            f"{look.name}: the label, {columns.title(label)}, holds {kind} values, numbers or "
            "words were expected. Name another column (`label`)."
        )
    if label is not None and _is_text(types[label]) != _is_text(plain_type(first.types[label])):
        raise BadInput(
            f"{look.name}: the labels are words in one file and numbers in another. "
            "Write them alike."
        )


def _is_number(kind: Any) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    exact = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
    return bool(exact or types.is_floating(kind) or types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _numbers(cells: Any) -> NDArray[np.float64]:
    """Cells as floats, a null as NaN."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    numbers = cells.cast(pa.int8()) if pa.types.is_boolean(cells.type) else cells
    floats = numbers.cast(pa.float64(), safe=False)
    return np.array(floats.to_numpy(zero_copy_only=False), np.float64)


def _targets(cells: Any) -> Targets:
    if not _is_text(cells.type):
        return Targets(_numbers(cells), None, in_cells(cells))
    is_coded = pa.types.is_dictionary(cells.type)
    if is_coded and cells.dictionary.null_count:  # a code for what is missing
        cells, is_coded = cells.dictionary_decode(), False
    words = cells if is_coded else cells.dictionary_encode()
    return Targets(_numbers(words.indices), tuple(words.dictionary.to_pylist()))
