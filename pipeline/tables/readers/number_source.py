"""Rows of tables whose columns are plain numbers: the identity in place of a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.column_roles import (
    LOOK_BYTES,
    chosen_columns,
    passed_columns,
    used_columns,
)
from fewpass.pipeline.tables.readers.source import LISTED, Expected, NumberRows, Parsed, Piece
from fewpass.storage.column_schema import Schema
from fewpass.storage.table import Table, n_bytes


class NumberSource:
    """Tables of plain numbers as dense rows; see `Source` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""
    layout: Literal["dense", "sparse"] = "dense"

    def __init__(
        self, rows: NumberRows, options: SourceOptions, expected: Expected,
        notes: tuple[str, ...] = (), first: Piece | None = None,
    ) -> None:  # fmt: skip
        self.rows, self._options, self._first = rows, options, first
        self.files, self.packed, self.notes = rows.files, rows.packed, (*notes, *rows.notes)
        columns = chosen_columns(rows, options, expected)
        self._passed = passed_columns(columns, expected, rows.files[0].name)
        self._used = list(dict.fromkeys([*used_columns(columns), *self._passed]))
        self._numbers = rows.numbers(columns, options)
        self._first_passed = next(iter(expected.passed), "")
        own = columns.schema(self._numbers.types)
        self.schema: Schema | None = own.model_copy(update={"reading": dict(rows.decided)})
        self.n_features: int | None = len(columns.features)
        self.left_out = columns.left_out
        self.has_weight = columns.weight is not None

    def estimated_bytes(self) -> int:
        if self.rows.n_rows is not None:
            features = (self.n_features or 0) * np.dtype(self._options.dtype).itemsize
            return self.rows.n_rows * (features + 8 + 8 * self.has_weight)
        piece, first = self._first_piece, self.first_rows(self._options)
        if piece is None or first is None:
            return 0
        return int(n_bytes(first) / max(1, piece.n_bytes) * self.rows.expands_to())

    def first_rows(self, options: SourceOptions) -> Table | None:
        """Return some of the first rows, read by other options; None where there is none."""
        piece = self._first_piece
        if piece is None:
            return None
        lenient = options.model_copy(update={"on_bad_row": "skip"})
        return self._numbers.parse(piece, lenient).table

    @cached_property
    def _first_piece(self) -> Piece | None:
        pieces = self.rows.pieces(LOOK_BYTES, self._used)
        return next(pieces, None) if self._first is None else self._first

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        return self.rows.pieces(piece_bytes, self._used)

    def parse(self, piece: Piece) -> Parsed:
        parsed = self._numbers.parse(piece, self._options)
        return (
            parsed if not self._passed else parsed._replace(passed=self._passed_of(piece, parsed))
        )

    def _passed_of(self, piece: Piece, parsed: Parsed) -> tuple[Any, ...]:
        """Return the columns that are handed on, of the rows that were not skipped."""
        cells = self.rows.cells(piece, self._passed)
        columns = cells.columns
        if parsed.n_skipped:
            gone = [one.line for one in parsed.skipped]
            there = ~np.isin(cells.lines(), gone)
            columns = tuple(cells.filter(there) for cells in columns)
        if any(len(column) != parsed.table.n_rows for column in columns):
            raise BadInput(
                f"{piece.file}, from {self.rows.unit} {piece.first_line:,} on: more than {LISTED} "
                f"rows are bad, and which cells of {shown_name(self._first_passed)} go with the "
                "others is open. Correct them, or leave `keep` (`by`) out."
            )
        return columns
