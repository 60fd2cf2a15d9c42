"""A source read piece after piece, each parsed and worked on by one of several threads.

Whatever reads rows of files once goes through this: trainings, evaluations and predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from fewpass.pipeline.tables.readers.source import ParsedRows, Piece, PiecePlace, Source
from fewpass.storage.ordered import ordered_map

Item = TypeVar("Item")
Result = TypeVar("Result")


class ParsedPiece(NamedTuple):
    """Rows of one piece as they came."""

    number: int  # of all pieces of the source
    place: PiecePlace
    parsed: ParsedRows
    n_bytes: int  # of the source
    where: str

    @classmethod
    def of(cls, source: Source, number: int, piece: Piece) -> ParsedPiece:
        """Parse a piece; BadInput names the first row that cannot be read."""
        return cls(number, piece.place, source.parse(piece), piece.n_bytes, piece.where)


def each_piece(
    pieces: Iterable[Item], threads: int, in_flight: int, work: Callable[[int, Item], Result]
) -> Generator[Result]:
    """Yield work(number, piece) of all pieces in turn.

    Parameters
    ----------
    threads
        That work at a time.
    in_flight
        Most pieces in memory.
    """
    with ThreadPoolExecutor(threads, "fewpass-parse") as pool:
        numbered = enumerate(pieces)
        yield from ordered_map(pool, lambda one: work(*one), numbered, in_flight)
