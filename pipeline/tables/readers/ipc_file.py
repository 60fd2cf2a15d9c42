"""Arrow IPC, files and streams, opened and read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.arrow_batches import require_legible, validated
from fewpass.pipeline.tables.readers.charsets import peekable
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.ipc_sizes import CheckedMessages, require_messages
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.streams import opened

#: What files begin with, and how many bytes stand in front of the stream that is in them.
FILE_MARK, _MARK_BYTES = b"ARROW1", 8
#: What messages of a stream begin with; a length of 0 behind it ends the stream.
STREAM_MARK = b"\xff\xff\xff\xff"
_END = STREAM_MARK + bytes(4)
_FIRST_FEATHER = b"FEA1"


class Ipc(NamedTuple):
    """An open file or stream."""

    schema: Any
    batches: Iterator[Any]  # validated


@contextmanager
def opened_ipc(address: Address) -> Iterator[Ipc]:
    """Open a file or a stream of Arrow IPC.

    None is mapped into memory: one that somebody cuts meanwhile would end the process.

    Raises
    ------
    BadInput
        It is neither, or damaged, or has batches that do not fit into the budget; while its batches
        are read, too.
    """
    seekable = address.is_local and not address.compression
    with opened(address) as (stream, _):
        peeked = peekable(stream)
        begins = bytes(peeked.peek(_MARK_BYTES)[:_MARK_BYTES])
        if begins.startswith(_FIRST_FEATHER):
            raise BadInput(
                f"{address.name}: the file is Feather of version 1, Arrow IPC (Feather of version "
                "2) was expected. Write it anew, for example by pyarrow.feather.write_feather."
            )
        is_file = begins.startswith(FILE_MARK)
        if is_file and seekable:
            ipc = _sought(address, peeked)
        else:
            ipc = _streamed(address, peeked, _MARK_BYTES if is_file else 0)
        yield ipc._replace(batches=validated(ipc.batches, address.name))


def _sought(address: Address, stream: Any) -> Ipc:
    """Open a file by its footer, once its messages were looked through."""
    with _opening(address):
        stream.seek(_MARK_BYTES)
        require_messages(stream, address.name, address.budget)
        stream.seek(0)
        file = pa.ipc.open_file(pa.PythonFile(stream, "r"))
        require_legible(file.schema)
        return Ipc(file.schema, (file.get_batch(k) for k in range(file.num_record_batches)))


def _streamed(address: Address, stream: Any, skipped: int) -> Ipc:
    """Behind its first eight bytes a file is a stream, which needs no end to begin with."""
    with _opening(address):
        stream.read(skipped)
        ending = _Ending(stream)
        checked = CheckedMessages(ending, address.name, address.budget)
        reader = pa.ipc.open_stream(pa.PythonFile(checked, "r"))
        require_legible(reader.schema)
        return Ipc(reader.schema, _to_the_end(reader, ending, address.name))


@contextmanager
def _opening(address: Address) -> Iterator[None]:
    with parsing(address.name, "the file is not whole Arrow IPC", "Write it anew."):
        yield


class _Ending:
    """Bytes of a stream, of which the first and the last few are remembered."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.first, self.last = b"", b""

    def read(self, count: int = -1) -> bytes:
        content: bytes = self._stream.read(count)
        self.first = self.first or content[: len(STREAM_MARK)]
        self.last = (self.last + content[-len(_END) :])[-len(_END) :]
        return content


def _to_the_end(batches: Any, ending: _Ending, name: str) -> Iterator[Any]:
    """Yield batches; BadInput where the mark is missing that ends them: rows may be, too.

    Streams of Arrow before 0.15 have other marks, which nothing is said of.
    """
    yield from batches
    if ending.first == STREAM_MARK and ending.last != _END:
        raise BadInput(
            f"{name}: the stream has no end mark behind its last batch, so rows may be missing. "
            "Fetch or write it anew, and close the writer."
        )
