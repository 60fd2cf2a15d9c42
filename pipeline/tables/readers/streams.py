"""Files as bytes: opened anywhere, decompressed, and watched for changes meanwhile."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.finding import Address, told_plainly
from fewpass.pipeline.tables.readers.unpacked import unpacked
from fewpass.pipeline.tables.readers.unpacking import require_window
from fewpass.storage.redaction import without_secrets
from fewpass.storage.source_files import Checked

_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile)


@contextmanager
def opened(address: Address, *, anywhere: bool = False) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file: its decompressed and its stored bytes.

    Parameters
    ----------
    address
        The file.
    anywhere
        Whether the format is read at other places than one after the other.

    Raises
    ------
    BadInput
        While reading: the compressed file ends early or is damaged.
    SourceChanged, CutShort
        Here, while reading or at the end: the file is not what it was when it was found, or fewer
        bytes came than it has.
    """
    with (
        told_plainly(address.name, address.store),
        _stored(address, anywhere=anywhere) as stored,
        _unchanged(stored),
    ):
        ready = require_window(stored, address.compression, address.name, address.room)
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


def _stored(address: Address, *, anywhere: bool) -> BinaryIO:
    if address.file is not None:
        return cast("BinaryIO", address.file.open(anywhere=anywhere))
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
