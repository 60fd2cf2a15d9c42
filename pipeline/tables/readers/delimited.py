"""Delimited text (CSV): rows of text cells, or of plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from itertools import zip_longest
from typing import Any, ClassVar, Literal

import numpy as np

from fewpass.pipeline.decimal_text import NULL_VALUES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.readers.charsets import charset_of
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.delimited_header import (
    dialect_of,
    names_columns,
    places_of,
    without_comments,
)
from fewpass.pipeline.tables.readers.delimited_numbers import DelimitedNumbers
from fewpass.pipeline.tables.readers.dialect import CellLayout, Dialect, split_line
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.lines import WholeLines, first_lines, text_bytes, text_pieces
from fewpass.pipeline.tables.readers.quoted_rows import (
    first_row,
    rows_in,
    whole_rows,
    without_returns,
)
from fewpass.pipeline.tables.readers.source import Expected, Piece, TableCells
from fewpass.pipeline.tables.readers.stray_quotes import reading_of, refuse_stray, sentences

#: Fact and advice for a row with a bare return.
_BROKEN = ("a carriage return stands in a cell without quotes", "Quote such cells,")
#: Rows that tell whether the first one is a header.
_HEAD_ROWS, _HEAD_BYTES = 100, 1 << 16


class DelimitedRows:
    """CSV files; see `TableRows` for the methods.

    Cells are text, in UTF-8 or, where the first lines are not that and no charset is named, in
    Windows-1252; or plain numbers, of which every line is a row, whatever is quoted.
    """

    extensions: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""
    packed: ClassVar[bool] = False
    unit: ClassVar[Literal["line", "row"]] = "line"
    has_folders: ClassVar[bool] = False
    n_rows: int | None = None
    index: ClassVar[tuple[str, ...]] = ()
    nulls: tuple[str, ...]

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._longest_line, self._plain = expected.longest_line, expected.plain
        head = self._head(options, expected)
        self.nulls = _nulls_of(options, expected)
        self._as_they_are = frozenset(expected.passed)
        self._dialect = dialect_of(head, addresses[0], options)
        self._of_rows = self._dialect._replace(quotes=False) if expected.plain else self._dialect
        self._looks_at_quotes = options.quote == "auto" and not addresses[0].spaced
        self.decided: dict[str, Any] = reading_of(addresses[0], options)
        self.notes = sentences(addresses[0], options)
        row, rest = first_row(head, self._of_rows)
        cells = self._split(row)
        self._has_header = options.header
        if options.header is None:
            self._has_header = names_columns(cells) and not self._come_again(cells, rest)
        self._first = rest if self._has_header else head
        self._is_padded = _is_padded(rest, self._dialect.delimiter)
        spare = 0
        if self._has_header and not expected.plain:
            spare = _spare_cells(rest, self._dialect, cells)
        cells = _without_nameless(cells) if spare else cells
        self._n_cells = len(cells) + spare
        self.names = tuple(cells) if self._has_header else None
        self.types = ("text",) * len(cells)
        self._places: dict[str, tuple[int, ...]] = {}  # of columns in files of another order

    def _head(self, options: SourceOptions, expected: Expected) -> WholeLines:
        """Return the first lines, without comments, once their charset is known."""
        first, longest = self._addresses[0], self._longest_line
        head = first_lines(first, longest)
        if expected.plain:
            return without_comments(head, first.name)
        if options.charset is None and (charset := charset_of(head.bytes.tobytes())):
            self._addresses = tuple(one._replace(charset=charset) for one in self._addresses)
            head = first_lines(self._addresses[0], longest)
        _require_text(head, first.name)
        return without_comments(head, first.name)

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds of columns that the files tell: none."""
        return {}

    def _split(self, row: str) -> list[str]:
        return split_line(row, self._dialect, self.files[0].name)

    def _come_again(self, cells: list[str], rows: WholeLines) -> bool:
        """Say whether most cells of the first row are values that their columns have later, too."""
        lines = rows.bytes[:_HEAD_BYTES].tobytes().decode("utf-8", "replace").splitlines()
        later = [set(column) for column in zip_longest(*map(self._split, lines[:_HEAD_ROWS]))]
        again = [cell in column for cell, column in zip(cells, later, strict=False)]
        return sum(again) > len(cells) / 2

    def expands_to(self) -> float:
        """Estimate the bytes of the text, as if all files were compressed like the first one."""
        return text_bytes(self._addresses, self._longest_line)

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        cells = 0 if self._plain else len(used)
        for address in self._addresses:
            line = 1
            texts = text_pieces(address, piece_bytes, self._longest_line, cells)
            for text in whole_rows(texts, self._of_rows, self._longest_line, address.name):
                content = without_comments(text, address.name) if line == 1 else text
                if line == 1 and self._has_header:
                    content = self._without_header(content, address.name)
                first = line + text.lines - content.lines
                yield Piece(address.name, first, content, text.bytes.size)
                line += text.lines

    def _without_header(self, text: WholeLines, name: str) -> WholeLines:
        row, rest = first_row(text, self._of_rows)
        assert self.names is not None, "the first file has a header"
        cells = self._split(row)
        if len(self.names) < self._n_cells:
            cells = _without_nameless(cells)
        if places := places_of(self.names, cells, name):
            self._places[name] = places
        return rest

    def numbers(self, columns: TableColumns, _options: SourceOptions) -> DelimitedNumbers:
        first = self.files[0].name
        return DelimitedNumbers(columns, self._dialect, self._first, first, self._places)

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        from fewpass.pipeline.tables.encoding.cells import without  # noqa: PLC0415 - Arrow
        from fewpass.pipeline.tables.readers import delimited_cells as cells_of  # noqa: PLC0415 - Arrow

        whole = piece
        text, broken = without_returns(piece.content, self._dialect)
        piece = piece._replace(content=text)
        skipped: list[Any] = []

        def skip(row: Any) -> str:
            skipped.append(row)
            return "skip"

        raw = [k for k in used if self.names and self.names[k] in self._as_they_are]
        layout = self._layout_of(piece, used)
        if raw:
            layout = layout._replace(nulls=("",))
        table = cells_of.read(piece, layout, skip) if text.lines else None
        if table is None:
            table = cells_of.no_rows(len(used))
        if self._looks_at_quotes and table.num_rows + len(skipped) < text.lines:
            refuse_stray(whole, self._dialect, self._n_cells)  # some rows take several lines
        columns = tuple(column.combine_chunks() for column in table.columns)
        if self._is_padded:
            columns = tuple(cells_of.trimmed(column, layout.nulls) for column in columns)
        if raw:
            columns = tuple(
                cells if k in raw else without(cells, self.nulls)
                for k, cells in zip(used, columns, strict=True)
            )
        faults = tuple(self._faults(piece)) if skipped else ()
        _require_all(piece, skipped, faults)
        faults += tuple((piece.first_line + int(line), *_BROKEN) for line in broken)

        def lines() -> Any:
            rows = rows_in(text, self._dialect)
            return piece.first_line + rows.lines[rows.cells == self._n_cells]

        return TableCells(columns, table.num_rows, lines, faults)

    def _layout_of(self, piece: Piece, used: Sequence[int]) -> CellLayout:
        """Return where the columns `used` stand in the lines of a piece."""
        places = self._places.get(piece.file)
        wanted = [places[k] if places else k for k in used]
        return CellLayout(self._dialect, self._n_cells, wanted, self.nulls)

    def _faults(self, piece: Piece) -> Iterator[tuple[int, str, str]]:
        rows, expected = rows_in(piece.content, self._dialect), self._n_cells
        advice = "Check the file and its delimiter (`delimiter`),"
        for k in np.flatnonzero(rows.cells != expected).tolist():
            fact = f"the row has {counted(rows.cells[k], 'cell')}, {expected} were expected"
            yield piece.first_line + int(rows.lines[k]), fact, advice


def _nulls_of(options: SourceOptions, expected: Expected) -> tuple[str, ...]:
    """Return the words that are read as missing cells, as a recipe or options have them."""
    from fewpass.pipeline.tables.encoding.schema import recipe_in  # noqa: PLC0415 - Arrow

    recipe = recipe_in(expected.schema)
    given = options.null_values if recipe is None else recipe.null_values
    return ("", *(NULL_VALUES if given is None else given))


def _require_all(piece: Piece, skipped: Sized, faults: Sized) -> None:
    """Refuse to go on where rows would be lost: Arrow saw others than were counted."""
    if len(skipped) != len(faults):
        raise BadInput(
            f"{piece.file}, from line {piece.first_line} on: {len(skipped)} rows have another "
            f"number of cells to one reader, {len(faults)} to another. Check quotes and line ends."
        )


def _spare_cells(rows: WholeLines, dialect: Dialect, header: list[str]) -> int:
    """Return how many cells each of the first rows has, all empty, behind those that have names."""
    named, counts = len(_without_nameless(header)), rows_in(rows, dialect).cells
    spare = int(counts[0]) - named if counts.size else 0
    if not named or spare < 1 or len(header) not in (named, named + spare):
        return 0
    text = rows.bytes.tobytes().replace(b"\r\n", b"\n")
    ends = text.count(f"{dialect.delimiter * spare}\n".encode())
    return spare if (counts == counts[0]).all() and ends == counts.size else 0


def _without_nameless(header: list[str]) -> list[str]:
    """Return a header without the cells at its end that are empty."""
    last = max((k for k, name in enumerate(header) if name), default=-1)
    return header[: last + 1]


def _is_padded(rows: WholeLines, delimiter: str) -> bool:
    """Say whether spaces stand around most cells of the first rows, as in "1, yes, 2"."""
    line = rows.bytes.tobytes().partition(b"\n")[0]
    cells = line.split(delimiter.encode())
    return sum(cell != cell.strip(b" \r") for cell in cells) > len(cells) / 2


def _require_text(head: WholeLines, name: str) -> None:
    if b"\x00" in head.bytes[:1000].tobytes():
        raise BadInput(
            f"{name}: the text holds zero bytes. If it is UTF-16 without a mark, say which "
            "(`charset=utf-16-le`)."
        )
