"""Delimited text (CSV): rows of text cells, or of plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from fewpass.pipeline.decimal_text import NULL_VALUES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted, format_bytes
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.csv_head import (
    WIDE,
    CsvHead,
    CsvLayout,
    RowTooLong,
    has_header,
    head_of,
    places_of,
    spare_cells,
    without_nameless,
)
from fewpass.pipeline.tables.readers.csv_kernel import count_blank_lines
from fewpass.pipeline.tables.readers.csv_numbers import CsvNumbers
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.lines import (
    WholeLines,
    first_lines,
    head_lines,
    opened_text,
    text_bytes,
    text_pieces,
)
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.pipeline.tables.readers.source import (
    Expected,
    NumberColumns,
    ParsedRows,
    Piece,
    TableCells,
    TableReader,
)
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT

#: Bytes of text that a piece has.
_PIECE = 2 << 20
#: Bytes of a block, of which Arrow reads 32 ahead: at first, at most, and at most of a gigabyte.
_BLOCK, _LARGE_BLOCK, _LARGEST_BLOCK, _MUCH = 1 << 18, 1 << 20, 4 << 20, 10**9
_QUOTES_ARE_TEXT = (
    "Some cells begin with a quote that does not end them, so quotes were read as part of the "
    "text. Say `quote=double` if they enclose cells."
)
_ADVICE = "Check the file and its delimiter (`delimiter`),"


class CsvRows(TableReader):
    """CSV files; see `TableReader` for the methods.

    Rows are counted from the first line on; blank lines are none.  A piece is what Arrow reads of a
    block, or whole lines where `as_numbers` found plain numbers: then every line is a row.
    """

    extensions: ClassVar[tuple[str, ...]] = (".csv", ".tsv")

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        first = addresses[0]
        self.files, self._addresses = described(addresses), tuple(addresses)
        self._options, self._longest = options, expected.longest_line
        much = expected.budget.memory >= _MUCH
        self._most = _LARGEST_BLOCK if much else _LARGE_BLOCK
        self.head = first_lines(first, self._longest)
        head = self._head_of(self.head.bytes.tobytes(), first)
        self.has_header = has_header(head, options)
        spare = spare_cells(head) if self.has_header else 0
        names = without_nameless(head.names) if spare else head.names
        self.first_rows = head.rows[self.has_header :]
        self.names = tuple(names) if self.has_header else None
        self.types = ("text",) * len(names)
        self.n_cells, self.delimiter = len(names) + spare, head.delimiter
        self._is_padded = _are_padded(self.first_rows)
        self.nulls = _nulls_of(options, expected)
        self._as_they_are = frozenset(expected.passed)
        self._places: dict[str, tuple[int, ...]] = {}  # of columns in files of another order
        seen = not first.quotes and options.quote != "none"
        self.decided = {"quote": "none"} if seen else {}
        self.notes = (_QUOTES_ARE_TEXT,) if seen else ()
        self._by_lines, self._is_encoded = False, True
        self.plain: CsvNumbers | None = None  # the columns as plain numbers, where they are such

    def _head_of(self, text: bytes, address: Address) -> CsvHead:
        return head_of(text, address, self._options.delimiter)

    @property
    def quotes(self) -> bool:
        """Whether double quotes enclose cells."""
        return self._addresses[0].quotes

    def expands_to(self) -> float:
        """Estimate the bytes of the text, as if all files were compressed like the first one."""
        return text_bytes(self._addresses, self._longest)

    @property
    def by_lines(self) -> bool:
        """Whether pieces are whole lines, as those of plain numbers are."""
        return self._by_lines

    def use_stored_types(self) -> None:
        self._is_encoded = False

    def as_numbers(self, columns: TableColumns, options: SourceOptions) -> NumberColumns:
        self.plain = CsvNumbers(self, columns)
        _, content = self._behind_head(self.head, self._addresses[0])
        piece = Piece(self.files[0].name, 1, content, content.bytes.size)
        self._by_lines = self.plain.rows_of(piece, options) is not None
        return NumberColumns(self.plain.types, self.plain.are_words)

    def plain_rows(self, piece: Piece, options: SourceOptions) -> ParsedRows | None:
        return None if self.plain is None else self.plain.rows_of(piece, options)

    def place_of(self, file: str, column: int) -> int:
        """Return where a column stands in the rows of a file."""
        places = self._places.get(file)
        return places[column] if places else column

    # -- pieces ----------------------------------------------------------------------------------

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        for address in self._addresses:
            if self._by_lines:
                yield from self._lines_of(
                    address, piece_bytes, len(used) if self._is_encoded else 0
                )
            else:
                yield from self._blocks_of(address, piece_bytes, used)

    def _lines_of(self, address: Address, piece_bytes: int, cells: int) -> Iterator[Piece]:
        row = 0
        for text in text_pieces(address, piece_bytes, self._longest, cells):
            before, content = (0, text) if row else self._behind_head(text, address)
            row = row or before + 1
            yield Piece(address.name, row, content, text.bytes.size)
            if content.bytes.size:
                row += content.lines - int(count_blank_lines(content.bytes))

    def _behind_head(self, text: WholeLines, address: Address) -> tuple[int, WholeLines]:
        """Return how many rows come before those of a file's first lines, and these."""
        head = self._head_of(text.bytes[: self.head.bytes.size].tobytes(), address)
        begins = self._begins(head, address.name)
        lines = text.lines - int(np.count_nonzero(text.bytes[:begins] == ord("\n")))
        return head.before + self.has_header, WholeLines(text.bytes[begins:], lines)

    def _begins(self, head: CsvHead, name: str) -> int:
        """Return where in a file its rows begin; note the order of its columns."""
        if self.names is not None:
            cells = head.names
            if len(self.names) < self.n_cells:
                cells = without_nameless(cells)
            if places := places_of(self.names, cells, name):
                self._places[name] = places
        return head.begins[self.has_header]

    def _blocks_of(
        self, address: Address, piece_bytes: int, used: Sequence[int]
    ) -> Iterator[Piece]:
        """Read a file in blocks; from a row on that is longer than one, in larger ones."""
        is_read_once = address.name == STANDARD_INPUT
        first = _LARGE_BLOCK if is_read_once else _BLOCK
        piece_bytes = min(piece_bytes, _PIECE)
        block, row = max(2, min(piece_bytes, first)), 1
        while True:
            try:
                yield from self._blocks_from(row, address, block, piece_bytes, used)
            except RowTooLong as error:
                row = error.args[0]
                if block >= self._most or is_read_once:
                    raise BadInput(
                        f"{address.name}, row {row}: the row is longer than the "
                        f"{format_bytes(block)} that are read at once, or a quoted cell in it does "
                        "not end. Check its quotes (`quote`), or write the rows as Parquet."
                    ) from error
                block = min(4 * block, self._most)
            else:
                return

    def _blocks_from(
        self, row: int, address: Address, block: int, piece_bytes: int, used: Sequence[int]
    ) -> Iterator[Piece]:
        from fewpass.pipeline.tables.readers import csv_batches as arrow  # noqa: PLC0415 - Arrow

        with opened_text(address) as (stream, _):
            raw = head_lines(stream, address, self._longest).bytes.tobytes()
            head = self._head_of(raw, address)
            begins, first = self._begins(head, address.name), head.before + self.has_header + 1
            layout = self._layout_of(address.name, used)
            text = arrow.CsvText(stream, raw, begins, layout, address.name, spaced=address.spaced)
            parts = arrow.batches(text, layout, block, first, address.name)
            before = 0
            for batch, n in arrow.joined(parts, max(1, piece_bytes // block)):
                content = batch.since(row) if row > 1 else batch
                size = max(1, min(n * block, text.n_read - before))
                before += n * block
                if content.rows.size or content.bad:
                    first_row = int(content.rows[0]) if content.rows.size else content.bad[0][0]
                    yield Piece(address.name, first_row, content, size)

    def _layout_of(self, file: str, used: Sequence[int]) -> Any:
        """Return how rows fall into cells; all columns are read where quotes are looked at."""
        places = (
            range(self.n_cells) if self._is_looked_at else [self.place_of(file, k) for k in used]
        )
        nulls = ("",) if self._has_own_nulls(len(places)) else self.nulls
        return CsvLayout(self.delimiter, self.quotes, self.n_cells, tuple(places), nulls)

    @property
    def _is_looked_at(self) -> bool:
        return self.quotes and self._options.quote == "auto" and not self._addresses[0].spaced

    def _has_own_nulls(self, columns: int) -> bool:
        """Say whether words for missing cells are left to us: Arrow has 20 kB a column for them."""
        return bool(self._as_they_are) or columns > WIDE

    def _is_raw(self, column: int) -> bool:
        return self.names is not None and self.names[column] in self._as_they_are

    # -- cells -----------------------------------------------------------------------------------

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        from fewpass.pipeline.tables.encoding.cells import without  # noqa: PLC0415 - Arrow
        from fewpass.pipeline.tables.readers import csv_batches as arrow  # noqa: PLC0415 - Arrow

        batch = piece.content
        if isinstance(batch, WholeLines):
            batch = arrow.batch_of(piece, self._layout_of(piece.file, range(len(self.types))))
        elif self._is_looked_at:
            arrow.refuse_swallowed(piece.file, batch, self.delimiter, self.n_cells)
        columns = [batch.cells.column(f"c{self.place_of(piece.file, k)}") for k in used]
        if self._is_padded or not self._is_encoded:
            columns = [
                one if self._is_raw(k) else arrow.trimmed(one, self.nulls)
                for k, one in zip(used, columns, strict=True)
            ]
        if self._has_own_nulls(len(batch.cells.columns)):
            columns = [
                one if self._is_raw(k) else without(one, self.nulls)
                for k, one in zip(used, columns, strict=True)
            ]
        faults = tuple(
            (
                row,
                f"the row has {counted(n, 'cell')}, {self.n_cells} were expected: {shown(text)}",
                _ADVICE,
            )
            for row, n, text in batch.bad
        )
        return TableCells(tuple(columns), len(batch.rows), lambda: batch.rows, faults)


def _are_padded(rows: list[list[str]]) -> bool:
    """Say whether spaces stand around most cells of the first row, as in "1, yes, 2"."""
    cells = rows[0] if rows else []
    return sum(cell != cell.strip(" ") for cell in cells) > len(cells) / 2


def _nulls_of(options: SourceOptions, expected: Expected) -> tuple[str, ...]:
    """Return the words that are read as missing cells, as a recipe or options have them."""
    from fewpass.pipeline.tables.encoding.schema import recipe_in  # noqa: PLC0415 - Arrow

    recipe = recipe_in(expected.schema)
    given = options.null_values if recipe is None else recipe.null_values
    return ("", *(NULL_VALUES if given is None else given))
