"""Text in any charset as UTF-8, while it is read."""

from __future__ import annotations

import codecs
import io
from typing import Any, BinaryIO, cast

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.solvers.kernels.shapes import Bytes

#: What UTF-16 begins with, either way round.
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_READ_BYTES = 1 << 16
_RETURN, _NEWLINE = b"\r", b"\n"


def as_utf8(stream: BinaryIO, charset: str | None, where: str) -> BinaryIO:
    """Return a stream of UTF-8; without a charset, text is UTF-16 where its mark says so.

    Raises
    ------
    BadInput
        While reading: bytes that are nothing in that charset, by line.
    """
    if charset is not None:
        return _decoded(stream, charset, where)
    peeked = peekable(stream)
    if peeked.peek(2)[:2] in UTF_16_MARKS:
        return _decoded(peeked, "utf-16", where)
    return cast("BinaryIO", peeked)


def peekable(stream: BinaryIO) -> io.BufferedReader:
    """Return a stream whose first bytes can be looked at, also where it cannot go back."""
    buffered: Any = stream if hasattr(stream, "peek") else io.BufferedReader(cast("Any", stream))
    return cast("io.BufferedReader", buffered)


def with_line_feeds(stream: BinaryIO, where: str) -> BinaryIO:
    """Return text with line feeds, where lines end in carriage returns alone, as on old Macs.

    Raises
    ------
    BadInput
        While reading: a line feed after all, so that one of both is part of a cell.
    """
    peeked = peekable(stream)
    head = peeked.peek(_READ_BYTES)
    if _NEWLINE in head or _RETURN not in head[:-1]:  # the last may be half of both
        return cast("BinaryIO", peeked)
    return cast("BinaryIO", io.BufferedReader(_LineFeeds(peeked, where), _READ_BYTES))


class _LineFeeds(io.RawIOBase):
    """A stream with line feeds for carriage returns."""

    def __init__(self, stream: io.BufferedReader, where: str) -> None:
        super().__init__()
        self._stream, self._where, self._lines = stream, where, 0

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        content = self._stream.read(len(out))
        self._lines += content.count(_RETURN)
        if _NEWLINE in content:
            raise BadInput(
                f"{self._where}: {self._lines:,} carriage returns stand before or near the first "
                "line feed, so what ends a line cannot be told. Take out those that end none: "
                "tr -d '\\r' where line feeds end the lines."
            )
        out[: len(content)] = content.replace(_RETURN, _NEWLINE)
        return len(content)


def _decoded(stream: BinaryIO, charset: str, where: str) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Decoded(stream, charset, where), _READ_BYTES))


class _Decoded(io.RawIOBase):
    """A stream of another charset, as UTF-8."""

    def __init__(self, stream: BinaryIO, charset: str, where: str) -> None:
        super().__init__()
        self._stream, self._charset, self._where, self._lines = stream, charset, where, 0
        self._decoder = codecs.getincrementaldecoder(charset)()

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        ready, content = b"", b"more"
        while content and not ready:
            content = self._stream.read(len(out) // 8)  # a byte of any charset takes fewer
            try:
                ready = self._decoder.decode(content, final=not content).encode()
            except UnicodeError as error:
                raise self._no_text(error) from error
        self._lines += ready.count(_NEWLINE)
        out[: len(ready)] = ready
        return len(ready)

    def _no_text(self, error: UnicodeError) -> BadInput:
        line, bad = self._lines + 1, ""
        if isinstance(error, UnicodeDecodeError):
            before = error.object[: error.start].decode(self._charset, "ignore")
            line += before.count("\n")
            bad = f" {shown(error.object[error.start : error.end])}"
        return BadInput(
            f"{self._where}, line {line}: the bytes{bad} are no {self._charset} text. Say what "
            "it is written in (`charset`)."
        )


def charset_of(head: bytes) -> str | None:
    """Guess the charset of a text from its first bytes; None for UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252"
    return None


def is_utf8(text: Bytes) -> bool:
    """Say whether bytes are UTF-8, by Arrow's own check, which is fast and copies nothing."""
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second that other text need not wait

    ends = pa.py_buffer(np.array([0, text.size], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(text)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
