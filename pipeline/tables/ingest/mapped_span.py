"""What was made of a span of a source, and the record of it that an ingest goes on from.

The record is written behind the parts of the span.  An ingest that was killed maps no span again
whose record is there, of the same rows, with all parts as long as they were written.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from fewpass.pipeline.rows.column_statistics import ColumnStatistics, LargestValues
from fewpass.pipeline.rows.scaling import Measured
from fewpass.pipeline.tables.ingest.frequency_order import ColumnCounts
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.mapped_source import CountsRecord, StrictRecord
from fewpass.pipeline.tables.ingest.piece_map import MappedPiece
from fewpass.pipeline.tables.ingest.read_counts import Natural, ReadCounts
from fewpass.pipeline.tables.ingest.row_parts import MadePart
from fewpass.pipeline.tables.readers.source import BadRow, Extent, Piece, PiecePlace, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import ReadExtent
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal

Position = Annotated[int, Field(ge=0)]
Numbers = Annotated[list[Any], Field(min_length=2, max_length=4)]
_KINDS: dict[str, type[Measured]] = {"statistics": ColumnStatistics, "largest": LargestValues}


class _PieceRecord(StrictRecord):
    place: tuple[Natural, Natural]
    file: str
    first_line: Natural
    n_bytes: Natural
    extent: tuple[Natural, Position, Position] | None
    counts: CountsRecord
    read: ReadCounts
    columns: tuple[Literal["statistics", "largest"], Numbers] | None
    n_rows: Natural
    row_bytes: Natural
    skipped: list[tuple[str, int, str]]


class _PartRecord(StrictRecord):
    name: str
    labels: list[str | float] | None
    rows: list[Natural]
    values: list[Natural]
    length: Natural


_Unlike = tuple[dict[str, Natural], dict[str, str], dict[str, Natural]]


class _SpanRecord(StrictRecord):
    of: str
    name: str
    pieces: list[_PieceRecord]
    parts: list[_PartRecord]
    column_counts: list[Numbers]
    unlike: list[tuple[tuple[Natural, Natural], _Unlike]]
    fingerprint: str


class MappedSpan(NamedTuple):
    """What was counted of a span, and the parts that its rows are in."""

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
            _SpanRecord.model_validate_json(json.dumps(state))
            if (state["of"], state["name"]) != (identity, key):
                return None
            pieces = [_piece_from_state(piece, task) for piece in state["pieces"]]
            counts = [ColumnCounts.from_state(each) for each in state["column_counts"]]
            parts = [MadePart.from_state(part) for part in state["parts"]]
            if all(folder.size(made.part.name) == made.length for made in parts):
                return cls(pieces, parts, counts, state["unlike"])
        return None


def _piece_state(mapped: MappedPiece) -> dict[str, Any]:
    columns, piece = mapped.columns, mapped.piece
    measured = None
    if isinstance(columns, ColumnStatistics | LargestValues):
        kind = "largest" if isinstance(columns, LargestValues) else "statistics"
        measured = [kind, columns.state()]
    return {
        "place": piece.place,
        "file": piece.file,
        "first_line": piece.first_line,
        "n_bytes": piece.n_bytes,
        "extent": piece.extent,
        "counts": mapped.counts.state(),
        "read": mapped.read.model_dump(),
        "columns": measured,
        "n_rows": mapped.n_rows,
        "row_bytes": mapped.row_bytes,
        "skipped": mapped.skipped,
    }


def _piece_from_state(state: dict[str, Any], task: str) -> MappedPiece:
    extent, columns = state["extent"], state["columns"]
    piece = Piece(
        PiecePlace(*state["place"]), state["file"], state["first_line"], None, state["n_bytes"],
        None if extent is None else Extent(*extent),
    )  # fmt: skip
    counts = LabelCounts.from_state(task, state["counts"])
    counts.where = piece.where
    return MappedPiece(
        None, counts, ReadCounts.model_validate(state["read"]),
        None if columns is None else _KINDS[columns[0]].from_state(columns[1]),
        state["n_rows"], state["row_bytes"], piece, tuple(BadRow(*row) for row in state["skipped"]),
    )  # fmt: skip
