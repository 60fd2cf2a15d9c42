"""Mapping in other processes: each task reads a span of a source, and writes its rows to parts."""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.tables.ingest.frequency_order import ColumnCounts
from fewpass.pipeline.tables.ingest.piece_map import MappedPiece, PieceMap
from fewpass.pipeline.tables.ingest.row_parts import KeyedRows, MadePart, RowParts, with_few_cells
from fewpass.pipeline.tables.readers.source import Piece, SourceSpan


class MappedSpan(NamedTuple):
    """What was counted of a span, and the parts that its rows are in."""

    pieces: list[MappedPiece]  # without their rows
    parts: list[MadePart]
    column_counts: list[ColumnCounts]  # of each group

    def follows(self, end: int) -> bool:
        """Whether its first row begins where the last one of the span before ends.

        Where quotes enclose cells it may have been guessed.
        """
        first = self.pieces[0].piece.extent if self.pieces else None
        return first is not None and first.begin == end


def lines_behind(piece: Piece) -> int:
    """Return the lines of a file up to the end of a piece, as far as its span has counted them."""
    return 0 if piece.extent is None else piece.first_line - 1 + piece.extent.lines


@unpickled_once
class SpanMap(NamedTuple):
    """What is made of a span of a source; the same in any process."""

    pieces: PieceMap
    parts: RowParts  # how rows are grouped and where they go; none are there yet
    piece_bytes: int  # of text, as the spans were cut by
    part_bytes: int
    counts_columns: bool

    def map(self, number: int, span: SourceSpan) -> MappedSpan:
        """Read a span, and write its rows to parts; `number` is that of the span."""
        counts = [ColumnCounts() for _ in range(self.pieces.n_groups * self.counts_columns)]
        made, waiting = MappedSpan([], [], counts), list[KeyedRows]()
        waiting_bytes = 0
        for piece in self.pieces.source.pieces_of(span, self.piece_bytes):
            mapped = self._mapped(piece, span, counts)
            made.pieces.append(mapped._replace(rows=None))
            assert mapped.rows is not None, "they were mapped just now"
            for rows in with_few_cells(mapped.rows, self.parts.kind.retained_bytes):
                waiting.append(rows)
                waiting_bytes += rows.n_bytes + self.parts.kind.retained_bytes * rows.table.n_rows
                if rows.cells is not None or waiting_bytes > self.part_bytes:
                    self._write(number, waiting, made.parts)
                    waiting_bytes = 0
            del mapped
        if waiting:
            self._write(number, waiting, made.parts)
        return made

    def _write(self, number: int, rows: list[KeyedRows], parts: list[MadePart]) -> None:
        name = f"part-{number:06d}-{len(parts):04d}"
        parts.append(self.parts.made(self.parts.grouped(name, rows), keep=False))
        rows.clear()

    def _mapped(self, piece: Piece, span: SourceSpan, counts: list[ColumnCounts]) -> MappedPiece:
        """Map a piece; a refusal names the line in the file, which is counted for it alone."""
        try:
            return self.pieces.mapped(piece, None, counts)
        except BadInput:
            if not span.first:
                raise
            before = self._lines_before(span)
            return self.pieces.mapped(
                piece._replace(first_line=piece.first_line + before), None, counts
            )

    def _lines_before(self, span: SourceSpan) -> int:
        others = SourceSpan(span.file, 0, span.first)
        every = self.pieces.source.pieces_of(others, self.piece_bytes)
        return max((lines_behind(piece) for piece in every), default=0)


def map_span(span_map: SpanMap, number: int, span: SourceSpan) -> MappedSpan:
    """Map a span, in any process."""
    return_freed_memory(span_map.pieces.plan.budget.rows)
    return span_map.map(number, span)


def mapped_or_refusal(span_map: SpanMap, number: int, span: SourceSpan) -> MappedSpan | BadInput:
    """Map a span; return a refusal, which may be of rows that begin elsewhere."""
    try:
        return map_span(span_map, number, span)
    except BadInput as error:
        return error
