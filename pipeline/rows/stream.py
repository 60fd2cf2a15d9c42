"""The streams that spans read: blocks of rows, one for every window.

Three things are such streams: rows stored in chunks and rows in memory (`reader.py`, over what
`buffers.py` and `resident.py` load), and rows of a source that is read once (`from_source.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fewpass.pipeline.rows.source_position import SourcePosition
from fewpass.pipeline.rows.windows import Window
from fewpass.solvers.protocol import Block, ColumnMoments


@dataclass
class ReadingStatistics:
    """The cost of reading, for the log: bytes, and seconds that the steps waited for rows."""

    bytes_read: int = 0
    wait_s: float = 0.0


class Arrival(NamedTuple):
    """Position and columns after a block of rows that come once."""

    position: SourcePosition  # after the block
    moments: ColumnMoments | None  # of every column so far, where steps go by them


class VisitedBlock(NamedTuple):
    """A block, and the places of its window's chunks in it."""

    block: Block
    places: list[slice]
    arrival: Arrival | None = None  # of rows that come once


class RowStream(Protocol):
    """Blocks of rows, window after window."""

    statistics: ReadingStatistics

    def blocks(self, windows: Sequence[Window]) -> Generator[VisitedBlock]:
        """Yield a block for every window, valid until the next one; fewer where rows end."""
