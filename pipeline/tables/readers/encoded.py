"""Rows of tables whose columns become numbers by a recipe: words, dates, text, missing values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.settings.encoding import READ_KINDS
from fewpass.pipeline.tables.encoding.applying import (
    Encoded,
    EncodedByCodes,
    columns_of,
    encode,
)
from fewpass.pipeline.tables.encoding.expansion import Expansion, expansion_of, has_codes
from fewpass.pipeline.tables.encoding.schema import encoding_of, recipe_in
from fewpass.pipeline.tables.readers.column_roles import name_of
from fewpass.pipeline.tables.readers.fitted_table import FittedTable
from fewpass.pipeline.tables.readers.library_errors import naming
from fewpass.pipeline.tables.readers.rejection import Fault, without_bad_rows
from fewpass.pipeline.tables.readers.sampling import FirstSample
from fewpass.pipeline.tables.readers.source import (
    PIECE_BYTES,
    Among,
    Parsed,
    Piece,
)
from fewpass.pipeline.tables.readers.table_remarks import remarks_on
from fewpass.pipeline.tables.readers.words_for_numbers import WordsForNumbers
from fewpass.storage.column_schema import Schema
from fewpass.storage.table import DenseTable, SparseTable, Table, n_bytes

#: Rows of the sample that tell how large rows are, and the bytes that they take at most.
_FEW, _FEW_BYTES = 1000, 1 << 20
Roles = tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64] | None]
#: Kinds that the type of a column tells, and nobody else.
LISTS = ("vector", "tags", "map")


class EncodedSource:
    """Tables of any columns as rows of numbers; see `Source` for the methods.

    Parameters
    ----------
    table
        The columns of the table, and their recipe.
    sample
        First rows, as they are written.

    Attributes
    ----------
    recipe : Recipe
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""

    def __init__(self, table: FittedTable, sample: FirstSample) -> None:
        self._table, self._rows, self._options = table, table.rows, table.options
        rows = self._rows
        self.files, self.packed = rows.files, rows.packed
        with naming(table.name, table.name):
            is_new = recipe_in(table.expected.schema) is None
            self._remarks = tuple(remarks_on(table, sample.table)) if is_new else ()
        self._few, self._row_bytes = _few_rows(sample), sample.row_bytes
        self._columns, self._used, self._roles = table.columns, table.used, table.roles
        self.recipe = table.recipe
        self.left_out = table.columns.left_out
        self.has_weight = table.columns.weight is not None
        self.has_offset = table.roles.offset_role is not None
        self.n_features: int | None = self.recipe.n_outputs
        self._words, self._in_codes = WordsForNumbers(), False
        self.layout: Literal["dense", "sparse"] = self.recipe.layout
        described = {
            "encoding": encoding_of(self.recipe, table.ids),
            "reading": dict(rows.decided),
        }
        own = table.columns.schema(rows.types)
        self.schema: Schema | None = own.model_copy(update=described)

    @property
    def notes(self) -> tuple[str, ...]:
        """What somebody should look at, once rows were read."""
        return self._remarks + tuple(self._words.sentences(self._columns)) + self._rows.notes

    def words_for_numbers(self) -> dict[str, int]:
        """Return how many cells of each column of numbers were words, of the rows read so far."""
        return self._words.counts(self._columns)

    @property
    def kinds(self) -> dict[str, str]:
        """What every column is taken for, as the setting `column` has it; drops included."""
        dropped = {name: kind for name, kind in self._options.column.items() if kind == "drop"}
        dropped |= dict.fromkeys(self._table.ids, "drop")
        encoded = {c.name: c.as_setting for c in self.recipe.columns if c.kind not in LISTS}
        read = {name: kind for name, kind in self._options.column.items() if kind in READ_KINDS}
        return encoded | read | dropped

    # -- before the first row ----------------------------------------------------------------------

    def parse_codes(self) -> Expansion | None:
        """Parse rows to codes, where there are any, from now on; return what becomes of them."""
        self._in_codes = has_codes(self.recipe)
        return expansion_of(self.recipe) if self._in_codes else None

    def threshold(self) -> float:
        """Return the key from which on rows are held out, of the column that says which."""
        return self._table.threshold

    def estimated_bytes(self) -> int:
        return int(self._bytes_of_row / self._row_bytes * self._text_bytes)

    @cached_property
    def _text_bytes(self) -> float:
        return self._rows.expands_to()

    @property
    def _bytes_of_row(self) -> float:
        """Bytes of a row in memory, about."""
        names = [name_of(self._columns, k) for k in self._columns.features]
        with naming(self.files[0].name, self.files[0].name):
            encoding = encode(self.recipe, [*columns_of(self._few, names)])
        n = self._few.num_rows
        target, weight = np.zeros(n), np.zeros(n) if self.has_weight else None
        table = self._table_of(encoding, (target, weight, target if self.has_offset else None))
        return float(n_bytes(table) / max(1, n))

    # -- rows --------------------------------------------------------------------------------------

    def columns_of_names(self, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield encoded columns as they are written, Arrow arrays (n,), piece by piece."""
        places = {name_of(self._columns, k): k for k in self._columns.features}
        used = [places[name] for name in names]
        for piece in self._rows.pieces(PIECE_BYTES, used):
            with naming(str(piece.file), piece.file):
                yield self._rows.cells(piece, used).columns

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        return self._rows.pieces(piece_bytes, self._table.cut_by)

    def parse(self, piece: Piece) -> Parsed:
        place = f"{piece.file}, from {self._rows.unit} {piece.first_line:,} on"
        with naming(place, piece.file):
            return self._encoded(piece)

    def _encoded(self, piece: Piece) -> Parsed:
        options = self._options
        cells = self._rows.cells(piece, self._used)
        own = dict(zip(self._used, cells.columns, strict=True))
        features = [own[k] for k in self._columns.features]
        encoding = encode(self.recipe, features)
        faults = [self._bad_cells(k, mask, own) for k, mask in encoding.bad]
        if encoding.words:
            self._words.note(piece, encoding.words, features)
        roles = self._roles.values(own, cells.n_rows, label_required=options.label_required)
        good = without_bad_rows(
            self._table_of(encoding, (roles.targets.values, roles.weight, roles.offset)),
            [*faults, *roles.faults], piece.file,
            options.on_bad_row, self._rows.unit, cells.lines, cells.faults, roles.targets.written,
        )  # fmt: skip
        return Parsed(
            good.table, roles.targets.labels, self.recipe.n_outputs - 1, good.skipped,
            good.n_skipped, written=good.written, split=self._keys(own, good.rows),
            passed=self._passed(own, good.rows),
            among=None if good.rows is None else Among(roles.targets.values, good.rows),
        )  # fmt: skip

    def _table_of(self, encoding: Encoded | EncodedByCodes, more: Roles) -> Table:
        """Return encoded rows as a table, or of codes as these where they are parsed to them."""
        dtype = self._options.dtype
        if self._in_codes and isinstance(encoding, EncodedByCodes):
            return DenseTable(encoding.codes, *more)
        if self.layout == "dense":
            return DenseTable(encoding.dense(dtype), *more)
        return SparseTable(*encoding.sparse(dtype), *more)

    def _keys(
        self, own: Mapping[int, Any], good: NDArray[np.int64] | None
    ) -> NDArray[np.float64] | None:
        """Return the keys that good rows are held out by, if there are any; None: all are good."""
        if self._table.split is None:
            return None
        at, column = self._table.split
        keys = column.keys(own[at])
        return keys if good is None else keys[good]

    def _passed(self, own: Mapping[int, Any], good: NDArray[np.int64] | None) -> tuple[Any, ...]:
        """Return the columns that are handed on, of good rows; None: all are good."""
        passed = tuple(own[k] for k in self._table.passed)
        return passed if good is None else tuple(cells.take(pa.array(good)) for cells in passed)

    def _bad_cells(self, k: int, mask: NDArray[np.bool_], own: Mapping[int, Any]) -> Fault:
        column = self._columns.features[k]
        kind = self.recipe.columns[k].wanted
        name = name_of(self._columns, column)
        advice = f"Correct it, or say that it holds words (`column={name}=category`),"
        fact = f"{self._columns.title(column)} holds FOUND {kind} expected"
        return Fault(mask, fact, advice, own[column])


def _few_rows(sample: FirstSample) -> Any:
    """Return a copy of some rows, which lets the others go."""
    most = max(1, min(_FEW, int(_FEW_BYTES / sample.row_bytes)))
    return sample.table.take(pa.array(np.arange(min(most, sample.table.num_rows))))
