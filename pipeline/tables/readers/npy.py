"""NPY files to dense tables: one array (n, d) of numbers, one of its columns the target.

The target is the last column unless `label` says otherwise; where no target is required and none
is named, every column is a feature.  Rows are read one after the other, never the whole array.
Lines in messages are row numbers, from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.array_stream import checked_matrix, opened_npy, require_same
from fewpass.pipeline.tables.readers.columns import choose
from fewpass.pipeline.tables.readers.dense_rows import (
    Targets,
    checked,
    narrowed,
    refuse_text_settings,
)
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.source import Expected, Parsed, Piece, Source
from fewpass.storage.source_file import CutShort
from fewpass.storage.table import DenseTable


class NpySource(Source):
    """NPY matrices as dense rows; see `Source` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = (".npy",)
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"\x93NUMPY"
    layout: Literal["dense", "sparse"] = "dense"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "an array")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._options = options
        looks = [_look(address, expected.longest_line) for address in addresses]
        shapes = [shape for shape, _ in looks]
        require_same({shape[1] for shape in shapes}, "widths", addresses)
        self._n_rows = sum(shape[0] for shape in shapes)
        name, width = addresses[0].name, shapes[0][1]
        self._columns = choose(None, width, options, name, expected, default_label=-1)
        self.schema = self._columns.schema([looks[0][1]] * width)
        self.n_features = len(self._columns.features)
        self.has_weight = self._columns.weight is not None

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory: exact."""
        features = len(self._columns.features) * np.dtype(self._options.dtype).itemsize
        return self._n_rows * (features + 8 + 8 * self.has_weight)

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        for address in self._addresses:
            with opened_npy(address) as array:
                rows = max(1, piece_bytes // (array.dtype.itemsize * array.shape[1]))
                for start in range(0, array.shape[0], rows):
                    block = array.read(min(rows, array.shape[0] - start))
                    yield Piece(address.name, start + 1, block, block.nbytes)
                with suppress(CutShort):  # of a server that announced more: all rows are there
                    array.require_end()

    def parse(self, piece: Piece) -> Parsed:
        columns, block = self._columns, piece.content
        X = narrowed(block[:, list(columns.features)], self._options.dtype)
        targets = Targets(np.full(len(X), np.nan), None)
        if columns.label is not None:
            targets = Targets(block[:, columns.label].astype(np.float64), None)
        table = DenseTable(X, targets.values, _column(block, columns.weight))
        titles = [columns.title(k) for k in columns.features]
        return checked(piece, table, targets, titles, self._options)


def _look(address: Address, longest_row: int) -> tuple[tuple[int, int], str]:
    """Shape and type of a file's matrix."""
    with opened_npy(address) as array:
        return checked_matrix(array, address.name, longest_row), array.dtype.name


def _column(block: NDArray[Any], column: int | None) -> NDArray[np.float64] | None:
    return None if column is None else block[:, column].astype(np.float64)
