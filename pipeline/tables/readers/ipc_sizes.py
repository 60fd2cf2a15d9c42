"""Sizes of the messages of Arrow IPC, from their headers: what Arrow takes before it says so.

A message is a length, a header (FlatBuffers: Message.fbs of the Arrow format), and a body, whose
buffers begin with their unpacked sizes where they are compressed.  Of a header that cannot be read
nothing is said: Arrow says what is wrong with it.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, NamedTuple

from fewpass.pipeline.budget import Budget

_MARK = b"\xff\xff\xff\xff"  # in front of a length, since Arrow 0.15
_LARGEST_HEADER = 1 << 28
_DICTIONARY, _BATCH = 2, 3  # of Message.header
_SMALLER = (
    "Write it in smaller batches (pyarrow: write_table has max_chunksize, write_feather chunksize)"
)


class _MessageHeader(NamedTuple):
    """What the header of a message says of its body."""

    body: int  # bytes as stored
    is_dictionary: bool
    rows: int
    packed: tuple[tuple[int, int], ...]  # place in the body and stored bytes of compressed buffers


def require_messages(stream: BinaryIO, name: str, budget: Budget) -> None:
    """Look through a stream that can be sought in, from where it is.

    Raises
    ------
    BadInput
        A batch, or a dictionary, that does not fit into the budget once it is unpacked.
    """
    dictionaries = 0
    while (message := _next(stream)) is not None:
        _, header = message
        begin = stream.tell()
        if header is None:
            return
        size = 0
        for place, stored in header.packed:
            stream.seek(begin + place)
            size += _unpacked(stream.read(8), stored)
        dictionaries = _require(header, size, dictionaries, name, budget)
        stream.seek(begin + header.body)


class CheckedMessages:
    """A stream of messages that are looked at before they are handed on, one at a time."""

    closed = False

    def __init__(self, stream: Any, name: str, budget: Budget) -> None:
        self._stream, self._name, self._budget = stream, name, budget
        self._ready, self._dictionaries, self._passes = memoryview(b""), 0, False

    def read(self, count: int = -1) -> bytes:
        """Return the next bytes; BadInput for a message that does not fit into the budget."""
        if not self._ready and not self._passes:
            self._look()
        if not self._ready:
            content: bytes = self._stream.read(count)
            return content
        count = len(self._ready) if count < 0 else count
        content, self._ready = bytes(self._ready[:count]), self._ready[count:]
        return content if len(content) == count else content + self.read(count - len(content))

    def _look(self) -> None:
        message = _next(self._stream)
        if message is None:
            self._passes = True
            return
        front, header = message
        if header is None:
            self._passes, self._ready = True, memoryview(front)
            return
        _require(header, 0, 0, self._name, self._budget)
        body = self._stream.read(header.body)
        places = [(body[at : at + 8], stored) for at, stored in header.packed]
        size = sum(_unpacked(first, stored) for first, stored in places)
        self._dictionaries = _require(header, size, self._dictionaries, self._name, self._budget)
        self._ready = memoryview(front + body)


def _require(
    header: _MessageHeader, size: int, dictionaries: int, name: str, budget: Budget
) -> int:
    """Refuse a body that takes too much unpacked; return what dictionaries take so far."""
    what = "a dictionary" if header.is_dictionary else f"a batch of {header.rows:,} rows"
    budget.require_side_by_side(header.body, f"{name}: {what} takes", _SMALLER)
    budget.require_part(size, f"{name}: {what} takes, unpacked,", _SMALLER)
    if header.is_dictionary:
        dictionaries += max(size, header.body)
        budget.require_side_by_side(dictionaries, f"{name}: its dictionaries take", _SMALLER)
    return dictionaries


def _unpacked(first: bytes, stored: int) -> int:
    """Return the size of a buffer that begins so; -1 stands for one that is not compressed."""
    size = int.from_bytes(first, "little", signed=True)
    return size if size >= 0 else stored - 8


def _next(stream: Any) -> tuple[bytes, _MessageHeader | None] | None:
    """Read up to the body of the next message: the bytes, and what they say; None at the end."""
    front = stream.read(4)
    if front == _MARK:
        front += stream.read(4)
    length = int.from_bytes(front[-4:], "little", signed=True)
    if len(front) < 4:
        return (front, None) if front else None
    if not 0 < length <= _LARGEST_HEADER:
        return front, None
    content = stream.read(length)
    try:
        return front + content, _header(content)
    except struct.error:
        return front + content, None


def _header(content: bytes) -> _MessageHeader:
    message = _Table(content, _u32(content, 0))
    kind, body = message.number(1, "<B"), message.number(3, "<q")
    batch = message.table(2) if kind in (_DICTIONARY, _BATCH) else None
    if batch is not None and kind == _DICTIONARY:
        batch = batch.table(1)
    if batch is None:
        return _MessageHeader(max(0, body), False, 0, ())
    buffers = batch.pairs(2) if batch.table(3) is not None else ()
    packed = tuple((at, size) for at, size in buffers if size > 0)
    return _MessageHeader(max(0, body), kind == _DICTIONARY, batch.number(0, "<q"), packed)


def _u32(content: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", content, at)[0])


class _Table:
    """A table of FlatBuffers."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self._at = content, at
        self._fields = at - int(struct.unpack_from("<i", content, at)[0])
        self._length = int(struct.unpack_from("<H", content, self._fields)[0])

    def _place(self, field: int) -> int:
        """Return where a field is, or 0 where it has its default."""
        at = 4 + 2 * field
        if at >= self._length:
            return 0
        offset = int(struct.unpack_from("<H", self._content, self._fields + at)[0])
        return self._at + offset if offset else 0

    def number(self, field: int, form: str) -> int:
        """Return a number, 0 by default."""
        at = self._place(field)
        return int(struct.unpack_from(form, self._content, at)[0]) if at else 0

    def table(self, field: int) -> _Table | None:
        """Return a table inside of this one."""
        at = self._place(field)
        return _Table(self._content, at + _u32(self._content, at)) if at else None

    def pairs(self, field: int) -> tuple[tuple[int, int], ...]:
        """Return a vector of pairs of numbers."""
        at = self._place(field)
        if not at:
            return ()
        at += _u32(self._content, at)
        numbers = struct.unpack_from(f"<{2 * _u32(self._content, at)}q", self._content, at + 4)
        return tuple(zip(numbers[::2], numbers[1::2], strict=True))
