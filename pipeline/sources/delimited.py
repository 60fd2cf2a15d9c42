"""Delimited text (CSV) to dense tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.encoding.inference import has_outliers, held_in
from pipeline.errors import BadInput
from pipeline.settings.source_options import SourceOptions
from pipeline.sources import delimited_kernel as grammar
from pipeline.sources.columns import Columns, choose
from pipeline.sources.decimals import Bytes
from pipeline.sources.delimited_kernel import Counts, Rules, Space, parse_cells
from pipeline.sources.exact import parse_exactly
from pipeline.sources.rejection import SKIP_ADVICE, refuse_or_list, shown
from pipeline.sources.source import LISTED, Expected, Parsed, Piece
from pipeline.sources.streams import Address, Text, described, first_lines, sample, text_pieces
from storage.schema import Schema
from storage.table import DenseTable, n_bytes

_DELIMITERS = ",;|\t"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_BEFORE_A_TABLE = b"#\r\n"  # lines that begin so
MISSING = {"", *(word.decode() for word in grammar.MISSING_WORDS)}
#: A message shows less of an offending cell.
_CELL_BYTES = 200
#: Rows from which the kind of the labels, numbers or words, is told.
_KIND_ROWS = 1000
#: Read at a time, and in all, to see whether there is more than numbers.
_LOOK_BYTES, _SAMPLE_BYTES = 1 << 20, 64 << 20
#: Faults of cells that are no usual numbers.
_NO_NUMBERS = {
    grammar.MISSING, grammar.NOT_A_NUMBER, grammar.NOT_FINITE, grammar.OPEN_QUOTE,
    grammar.BEHIND_QUOTE,
}  # fmt: skip


class Layout(NamedTuple):
    """How the lines of a source are made up; the same for all its files."""

    delimiter: str
    has_header: bool
    columns: Columns
    roles: NDArray[np.int8]  # (columns,), see delimited_kernel
    order: NDArray[np.intp] | None  # (d,) which feature in the file each is; None: they ascend


class DelimitedSource:
    """CSV files as dense rows; see `Source` for the methods.

    A value is the double that Python's `float()` gives, rounded once more for float32 tables.
    Targets are numbers, or words if most of the first thousand are; then all of them are words.
    A quoted cell may not contain a line end.
    """

    extensions: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    magic: ClassVar[bytes] = b""
    packed: ClassVar[bool] = False
    layout: Literal["dense", "sparse"] = "dense"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._options = options
        self._longest_line = expected.longest_line
        head = without_comments(first_lines(addresses[0], self._longest_line))
        self._layout = _study(head, addresses[0], options, expected)
        self._layouts: dict[str, Layout] = {}  # of files whose columns come in another order
        columns = self._layout.columns
        self.n_features: int | None = len(columns.features)
        self.schema: Schema | None = columns.schema(_types(self._layout))
        self.left_out = columns.left_out
        self.has_weight = columns.weight is not None

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from the first file's first lines."""
        head, whole = sample(self._addresses[0], self._longest_line)
        rows = without_comments(head)
        text = _without_header(rows) if self._layout.has_header else rows
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
                    content = without_comments(text)
                    if self._layout.has_header:
                        self._layouts[address.name] = _like_header(content, self._layout, address)
                        content = _without_header(content)
                first = line + text.lines - content.lines
                yield Piece(address.name, first, content, text.bytes.size)
                line += text.lines

    def parse(self, piece: Piece) -> Parsed:
        """Rows of one piece."""
        return _parse(piece, self._layout_of(piece), self._options)

    def _layout_of(self, piece: Piece) -> Layout:
        return self._layouts.get(piece.file, self._layout)

    def is_plain(self) -> bool:
        """Whether the first rows are nothing but usual numbers, and then for long none is missing.

        Usual: no words in place of them, no quotes that go on, none far from all others.
        """
        read = 0
        for piece in self.pieces(_LOOK_BYTES):
            faults, X = _faults_of_features(piece.content, self._layout_of(piece), self._options)
            if faults & (_NO_NUMBERS if read == 0 else {grammar.MISSING}):
                return False
            if read == 0 and not self._are_usual(piece, X):
                return False
            read += piece.n_bytes
            if read >= _SAMPLE_BYTES:
                break
        return True

    def _are_usual(self, piece: Piece, X: NDArray[np.floating]) -> bool:
        """Whether the numbers (n, d) of a piece, and its targets, need no other reader.

        Where no row is left, that one can tell why.
        """
        if not len(X) or any(has_outliers(column.astype(np.float64)) for column in X.T):
            return False
        return not _has_other_numbers(piece.content, self._layout_of(piece), self._options)


def _first_line(text: Text) -> str:
    end = int(np.argmax(text.bytes == ord("\n")))
    return text.bytes[:end].tobytes().decode("utf-8", "backslashreplace").rstrip("\r")


def _without_header(text: Text) -> Text:
    end = int(np.argmax(text.bytes == ord("\n")))
    return Text(text.bytes[end + 1 :], text.lines - 1)


def split_line(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, quotes and blanks around them taken off."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error as error:
        if "\r" in line:
            raise BadInput(
                f"A line that begins with {shown(line)} holds carriage returns alone, which end no "
                "line. Write line feeds, for example by tr '\\r' '\\n'."
            ) from error
        raise BadInput(
            f"A line that begins with {shown(line)} cannot be taken apart ({error}). "
            "Check the file and its delimiter (`delimiter`)."
        ) from error


def _study(text: Text, address: Address, options: SourceOptions, expected: Expected) -> Layout:
    """Delimiter, header and columns, from the first lines of the first file."""
    line = _first_line(text)
    delimiter = options.delimiter or find_delimiter(line, address.extension)
    cells = split_line(line, delimiter)
    has_header = names_columns(cells) if options.header is None else options.header
    names = cells if has_header else None
    columns = choose(names, len(cells), options, address.name, expected)
    rows = _without_header(text) if has_header else text
    roles, order = _roles(columns, rows, delimiter), np.argsort(np.argsort(columns.features))
    ascends = bool((np.diff(columns.features) > 0).all())
    return Layout(delimiter, has_header, columns, roles, None if ascends else order)


def _types(layout: Layout) -> list[str]:
    """Say what the cells of every column are read as; those that are dropped may be anything."""
    kinds = {grammar.DROPPED: "any", grammar.TEXT_TARGET: "text"}
    return [kinds.get(role, "number") for role in layout.roles.tolist()]


def find_delimiter(line: str, extension: str) -> str:
    """Return what most likely stands between the cells of a line."""
    return "\t" if extension == ".tsv" else max(_DELIMITERS, key=line.count)


def names_columns(cells: list[str]) -> bool:
    """Say whether a first line is a header: words, and no number."""
    words = [cell for cell in cells if cell.lower() not in MISSING]
    return bool(words) and not any(_NUMBER.fullmatch(cell) for cell in words)


def _roles(columns: Columns, rows: Text, delimiter: str) -> NDArray[np.int8]:
    roles = np.full(columns.n_columns, grammar.DROPPED, np.int8)
    roles[list(columns.features)] = grammar.FEATURE
    if columns.weight is not None:
        roles[columns.weight] = grammar.WEIGHT
    if columns.label is not None:
        words = _mostly_words(rows, columns.label, delimiter)
        roles[columns.label] = grammar.TEXT_TARGET if words else grammar.TARGET
    return roles


def _mostly_words(rows: Text, column: int, delimiter: str) -> bool:
    """Whether most cells of a column, among the first rows, are neither numbers nor missing."""
    found, start = [], 0
    ends = np.flatnonzero(rows.bytes == ord("\n"))[:_KIND_ROWS]
    for end in ends.tolist():
        cells = split_line(rows.bytes[start:end].tobytes().decode("utf-8", "replace"), delimiter)
        start = end + 1
        if column < len(cells) and cells[column].lower() not in MISSING:
            found.append(_NUMBER.fullmatch(cells[column]) is None)
    return sum(found) > len(found) / 2


def _like_header(text: Text, layout: Layout, address: Address) -> Layout:
    """Return the layout of a file whose columns may come in another order than the first's."""
    cells = split_line(_first_line(text), layout.delimiter)
    known = layout.columns.names
    assert known is not None, "the first file has a header"
    places = places_of(known, cells, address.name)
    if places is None:
        return layout
    columns, features = layout.columns, tuple(places[k] for k in layout.columns.features)
    label, weight = (None if k is None else places[k] for k in (columns.label, columns.weight))
    columns = columns._replace(names=tuple(cells), label=label, weight=weight, features=features)
    roles = np.empty_like(layout.roles)
    roles[list(places)] = layout.roles
    return layout._replace(columns=columns, roles=roles, order=np.argsort(np.argsort(features)))


def places_of(known: Sequence[str], found: Sequence[str], name: str) -> tuple[int, ...] | None:
    """Return where each known column is in another file; None where they come in the same order.

    Raises BadInput when the file has other columns.
    """
    if tuple(found) == tuple(known):
        return None
    if sorted(found) != sorted(known) or len(set(known)) < len(known):
        raise BadInput(
            f"{name}: the header differs from the first file's: found {shown(','.join(found))}. "
            "Read files with the same columns together."
        )
    return tuple(list(found).index(column) for column in known)


def without_comments(text: Text) -> Text:
    """Return text without the lines before the table that begin with #.

    The last of them names the columns, and stays, where it has as many cells as the line after it.
    Empty lines before the table go, too.
    """
    starts, start = [], 0
    while start < text.bytes.size and text.bytes[start] in _BEFORE_A_TABLE:
        starts.append(start)
        start += int(np.argmax(text.bytes[start:] == ord("\n"))) + 1
    if not starts or start == text.bytes.size:
        return text
    line = _first_line(Text(text.bytes[start:], 0))
    delimiter = find_delimiter(line, "")
    last = _first_line(Text(text.bytes[starts[-1] :], 0))
    if len(split_line(last, delimiter)) == len(split_line(line, delimiter)) > 1:
        start = starts.pop()
    return Text(text.bytes[start:], text.lines - len(starts))


def _parse(piece: Piece, layout: Layout, options: SourceOptions) -> Parsed:
    text: Text = piece.content
    rules = Rules(
        ord(layout.delimiter),
        options.missing == "zero",
        not options.label_required,
        options.on_bad_row == "refuse",
    )
    space, counts = _filled(text, layout, rules, options.dtype)
    faults = (_explain(piece, fault, layout, options) for fault in space.bad[: counts.bad].tolist())
    skipped = refuse_or_list(faults, piece.file, options.on_bad_row)
    table, labels = _table(space, counts, layout)
    return Parsed(table, labels, len(layout.columns.features) - 1, skipped, counts.bad)


def _faults_of_features(
    text: Text, layout: Layout, options: SourceOptions
) -> tuple[set[int], NDArray[np.floating]]:
    """Return what is wrong with cells of features in the first bad rows, and the good rows."""
    rules = Rules(ord(layout.delimiter), False, not options.label_required, False)
    space, counts = _filled(text, layout, rules, options.dtype)
    bad = space.bad[: min(counts.bad, LISTED)]
    of_features = layout.roles[bad[:, 3]] == grammar.FEATURE
    return set(bad[of_features, 0].tolist()), space.X[: counts.rows]


def _has_other_numbers(text: Text, layout: Layout, options: SourceOptions) -> bool:
    """Say whether targets that are no usual numbers are numbers after all, such as 1,5."""
    if grammar.TEXT_TARGET not in layout.roles:
        return False
    rules = Rules(ord(layout.delimiter), False, True, False)
    _, labels = _table(*_filled(text, layout, rules, options.dtype), layout)
    return bool(labels) and held_in("target", pa.array(labels, pa.large_string())).kind == "number"


def _filled(text: Text, layout: Layout, rules: Rules, dtype: str) -> tuple[Space, Counts]:
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
        np.empty(text.bytes.size if has_words else 0, np.uint8),
        np.empty(rows + 1, np.int32),
        np.empty((LISTED, 4), np.int64),
    )


def _table(
    space: Space, counts: Counts, layout: Layout
) -> tuple[DenseTable, tuple[str, ...] | None]:
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
    found = shown(_content(text, at, layout.delimiter))
    fact, advice = _describe(code, column, found, layout, options)
    if code in {grammar.TOO_FEW_CELLS, grammar.TOO_MANY_CELLS}:
        lines = text.tobytes().split(b"\n", line + 1)
        cells = split_line(lines[line].decode("utf-8", "replace"), layout.delimiter)
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
    whole_lines = "Write quoted cells without line ends, or convert the file to Parquet,"
    return {
        grammar.MISSING: (f"the value in {title} is missing (found {found})", fill),
        grammar.NOT_A_NUMBER: (f"{title} holds {found}, a number was expected", correct),
        grammar.NOT_FINITE: (
            f"{title} holds {found}, not finite in {options.dtype}",
            "Correct it,",
        ),
        grammar.NEGATIVE_WEIGHT: (f"the weight in {title} is negative ({found})", "Correct it,"),
        grammar.OPEN_QUOTE: (f"a quoted cell in {title} does not end on its line", whole_lines),
        grammar.BEHIND_QUOTE: (f"text follows the closing quote in {title}", "Quote all of it,"),
        grammar.TOO_FEW_CELLS: ("the row has too few cells", other),
        grammar.TOO_MANY_CELLS: ("the row has too many cells", other),
    }[code]
