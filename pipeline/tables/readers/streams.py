"""Files as bytes: opened anywhere, decompressed, and watched for changes meanwhile.

Python's own readers of bzip2 and xz stop without a word at what is no further stream: rows behind
a damaged header would be missing.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.charsets import peekable
from fewpass.pipeline.tables.readers.finding import Address, plain_errors
from fewpass.storage.redaction import without_secrets
from fewpass.storage.source_file import Checked

_READ_BYTES = 1 << 16
_KINDS: dict[str, Any] = {".bz2": bz2.BZ2Decompressor, ".xz": lzma.LZMADecompressor}


_LOOKED_AT = 1 << 12
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_LARGEST = 1 << 40
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile)


def unpacked(stored: BinaryIO, compression: str) -> BinaryIO:
    """Return the bytes of a compressed file; zeros behind it are padding.

    Raises
    ------
    OSError, lzma.LZMAError, EOFError
        While reading: damaged data, or its end before that of a stream.
    """
    raw = _Unpacked(stored, _KINDS[compression])
    return cast("BinaryIO", io.BufferedReader(raw, _READ_BYTES))


class _Unpacked(io.RawIOBase):
    """Streams of compressed bytes, one after the other."""

    def __init__(self, stored: BinaryIO, kind: Any) -> None:
        super().__init__()
        self._stored, self._kind = stored, kind
        self._decompressor, self._ahead = kind(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        content = b""
        while not content:
            if self._decompressor.eof and not self._next_stream():
                return 0
            content = self._decompressor.decompress(self._given(), len(out))
        out[: len(content)] = content
        return len(content)

    def _given(self) -> bytes:
        """Return the next compressed bytes, none where enough were given before."""
        if not self._decompressor.needs_input:
            return b""
        given, self._ahead = self._ahead or self._stored.read(_READ_BYTES), b""
        if not given:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        return given

    def _next_stream(self) -> bool:
        """Begin the stream behind one that has ended; say whether there is any."""
        rest = self._decompressor.unused_data.lstrip(b"\0")
        while not rest:
            more = self._stored.read(_READ_BYTES)
            if not more:
                return False
            rest = more.lstrip(b"\0")
        self._decompressor, self._ahead = self._kind(), rest
        return True


def require_window(stored: BinaryIO, compression: str, name: str, budget: Budget) -> BinaryIO:
    """Return a stored stream from its beginning, if unpacking it fits into the budget.

    Raises
    ------
    BadInput
        When it has not, with the window and the budget.
    """
    if compression not in (".xz", ".zst"):
        return stored
    peeked = peekable(stored)
    head = peeked.peek(_LOOKED_AT)[:_LOOKED_AT]
    size = _of_xz(head) if compression == ".xz" else _of_zstandard(head)
    budget.require_window(
        size, f"{name}: unpacking the file takes",
        "Pack it with a smaller one (xz -6, zstd -19 and no long window)",
    )  # fmt: skip
    return peeked


def _of_xz(head: bytes) -> int:
    """Return bytes within which the beginning can be unpacked, an eighth too many at most; or 0."""
    size = 1 << 16
    while size < _LARGEST:
        try:
            lzma.LZMADecompressor(memlimit=size).decompress(head, max_length=1)
        except lzma.LZMAError as error:
            if "limit" not in str(error):
                return 0
            size += size // 8
        else:
            return size
    return _LARGEST


def _of_zstandard(head: bytes) -> int:
    """Return the window of a frame (RFC 8878, section 3.1.1.1); 0: there is none."""
    if len(head) < 6 or not head.startswith(_ZSTANDARD):
        return 0
    descriptor = head[4]
    if not descriptor & 0x20:
        exponent, mantissa = head[5] >> 3, head[5] & 7
        base = 1 << (10 + exponent)
        return base + (base >> 3) * mantissa
    n_bytes = (1, 2, 4, 8)[descriptor >> 6]
    begin = 5 + (0, 1, 2, 4)[descriptor & 3]
    return int.from_bytes(head[begin : begin + n_bytes], "little") + (256 if n_bytes == 2 else 0)


@contextmanager
def opened(address: Address) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file: its decompressed and its stored bytes.

    Raises
    ------
    BadInput
        While reading: the compressed file ends early or is damaged.
    SourceChanged, CutShort
        Here, while reading or at the end: the file is not what it was when it was found, or fewer
        bytes came than it has.
    """
    with (
        plain_errors(address.name, address.store),
        _stored(address) as stored,
        _unchanged(stored),
    ):
        ready = require_window(stored, address.compression, address.name, address.budget)
        stream = _decompressed(ready, address.compression)
        try:
            yield stream, stored
        except _DAMAGED as error:
            raise _damaged(address, stored, error) from error
        except OSError as error:
            if address.compression and error.errno is None:  # how bz2 and Arrow report bad data
                raise _damaged(address, stored, error) from error
            raise
        finally:
            if stream is not ready:
                stream.close()


def _stored(address: Address) -> BinaryIO:
    if address.file is not None:
        return cast("BinaryIO", address.file.open())
    return cast("BinaryIO", address.store.open(address.path, "rb"))


@contextmanager
def _unchanged(stored: BinaryIO) -> Iterator[None]:
    """Refuse what was read of a file that changed meanwhile, also where it made no sense."""
    try:
        yield
    except Exception:
        _require_same(stored)
        raise
    _require_same(stored)


def _require_same(stored: BinaryIO) -> None:
    if isinstance(stored, Checked) and not stored.closed:
        stored.require_same()


def _decompressed(stored: BinaryIO, compression: str) -> BinaryIO:
    if compression == ".gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=stored))
    if compression in (".bz2", ".xz"):
        return unpacked(stored, compression)
    if compression == ".zst":
        import pyarrow as pa  # noqa: PLC0415 - a tenth of a second that other text need not wait

        arrow = pa.CompressedInputStream(pa.PythonFile(stored, "r"), "zstd")
        return cast("BinaryIO", io.BufferedReader(arrow, 1 << 20))
    return stored


def _damaged(address: Address, stored: BinaryIO, error: Exception) -> BadInput:
    early = isinstance(error, EOFError) or "runcated" in str(error)
    what = (
        "ends before its compressed data does"
        if early
        else f"holds damaged data ({without_secrets(str(error))})"
    )
    read = "" if stored.closed else f" after {stored.tell():,} of {address.size or 0:,} bytes"
    return BadInput(f"{address.name}: the file {what}{read}. Fetch or write it anew.")
