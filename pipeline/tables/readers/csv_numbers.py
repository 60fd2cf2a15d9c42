"""Delimited text (CSV) as rows of plain numbers, by the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.csv_head import MISSING, NUMBER
from fewpass.pipeline.tables.readers.csv_kernel import GIVES_UP, PASSED, WORDS, read_rows
from fewpass.pipeline.tables.readers.source import LARGEST, ParsedRows, Piece
from fewpass.solvers.kernels.dispatch import exactly
from fewpass.storage.table import DenseTable

if TYPE_CHECKING:
    from fewpass.pipeline.tables.readers.csv_rows import CsvRows

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
    """Whether most cells are neither numbers nor missing."""
    are_words = [NUMBER.fullmatch(cell) is None for cell in cells if cell.lower() not in MISSING]
    return sum(are_words) > len(are_words) / 2
