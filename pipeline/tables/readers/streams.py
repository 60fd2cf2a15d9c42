"""Files as bytes: opened anywhere, decompressed, and watched for changes meanwhile."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.readers.finding import Address, plain_errors
from fewpass.storage.redaction import without_secrets
from fewpass.storage.source_file import Checked

_READ_BYTES, _BUFFER_BYTES = 1 << 16, 1 << 20
_ARROW = {".bz2": "bz2", ".zst": "zstd"}
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile)


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
        _decompressed(address, stored) as stream,
        _unchanged(stored),  # before Arrow's stream closes it
    ):
        try:
            yield stream, stored
        except _DAMAGED as error:
            raise _damaged(address, stored, error) from error
        except OSError as error:
            if address.compression and error.errno is None:  # how Arrow reports bad data
                raise _damaged(address, stored, error) from error
            raise


def _stored(address: Address) -> BinaryIO:
    if address.file is not None:
        return address.file.open()
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


@contextmanager
def _decompressed(address: Address, stored: BinaryIO) -> Iterator[BinaryIO]:
    if not address.compression:
        yield stored
        return
    if address.compression == ".gz":  # as whole as by Arrow, and it can go back
        raw: Any = gzip.GzipFile(fileobj=stored)
    elif address.compression == ".xz":
        raw = _Xz(stored, address.budget.unpacking)
    else:
        import pyarrow as pa  # noqa: PLC0415 - a tenth of a second that other text need not wait

        raw = pa.CompressedInputStream(pa.PythonFile(stored, "r"), _ARROW[address.compression])
    with io.BufferedReader(raw, _BUFFER_BYTES) as stream:
        yield cast("BinaryIO", stream)


class _Xz(io.RawIOBase):
    """Streams of xz, one after the other, with zeros between and behind them.

    Python's own reader stops in silence at what is no further stream: rows behind a damaged header
    would be missing.
    """

    def __init__(self, stored: BinaryIO, most_bytes: int) -> None:
        super().__init__()
        self._stored, self._most_bytes, self._ahead = stored, most_bytes, b""
        self._stream = lzma.LZMADecompressor(memlimit=most_bytes)

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        content = b""
        while not content:
            if self._stream.eof and not self._next_stream():
                return 0
            content = self._stream.decompress(self._given(), len(out))
        out[: len(content)] = content
        return len(content)

    def _given(self) -> bytes:
        """Return the next stored bytes, none where the stream has some left."""
        if not self._stream.needs_input:
            return b""
        given, self._ahead = self._ahead or self._stored.read(_READ_BYTES), b""
        if not given:
            raise EOFError
        return given

    def _next_stream(self) -> bool:
        """Begin the stream behind one that has ended; False at the end of the file."""
        rest = self._stream.unused_data
        while not (begins := rest.lstrip(b"\0")):
            if not (rest := self._stored.read(_READ_BYTES)):
                return False
        self._stream, self._ahead = lzma.LZMADecompressor(memlimit=self._most_bytes), begins
        return True


def _damaged(address: Address, stored: BinaryIO, error: Exception) -> BadInput:
    if "usage limit" in str(error):  # of xz, whose dictionary is as large as its writer chose
        return BadInput(
            f"{address.name}: unpacking the file takes more than the "
            f"{format_bytes(address.budget.unpacking)} that memory has for it. Pack it with a "
            "smaller dictionary (xz -6), or give more (`memory`)."
        )
    early = isinstance(error, EOFError) or "runcated" in str(error)
    what = (
        "ends before its compressed data does"
        if early
        else f"holds damaged data ({without_secrets(str(error))})"
    )
    read = "" if stored.closed else f" after {stored.tell():,} of {address.size or 0:,} bytes"
    return BadInput(f"{address.name}: the file {what}{read}. Fetch or write it anew.")
