"""Mapping in other processes: each task reads a span of a source, and writes its rows to parts.

Behind these it writes a record: whoever maps the span again, after a kill, finds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.passes.turns import Turns
from fewpass.pipeline.rows.column_statistics import ColumnStatistics, LargestValues
from fewpass.pipeline.rows.scaling import Measured
from fewpass.pipeline.tables.ingest.frequency_order import ColumnCounts
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.piece_map import MappedPiece, PieceMap, ReadCounts
from fewpass.pipeline.tables.ingest.row_parts import KeyedRows, MadePart, RowParts, with_few_cells
from fewpass.pipeline.tables.ingest.work_dir import SPANS
from fewpass.pipeline.tables.readers.source import BadRow, Extent, Piece, PiecePlace, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import ReadExtent
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal

_KINDS: dict[str, type[Measured]] = {"statistics": ColumnStatistics, "largest": LargestValues}


class MappedSpan(NamedTuple):
    """Counts of a span, and the parts that its rows are in."""

    pieces: list[MappedPiece]  # without their rows
    parts: list[MadePart]
    column_counts: list[ColumnCounts]  # of each group
    unlike: list[Any]  # cells that the recipe was not made for, as `UnlikeCells.of` has them

    def read(self, span: SourceSpan) -> ReadExtent:
        """Return where the rows are that were read of the span."""
        extent = ReadExtent()
        for mapped in self.pieces:
            extent = extent.with_piece(mapped.piece, span)
        return extent

    def record(self, folder: Folder, key: str, identity: str) -> None:
        """Write the record, sealed; `identity` is the digest of what decides on the rows."""
        state = {
            "of": identity,
            "name": key,
            "pieces": [_piece_state(piece) for piece in self.pieces],
            "parts": [part.state() for part in self.parts],
            "column_counts": [counts.state() for counts in self.column_counts],
            "unlike": self.unlike,
        }
        folder.write(key, seal(state), durable=False)

    @classmethod
    def recorded(cls, folder: Folder, key: str, identity: str, task: str) -> MappedSpan | None:
        """Return what a record says; None where it, or a part, is missing or changed."""
        with suppress(FileNotFoundError, LookupError, TypeError, ValueError):
            state = unseal(folder.read(key))
            if (state["of"], state["name"]) != (identity, key):
                return None
            pieces = [_piece_from_state(piece, task) for piece in state["pieces"]]
            counts = [ColumnCounts.from_state(each) for each in state["column_counts"]]
            parts = [MadePart.from_state(part) for part in state["parts"]]
            if all(folder.size(made.part.name) == made.length for made in parts):
                return cls(pieces, parts, counts, state["unlike"])
        return None


def _piece_state(mapped: MappedPiece) -> dict[str, Any]:
    columns = mapped.columns
    measured = None
    if isinstance(columns, ColumnStatistics | LargestValues):
        kind = "largest" if isinstance(columns, LargestValues) else "statistics"
        measured = [kind, columns.state()]
    counted = {"counts": mapped.counts.state(), "read": mapped.read.model_dump()}
    piece = mapped.piece._replace(content=None)
    return mapped._asdict() | counted | {"rows": None, "columns": measured, "piece": piece}


def _piece_from_state(state: dict[str, Any], task: str) -> MappedPiece:
    place, *of_file = state["piece"]
    piece = Piece(PiecePlace(*place), *of_file)
    piece = piece._replace(extent=None if piece.extent is None else Extent(*piece.extent))
    counts, columns = LabelCounts.from_state(task, state["counts"]), state["columns"]
    counts.where = piece.where
    return MappedPiece(
        None, counts, ReadCounts.model_validate(state["read"]),
        None if columns is None else _KINDS[columns[0]].from_state(columns[1]),
        state["n_rows"], state["row_bytes"], piece, tuple(BadRow(*row) for row in state["skipped"]),
    )  # fmt: skip


_NAME = re.compile(rf"{SPANS}/(?P<number>\d+)(?:-from-(?P<begin>\d+))?-\d+")


@unpickled_once
class SpanMap(NamedTuple):
    """The work on a span of a source; the same in any process."""

    pieces: PieceMap
    parts: RowParts  # how rows are grouped and where they go; none are there yet
    piece_bytes: int  # of text, as the spans were cut by
    part_bytes: int
    counts_columns: bool
    turns: Turns  # of spans that a process maps

    def map(self, number: int, span: SourceSpan) -> MappedSpan:
        """Read a span, and write its rows to parts; `number` is that of the span."""
        counts = [ColumnCounts() for _ in range(self.pieces.n_groups * self.counts_columns)]
        made, waiting = MappedSpan([], [], counts, []), list[KeyedRows]()
        waiting_bytes, name = 0, name_of(number, span)
        for piece in self.pieces.source.pieces_of(span, self.piece_bytes):
            mapped = self.pieces.mapped(piece, None, counts)
            made.pieces.append(mapped._replace(rows=None))
            assert mapped.rows is not None, "they were mapped just now"
            for rows in with_few_cells(mapped.rows, self.parts.kind.retained_bytes):
                waiting.append(rows)
                waiting_bytes += rows.n_bytes + self.parts.kind.retained_bytes * rows.table.n_rows
                if rows.cells is not None or waiting_bytes > self.part_bytes:
                    self._write(name, waiting, made.parts)
                    waiting_bytes = 0
            del mapped
        if waiting:
            self._write(name, waiting, made.parts)
        if (unlike := self.pieces.source.unlike_cells) is not None:
            made.unlike.extend(unlike.of(mapped.piece.place for mapped in made.pieces))
        made.record(self.parts.folder, f"{name}.json", self.parts.identity)
        return made

    def recorded(self, number: int, span: SourceSpan) -> MappedSpan | None:
        """Return what an earlier process has made of a span; None where that is not all there."""
        parts, key = self.parts, f"{name_of(number, span)}.json"
        return MappedSpan.recorded(parts.folder, key, parts.identity, self.pieces.plan.task)

    def _write(self, name: str, rows: list[KeyedRows], parts: list[MadePart]) -> None:
        made = self.parts.grouped(f"{name}-{len(parts):04d}", rows)
        parts.append(self.parts.made(made, keep=False))
        rows.clear()


def name_of(number: int, span: SourceSpan) -> str:
    """Return what parts and record of a span are called: by where it begins, if that is given.

    So whoever has guessed otherwise, and comes late, writes over nothing.
    """
    begins = "" if span.begin is None else f"-from-{span.begin}"
    return f"{SPANS}/{number:06d}{begins}"


def span_of(part: str, spans: Sequence[SourceSpan]) -> tuple[int, SourceSpan] | None:
    """Return the number and the span that a part is of, by its name; None where of none."""
    name = _NAME.fullmatch(part)
    if name is None or int(name["number"]) >= len(spans):
        return None
    number, begin = int(name["number"]), name["begin"]
    return number, spans[number] if begin is None else spans[number]._replace(begin=int(begin))


def map_span(span_map: SpanMap, number: int, span: SourceSpan) -> MappedSpan:
    """Map a span, in any process, unless that was done before."""
    return_freed_memory(span_map.pieces.plan.budget.rows)
    if (made := span_map.recorded(number, span)) is not None:
        return made
    with span_map.turns:
        return span_map.map(number, span)


def map_again(span_map: SpanMap, number: int, span: SourceSpan) -> MappedSpan:
    """Map a span whose parts are not as they were written."""
    return_freed_memory(span_map.pieces.plan.budget.rows)
    with span_map.turns:
        return span_map.map(number, span)
