"""Spans of a source, as a chain: each begins where the rows of the one before end.

A task of another process reads a span alone.  It looks for the first row itself, which where quotes
enclose cells may be a guess, and counts lines from there.  So whoever takes the results in turn
looks whether the chain holds, and has a span that does not fit read again, as well as one with a
row that is refused: then the span says where it begins, and in which line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.ordered_tasks import result_or_refusal
from fewpass.pipeline.tables.readers.source import Piece, Source, SourceSpan
from fewpass.storage.ordered import ordered_map


class ReadExtent(NamedTuple):
    """The place in a file of the rows of a span that was read."""

    begin: int | None = None  # byte of the first one; None: there is none
    end: int = 0  # byte behind the last one
    lines: int = 0  # that they take, with the head of the file

    def with_piece(self, piece: Piece, span: SourceSpan) -> ReadExtent:
        """Return that of one piece more of a span."""
        if piece.extent is None:  # its file is one span
            return self
        begin = piece.extent.begin if self.begin is None else self.begin
        lines = piece.first_line - 1 + piece.extent.lines - span.lines
        return ReadExtent(begin, piece.extent.end, lines)


class ReadPieces:
    """The pieces of a span, and where its rows are, once they are read.

    Parameters
    ----------
    piece_bytes
        Of a piece's text, about, as the spans were cut by.
    """

    def __init__(self, source: Source, span: SourceSpan, piece_bytes: int) -> None:
        self._source, self._span, self._piece_bytes = source, span, piece_bytes
        self.extent = ReadExtent()
        self._ahead: deque[Piece] | None = None  # None: not read yet

    def read(self) -> ReadPieces:
        """Read all pieces now, to be had once."""
        self._ahead = deque(self)
        return self

    def __iter__(self) -> Iterator[Piece]:
        """Yield the pieces, in their order."""
        if self._ahead is not None:
            while self._ahead:
                yield self._ahead.popleft()
            return
        for piece in self._source.pieces_of(self._span, self._piece_bytes):
            self.extent = self.extent.with_piece(piece, self._span)
            yield piece


class SpanChain:
    """The place where the next span of a source begins, as the ones before were read."""

    def __init__(self) -> None:
        self._at = SourceSpan(-1)

    def begun(self, span: SourceSpan) -> SourceSpan:
        """Return the next span, with where it begins; to be called of each in turn."""
        if span.file != self._at.file:
            self._at = SourceSpan(span.file, begin=0)
        if span.first:
            span = span._replace(begin=self._at.begin, lines=self._at.lines)
        return span

    def fits(self, read: ReadExtent) -> bool:
        """Return whether the span was read from where it begins; the first of a file always is."""
        return not self._at.begin or self._at.begin == read.begin

    def add(self, read: ReadExtent) -> None:
        """Go on behind the rows of a span."""
        if read.begin is not None:
            at = self._at
            self._at = at._replace(begin=read.end, lines=at.lines + read.lines)


class ChainedResult(NamedTuple):
    """The result of a span."""

    result: Any
    span: SourceSpan  # as it was read
    lines: int  # of its file before it, that `span` does not say


def in_chain(
    spans: Sequence[SourceSpan],
    results: Iterable[Any],
    extent: Callable[[Any, SourceSpan], ReadExtent],
    again: Callable[[int, SourceSpan], Any],
) -> Iterator[ChainedResult]:
    """Yield the results of all spans in turn, each of rows that begin where those before end.

    Parameters
    ----------
    results
        Of the spans; BadInput, too, which may be of rows that begin elsewhere.
    extent
        Returns where the rows are that a result is of, by the span that was read.
    again
        Reads the span of a number once more, which says where it begins; raises its BadInput.
    """
    chain = SpanChain()
    for number, (span, given) in enumerate(zip(spans, results, strict=True)):
        result, read, begun = given, span, chain.begun(span)
        if isinstance(result, BadInput) or not chain.fits(extent(result, read)):
            result, read = again(number, begun), begun
        yield ChainedResult(result, read, begun.lines - read.lines)
        chain.add(extent(result, read))


def pieces_read_ahead(
    source: Source, piece_bytes: int, pool: Executor, in_flight: int
) -> Iterator[Piece]:
    """Yield the pieces of all files in turn; some pieces of text are read ahead by a pool."""
    ranges = source.ranges(piece_bytes)
    if not ranges:
        yield from source.pieces(piece_bytes)

    def opened(_: int, span: SourceSpan) -> ReadPieces:
        return ReadPieces(source, span, piece_bytes)

    def read(span: SourceSpan) -> ReadPieces:
        return opened(0, span).read()

    results = ordered_map(pool, partial(result_or_refusal, read), ranges, in_flight)
    for pieces, _, lines in in_chain(ranges, results, lambda pieces, _: pieces.extent, opened):
        for piece in pieces:
            yield piece._replace(first_line=piece.first_line + lines)


def pieces_in_turn(
    source: Source, spans: Sequence[SourceSpan], piece_bytes: int
) -> Iterator[tuple[int, Piece]]:
    """Yield the pieces of all spans, in this process, each with the number of its span.

    Without spans those of the whole source.
    """
    if not spans:
        yield from ((0, piece) for piece in source.pieces(piece_bytes))
    chain = SpanChain()
    for number, span in enumerate(spans):
        pieces = ReadPieces(source, chain.begun(span), piece_bytes)
        for piece in pieces:
            yield number, piece
        chain.add(pieces.extent)
