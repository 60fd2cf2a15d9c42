"""Text cut at line ends: whole lines in pieces, the first ones, and a sample of them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.readers.characters import NEWLINE
from fewpass.pipeline.tables.readers.charsets import (
    UTF_16_MARKS,
    as_utf8,
    peekable,
    with_line_feeds,
)
from fewpass.pipeline.tables.readers.csv_quotes import (
    BEHIND,
    INSIDE,
    NO_QUOTES,
    OUTSIDE,
    Quotes,
    by_tabs,
)
from fewpass.pipeline.tables.readers.finding import Address, empty_file
from fewpass.pipeline.tables.readers.source import (
    MOST_SPANS,
    SPAN_BYTES,
    Extent,
    Piece,
    PiecePlace,
    SourceSpan,
)
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.pipeline.tables.readers.streams import opened
from fewpass.pipeline.tables.readers.unsupported_files import LOOKED_AT, begins_with, refuse_begun
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes
from fewpass.storage.aligned_memory import aligned_empty

#: Text decompressed to learn how far a file expands, and what its rows look like.
SAMPLE_BYTES = 1 << 20
#: The same for compressed text, where a decompressor takes in more than it has given out.
_COMPRESSED_SAMPLE_BYTES = 8 << 20
_HEAD_BYTES = 1 << 18
#: Text that the end of a long row is looked for in, at a time.
_BLOCK_BYTES = 1 << 16
#: What a cell that is encoded counts for at least, however short: a place, an entry and its values
#: are some 40 bytes, of which Budget.piece has as many copies of text.
TEXT_CELL_BYTES = 8
#: Text in front of a span that says whether its first byte is inside of quotes.
BEFORE_BYTES = 1 << 16
WHOLE = SourceSpan(0)
#: Pieces that a range may be cut into: their numbers lie between those of the ranges around it.
MOST_PARTS = 1 << 20
#: What files that are no text begin with.
_NO_TEXT = {
    b"\x1f\x8b": "gzip (.gz)", b"BZh": "bzip2 (.bz2)", b"\xfd7zXZ\x00": "xz (.xz)",
    b"\x28\xb5\x2f\xfd": "zstandard (.zst)", b"PK\x03\x04": "zip (.npz, .xlsx or .zip)",
    b"PAR1": "Parquet (.parquet)", b"ARROW1": "Arrow (.arrow)", b"\x93NUMPY": "NumPy (.npy)",
}  # fmt: skip
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class WholeLines(NamedTuple):
    """Whole lines."""

    bytes: Bytes  # (size,), the last one a line end
    lines: int


@kernel
def count_byte(text: Bytes, wanted: int) -> int:
    """Return the number of times that a byte occurs."""
    count = 0
    for c in text:
        count += c == wanted
    return count


def _fill(stream: BinaryIO, buffer: memoryview) -> int:
    """Read until the buffer is full or the stream ends."""
    filled = 0
    while filled < len(buffer):
        got = stream.readinto(buffer[filled:])  # type: ignore[attr-defined]
        if not got:
            break
        filled += got
    return filled


def _with_line_end(buffer: Bytes, filled: int, tail: bytes) -> Bytes:
    """Content of the buffer and the tail, ended by a line end."""
    if filled and not tail and buffer[filled - 1] != NEWLINE:
        tail = b"\n"
    elif tail and not tail.endswith(b"\n"):
        tail += b"\n"
    if filled + len(tail) > buffer.size:
        buffer = np.concatenate([buffer[:filled], np.frombuffer(tail, np.uint8)])
    else:
        buffer[filled : filled + len(tail)] = np.frombuffer(tail, np.uint8)
    return buffer[: filled + len(tail)]


def read_lines(stream: BinaryIO, n_bytes: int, longest: int, quotes: Quotes = NO_QUOTES) -> Bytes:
    """Read the next `n_bytes` and on to the end of the row: (size,) bytes, none at the end.

    A missing final line end is supplied.

    Raises
    ------
    LineTooLong
        When that row goes on for more than `longest` bytes.
    QuoteLeftOpen
        When the text ends inside of quotes.
    """
    slack = n_bytes // 8 + 1024  # most rows end within it
    buffer = aligned_empty(n_bytes + slack, np.uint8)
    filled = _fill(stream, buffer.data[:n_bytes])
    state = quotes.state_behind(buffer[:filled], OUTSIDE)
    is_whole = not filled or (buffer[filled - 1] == NEWLINE and state != INSIDE)
    try:
        tail = b"" if is_whole else _rest_of_row(stream, longest, quotes, state)
    except (LineTooLong, QuoteLeftOpen) as error:
        error.before = buffer[:filled]
        raise
    return _with_line_end(buffer, filled, tail)


def _rest_of_row(stream: BinaryIO, longest: int, quotes: Quotes, state: int) -> bytes:
    """Read on to the end of a row, which is inside of quotes or not."""
    rest = bytearray()
    while block := cast("Any", stream).peek()[: min(longest - len(rest), _BLOCK_BYTES)]:
        end, state = quotes.end_of_row(block, state)
        rest += stream.read(end or len(block))
        if end:
            return bytes(rest)
    if len(rest) == longest:
        raise LineTooLong(longest)
    if state == INSIDE:
        raise QuoteLeftOpen
    return bytes(rest)


class LineTooLong(Exception):  # noqa: N818  it becomes a BadInput at once
    """A row too long for the budget; the argument is the longest length allowed."""

    before: Bytes  # rows that were read with it, and its beginning


class QuoteLeftOpen(Exception):  # noqa: N818  it becomes a BadInput at once
    """A text that ends inside of a quoted cell."""

    before: Bytes  # likewise


@contextmanager
def opened_text(address: Address) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a text file; BadInput for a line too long for the budget."""
    with opened(address) as (stream, stored):
        peeked = peekable(stream)
        _require_text(peeked.peek(LOOKED_AT), address)
        try:
            text = as_utf8(cast("BinaryIO", peeked), address.charset, address.name)
            yield _without_mark(with_line_feeds(text, address.name)), stored
        except LineTooLong as error:
            raise BadInput(
                f"{address.name}: a line is longer than the {format_bytes(*error.args)} that the "
                "memory has room for. Check that it is text and whole, or give more (`memory`)."
            ) from error


def refuse_unsupported(address: Address, head: bytes) -> None:
    """Refuse what ingest does not read, by first bytes; what may be a zip is looked into."""
    if address.compression or address.size is None or not head.startswith(b"PK"):
        refuse_begun(address.name, head)
        return
    with opened(address) as (stream, _):
        refuse_begun(address.name, head, stream)


def _require_text(begins: bytes, address: Address) -> None:
    refuse_unsupported(address, begins)
    for mark, what in _NO_TEXT.items():
        if begins_with(begins, mark):
            advice = (
                "Unpack it on its way (gzip -dc and the like)"
                if address.name == STANDARD_INPUT
                else "Give it the name that says what it holds, or unpack it"
            )
            raise BadInput(
                f"{address.name}: what is there begins as {what} does, and text was expected. "
                f"{advice}."
            )


def spans_of(addresses: Sequence[Address], n_bytes: int) -> list[SourceSpan]:
    """Return spans of text files: ranges of plain text, and all of other files."""
    together = max(SPAN_BYTES, sum(one.size or 0 for one in addresses) // MOST_SPANS) // n_bytes
    return _cut(addresses, n_bytes, max(1, together))


def ranges_apart(addresses: Sequence[Address], n_bytes: int) -> list[SourceSpan]:
    """Return spans of one range each; none where a file can only be read from its beginning."""
    spans = _cut(addresses, n_bytes, 1) if all(map(_is_as_stored, addresses)) else []
    whole = (addresses[span.file] for span in spans if not span.first and span.stop is None)
    return [] if any((address.size or 0) > n_bytes for address in whole) else spans


def _cut(addresses: Sequence[Address], n_bytes: int, together: int) -> list[SourceSpan]:
    """Return spans of `together` ranges each; a file that is read from its beginning is one."""
    spans: list[SourceSpan] = []
    for file, address in enumerate(addresses):
        ranges = -(-(address.size or 0) // n_bytes)
        if ranges <= together or not _is_plain(address):
            spans.append(SourceSpan(file))
            continue
        firsts = range(0, ranges, together)
        spans += [SourceSpan(file, first, first + together) for first in firsts[:-1]]
        spans.append(SourceSpan(file, firsts[-1]))
    return spans


def _is_as_stored(address: Address) -> bool:
    is_another = address.compression or address.charset or address.spaced
    return not is_another and address.name != STANDARD_INPUT


def _is_plain(address: Address) -> bool:
    """Return whether text is as it is stored, so that reading may begin anywhere."""
    if not _is_as_stored(address):
        return False
    with opened(address) as (stream, _):
        head = stream.read(LOOKED_AT)
        is_utf_16 = head[:2] in UTF_16_MARKS
        return stream.seekable() and not is_utf_16 and NEWLINE in head


def _at_first_row(
    stream: BinaryIO, n_bytes: int, longest: int, quotes: Quotes, span: SourceSpan
) -> int:
    """Go to the first row that begins in a span, or behind it; return where it is.

    The text before tells, unless it has no quoted cell: then none is taken to have begun.
    """
    if not span.first:
        return 0
    start, at = stream.tell(), span.first * n_bytes  # behind a byte order mark
    if span.begin is not None:
        stream.seek(start + span.begin)
        return span.begin
    before = min(at, BEFORE_BYTES)
    stream.seek(start + at - before)
    text = np.frombuffer(stream.read(before), np.uint8)
    states = [quotes.state_behind(text, state) for state in range(BEHIND + 1)]
    state = states[0] if len({*states}) == 1 else states[OUTSIDE]
    if state != INSIDE and text[-1:].tobytes() == b"\n":
        return at
    try:
        return at + len(_rest_of_row(stream, longest, quotes, state))
    except QuoteLeftOpen:  # it was guessed wrong
        return at


def ranges_of(
    stream: BinaryIO, name: str, n_bytes: int, longest: int, quotes: Quotes = NO_QUOTES,
    span: SourceSpan = WHOLE,
) -> Iterator[tuple[int, int, Bytes]]:  # fmt: skip
    """Cut text, or a span of it, into ranges of about `n_bytes`.

    Yields the number of the first piece of each range, the byte that its first row begins at, and
    the rows that begin in it; also those before one that cannot be read, as they may have faults of
    their own.
    """
    at = _at_first_row(stream, n_bytes, longest, quotes, span)
    while span.stop is None or at < span.stop * n_bytes:
        try:
            text = read_lines(stream, n_bytes - at % n_bytes, longest, quotes)
        except (LineTooLong, QuoteLeftOpen) as error:
            if (whole := quotes.whole_rows(error.before)).size:
                yield at // n_bytes * MOST_PARTS, at, whole
            raise
        if not text.size:
            break
        yield at // n_bytes * MOST_PARTS, at, text
        at += text.size
    if not at:
        raise empty_file(name)


def _parts(text: WholeLines, most: int) -> Iterator[WholeLines]:
    """Cut lines into parts of `most` lines."""
    if text.lines <= most:
        yield text
        return
    ends = np.flatnonzero(text.bytes == NEWLINE)[most - 1 : text.lines - 1 : most] + 1
    for part in np.split(text.bytes, ends):
        yield WholeLines(part, count_byte(part, NEWLINE))


def _lines(text: Bytes, address: Address) -> WholeLines:
    return WholeLines(
        by_tabs(text, address.quotes) if address.spaced else text, count_byte(text, NEWLINE)
    )


def _without_mark(stream: BinaryIO) -> BinaryIO:
    """Pass over a byte order mark."""
    if cast("Any", stream).peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
        stream.read(len(_BYTE_ORDER_MARK))
    return stream


class TextHead(NamedTuple):
    """The first lines of a text file, which all that looks at them shares."""

    text: Bytes
    is_whole: bool  # whether the file has no more
    n_bytes: float  # of text that the file is likely to hold
    charset: str | None  # that it was read with


def with_head(address: Address, longest: int) -> Address:
    """Return a text file with its first lines, which are read once."""
    size = _COMPRESSED_SAMPLE_BYTES if address.compression else SAMPLE_BYTES
    with opened_text(address) as (stream, stored):
        text = read_lines(stream, size, longest)
        if not text.size:
            raise empty_file(address.name)
        used = stored.tell() if address.compression or address.charset else text.size
        whole = text.size * max(1.0, (address.size or used) / used)
        if address.compression == ".gz":
            whole = max(whole, _stated_size(stored))
    is_whole = text.size < size
    head = TextHead(text, is_whole, whole, address.charset)
    return address._replace(head=head)


def _head_of(address: Address, longest: int) -> TextHead:
    head = address.head
    if head is None or head.charset != address.charset:
        head = with_head(address, longest).head
    return cast("TextHead", head)


def first_lines(address: Address, longest: int, n_bytes: int = _HEAD_BYTES) -> WholeLines:
    """Enough of a text file to see how its lines are made up."""
    head = None if address.head is None else _head_of(address, longest)
    if head is None or not (head.is_whole or n_bytes < head.text.size):
        with opened_text(address) as (stream, _):
            text = read_lines(stream, n_bytes, longest)
        if not text.size:
            raise empty_file(address.name)
        return _lines(text, address)
    return _lines(first_of(head.text, n_bytes), address)


def first_of(text: Bytes, n_bytes: int = _HEAD_BYTES) -> Bytes:
    """Return the first lines of a text that are so long together, or all of it."""
    ends = np.flatnonzero(text[n_bytes - 1 :] == NEWLINE)[:1] + n_bytes
    return text[: int(ends[0])] if ends.size else text


def sample(address: Address, longest: int) -> tuple[WholeLines, float]:
    """First lines of a text file, and how many bytes of text its whole is likely to hold."""
    head = _head_of(address, longest)
    return _lines(head.text, address), head.n_bytes


def text_bytes(addresses: Sequence[Address], longest: int) -> float:
    """Estimate the bytes of text in all files, as if they were compressed like the first one."""
    _, whole = sample(addresses[0], longest)
    return whole * sum(address.size or 0 for address in addresses) / max(1, addresses[0].size or 0)


def line_pieces(
    addresses: Sequence[Address], piece_bytes: int, longest: int, cells: int = 0,
    span: SourceSpan | None = None,
) -> Iterator[Piece]:  # fmt: skip
    """Read text files one after the other, or a span, in pieces of whole lines.

    See `Source.pieces`.  Where a line becomes that number of `cells` of text, a piece has fewer
    lines if they are short.
    """
    most = max(1, piece_bytes // (TEXT_CELL_BYTES * cells)) if cells else piece_bytes
    for one in map(SourceSpan, range(len(addresses))) if span is None else [span]:
        address, line = addresses[one.file], 1 + one.lines
        with opened_text(address) as (stream, _):
            for k, begin, text in ranges_of(stream, address.name, piece_bytes, longest, span=one):
                at = begin
                for number, part in enumerate(_parts(_lines(text, address), most), k):
                    place, end = PiecePlace(number, one.file), at + part.bytes.size
                    extent = Extent(part.lines, at, end)
                    yield Piece(place, address.name, line, part, part.bytes.size, extent)
                    line, at = line + part.lines, end


def _stated_size(stored: BinaryIO) -> int:
    """Return the length by a gzip file's last bytes, modulo 2^32 and of its last member only."""
    if not stored.seekable():
        return 0
    stored.seek(-4, io.SEEK_END)
    return int.from_bytes(stored.read(4), "little")
