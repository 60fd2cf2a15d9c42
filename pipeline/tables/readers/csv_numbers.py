"""Delimited text (CSV) as rows of plain numbers, by the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.characters import NEWLINE, RETURN, SPACE, ZERO
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.csv_head import MISSING, NUMBER
from fewpass.pipeline.tables.readers.decimals import (
    OK,
    PLAIN_DIGITS,
    STEP,
    Position,
    decimal,
    plain_number,
)
from fewpass.pipeline.tables.readers.source import LARGEST, ParsedRows, Piece
from fewpass.solvers.kernels.dispatch import called_by_kernels, exactly, kernel
from fewpass.solvers.kernels.shapes import Bytes, WholeNumbers
from fewpass.storage.table import MOST_WEIGHT, DenseTable

if TYPE_CHECKING:
    from fewpass.pipeline.tables.readers.csv_rows import CsvRows

#: Columns that are passed over, or whose words are the targets.
PASSED, WORDS = -1, -2
#: What `read_rows` returns where something else than plain numbers stands.
GIVES_UP = -1


@called_by_kernels
def _behind_cell(text: Bytes, at: Position, delimiter: int, quote: int) -> Position:
    """Position of what ends the cell that begins at text[at]: of a quote where one began it."""
    quoted = text[at] == quote
    at += np.uint64(quoted)
    stop = quote if quoted else delimiter
    while text[at] != NEWLINE and text[at] != stop and (quoted or text[at] != RETURN):
        at += STEP
    return at


@kernel
def read_rows(  # noqa: C901, PLR0911, PLR0912 -- calls would cost more than they hide
    text: Bytes,
    marks: tuple[int, int],
    places: WholeNumbers,
    X: NDArray[np.floating],
    single: NDArray[np.float64],
    words: NDArray[np.uint8],
    ends: NDArray[np.int32],
    largest: float,
) -> int:
    """Read rows of plain numbers; return how many there are, or GIVES_UP.

    Blank lines are no rows; cells may be in double quotes, without such a quote in them.

    Parameters
    ----------
    text
        (size,) whole lines; the last byte is a line end.
    marks
        Delimiter and quote; 256: cells are in none.
    places
        (columns,) which feature each column is, d: the target, d + 1: the weight; or PASSED, WORDS.
    X, single
        (n, d), (n, 2) overwritten: features, and target and weight.
    words, ends
        (size of the text,), (n + 1,) overwritten: one word after the other, and where each ends.
    largest
        Features may not be larger.
    """
    delimiter, quote = marks
    rows, used, d, last = 0, 0, X.shape[1], places.size - 1
    size = np.uint64(text.size)
    at: Position = np.uint64(0)
    ends[0] = 0
    while at < size:
        if text[at] == NEWLINE or (text[at] == RETURN and text[at + STEP] == NEWLINE):
            at += STEP
            continue
        for column in range(places.size):
            place, begin = places[column], at
            while text[at] == SPACE:
                at += STEP
            quoted = text[at] == quote
            if quoted and at != begin:
                return GIVES_UP  # to Arrow, a quote behind a blank is text
            start: Position = at + np.uint64(quoted)
            if place < 0:
                at = _behind_cell(text, at, delimiter, quote)
                if place == WORDS:
                    if at == start or text[at - STEP] == SPACE or text[start] == SPACE:
                        return GIVES_UP
                    for k in range(start, at):
                        words[used] = text[k]
                        used += 1
            else:
                value, first, point, at, digits = plain_number(text, start)
                if text[first] == ZERO and np.int64(point - first) > 1:
                    return GIVES_UP  # 007 may be a name
                if not 0 < digits <= PLAIN_DIGITS or text[at] | 32 == 101:  # e, E
                    if place == d and (digits == 0 or (digits > PLAIN_DIGITS and at == point)):
                        return GIVES_UP  # so is a whole number that doubles are not exact for
                    status, value, at = decimal(text, start)
                    if status != OK:
                        return GIVES_UP
                if place < d:
                    X[rows, place] = value
                    if not abs(X[rows, place]) <= largest:
                        return GIVES_UP
                else:
                    single[rows, place - d] = value
                    if place > d and not 0.0 <= value <= MOST_WEIGHT:
                        return GIVES_UP
            if quoted:
                if text[at] != quote:
                    return GIVES_UP
                at += STEP
            while text[at] == SPACE:
                at += STEP
            if column == last and text[at] == RETURN:
                at += STEP
            if text[at] != (NEWLINE if column == last else delimiter):
                return GIVES_UP
            at += STEP
        rows += 1
        ends[rows] = used
    return rows


_QUOTE, _NO_BYTE = ord('"'), 256


class CsvNumbers:
    """Rows of CSV files that are nothing but plain numbers, by the kernel, which gives up else.

    A value is the double that Python's `float()` gives, of 20 digits and more of the first 19,
    rounded once more for float32 tables.  Targets are numbers, or words if most of the first
    thousand are; then all of them are words.
    """

    def __init__(self, rows: CsvRows, columns: TableColumns) -> None:
        self._rows, self._columns, label = rows, columns, columns.label
        self._first_labels = (
            [] if label is None
            else [row[label].strip() for row in rows.first_rows if label < len(row)]
        )  # fmt: skip
        self.are_words = _mostly_words(self._first_labels)
        types = ["any"] * columns.n_columns
        for k in (*columns.features, *columns.single):
            types[k] = "number"
        if self.are_words and label is not None:
            types[label] = "text"
        self.types = tuple(types)

    def are_numbers_in_words(self) -> bool:
        """Say whether targets that are no usual numbers are numbers after all, such as 1,5."""
        if not self.are_words:
            return False
        from fewpass.pipeline.tables.encoding.inference import is_number_in_words  # noqa: PLC0415 - Arrow

        return is_number_in_words(sorted(set(self._first_labels)))

    def rows_of(self, piece: Piece, options: SourceOptions) -> ParsedRows | None:
        """Read whole lines of plain numbers; None where anything else stands among them."""
        text, places = piece.content, self._places(piece.file)
        n, size = text.rows + 1, text.bytes.size
        X, single = np.empty((n, len(self._columns.features)), options.dtype), np.empty((n, 2))
        words = np.empty(size if self.are_words else 0, np.uint8)
        ends = np.empty(n + 1, np.int32)
        marks = ord(self._rows.delimiter), _QUOTE if self._rows.quotes else _NO_BYTE
        rows = exactly(read_rows, size)(
            text.bytes, marks, places, X, single, words, ends, LARGEST[options.dtype]
        )
        if rows == GIVES_UP:
            return None
        X, target, weight = X[:rows], single[:rows, 0].copy(), None
        if self._columns.label is None:
            target = np.full(rows, np.nan)
        if self._columns.weight is not None:
            weight = single[:rows, 1].copy()
        labels = None
        if self.are_words:
            coded = self._coded(words, ends[: rows + 1])
            if coded is None:
                return None
            target, labels = coded
        return ParsedRows(DenseTable(X, target, weight), labels, X.shape[1] - 1, (), 0)

    def _places(self, file: str) -> NDArray[np.int64]:
        """Return what each column of a file is; see `read_rows`."""
        columns, places = self._columns, np.full(self._rows.n_cells, PASSED)
        d = len(columns.features)
        for place, k in enumerate((*columns.features, columns.label, columns.weight)):
            if k is not None:
                is_words = place == d and self.are_words
                places[self._rows.place_of(file, k)] = WORDS if is_words else place
        return places

    def _coded(
        self, words: NDArray[np.uint8], ends: NDArray[np.int32]
    ) -> tuple[NDArray[np.float64], tuple[str, ...]] | None:
        """Return targets that are words as codes, and the words; None where one is none."""
        import pyarrow as pa  # noqa: PLC0415 - where labels are words

        buffers = [None, pa.py_buffer(ends), pa.py_buffer(words)]
        coded = pa.Array.from_buffers(pa.binary(), ends.size - 1, buffers).dictionary_encode()
        try:
            labels = tuple(word.decode() for word in coded.dictionary.to_pylist())
        except UnicodeDecodeError:
            return None
        if not set(labels).isdisjoint(self._rows.nulls):
            return None
        return coded.indices.to_numpy().astype(np.float64), labels


def _mostly_words(cells: list[str]) -> bool:
    """Return whether most cells are neither numbers nor missing."""
    are_words = [NUMBER.fullmatch(cell) is None for cell in cells if cell.lower() not in MISSING]
    return sum(are_words) > len(are_words) / 2
