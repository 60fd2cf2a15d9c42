"""The layout of rows: sparse ones as dense where that is better, and with which digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.scaling import FEWEST_ROWS, MOST_ROWS, Measured, measured, resolved
from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.source import ParsedRows, Piece, Source, SourceSpan
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import DenseTable, SparseTable, Table, cut, n_bytes

#: Share of the cells that must be there before rows are stored dense without being asked for.
MOSTLY_THERE = 0.5

Layout = Literal["auto", "dense", "sparse"]


#: Raw bytes of the first rows that are looked at.
_LOOK_BYTES = 1 << 18
#: Bytes of dense rows for one of text: as for text in which every cell is written.
_USUAL = 2.0


def laid_out(
    open_: Callable[[SourceOptions], Source],
    options: SourceOptions,
    layout: Layout,
    scale: ScalingKind | Literal["auto"],
) -> Source:
    """Open a source, its sparse rows as dense ones where that is asked for or `auto` means it.

    Parameters
    ----------
    open_
        Opens it.
    options
        How it is read; without `n_features` dense rows are as wide as the first of them.
    layout
        `auto` stores rows dense where more than half of their cells are there and columns differ in
        size as `scale=auto` has it: only dense rows can be standardised.
    scale
        What was asked for.

    Raises
    ------
    BadInput
        When a table is to be sparse, or what it raises that opens the source.
    """
    source = open_(options)
    encoded = is_encoded(source)
    if encoded and layout != "auto":
        raise BadInput(
            "The columns of a table are encoded to the smaller of dense and sparse rows. Leave "
            "`layout` out."
        )
    if source.layout == "dense" and layout == "sparse":
        raise BadInput(
            "The source has a value in every cell, so its rows are dense. Leave `layout` out."
        )
    if source.layout == "dense" or layout == "sparse" or encoded:
        return source
    if layout == "auto" and scale != "auto":
        return source
    first, _ = first_rows(source)
    width = options.n_features or int(first.indices.max(initial=-1)) + 1
    if layout == "auto" and not _is_better_dense(first, width):
        return source
    return FilledSource(open_(options.model_copy(update={"n_features": width})), width)


def laid_out_like(like: Dataset, source: Source) -> Source:
    """Return a source that gives dense rows where those of a data set are dense."""
    if like.manifest.layout == "dense" and source.layout == "sparse":
        return FilledSource(source, like.n_features)
    return source


def is_encoded(source: Source) -> bool:
    """Return whether rows are made by a recipe of columns."""
    return source.schema is not None and source.schema.encoding is not None


def require_scalable(kind: ScalingKind | Literal["auto"], source: Source) -> None:
    """Refuse scaling that would fill the zeros of sparse rows."""
    if kind == "standard" and source.layout == "sparse":
        raise BadInput(
            "Standard scaling would fill every zero of sparse rows; an encoded table's numbers are "
            "standardised already. Choose the scaling maxabs, unit-rows or none."
        )


def scaling_of(
    asked: ScalingKind | Literal["auto"], source: Source, first: Table | None
) -> tuple[ScalingKind, Measured | None]:
    """Return the scaling that is asked for, and statistics that it needs.

    `first` are first rows, by which `auto` scales dense numbers; None: there are none such.
    """
    kind = resolved(asked, first, encoded=is_encoded(source))
    return kind, measured(kind, source.layout, source.n_features or 0)


def _is_better_dense(first: SparseTable, width: int) -> bool:
    if first.n_rows < FEWEST_ROWS or first.data.size <= MOSTLY_THERE * first.n_rows * width:
        return False
    few = cut(first, 0, min(first.n_rows, MOST_ROWS))
    assert isinstance(few, SparseTable), "a part of sparse rows"
    return resolved("auto", filled(few, width), encoded=False) == "standard"


class FilledSource(Source):
    """Rows of a sparse source as dense ones; see `Source` for the methods.

    Parameters
    ----------
    rows
        What refuses, or cuts, rows that are wider.
    n_features
        Width of the rows.
    """

    layout: Literal["dense", "sparse"] = "dense"

    def __init__(self, rows: Source, n_features: int) -> None:
        self._rows, self._width = rows, n_features
        self.n_features = n_features
        self.files, self.packed, self.schema = rows.files, rows.packed, rows.schema
        self.left_out, self.has_weight = rows.left_out, rows.has_weight
        first, n_text = first_rows(rows)
        dense = n_bytes(filled(first, n_features)) if first.n_rows else 0
        self._grown, self._per_byte = dense / max(1, n_bytes(first)), dense / max(1, n_text)

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from those of the sparse ones and the first rows."""
        return int(self._grown * self._rows.estimated_bytes())

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Stretches of whole lines, shorter where rows take much more than their text."""
        return self._rows.pieces(self._text_bytes(piece_bytes))

    def spans(self, piece_bytes: int) -> list[SourceSpan]:
        return self._rows.spans(self._text_bytes(piece_bytes))

    def ranges(self, piece_bytes: int) -> list[SourceSpan]:
        return self._rows.ranges(self._text_bytes(piece_bytes))

    def pieces_of(self, span: SourceSpan, piece_bytes: int) -> Iterator[Piece]:
        return self._rows.pieces_of(span, self._text_bytes(piece_bytes))

    def _text_bytes(self, piece_bytes: int) -> int:
        return max(1, int(piece_bytes / max(1.0, self._per_byte / _USUAL)))

    def parse(self, piece: Piece) -> ParsedRows:
        parsed = self._rows.parse(piece)
        assert isinstance(parsed.table, SparseTable), "the source is sparse"
        table = filled(parsed.table, self._width)
        return parsed._replace(table=table, max_index=self._width - 1)


def first_rows(source: Source) -> tuple[SparseTable, int]:
    """Return the first rows of a sparse source, and the bytes of their text."""
    piece = next(iter(source.pieces(_LOOK_BYTES)))
    table = source.parse(piece).table
    assert isinstance(table, SparseTable), "the source is sparse"
    return table, piece.n_bytes


def filled(table: SparseTable, n_features: int) -> DenseTable:
    """Write the zeros of sparse rows out; no index is n_features or more."""
    X = np.zeros((table.n_rows, n_features), table.data.dtype)
    X[np.repeat(np.arange(table.n_rows), np.diff(table.indptr)), table.indices] = table.data
    return DenseTable(X, table.target, table.weight)
