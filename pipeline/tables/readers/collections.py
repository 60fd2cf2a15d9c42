"""Rows of Dask: arrays, dataframes, lists of delayed blocks.

A block is computed when its rows are due, the next one while these are parsed, by whatever Dask
computes with at the moment: a default client, or threads.  Rows are cut anew, across blocks, so
that partitions change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.blocks import Dtype, RowBlock, joined
from fewpass.pipeline.tables.readers.collection_blocks import NO_OFFSETS, blocks_of
from fewpass.pipeline.tables.readers.dense_rows import are_usual
from fewpass.pipeline.tables.readers.source import (
    LARGEST,
    ParsedRows,
    Piece,
    PiecePlace,
    Source,
    SourceFile,
)
from fewpass.storage.table import DenseTable, SparseTable, Table, are_weights

PARQUET_CACHE = "_dataset_info_cache"  # operand of dask.dataframe.read_parquet


class DaskSource(Source):
    """Rows of Dask collections; see `Source` for the methods.

    Lines in messages are row numbers of the whole collection, from 1.

    Parameters
    ----------
    X : dask.array (n, d), dask.dataframe, bag of texts, or sequence of Delayed
        Features.  Blocks of an array may be dense or CSR; delayed blocks may be arrays, CSR
        matrices or pandas frames; texts are hashed (blocks.py).
    y : dask.array (n,), dask Series, bag, name of a column, or sequence of Delayed
        Targets: numbers or words.
    sample_weight : the same, or None
        Row weights (n,); None: every row counts once.
    offsets : mapping
        "offset" or "exposure" to the same; empty: rows have none.

    Attributes
    ----------
    dtype : "float32" or "float64"
        Of the features: float32 where the first block is.
    target_dtype : numpy.dtype
        Of the first block's targets.

    Raises
    ------
    BadInput
        When X, y and sample_weight do not fit each other, or hold what is no number.
    """

    packed = True  # how many bytes there are, nobody knows before

    def __init__(
        self, X: Any, y: Any, sample_weight: Any = None, offsets: Mapping[str, Any] = NO_OFFSETS
    ) -> None:
        more = [part for named in offsets.items() for part in named]
        self.name = f"dask-{token_of(X, y, sample_weight, *more)}"
        self.files = (SourceFile(self.name, None),)
        self._blocks = blocks_of(X, y, sample_weight, offsets)
        self._role = next(iter(offsets), "offset")
        self.has_offset = bool(offsets)
        first = self._first_look()
        self._first = first.rows(0, 1)
        self.n_features = first.n_features
        self.layout = "sparse" if first.is_sparse else "dense"
        self.has_weight = first.weight is not None
        self.dtype: Dtype = first.dtype
        self.target_dtype = np.asarray(first.y).dtype
        self.schema = first.schema()
        self._estimate = len(self._blocks) * int(first.row_bytes(self.dtype).sum())

    def _first_look(self) -> RowBlock:
        """Compute blocks until there is one with rows."""
        for block in self._blocks:
            computed: RowBlock = block.compute()
            if computed.n_rows:
                computed.require_numbers(self.name)
                return computed
        raise BadInput(f"{self.name}: the collections have no rows. Give some.")

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, as if every block were like the first one."""
        return self._estimate

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Pieces of rows that fill `piece_bytes`, however they lie in blocks."""
        parts: list[RowBlock] = []
        filled, row, number = 0, 1, 0
        for block in self._computed():
            ends, start = filled + np.cumsum(block.row_bytes(self.dtype)), 0
            before = 0  # bytes up to the end of the last piece
            while (stop := start + int(np.searchsorted(ends[start:], before + piece_bytes))) < len(
                ends
            ):
                parts.append(block.rows(start, stop + 1))
                yield Piece(PiecePlace(number, 0), self.name, row, parts, int(ends[stop]) - before)
                row, number = row + sum(part.n_rows for part in parts), number + 1
                parts, start, before = [], stop + 1, int(ends[stop])
            parts.append(block.rows(start, block.n_rows))
            filled = (int(ends[-1]) if len(ends) else filled) - before
        if any(part.n_rows for part in parts):
            yield Piece(PiecePlace(number, 0), self.name, row, parts, filled)

    def _computed(self) -> Iterator[RowBlock]:
        """Compute one block after the other, each while the one before is at work."""
        with ThreadPoolExecutor(1, "dask-block") as pool:
            ahead = pool.submit(self._blocks[0].compute)
            for number, following in enumerate([*self._blocks[1:], None], 1):
                block = self._like_first(ahead.result(), number)
                if following is not None:
                    ahead = pool.submit(following.compute)
                yield block
                del block  # freed before the next one is awaited

    def parse(self, piece: Piece) -> ParsedRows:
        part = joined(piece.content)
        table, words = part.table(self.dtype, self.name)
        self._require_finite(table, piece.first_line, part.names)
        if self._role == "exposure" and table.offset is not None:
            table = table._replace(offset=np.log(table.offset))
        widest = part.n_features - 1
        if isinstance(table, SparseTable):
            widest = int(table.indices.max(initial=-1))
        return ParsedRows(table, words, widest, (), 0)

    def _like_first(self, block: RowBlock, number: int) -> RowBlock:
        """Return a block's rows as those of the first one are; BadInput where they are not."""
        if not block.n_rows and block.n_features != self.n_features:
            return block.empty_like(self._first)
        return block.like(self._first, f"{self.name}, block {number}")

    def _require_finite(self, table: Table, first: int, names: list[str] | None) -> None:
        """Refuse the first row with a number that nothing can be learnt from."""
        for row, part in faults_of(table, self._role, names):
            raise BadInput(
                f"{self.name}, row {first + row}: {part} is missing, not finite, too large to "
                "square or, of a weight, negative, of an exposure, not above 0. Fill such values "
                "in (SimpleImputer does), or leave such rows out."
            )


def faults_of(table: Table, role: str, names: list[str] | None) -> Iterator[tuple[int, str]]:
    """Yield rows with a bad X, y, weight, or offset, which may be an exposure, and what is bad."""
    values = table.X if isinstance(table, DenseTable) else table.data
    bad = ~are_usual(values, LARGEST[values.dtype.name])
    rows, columns = np.flatnonzero(bad), np.zeros(0, np.int64)
    if isinstance(table, DenseTable):
        rows, columns = np.nonzero(bad)
    else:
        rows = np.searchsorted(table.indptr, rows, side="right") - 1
        columns = table.indices[bad].astype(np.int64)
    for row, k in zip(rows.tolist(), columns.tolist(), strict=True):
        yield row, f"X in column {names[k]!r}" if names else f"X in column {k}"
    others = {"y": ~np.isfinite(table.target)}
    if table.weight is not None:
        others["sample_weight"] = ~are_weights(table.weight)
    if table.offset is not None:
        is_offset = (table.offset > 0.0) | (role != "exposure")
        others[role] = ~(np.isfinite(table.offset) & is_offset)
    for part, are_bad in others.items():
        yield from ((row, part) for row in np.flatnonzero(are_bad).tolist())


def token_of(*collections: Any) -> str:
    """Return what names the rows of collections: of equal ones the same, in every process.

    A frame's own token (Dask 2026.8) takes in a cache of open Parquet files, which is another one
    in every process; the checksum of these files stands for it here.
    """
    from dask.base import tokenize  # noqa: PLC0415 - only for those who have collections

    return str(tokenize([_expression(each) for each in collections]))


def _expression(node: Any) -> Any:
    """Return a frame, or an expression of one, as nested lists of what it is made of."""
    if isinstance(node, list | tuple):
        return [_expression(each) for each in node]
    kind = type(node)  # asked in place of the object: a Delayed has whatever it is asked for
    if hasattr(kind, "expr"):
        return _expression(node.expr)
    if not hasattr(kind, "_parameters"):
        return node
    made_of = list(node.operands)
    if PARQUET_CACHE in node._parameters:  # noqa: SLF001 - there is no other way to its place
        made_of[node._parameters.index(PARQUET_CACHE)] = node.checksum  # noqa: SLF001
    return [kind.__name__, *map(_expression, made_of)]
