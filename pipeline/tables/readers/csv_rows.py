"""Delimited text (CSV): rows of text cells, or of plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from fewpass.pipeline.decimal_text import NULL_VALUES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted, format_bytes
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.csv_head import (
    WIDE,
    CsvHead,
    CsvLayout,
    has_header,
    head_of,
    places_of,
    spare_cells,
    without_nameless,
)
from fewpass.pipeline.tables.readers.csv_numbers import CsvNumbers
from fewpass.pipeline.tables.readers.csv_quotes import NO_QUOTES, CsvText, Quotes, by_tabs
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.lines import (
    LineTooLong,
    QuoteLeftOpen,
    first_lines,
    first_of,
    opened_text,
    ranges_apart,
    ranges_of,
    spans_of,
    text_bytes,
)
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.pipeline.tables.readers.source import (
    Expected,
    Extent,
    NumberColumns,
    ParsedRows,
    Piece,
    PiecePlace,
    SourceSpan,
    TableCells,
    TableReader,
)
from fewpass.solvers.kernels.shapes import Bytes

#: Cells that a piece has at most, about.
_MOST_CELLS = 1 << 19
_QUOTES_ARE_TEXT = (
    "Some cells begin with a quote that does not end them, so quotes were read as part of the "
    "text. Say `quote=double` if they enclose cells."
)
_ADVICE = "Check the file and its delimiter (`delimiter`),"


class CsvRows(TableReader):
    """CSV files; see `TableReader` for the methods.

    Rows are counted from the first line on; blank lines are none.  A piece is text of whole rows.
    """

    extensions: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    piece_bytes = 2 << 20

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        first = addresses[0]
        self.files, self._addresses = described(addresses), tuple(addresses)
        self._options, self._longest = options, expected.longest_line
        self.head = first_lines(first, self._longest)
        head = self._head_of(self.head.bytes.tobytes(), first)
        self.has_header = has_header(head, options)
        spare = spare_cells(head) if self.has_header else 0
        names = without_nameless(head.names) if spare else head.names
        self.first_rows = head.rows[self.has_header :]
        self._is_padded = _are_padded(self.first_rows)
        self.names = tuple(names) if self.has_header else None
        self.types = ("text",) * len(names)
        self.n_cells, self.delimiter = len(names) + spare, head.delimiter
        self.nulls = _nulls_of(options, expected)
        self._as_they_are = frozenset(expected.passed)
        self._places: dict[str, tuple[int, ...]] = {}  # of columns; none: those of the first file
        self._padded: set[str] = set()  # other files with blanks around their cells
        seen = not first.quotes and options.quote != "none"
        self.decided = {"quote": "none"} if seen else {}
        self.notes = (_QUOTES_ARE_TEXT,) if seen else ()
        self._is_encoded = True
        self.plain: CsvNumbers | None = None  # the columns as plain numbers, where they are such

    def _head_of(self, text: bytes, address: Address) -> CsvHead:
        return head_of(text, address, self._options.delimiter)

    @property
    def quotes(self) -> bool:
        """Return whether double quotes enclose cells."""
        return self._addresses[0].quotes

    def expands_to(self) -> float:
        """Estimate the bytes of the text, as if all files were compressed like the first one."""
        return text_bytes(self._addresses, self._longest)

    def use_stored_types(self) -> None:
        self._is_encoded = False

    def as_numbers(self, columns: TableColumns, options: SourceOptions) -> NumberColumns:  # noqa: ARG002
        self.plain = CsvNumbers(self, columns)
        return NumberColumns(self.plain.types, self.plain.are_words)

    def plain_rows(self, piece: Piece, options: SourceOptions) -> ParsedRows | None:
        return None if self.plain is None else self.plain.rows_of(piece, options)

    def place_of(self, file: str, column: int) -> int:
        """Return where a column stands in the rows of a file."""
        places = self._places.get(file)
        return places[column] if places else column

    # -- pieces ----------------------------------------------------------------------------------

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        for file in range(len(self._addresses)):
            yield from self.pieces_of(SourceSpan(file), piece_bytes, used)

    def spans(self, piece_bytes: int) -> list[SourceSpan]:
        return spans_of(self._addresses, min(piece_bytes, self.piece_bytes))

    def ranges(self, piece_bytes: int) -> list[SourceSpan]:
        n_bytes = min(piece_bytes, self.piece_bytes)
        rows_begin = self._first_of(self._addresses[0]).begins[self.has_header]
        if rows_begin >= n_bytes:  # the first range has no row that the lines before are counted by
            return []
        return ranges_apart(self._addresses, n_bytes)

    def pieces_of(
        self,
        span: SourceSpan,
        piece_bytes: int,
        used: Sequence[int],  # noqa: ARG002
    ) -> Iterator[Piece]:
        address = self._addresses[span.file]
        if span.first and address.name not in self._places:
            self._begins(self._first_of(address), address.name)
        for number, row, text, begin in self._texts_of(span, min(piece_bytes, self.piece_bytes)):
            place, end = PiecePlace(number, span.file), begin + text.bytes.size
            extent = Extent(text.rows, begin, end)
            head = begin if number == 0 else 0  # of the file
            yield Piece(place, address.name, row, text, end - begin + head, extent)

    def _first_of(self, address: Address) -> CsvHead:
        return self._head_of(first_lines(address, self._longest).bytes.tobytes(), address)

    def _texts_of(self, span: SourceSpan, n_bytes: int) -> Iterator[tuple[int, int, CsvText, int]]:
        """Yield the pieces of a span: number, number of the first row, rows, where these begin."""
        address = self._addresses[span.file]
        quotes = Quotes(ord(self.delimiter)) if self.quotes and not address.spaced else NO_QUOTES
        row, most = 1 + span.lines, max(1, _MOST_CELLS // self.n_cells)
        with opened_text(address) as (stream, _):
            try:
                for number, at, text in ranges_of(
                    stream, address.name, n_bytes, self._longest, quotes, span
                ):
                    lines = by_tabs(text, address.quotes) if address.spaced else text
                    row, rows = (row, lines) if number else self._behind_head(lines, address)
                    begin = at + lines.size - rows.size
                    for k, part in enumerate(quotes.parts(rows, most)):
                        if part.rows:
                            yield number + k, row, part, begin
                        row, begin = row + part.rows, begin + part.bytes.size
            except QuoteLeftOpen as error:
                raise BadInput(
                    f"{address.name}, row {row}: a quoted cell does not end within the file. Close "
                    "it, double the quotes inside cells, or say `quote=none` if quotes are part of "
                    "the text."
                ) from error
            except LineTooLong as error:
                raise BadInput(
                    f"{address.name}, row {row}: the row is longer than the "
                    f"{format_bytes(*error.args)} that the memory has room for, or a quoted cell "
                    "in it does not end. Check its quotes (`quote`), write the rows as Parquet, or "
                    "give more (`memory`)."
                ) from error

    def _behind_head(self, text: Bytes, address: Address) -> tuple[int, Bytes]:
        """Return a file's first lines without its head, and the number of the first row there."""
        head = self._head_of(first_of(text).tobytes(), address)
        return head.before + self.has_header + 1, text[self._begins(head, address.name) :]

    def _begins(self, head: CsvHead, name: str) -> int:
        """Return where in a file its rows begin; note the order of its columns, and blanks."""
        places: tuple[int, ...] = ()
        if self.names is not None:
            cells = head.names
            if len(self.names) < self.n_cells:
                cells = without_nameless(cells)
            places = places_of(self.names, cells, name)
        self._places[name] = places
        if _are_padded(head.rows[self.has_header :]):
            self._padded.add(name)
        return head.begins[self.has_header]

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

    # -- cells -----------------------------------------------------------------------------------

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        from fewpass.pipeline.tables.encoding.cells import without  # noqa: PLC0415 - Arrow
        from fewpass.pipeline.tables.readers import csv_cells as arrow  # noqa: PLC0415 - Arrow

        layout = self._layout_of(piece.file, used)
        rows = arrow.cells_of(piece.content.bytes, layout, piece.first_line, piece.file)
        if self._is_looked_at:
            arrow.refuse_swallowed(piece.file, rows, self.delimiter, self.n_cells)
        columns = [rows.columns.column(f"c{self.place_of(piece.file, k)}") for k in used]
        pairs = zip(used, columns, strict=True)
        written = {k: one for k, one in pairs if self.names and self.names[k] in self._as_they_are}
        if self._is_padded or piece.file in self._padded or not self._is_encoded:
            columns = [arrow.trimmed(one, self.nulls) for one in columns]
        if layout.nulls != self.nulls:
            columns = [without(one, self.nulls) for one in columns]
        faults = tuple(
            (
                row,
                f"the row has {counted(n, 'cell')}, {self.n_cells} were expected: {shown(text)}",
                _ADVICE,
            )
            for row, n, text in rows.bad
        )
        return TableCells(tuple(columns), len(rows.rows), lambda: rows.rows, faults, written)


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
