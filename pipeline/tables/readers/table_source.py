"""Tables as rows of numbers: by the recipe of their columns, or without one as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.settings.encoding import READ_KINDS
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.columns import LOOK_BYTES, chosen_columns
from fewpass.pipeline.tables.readers.dense_rows import faults_of_features
from fewpass.pipeline.tables.readers.library_errors import naming
from fewpass.pipeline.tables.readers.rejection import FOUND, Fault, GoodRows, without_bad_rows
from fewpass.pipeline.tables.readers.source import (
    PIECE_BYTES,
    Among,
    Expected,
    ParsedRows,
    Piece,
    Source,
    SourceSpan,
    TableReader,
)
from fewpass.pipeline.tables.readers.unlike_cells import UnlikeCells
from fewpass.storage.table import DenseTable, SparseTable, Table, n_bytes

if TYPE_CHECKING:
    from fewpass.pipeline.tables.encoding.expansion import Expansion
    from fewpass.pipeline.tables.encoding.recipe import Recipe
    from fewpass.pipeline.tables.readers.fitted_table import FittedTable
    from fewpass.pipeline.tables.readers.row_roles import RoleValues, RowRoles
    from fewpass.pipeline.tables.readers.sampling import FirstSample

#: Rows of the sample that tell how large rows are, and the bytes that they take at most.
_FEW, _FEW_BYTES = 1000, 1 << 20
#: Kinds that the type of a column tells, and nobody else.
LISTS = ("vector", "tags", "map")
_OF_A_HEADER = "If the first row names the columns, say so (`header=true`)."
#: What `applying.encode` and `as_they_are` return, which are imported with Arrow.
AnyEncoded = Any
Vector = NDArray[np.float64]
#: Targets, weights and offsets of rows.
RoleColumns = tuple[Vector, Vector | None, Vector | None]


class TableSource(Source):
    """Tables as rows of numbers; see `Source` for the methods.

    Parameters
    ----------
    rows
        The files.
    options, expected
        How they are read, and what they have to fit.
    fitted
        The recipe of their columns; None: these are numbers, which are taken as they are.
    sample
        Rows that the recipe was fitted to.
    first
        The first piece of plain numbers, where it was read before.

    Attributes
    ----------
    recipe : Recipe or None
    """

    def __init__(
        self, rows: TableReader, options: SourceOptions, expected: Expected,
        fitted: FittedTable | None = None, sample: FirstSample | None = None,
        first: Piece | None = None,
    ) -> None:  # fmt: skip
        self._rows, self._options, self._first = rows, options, first
        self.files, self.packed, self.piece_bytes = rows.files, rows.packed, rows.piece_bytes
        self.recipe: Recipe | None = None
        self._fitted, self._in_codes = fitted, False
        self._few = None if sample is None else _FewRows.of(sample)
        described: dict[str, Any] = {"reading": dict(rows.decided)}
        if fitted is None:
            columns = chosen_columns(rows, options, expected)
            self._cut_by, numbers = columns.read, rows.as_numbers(columns, options)
            self._are_words, types = numbers.are_words, numbers.types
            self.n_features, self.layout = len(columns.features), "dense"
        else:
            columns, types = fitted.columns, rows.types
            self._cut_by, self.recipe = fitted.cut_by, fitted.recipe
            self.n_features, self.layout = self.recipe.n_outputs, self.recipe.layout
            described["encoding"] = fitted.encoding
        self._columns, self._used = columns, columns.read
        self.left_out, self.has_weight = columns.left_out, columns.weight is not None
        self.has_offset = columns.offset is not None or columns.exposure is not None
        self.schema = columns.schema(types).model_copy(update=described)
        self._unlike = UnlikeCells(columns)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.remarks, *self.cell_notes, *self._rows.notes)

    @property
    def unlike_cells(self) -> UnlikeCells:
        return self._unlike

    @property
    def kinds(self) -> dict[str, str]:
        if self.recipe is None or self._fitted is None:
            return {}
        asked = self._options.column
        dropped = {name: kind for name, kind in asked.items() if kind == "drop"}
        dropped |= dict.fromkeys(self._fitted.ids, "drop")
        encoded = {c.name: c.as_setting for c in self.recipe.columns if c.kind not in LISTS}
        read = {name: kind for name, kind in asked.items() if kind in READ_KINDS}
        return encoded | read | dropped

    # -- before the first row ----------------------------------------------------------------------

    def parse_codes(self) -> Expansion | None:
        if self.recipe is None:
            return None
        from fewpass.pipeline.tables.encoding.expansion import expansion_of, has_codes  # noqa: PLC0415 - Arrow

        self._in_codes = has_codes(self.recipe)
        return expansion_of(self.recipe) if self._in_codes else None

    def threshold(self) -> float | None:
        return None if self._fitted is None else self._fitted.threshold

    def estimated_bytes(self) -> int:
        if self.recipe is None and self._rows.n_rows is not None:
            features = (self.n_features or 0) * np.dtype(self._options.dtype).itemsize
            return self._rows.n_rows * (features + 8 + 8 * self.has_weight)
        table, text_bytes = self._some_rows
        return 0 if table is None else int(n_bytes(table) / max(1, text_bytes) * self._text_bytes)

    @cached_property
    def _text_bytes(self) -> float:
        return self._rows.expands_to()

    @property
    def _some_rows(self) -> tuple[Table | None, float]:
        """Return some of the first rows, and the bytes of their text."""
        if self._few is None or self.recipe is None:
            piece, options = self._first_piece, self._options
            if piece is None:
                return None, 0
            skipping = options.model_copy(update={"on_bad_row": "skip"})
            return self._parsed(piece, skipping).table, piece.n_bytes
        from fewpass.pipeline.tables.encoding.applying import columns_of, encode  # noqa: PLC0415 - Arrow

        rows, row_bytes = self._few
        n, name = rows.num_rows, self.files[0].name
        with naming(name, name):
            encoded = encode(self.recipe, [*columns_of(rows, self._columns.feature_names)])
        target, weight = np.zeros(n), np.zeros(n) if self.has_weight else None
        roles = target, weight, target if self.has_offset else None
        return self._table_of(encoded, self._options, roles), n * row_bytes

    @cached_property
    def _first_piece(self) -> Piece | None:
        pieces = self._rows.pieces(LOOK_BYTES, self._used)
        return next(pieces, None) if self._first is None else self._first

    # -- rows --------------------------------------------------------------------------------------

    def columns_of_names(self, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield columns of features as they are written, Arrow arrays (n,), piece by piece."""
        places = dict(zip(self._columns.feature_names, self._columns.features, strict=True))
        used = [places[name] for name in names]
        for piece in self._rows.pieces(PIECE_BYTES, used):
            yield self._rows.cells(piece, used).columns

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        return self._rows.pieces(piece_bytes, self._cut_by)

    def spans(self, piece_bytes: int) -> list[SourceSpan]:
        return self._rows.spans(piece_bytes)

    def ranges(self, piece_bytes: int) -> list[SourceSpan]:
        return self._rows.ranges(piece_bytes)

    @property
    def cuts_by_columns(self) -> bool:
        return self._rows.cuts_by_columns

    def pieces_of(self, span: SourceSpan, piece_bytes: int) -> Iterator[Piece]:
        return self._rows.pieces_of(span, piece_bytes, self._cut_by)

    def parse(self, piece: Piece) -> ParsedRows:
        return self._parsed(piece, self._options)

    def _parsed(self, piece: Piece, options: SourceOptions) -> ParsedRows:
        plain = self._rows.plain_rows(piece, options) if self.recipe is None else None
        if plain is None:
            return self._by_cells(piece, options)
        if not (passed := self._columns.passed):
            return plain
        cells = self._rows.cells(piece, passed)
        own = zip(passed, cells.columns, strict=True)
        return plain._replace(passed=tuple(cells.written.get(k, column) for k, column in own))

    def _by_cells(self, piece: Piece, options: SourceOptions) -> ParsedRows:
        from fewpass.pipeline.tables.encoding.applying import as_they_are, encode  # noqa: PLC0415 - Arrow

        with naming(f"{piece.file}, from {self._rows.unit} {piece.first_line:,} on", piece.file):
            cells = self._rows.cells(piece, self._used)
            own = dict(zip(self._used, cells.columns, strict=True))
            features = [own[k] for k in self._columns.features]
            encoded = encode(self.recipe, features) if self.recipe else as_they_are(features)
            words = self._unlike.note(piece, encoded, features)
            roles = self._roles.values(own, cells.n_rows, label_required=options.label_required)
            targets = roles.targets
            table = self._table_of(encoded, options, (targets.values, roles.weight, roles.offset))
            faults = [*self._bad_features(encoded, table, own, piece, options), *roles.faults]
            good = without_bad_rows(
                table, faults, piece.file, options.on_bad_row, self._rows.unit, cells.lines,
                cells.faults, targets.texts,
            )  # fmt: skip
        return self._good_rows(good, own, cells.written, roles)._replace(words=words)

    @cached_property
    def _roles(self) -> RowRoles:
        """Return the form of targets and other numbers: by the sample, or that of plain numbers."""
        from fewpass.pipeline.tables.readers.row_roles import RowRoles  # noqa: PLC0415 - Arrow

        if self._fitted is not None:
            return self._fitted.roles
        return RowRoles.plain(self._columns, are_words=self._are_words)

    def _table_of(self, encoded: AnyEncoded, options: SourceOptions, roles: RoleColumns) -> Table:
        """Return encoded rows as a table, or of codes as these where they are parsed to them."""
        if self._in_codes:
            return DenseTable(encoded.codes, *roles)
        if self.layout == "dense":
            return DenseTable(encoded.dense(options.dtype), *roles)
        data, indices, indptr = encoded.sparse(options.dtype)
        return SparseTable(data, indices, indptr, *roles)

    def _bad_features(
        self, encoded: AnyEncoded, table: Table, own: Mapping[int, Any], piece: Piece,
        options: SourceOptions,
    ) -> Iterator[Fault]:  # fmt: skip
        """Yield what is wrong with the cells of features; missing ones become 0 where asked."""
        columns = self._columns
        for k, mask in encoded.bad:
            column = columns.features[k]
            wanted = self.recipe.columns[k].wanted if self.recipe else "a number was"
            fact = f"{columns.title(column)} holds {FOUND} {wanted} expected"
            yield Fault(mask, fact, self._advice(column, piece), own[column])
        if self.recipe is None:
            yield from faults_of_features(table, [*map(columns.title, columns.features)], options)

    def _advice(self, column: int, piece: Piece) -> str:
        """Say what helps where a column's cell is not what the column holds."""
        columns = self._columns
        if self.recipe is not None:
            name = columns.name_of(column)
            if self.recipe.columns[columns.features.index(column)].kind in LISTS:
                return "Correct it,"
            return f"Correct it, or say that it holds words (`column={name}=category`),"
        may_be_header = piece.first_line == 1 and self._rows.names is None
        drop = f"Leave the column out ({columns.advice(column)}) or encode it as numbers,"
        return f"{_OF_A_HEADER} {drop}" if may_be_header else drop

    def _good_rows(
        self, good: GoodRows, own: Mapping[int, Any], written: Mapping[int, Any], roles: RoleValues
    ) -> ParsedRows:
        """Return rows, with the keys they are held out by and the cells that are handed on."""
        targets, keys, among = roles.targets, None, None
        passed = tuple(written.get(k, own[k]) for k in self._columns.passed)
        if self._fitted is not None and self._fitted.split is not None:
            at, column = self._fitted.split
            keys = column.keys(own[at])
        if good.rows is not None:
            among = Among(targets.values, good.rows)
            if roles.weight is not None:  # of bad rows none counts that weighs nothing
                none = np.flatnonzero(roles.weight == 0.0)
                among = among.without(np.setdiff1d(none, good.rows))
            keys = None if keys is None else keys[good.rows]
            passed = tuple(cells.take(good.rows) for cells in passed)
        return ParsedRows(
            good.table, targets.labels, (self.n_features or 0) - 1, good.skipped, good.n_skipped,
            texts=good.texts, split=keys, among=among, passed=passed,
        )  # fmt: skip


class _FewRows(NamedTuple):
    """Some rows of a sample, an Arrow table, and the bytes of the text of one."""

    rows: Any
    row_bytes: float

    @classmethod
    def of(cls, sample: FirstSample) -> _FewRows:
        """Copy some rows, which lets the others go."""
        most = max(1, min(_FEW, int(_FEW_BYTES / sample.row_bytes)))
        few = np.arange(min(most, sample.table.num_rows))
        return cls(sample.table.take(few), sample.row_bytes)
