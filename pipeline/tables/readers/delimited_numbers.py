"""Delimited text (CSV) as rows of plain numbers, parsed by a kernel: no cell becomes an object."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.readers import delimited_kernel as grammar
from fewpass.pipeline.tables.readers.as_written import in_text
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.delimited_header import MISSING, NUMBER
from fewpass.pipeline.tables.readers.delimited_kernel import (
    CellCounts,
    CellRules,
    CellSpace,
    parse_cells,
)
from fewpass.pipeline.tables.readers.dialect import Dialect, split_line
from fewpass.pipeline.tables.readers.exact import parse_exactly
from fewpass.pipeline.tables.readers.lines import WholeLines
from fewpass.pipeline.tables.readers.rejection import SKIP_ADVICE, refuse_or_list, shown
from fewpass.pipeline.tables.readers.source import LARGEST, LISTED, Parsed, Piece
from fewpass.solvers.kernels.dispatch import exactly
from fewpass.solvers.kernels.shapes import Bytes
from fewpass.storage.table import DenseTable

#: First rows, which decide whether labels are numbers or words.
_KIND_ROWS = 1000
#: A message shows less of an offending cell.
_CELL_BYTES = 200
_KINDS = {grammar.DROPPED: "any", grammar.TEXT_TARGET: "text"}


class Layout(NamedTuple):
    """How the lines of a file are made up."""

    dialect: Dialect
    columns: TableColumns
    roles: NDArray[np.int8]  # (columns,), see delimited_kernel
    order: NDArray[np.intp] | None  # (d,) which feature in the file each is; None: they ascend

    @classmethod
    def of(cls, dialect: Dialect, columns: TableColumns, roles: NDArray[np.int8]) -> Layout:
        """Return the layout of columns of these roles."""
        features = columns.features
        ascends = bool((np.diff(features) > 0).all())
        return cls(dialect, columns, roles, None if ascends else np.argsort(np.argsort(features)))

    def moved(self, places: tuple[int, ...]) -> Layout:
        """Return the layout of a file in which each column stands at another place."""
        names, roles = [""] * len(places), np.empty_like(self.roles)
        for name, place in zip(self.columns.names or (), places, strict=True):
            names[place] = name
        roles[list(places)] = self.roles
        label, weight = (
            None if k is None else places[k] for k in (self.columns.label, self.columns.weight)
        )
        features = tuple(places[k] for k in self.columns.features)
        columns = self.columns._replace(
            names=tuple(names), label=label, weight=weight, features=features
        )
        return Layout(self.dialect, columns, roles, np.argsort(np.argsort(features)))


class DelimitedNumbers:
    """The cells of CSV files as numbers; see `PlainNumbers` for the methods.

    A value is the double that Python's `float()` gives, rounded once more for float32 tables.
    Targets are numbers, or words if most of the first thousand are; then all of them are words.
    A quoted cell may not contain a line end.

    Parameters
    ----------
    columns
        What is read.
    dialect, first
        How lines fall into cells, and the first rows of the file `name`.
    places
        By file, where its columns are; none of files with the columns of the first one in order.
    """

    def __init__(
        self,
        columns: TableColumns,
        dialect: Dialect,
        first: WholeLines,
        name: str,
        places: dict[str, tuple[int, ...]],
    ) -> None:
        self._places = places
        self._layout = Layout.of(dialect, columns, _roles(columns, first, dialect, name))
        self.types = [_KINDS.get(role, "number") for role in self._layout.roles.tolist()]

    def layout_of(self, piece: Piece) -> Layout:
        """Return how the lines of a piece are made up."""
        places = self._places.get(piece.file)
        return self._layout.moved(places) if places else self._layout

    def parse(self, piece: Piece, options: SourceOptions) -> Parsed:
        layout, text = self.layout_of(piece), piece.content
        rules = CellRules(
            *layout.dialect.marks,
            options.missing == "zero",
            not options.label_required,
            options.on_bad_row == "refuse",
            LARGEST[options.dtype],
        )
        space, counts = parsed_into_space(text, layout, rules, options.dtype)
        faults = (
            _explain(piece, fault, layout, options) for fault in space.bad[: counts.bad].tolist()
        )
        skipped = refuse_or_list(faults, piece.file, options.on_bad_row)
        table, labels = table_of(space, counts, layout)
        last = len(layout.columns.features) - 1
        written = in_text(text.bytes, space.written[: counts.rows], _ends_of_cells(layout.dialect))
        return Parsed(table, labels, last, skipped, counts.bad, written=written)


def _roles(
    columns: TableColumns, rows: WholeLines, dialect: Dialect, name: str
) -> NDArray[np.int8]:
    roles = np.full(columns.n_columns, grammar.DROPPED, np.int8)
    roles[list(columns.features)] = grammar.FEATURE
    if columns.weight is not None:
        roles[columns.weight] = grammar.WEIGHT
    if columns.label is not None:
        words = _mostly_words(rows, columns.label, dialect, name)
        roles[columns.label] = grammar.TEXT_TARGET if words else grammar.TARGET
    return roles


def _mostly_words(rows: WholeLines, column: int, dialect: Dialect, name: str) -> bool:
    """Whether most cells of a column, among the first rows, are neither numbers nor missing."""
    are_words, start = [], 0
    ends = np.flatnonzero(rows.bytes == ord("\n"))[:_KIND_ROWS]
    for end in ends.tolist():
        line = rows.bytes[start:end].tobytes().decode("utf-8", "replace")
        cells = split_line(line, dialect, name)
        start = end + 1
        if column < len(cells) and cells[column].lower() not in MISSING:
            are_words.append(NUMBER.fullmatch(cells[column]) is None)
    return sum(are_words) > len(are_words) / 2


def _ends_of_cells(dialect: Dialect) -> re.Pattern[bytes]:
    """Return what may stand behind a number."""
    return re.compile(rb'[\s"' + re.escape(dialect.delimiter.encode()) + rb"]")


def parsed_into_space(
    text: WholeLines, layout: Layout, rules: CellRules, dtype: str
) -> tuple[CellSpace, CellCounts]:
    """Parse whole lines into space of their own."""
    space = _reserve(text, layout, dtype)
    parse = exactly(parse_cells, text.bytes.size)
    counts = parse_exactly(
        text.bytes,
        lambda rounded, hard: parse(text.bytes, layout.roles, rules, space, rounded, hard),
    )
    return space, counts


def _reserve(text: WholeLines, layout: Layout, dtype: str) -> CellSpace:
    has_words = grammar.TEXT_TARGET in layout.roles
    # A whole row has a byte per column at least; the last one is scratch.
    rows = min(text.lines, text.bytes.size // layout.columns.n_columns) + 1
    return CellSpace(
        np.empty((rows, len(layout.columns.features)), dtype),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(text.bytes.size if has_words else 0, np.uint8),
        np.empty(rows + 1, np.int32),
        np.empty((LISTED, 4), np.int64),
    )


def table_of(
    space: CellSpace, counts: CellCounts, layout: Layout
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
    import pyarrow as pa  # noqa: PLC0415 - where labels are words

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
    """Line, fact and advice for a row of `CellSpace.bad`."""
    code, at, line, column = fault
    text: Bytes = piece.content.bytes
    cell = shown(_content(text, at, layout.dialect.delimiter))
    fact, advice = _describe(code, column, cell, layout, options)
    if code in {grammar.TOO_FEW_CELLS, grammar.TOO_MANY_CELLS}:
        lines = text.tobytes().split(b"\n", line + 1)
        bad = lines[line].decode("utf-8", "replace")
        cells = split_line(bad, layout.dialect, piece.file)
        fact = (
            f"the row has {counted(len(cells), 'cell')}, {layout.columns.n_columns} were expected"
        )
    if piece.first_line + line == 1:  # no header was seen
        advice = f"If this line names the columns, say so (`header=true`). {advice}"
    return piece.first_line + line, fact, f"{advice} {SKIP_ADVICE}"


def _content(text: Bytes, at: int, delimiter: str) -> bytes:
    begin = text[at : at + _CELL_BYTES].tobytes()
    return begin.split(b"\n")[0].split(delimiter.encode())[0].strip()


def _describe(
    code: int, column: int, cell: str, layout: Layout, options: SourceOptions
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
        grammar.MISSING: (f"the value in {title} is missing (found {cell})", fill),
        grammar.NOT_A_NUMBER: (f"{title} holds {cell}, a number was expected", correct),
        grammar.NOT_FINITE: (
            f"{title} holds {cell}, not finite in {options.dtype}, or too large to square",
            "Correct it,",
        ),
        grammar.NEGATIVE_WEIGHT: (f"the weight in {title} is negative ({cell})", "Correct it,"),
        grammar.OPEN_QUOTE: (f"a quoted cell in {title} does not end on its line", whole_lines),
        grammar.BEHIND_QUOTE: (f"text follows the closing quote in {title}", "Quote all of it,"),
        grammar.TOO_FEW_CELLS: ("the row has too few cells", other),
        grammar.TOO_MANY_CELLS: ("the row has too many cells", other),
    }[code]
