"""Files as bytes: opening them anywhere, decompressing, and cutting text at line ends."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import EXTENSIONS
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.sources.blanks import by_tabs
from fewpass.pipeline.sources.charsets import as_utf8, peekable, with_line_feeds
from fewpass.pipeline.sources.exact import count_byte
from fewpass.pipeline.sources.foreign import LOOKED_AT, refuse_begun
from fewpass.pipeline.sources.room import UNTOLD, Room
from fewpass.pipeline.sources.source import Piece, SourceFile
from fewpass.pipeline.sources.standard_input import STANDARD_INPUT, WORDS, StandardInput
from fewpass.pipeline.sources.unpacked import unpacked
from fewpass.pipeline.sources.unpacking import require_window
from fewpass.solvers.kernels.shapes import Bytes
from fewpass.storage.addresses import READ_ONLY, open_store, protocol_of
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import OWN, instead, kind_of
from fewpass.storage.redaction import without_queries, without_secrets
from fewpass.storage.source_files import (
    Checked,
    CutShort,
    LocalSource,
    SourceChanged,
    Stored,
    StoreSource,
    WebSource,
)

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
#: Text decompressed to learn how far a file expands, and what its rows look like.
SAMPLE_BYTES = 1 << 20
#: The same for compressed text, where a decompressor takes in more than it has given out.
_COMPRESSED_SAMPLE_BYTES = 8 << 20
_HEAD_BYTES = 1 << 18
_NEWLINE = 10
#: What files that are no text begin with.
_NO_TEXT = {
    b"\x1f\x8b": "gzip (.gz)", b"BZh": "bzip2 (.bz2)", b"\xfd7zXZ\x00": "xz (.xz)",
    b"\x28\xb5\x2f\xfd": "zstandard (.zst)", b"PK\x03\x04": "zip (.npz, .xlsx or .zip)",
    b"PAR1": "Parquet (.parquet)", b"ARROW1": "Arrow (.arrow)", b"\x93NUMPY": "NumPy (.npy)",
}  # fmt: skip
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HIDDEN = re.compile(r"/[._]")
_WITH_AN_END = ("parquet", "arrow", "npy", "npz")  # formats
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile)


class Text(NamedTuple):
    """Whole lines."""

    bytes: Bytes  # (size,), the last one a line end
    lines: int


class Address(NamedTuple):
    """One stored file."""

    store: Any  # an fsspec file system
    path: str  # in the store
    name: str  # full path or URL, without secrets: for people, and to be kept
    size: int | None  # bytes as stored
    charset: str | None = None  # of its text; None: UTF-8, or UTF-16 where its mark says so
    spaced: bool = False  # whether cells of its text stand between runs of blanks
    quotes: bool = True  # whether double quotes enclose them
    room: Room = UNTOLD  # that memory has for what it makes us have
    file: Stored | None = None  # how it is opened; None: by the store, as it is

    @property
    def compression(self) -> str:
        """`.gz` and the like, or nothing."""
        suffix = PurePosixPath(self.name).suffix.lower()
        packing = self.file.packing if self.file else ""
        return packing or (suffix if suffix in COMPRESSIONS else "")

    @property
    def extension(self) -> str:
        """What the name ends in, compression aside: `.csv` for `a.csv.gz`."""
        path = PurePosixPath(self.name)
        packed = path.suffix.lower() in COMPRESSIONS
        return (path.with_suffix("") if packed else path).suffix.lower()

    @property
    def is_local(self) -> bool:
        """Whether the operating system can open it by path."""
        return _is_local(self.store)


def find(
    specs: Sequence[str], storage_options: dict[str, Any] | None = None, *, empty: bool = False
) -> list[Address]:
    """Files that the paths, URLs and globs name, in their order; a glob's own files sorted.

    Parameters
    ----------
    specs, storage_options
        What to look for, and what fsspec is told.
    empty
        Whether empty files are found, too.

    Raises
    ------
    FileNotFoundError
        A path that does not exist, or a glob that fits nothing.
    BadInput
        No path at all, a folder, or an empty file.
    """
    found = [address for spec in specs for address in _expand(spec, storage_options or {})]
    if not found:
        raise BadInput("No source was named. Give at least one file.")
    for address in found:
        if address.size == 0 and not empty:
            raise _empty(address.name)
    return found


def _expand(spec: str, storage_options: dict[str, Any]) -> Iterator[Address]:
    if spec in WORDS:
        yield Address(StandardInput(), spec, STANDARD_INPUT, None)
        return
    is_web = protocol_of(spec) in READ_ONLY
    store, path = open_store(spec, storage_options)
    with _told_plainly(without_secrets(spec), store):
        marks = "*[" if is_web else "*?["  # in a web address a question mark begins a query
        is_glob = any(mark in path for mark in marks) and not store.exists(path)
        paths = sorted(store.glob(path)) if is_glob else [path]
        if not (is_glob or is_web) and store.isdir(path):
            _require_rows(spec, storage_options)
            paths = _files_below(store, path)
        files = [_describe(store, one) for one in paths if not (is_glob and store.isdir(one))]
    if not files:
        raise FileNotFoundError(
            f"{without_secrets(spec)}: no file fits this pattern. Check its spelling."
        )
    yield from files


def _require_rows(spec: str, storage_options: dict[str, Any]) -> None:
    """Refuse folders that hold no rows of anybody's, but what was made of them."""
    folder = Folder(spec, storage_options)
    if kind_of(folder) in OWN:
        raise BadInput(instead(folder, "rows"))


def _files_below(store: Any, folder: str) -> list[str]:
    """Return the files of a folder and of those in it; what begins with . or _ is no data."""
    start = len(folder.rstrip("/"))
    found = [path for path in sorted(store.find(folder)) if not _HIDDEN.search(path[start:])]
    if not found:
        raise BadInput(f"{folder} is a folder without files of rows. Name another.")
    return found


def _describe(store: Any, path: str) -> Address:
    name = without_secrets(path if _is_local(store) else store.unstrip_protocol(path))
    if _is_web(store):
        file: Stored = WebSource(store, path, name)
    else:
        try:
            info = store.info(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{name}: no such file. Check the path.") from error
        if info["type"] == "directory":
            raise BadInput(f"{name} is a folder. Name its files, for example by '{name}/*'.")
        local = _is_local(store)
        file = LocalSource(path) if local else StoreSource(store, path, name, info)
    address = Address(store, path, name, file.size, file=file)
    _require_an_end(address)
    return address


def _require_an_end(address: Address) -> None:
    """Refuse a file of which nobody could tell whether all of it came."""
    told = not isinstance(address.file, WebSource) or address.file.first.says_its_end
    if not (told or address.compression or EXTENSIONS.get(address.extension) in _WITH_AN_END):
        raise BadInput(
            f"{address.name}: the server says neither how long the file is nor where it ends, and "
            "a connection that breaks would look like its end. Fetch the file, see that it is "
            "whole, and read that."
        )


def _is_web(store: Any) -> bool:
    return "http" in ((store.protocol,) if isinstance(store.protocol, str) else store.protocol)


def _is_local(store: Any) -> bool:
    from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415 - open_store did

    return isinstance(store, LocalFileSystem)


@contextmanager
def _told_plainly(name: str, store: Any) -> Iterator[None]:
    """Let what goes wrong in a store elsewhere be told without the secrets of the address.

    Each store has errors of its own, many of which repeat the address: they are not kept as causes.
    """
    try:
        yield
    except BadInput as error:
        if without_secrets(str(error)) == str(error):
            raise
        raise BadInput(without_secrets(str(error))) from None
    except (CutShort, SourceChanged) as error:  # in our own words, which have none
        raise error from None
    except FileNotFoundError:
        if _is_local(store):
            raise
        raise FileNotFoundError(
            f"{name} cannot be found, or may not be read. Check the address and the credentials."
        ) from None
    except Exception as error:
        if _is_local(store) or not _repeats_addresses(error):
            raise
        kind = PermissionError if isinstance(error, PermissionError) else OSError
        told = without_queries(without_secrets(str(error))) or type(error).__name__
        raise kind(
            f"{name} cannot be read ({told}). Check the address, the network and the credentials."
        ) from None


def _repeats_addresses(error: BaseException) -> bool:
    """Whether an error is a store's own, or tells an address with its secrets."""
    return (
        isinstance(error, OSError)
        or type(error).__module__.partition(".")[0] in ("aiohttp", "botocore", "fsspec")
        or without_secrets(str(error)) != str(error)
    )


def _empty(name: str) -> BadInput:
    return BadInput(
        f"{name}: the file is empty, rows were expected. Leave it out, or write it anew."
    )


def described(addresses: Sequence[Address]) -> tuple[SourceFile, ...]:
    """Names and sizes, as a data set's manifest keeps them."""
    return tuple(
        SourceFile(
            address.name, address.size, address.file.version if address.file else None,
            bool(address.compression),
        )
        for address in addresses
    )  # fmt: skip


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
        _told_plainly(address.name, address.store),
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
    if filled and not tail and buffer[filled - 1] != _NEWLINE:
        tail = b"\n"
    elif tail and not tail.endswith(b"\n"):
        tail += b"\n"
    if filled + len(tail) > buffer.size:
        buffer = np.concatenate([buffer[:filled], np.frombuffer(tail, np.uint8)])
    else:
        buffer[filled : filled + len(tail)] = np.frombuffer(tail, np.uint8)
    return buffer[: filled + len(tail)]


def read_lines(stream: BinaryIO, n_bytes: int, longest: int) -> Bytes:
    """Read the next `n_bytes` and on to the end of the line: (size,) bytes, none at the end.

    A missing final line end is supplied.

    Raises
    ------
    LineTooLong
        When that line goes on for more than `longest` bytes.
    """
    buffer = np.empty(n_bytes + n_bytes // 8 + 1024, np.uint8)  # most lines end within the slack
    filled = _fill(stream, buffer.data[:n_bytes])
    tail = b""
    if filled == n_bytes and buffer[filled - 1] != _NEWLINE:
        tail = stream.readline(longest)
        if len(tail) == longest and not tail.endswith(b"\n"):
            raise LineTooLong(longest)
    return _with_line_end(buffer, filled, tail)


class LineTooLong(Exception):  # noqa: N818  it becomes a BadInput at once
    """A line longer than memory has room for; the argument is how long one may be."""


@contextmanager
def _lines_of(address: Address) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a text file; BadInput refuses a line that memory has no room for."""
    with opened(address) as (stream, stored):
        peeked = peekable(stream)
        _require_text(peeked.peek(LOOKED_AT), address)
        try:
            text = as_utf8(cast("BinaryIO", peeked), address.charset, address.name)
            yield with_line_feeds(text, address.name), stored
        except LineTooLong as error:
            raise BadInput(
                f"{address.name}: a line is longer than the {format_bytes(*error.args)} that the "
                "memory has room for. Check that it is text and whole, or give more (`memory`)."
            ) from error


def refuse_foreign(address: Address, head: bytes) -> None:
    """Refuse what ingest does not read, by first bytes; what may be a zip is looked into."""
    if address.compression or address.size is None or not head.startswith(b"PK"):
        refuse_begun(address.name, head)
        return
    with opened(address) as (stream, _):
        refuse_begun(address.name, head, stream)


def _require_text(begins: bytes, address: Address) -> None:
    refuse_foreign(address, begins)
    for mark, what in _NO_TEXT.items():
        if begins.startswith(mark):
            raise BadInput(
                f"{address.name}: the file begins as {what} does, and text was expected. Give it "
                "the name that says what it holds, or unpack it."
            )


def text_pieces(address: Address, n_bytes: int, longest: int) -> Iterator[Text]:
    """Whole lines of a text file in pieces of about `n_bytes`, without a byte order mark."""
    with _lines_of(address) as (stream, _):
        text = _without_mark(read_lines(stream, n_bytes, longest))
        if not text.size:
            raise _empty(address.name)
        while text.size:
            yield _lines(text, address)
            text = read_lines(stream, n_bytes, longest)


def _lines(text: Bytes, address: Address) -> Text:
    return Text(
        by_tabs(text, address.quotes) if address.spaced else text, count_byte(text, _NEWLINE)
    )


def _without_mark(text: Bytes) -> Bytes:
    return text[3:] if text[:3].tobytes() == _BYTE_ORDER_MARK else text


def first_lines(address: Address, longest: int, n_bytes: int = _HEAD_BYTES) -> Text:
    """Enough of a text file to see how its lines are made up."""
    with _lines_of(address) as (stream, _):
        text = read_lines(stream, n_bytes, longest)
    if not text.size:
        raise _empty(address.name)
    return _lines(_without_mark(text), address)


def sample(address: Address, longest: int) -> tuple[Text, float]:
    """First lines of a text file, and how many bytes of text its whole is likely to hold."""
    size = _COMPRESSED_SAMPLE_BYTES if address.compression else SAMPLE_BYTES
    with _lines_of(address) as (stream, stored):
        text = read_lines(stream, size, longest)
        if not text.size:
            raise _empty(address.name)
        used = stored.tell() if address.compression or address.charset else text.size
        whole = text.size * max(1.0, (address.size or used) / used)
        if address.compression == ".gz":
            whole = max(whole, _stated_size(stored))
    return _lines(_without_mark(text), address), whole


def text_bytes(addresses: Sequence[Address], longest: int) -> float:
    """Estimate the bytes of text in all files, as if they were compressed like the first one."""
    _, whole = sample(addresses[0], longest)
    return whole * sum(address.size or 0 for address in addresses) / max(1, addresses[0].size or 0)


def line_pieces(addresses: Sequence[Address], piece_bytes: int, longest: int) -> Iterator[Piece]:
    """Read text files one after the other, in pieces of whole lines."""
    for address in addresses:
        line = 1
        for text in text_pieces(address, piece_bytes, longest):
            yield Piece(address.name, line, text, text.bytes.size)
            line += text.lines


def _stated_size(stored: BinaryIO) -> int:
    """What a gzip file's last bytes say of its length, modulo 2^32 and of its last member only."""
    if not stored.seekable():
        return 0
    stored.seek(-4, io.SEEK_END)
    return int.from_bytes(stored.read(4), "little")
