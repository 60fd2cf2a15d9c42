"""Delimited text (CSV) as rows of plain numbers: by the kernel, or where it gives up by cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.csv_head import MISSING, NUMBER
from fewpass.pipeline.tables.readers.csv_kernel import GIVES_UP, PASSED, WORDS, read_rows
from fewpass.pipeline.tables.readers.lines import WholeLines
from fewpass.pipeline.tables.readers.rejection import Fault
from fewpass.pipeline.tables.readers.source import LARGEST, Parsed, Piece
from fewpass.solvers.kernels.dispatch import exactly
from fewpass.storage.table import DenseTable

if TYPE_CHECKING:
    from fewpass.pipeline.tables.readers.csv_rows import CsvRows

_QUOTE, _NO_BYTE = ord('"'), 256
_OF_A_HEADER = "If the first row names the columns, say so (`header=true`). "


class PlainRows(NamedTuple):
    """Rows that are nothing but plain numbers, and targets that may be words."""

    X: NDArray[np.floating]  # (n, d)
    single: NDArray[np.float64]  # (n, 2) target and weight
    labels: tuple[str, ...] | None


class CsvNumbers:
    """The cells of CSV files as numbers; see `PlainNumbers` for the methods.

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
        self._are_words = _mostly_words(self._first_labels)
        self.types = ["any"] * columns.n_columns
        for k in (*columns.features, *columns.single):
            self.types[k] = "number"
        if self._are_words and label is not None:
            self.types[label] = "text"

    def are_numbers_in_words(self) -> bool:
        """Say whether targets that are no usual numbers are numbers after all, such as 1,5."""
        if not self._are_words:
            return False
        from fewpass.pipeline.tables.encoding.inference import is_number_in_words  # noqa: PLC0415 - Arrow

        return is_number_in_words(sorted(set(self._first_labels)))

    def has_gaps(self, piece: Piece) -> bool:
        """Say whether a feature is missing, or no number, in some row of a piece."""
        features = self._columns.features
        cells = self._rows.cells(piece, features).columns
        return any(
            np.isnan(self._floats(k, one, [])).any()
            for k, one in zip(features, cells, strict=True)
        )  # fmt: skip

    def parse(self, piece: Piece, options: SourceOptions) -> Parsed:
        plain = self.read_plain(piece, options)
        if plain is None:
            return self._by_cells(piece, options)
        has_target, has_weight = self._columns.label is not None, self._columns.weight is not None
        target = plain.single[:, 0] if has_target else np.full(len(plain.X), np.nan)
        weight = np.ascontiguousarray(plain.single[:, 1]) if has_weight else None
        table = DenseTable(plain.X, np.ascontiguousarray(target), weight)
        return Parsed(table, plain.labels, plain.X.shape[1] - 1, (), 0)

    # -- the fast way ----------------------------------------------------------------------------

    def read_plain(self, piece: Piece, options: SourceOptions) -> PlainRows | None:
        """Read whole lines of plain numbers; None where anything else stands among them."""
        text = piece.content
        if not isinstance(text, WholeLines):
            return None
        places = self._places(piece.file)
        n, size = min(text.lines, text.bytes.size // places.size) + 1, text.bytes.size
        X, single = np.empty((n, len(self._columns.features)), options.dtype), np.empty((n, 2))
        words = np.empty(size if self._are_words else 0, np.uint8)
        ends = np.empty(n + 1, np.int32)
        marks = ord(self._rows.delimiter), _QUOTE if self._rows.quotes else _NO_BYTE
        rows = exactly(read_rows, size)(
            text.bytes, marks, places, X, single, words, ends, LARGEST[options.dtype]
        )
        if rows == GIVES_UP:
            return None
        plain = PlainRows(X[:rows], single[:rows], None)
        return plain if not self._are_words else self._with_words(plain, words, ends[: rows + 1])

    def _places(self, file: str) -> NDArray[np.int64]:
        """Return what each column of a file is; see `read_rows`."""
        columns, places = self._columns, np.full(self._rows.n_cells, PASSED)
        d = len(columns.features)
        for place, k in enumerate((*columns.features, columns.label, columns.weight)):
            if k is not None:
                is_words = place == d and self._are_words
                places[self._rows.place_of(file, k)] = WORDS if is_words else place
        return places

    def _with_words(
        self, plain: PlainRows, words: NDArray[np.uint8], ends: NDArray[np.int32]
    ) -> PlainRows | None:
        """Return rows with targets that are words; None where a word is none."""
        import pyarrow as pa  # noqa: PLC0415 - where labels are words

        buffers = [None, pa.py_buffer(ends), pa.py_buffer(words)]
        coded = pa.Array.from_buffers(pa.binary(), ends.size - 1, buffers).dictionary_encode()
        try:
            labels = tuple(word.decode() for word in coded.dictionary.to_pylist())
        except UnicodeDecodeError:
            return None
        if not set(labels).isdisjoint(self._rows.nulls):
            return None
        plain.single[:, 0] = coded.indices.to_numpy()
        return plain._replace(labels=labels)

    # -- the way that explains -------------------------------------------------------------------

    def _by_cells(self, piece: Piece, options: SourceOptions) -> Parsed:
        from fewpass.pipeline.tables.readers.arrow_numbers import in_cells  # noqa: PLC0415 - Arrow
        from fewpass.pipeline.tables.readers.csv_batches import trimmed  # noqa: PLC0415 - Arrow
        from fewpass.pipeline.tables.readers.dense_rows import (  # noqa: PLC0415 - Arrow
            Targets,
            checked,
            narrowed,
        )

        columns = self._columns
        used = [*columns.features, *columns.single]
        cells = self._rows.cells(piece, used)
        nulls = self._rows.nulls
        own = {k: trimmed(one, nulls) for k, one in zip(used, cells.columns, strict=True)}
        faults: list[Fault] = []
        X = np.empty((cells.n_rows, len(columns.features)))
        for j, k in enumerate(columns.features):
            X[:, j] = self._floats(k, own[k], faults)
        targets = Targets(np.full(cells.n_rows, np.nan), None)
        if columns.label is not None and self._are_words:
            words = own[columns.label].dictionary_encode()
            codes = words.indices.cast("float64").to_numpy(zero_copy_only=False)
            targets = Targets(np.array(codes), tuple(words.dictionary.to_pylist()))
        elif columns.label is not None:
            label = own[columns.label]
            values = self._floats(columns.label, label, faults)
            targets = Targets(values, None, in_cells(label))
        weight = columns.weight
        weights = None if weight is None else self._floats(weight, own[weight], faults)
        table = DenseTable(narrowed(X, options.dtype), targets.values, weights)
        if piece.first_line == 1:
            faults = [one._replace(advice=_OF_A_HEADER + one.advice) for one in faults]
        titles = [columns.title(k) for k in columns.features]
        return checked(piece, table, targets, titles, options, cells=cells, faults=faults)

    def _floats(self, column: int, cells: Any, faults: list[Fault]) -> NDArray[np.float64]:
        """Return cells of text as numbers; note where some are none."""
        import pyarrow as pa  # noqa: PLC0415 - where the kernel gave up
        import pyarrow.compute as pc  # noqa: PLC0415 - likewise

        from fewpass.pipeline.tables.encoding.cells import read_numbers  # noqa: PLC0415 - Arrow

        try:  # which tells what is infinite from what is missing
            return np.array(pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            values, bad = read_numbers(cells)
        columns = self._columns
        if bad is not None:
            is_feature = column in columns.features
            drop = f"Leave the column out ({columns.advice(column)}) or encode it as numbers,"
            advice = drop if is_feature else "Correct it, or check `label` and `weight`,"
            fact = f"{columns.title(column)} holds FOUND a number was expected"
            faults.append(Fault(bad, fact, advice, cells))
        return values


def _mostly_words(cells: list[str]) -> bool:
    """Whether most cells are neither numbers nor missing."""
    are_words = [NUMBER.fullmatch(cell) is None for cell in cells if cell.lower() not in MISSING]
    return sum(are_words) > len(are_words) / 2
