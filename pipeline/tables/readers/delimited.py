"""Delimited text (CSV) to dense tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import delimited_kernel as grammar
from fewpass.pipeline.tables.readers.as_written import in_text
from fewpass.pipeline.tables.readers.delimited_kernel import Counts, Rules, Space, parse_cells
from fewpass.pipeline.tables.readers.delimited_layout import (
    Layout,
    like_header,
    study,
    types_of,
    without_comments,
    without_header,
)
from fewpass.pipeline.tables.readers.dialect import Dialect, split_line
from fewpass.pipeline.tables.readers.exact import parse_exactly
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.lines import Text, first_lines, sample, text_pieces
from fewpass.pipeline.tables.readers.rejection import SKIP_ADVICE, refuse_or_list, shown
from fewpass.pipeline.tables.readers.source import LARGEST, LISTED, Expected, Parsed, Piece
from fewpass.pipeline.tables.readers.stray_quotes import sentences, told
from fewpass.solvers.kernels.shapes import Bytes
from fewpass.storage.column_schema import Schema
from fewpass.storage.table import DenseTable, n_bytes

#: A message shows less of an offending cell.
_CELL_BYTES = 200


class DelimitedSource:
    """CSV files as dense rows; see `Source` for the methods.

    A value is the double that Python's `float()` gives, rounded once more for float32 tables.
    Targets are numbers, or words if most of the first thousand are; then all of them are words.
    A quoted cell may not contain a line end.
    """

    extensions: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""
    packed: ClassVar[bool] = False
    layout: Literal["dense", "sparse"] = "dense"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._options = options
        self._longest_line = expected.longest_line
        head = first_lines(addresses[0], self._longest_line)
        head = without_comments(head, addresses[0].name)
        self._layout = study(head, addresses[0], options, expected)
        self._layouts: dict[str, Layout] = {}  # of files whose columns come in another order
        columns = self._layout.columns
        self.n_features: int | None = len(columns.features)
        reading = {"reading": told(addresses[0], options)}
        own = columns.schema(types_of(self._layout))
        self.schema: Schema | None = own.model_copy(update=reading)
        self.notes = sentences(addresses[0], options)
        self.left_out = columns.left_out
        self.has_weight = columns.weight is not None

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from the first file's first lines."""
        head, whole = sample(self._addresses[0], self._longest_line)
        rows = without_comments(head, self.files[0].name)
        text = without_header(rows) if self._layout.has_header else rows
        piece = Piece(self.files[0].name, 1, text, text.bytes.size)
        lenient = self._options.model_copy(update={"on_bad_row": "skip"})
        per_byte = n_bytes(_parse(piece, self._layout, lenient).table) / head.bytes.size
        stored = sum(file.bytes or 0 for file in self.files)
        return int(per_byte * whole * stored / max(1, self.files[0].bytes or 0))

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Pieces of whole lines, without the header."""
        for address in self._addresses:
            line = 1
            for text in text_pieces(address, piece_bytes, self._longest_line):
                content = text
                if line == 1:
                    content = without_comments(text, address.name)
                    if self._layout.has_header:
                        self._layouts[address.name] = like_header(content, self._layout, address)
                        content = without_header(content)
                first = line + text.lines - content.lines
                yield Piece(address.name, first, content, text.bytes.size)
                line += text.lines

    def parse(self, piece: Piece) -> Parsed:
        """Rows of one piece."""
        return _parse(piece, self.layout_of(piece), self._options)

    def layout_of(self, piece: Piece) -> Layout:
        """Return how the lines of a piece are made up."""
        return self._layouts.get(piece.file, self._layout)


def _parse(piece: Piece, layout: Layout, options: SourceOptions) -> Parsed:
    text: Text = piece.content
    rules = Rules(
        *layout.dialect.marks,
        options.missing == "zero",
        not options.label_required,
        options.on_bad_row == "refuse",
        LARGEST[options.dtype],
    )
    space, counts = parsed_into_space(text, layout, rules, options.dtype)
    faults = (_explain(piece, fault, layout, options) for fault in space.bad[: counts.bad].tolist())
    skipped = refuse_or_list(faults, piece.file, options.on_bad_row)
    table, labels = table_of(space, counts, layout)
    last = len(layout.columns.features) - 1
    written = in_text(text.bytes, space.written[: counts.rows], _ends_of_cells(layout.dialect))
    return Parsed(table, labels, last, skipped, counts.bad, written=written)


def _ends_of_cells(dialect: Dialect) -> re.Pattern[bytes]:
    """Return what may stand behind a number."""
    return re.compile(rb'[\s"' + re.escape(dialect.delimiter.encode()) + rb"]")


def parsed_into_space(text: Text, layout: Layout, rules: Rules, dtype: str) -> tuple[Space, Counts]:
    """Parse whole lines into space of their own."""
    space = _reserve(text, layout, dtype)
    counts = parse_exactly(
        text.bytes,
        lambda known, hard: parse_cells(text.bytes, layout.roles, rules, space, known, hard),
    )
    return space, counts


def _reserve(text: Text, layout: Layout, dtype: str) -> Space:
    has_words = grammar.TEXT_TARGET in layout.roles
    # A whole row has a byte per column at least; the last one is scratch.
    rows = min(text.lines, text.bytes.size // layout.columns.n_columns) + 1
    return Space(
        np.empty((rows, len(layout.columns.features)), dtype),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(text.bytes.size if has_words else 0, np.uint8),
        np.empty(rows + 1, np.int32),
        np.empty((LISTED, 4), np.int64),
    )


def table_of(
    space: Space, counts: Counts, layout: Layout
) -> tuple[DenseTable, tuple[str, ...] | None]:
    """Return what was parsed as a table, and the labels that are words."""
    n = counts.rows
    weight = None if layout.columns.weight is None else space.weight[:n]
    target, labels = space.target[:n], None
    if grammar.TEXT_TARGET in layout.roles:
        target, labels = encode(space.label_bytes, space.label_ends[: n + 1])
    X = space.X[:n] if layout.order is None else space.X[:n, layout.order]
    return DenseTable(np.ascontiguousarray(X), target, weight), labels


def encode(content: Bytes, ends: NDArray[np.int32]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Codes of words that lie one after the other, and the words; an empty word is NaN."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(content)]
    words = pa.Array.from_buffers(pa.binary(), ends.size - 1, buffers).dictionary_encode()
    labels = [word.decode("utf-8", "backslashreplace") for word in words.dictionary.to_pylist()]
    codes = words.indices.to_numpy().astype(np.float64)
    if "" in labels:
        return _without_empty(codes, labels)
    return codes, tuple(labels)


def _without_empty(
    codes: NDArray[np.float64], labels: list[str]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    empty = labels.index("")
    codes = np.where(codes == empty, np.nan, codes - (codes > empty))
    return codes, tuple(label for label in labels if label)


def _explain(
    piece: Piece, fault: list[int], layout: Layout, options: SourceOptions
) -> tuple[int, str, str]:
    """Line, fact and advice for a row of `Space.bad`."""
    code, at, line, column = fault
    text: Bytes = piece.content.bytes
    found = shown(_content(text, at, layout.dialect.delimiter))
    fact, advice = _describe(code, column, found, layout, options)
    if code in {grammar.TOO_FEW_CELLS, grammar.TOO_MANY_CELLS}:
        lines = text.tobytes().split(b"\n", line + 1)
        bad = lines[line].decode("utf-8", "replace")
        cells = split_line(bad, layout.dialect, piece.file)
        fact = f"the row has {len(cells)} cells, {layout.columns.n_columns} were expected"
    if piece.first_line + line == 1:  # no header was seen
        advice = f"If this line names the columns, say so (`header=true`). {advice}"
    return piece.first_line + line, fact, f"{advice} {SKIP_ADVICE}"


def _content(text: Bytes, at: int, delimiter: str) -> bytes:
    begin = text[at : at + _CELL_BYTES].tobytes()
    return begin.split(b"\n")[0].split(delimiter.encode())[0].strip()


def _describe(
    code: int, column: int, found: str, layout: Layout, options: SourceOptions
) -> tuple[str, str]:
    """Fact and advice for one fault in one column."""
    title, drop = layout.columns.title(column), layout.columns.advice(column)
    is_feature = layout.roles[column] == grammar.FEATURE
    fill = "Count missing values as zeros (`missing=zero`)," if is_feature else "Fill it in,"
    encode_it = f"Leave the column out ({drop}) or encode it as numbers,"
    correct = encode_it if is_feature else "Correct it, or check `label` and `weight`,"
    other = "Check the file and its delimiter (`delimiter`),"
    whole_lines = (
        "Write quoted cells without line ends, or say that quotes are part of the text "
        "(`quote=none`), or convert the file to Parquet,"
    )
    return {
        grammar.MISSING: (f"the value in {title} is missing (found {found})", fill),
        grammar.NOT_A_NUMBER: (f"{title} holds {found}, a number was expected", correct),
        grammar.NOT_FINITE: (
            f"{title} holds {found}, not finite in {options.dtype}, or too large to square",
            "Correct it,",
        ),
        grammar.NEGATIVE_WEIGHT: (f"the weight in {title} is negative ({found})", "Correct it,"),
        grammar.OPEN_QUOTE: (f"a quoted cell in {title} does not end on its line", whole_lines),
        grammar.BEHIND_QUOTE: (f"text follows the closing quote in {title}", "Quote all of it,"),
        grammar.TOO_FEW_CELLS: ("the row has too few cells", other),
        grammar.TOO_MANY_CELLS: ("the row has too many cells", other),
    }[code]
