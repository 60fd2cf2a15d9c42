"""Source files in one version, read completely or with an error.

A file of a web server is copied to the temporary folder by one request, and read from there.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from fewpass.storage.redaction import without_queries, without_secrets

#: Bytes per request to a store: more and more while the file is read in order.
FIRST_BYTES, MOST_BYTES = 1 << 18, 8 << 20
WAITS_S = (0.0, 0.2, 0.8)  # before each request to a web server
CONNECT_S, READ_S = 30.0, 60.0  # its timeouts for an answer, and between two bytes
#: Bytes of an open file's buffer, and of each part of a copy.
BUFFER_BYTES, _COPIED_BYTES = 1 << 16, 1 << 20
#: Content encodings of web servers, and the suffixes of files that are compressed in that way.
_PACKINGS = {"": "", "identity": "", "gzip": ".gz", "x-gzip": ".gz", "zstd": ".zst"}
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
#: Fields with an object's version, best first: listings of S3 have no VersionId, single answers do.
_VERSIONS = ("generation", "ETag", "etag", "e_tag", "VersionId", "version_id", "md5Hash",
             "content_md5", "checksum", "LastModified", "last_modified", "updated", "mtime",
             "modified", "created")  # fmt: skip
#: Beginnings of web pages, in lower case.
_PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body")
_AGAIN = "Give the same command again; if it comes to the same, fetch the file whole and read that."
_FETCH = "Fetch the file, see that it is whole, and read that."


class CutShort(OSError):  # noqa: N818  users read the message, not the name
    """A source of which fewer bytes arrived than it has."""


class SourceChanged(OSError):  # noqa: N818  likewise
    """A source that has changed since it was first opened."""


def changed(name: str, fact: str) -> SourceChanged:
    """Return the error for a changed source, by its name without secrets."""
    advice = "Read it when nobody writes to it: give the command again."
    return SourceChanged(
        errno.ESTALE, f"the file changed while it was read ({fact}). {advice}", name
    )


def cut_short(name: str, fact: str, advice: str = _AGAIN) -> CutShort:
    """Return the error for an incomplete source, by its name without secrets."""
    return CutShort(errno.EIO, f"{fact}. {advice}", name)


def is_page(begins: bytes) -> bool:
    """Return whether a server sent a web page instead of a file, such as a login page."""
    return begins[:200].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_PAGES)


class VersionedFile:
    """A file in the version that it has when it is found.

    Attributes
    ----------
    name
        Path or address, without secrets.
    size
        Bytes as stored.
    version
        Identifier that changes with the content; None if there is only the size.
    packing
        `.gz` or `.zst` if a server sends the file compressed though its name does not say so.
    inode
        The same by all names that a file of this machine has; None of others.
    """

    name: str
    size: int
    version: int | str | None
    packing = ""
    inode: int | None = None

    def open(self) -> Checked:
        """Open the file at its first byte.

        Raises
        ------
        SourceChanged, CutShort
            Now or while reading: another version than was found, or too few bytes.
        """
        raise NotImplementedError

    def require(self, size: int, version: int | str | None) -> None:
        """Raise SourceChanged unless size and version are those of the file."""
        if size != self.size:
            raise changed(self.name, f"{self.size:,} bytes at first, {size:,} now")
        if version != self.version:
            raise changed(self.name, f"version {self.version} at first, {version} now")


class Checked(io.BufferedReader):
    """The bytes of a source; call `require_same` after reading them."""

    def require_same(self) -> None:
        """Raise SourceChanged if the file has changed since it was found."""
        cast("_OpenFile", self.raw).require_same()


class _OpenFile(io.RawIOBase):
    """An open file that ends where its size says; subclasses copy parts of it."""

    def __init__(self, file: VersionedFile) -> None:
        super().__init__()
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._file.size)[whence])
        return self._at

    def readinto(self, out: Any) -> int:
        target = memoryview(out).cast("B")[: max(0, self._file.size - self._at)]
        count = self._copy(target, self._at) if target else 0
        if target and not count:
            self.require_same()
            raise cut_short(
                self._file.name, f"{self._file.size:,} bytes were expected, and {self._at:,} came"
            )
        self._at += count
        return count

    def require_same(self) -> None:
        """Raise SourceChanged if the file has changed; by default nothing."""

    def _copy(self, out: memoryview, at: int) -> int:
        raise NotImplementedError


# -- this machine ----------------------------------------------------------------------------------


class LocalFile(VersionedFile):
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        status = os.stat(path)  # noqa: PTH116 - a path as fsspec has it
        self.name, self.inode = path, status.st_ino
        self.size, self.version = status.st_size, status.st_mtime_ns

    def open(self) -> Checked:
        return _checked(_Local(self, os.open(self.name, os.O_RDONLY)))


class _Descriptor(_OpenFile):
    """An open file of this machine, closed with this object."""

    def __init__(self, file: VersionedFile, descriptor: int) -> None:
        super().__init__(file)
        self._descriptor = descriptor

    def _copy(self, out: memoryview, at: int) -> int:
        return os.preadv(self._descriptor, [out], at)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class _Local(_Descriptor):
    def require_same(self) -> None:
        status = os.fstat(self._descriptor)
        self._file.require(status.st_size, status.st_mtime_ns)


def _checked(file: _OpenFile) -> Checked:
    """Return the bytes of a file that is still in its version."""
    try:
        file.require_same()
    except BaseException:
        file.close()
        raise
    return Checked(file, BUFFER_BYTES)


# -- stores ----------------------------------------------------------------------------------------


class StoreFile(VersionedFile):
    """An object in a store.

    Parameters
    ----------
    store, path
        An fsspec file system, and the object's path there.
    name
        The address, without secrets.
    info
        The store's information on the object.
    """

    def __init__(self, store: Any, path: str, name: str, info: Mapping[str, Any]) -> None:
        self.store, self.path, self.name = store, path, name
        if info["size"] is None:
            raise cut_short(name, "its store does not say how long the file is", _FETCH)
        self.size, self.version = info["size"], _version_in(info)

    def open(self) -> Checked:
        return _checked(_Object(self))


class _Object(_OpenFile):
    """An object that is fetched in ranges, without the caches of fsspec: these hide lost bytes."""

    _file: StoreFile
    _window, _begin, _ahead = b"", 0, FIRST_BYTES

    def _copy(self, out: memoryview, at: int) -> int:
        end = self._begin + len(self._window)
        if not self._begin <= at < end:
            self._ahead = min(MOST_BYTES, 2 * self._ahead) if at == end else FIRST_BYTES
            end = min(self._file.size, at + max(len(out), self._ahead))
            self._window = b""  # frees its memory before the next one
            self._window = self._file.store.cat_file(self._file.path, start=at, end=end)
            self._begin = at
            if len(self._window) > end - at:
                raise cut_short(
                    self._file.name,
                    f"{len(self._window):,} bytes came where {end - at:,} were asked for",
                )
        content = memoryview(self._window)[at - self._begin :][: len(out)]
        out[: len(content)] = content
        return len(content)

    def require_same(self) -> None:
        store = self._file.store
        store.invalidate_cache()
        info = store.info(self._file.path)
        self._file.require(info["size"], _version_in(info))


def _version_in(info: Mapping[str, Any]) -> str | None:
    """Return an object's version from a store's information; None without any."""
    versions = (info.get(name) for name in _VERSIONS)
    return next((str(value) for value in versions if value not in (None, "", "null")), None)


# -- web servers -----------------------------------------------------------------------------------


class WebCopy(VersionedFile):
    """A copy of a file of a web server; it has no name, and is gone with the process.

    Parameters
    ----------
    store
        fsspec's file system of http.
    url, name
        Its address, and the same without secrets.

    Raises
    ------
    FileNotFoundError, PermissionError
        The server has no such file, or does not give it.
    CutShort
        It did not come whole, however often it was asked for, or is longer than half of the free
        space of the temporary folder.
    """

    def __init__(self, store: Any, url: str, name: str) -> None:
        from fsspec.asyn import sync  # noqa: PLC0415 - a path on this machine needs none of it

        self.name = name
        self._copied = tempfile.TemporaryFile()  # noqa: SIM115 - it goes with this object
        weakref.finalize(self, self._copied.close)
        for wait_s in WAITS_S:
            time.sleep(wait_s)
            why = sync(store.loop, self._fetch, store, url)
            self.size = self._copied.tell()
            if not why:
                return
        raise cut_short(name, f"{self.size:,} bytes came, {len(WAITS_S)} times ({why})")

    def open(self) -> Checked:
        return _checked(_Descriptor(self, os.dup(self._copied.fileno())))

    async def _fetch(self, store: Any, url: str) -> str:
        """Copy the file from its first byte; return why it is not whole, if it is not."""
        import aiohttp  # noqa: PLC0415 - who reads nothing of the web need not have it

        self._copied.seek(0)
        self._copied.truncate()
        options = dict(store.kwargs)
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=READ_S)
        headers = {**options.pop("headers", {}), "Accept-Encoding": "identity"}
        options = {"timeout": limits, "auto_decompress": False, **options, "headers": headers}
        try:
            session = await store.set_session()
            async with session.get(store.encode_url(url), **options) as response:
                if response.status in _BUSY or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    return f"the server answers {response.status}"
                self._require_readable(response)
                await self._copy(response)
        except aiohttp.ClientConnectorError:
            raise FileNotFoundError(f"{self.name}: no server answers there.") from None
        except (aiohttp.ClientError, TimeoutError) as error:  # also where fewer bytes came
            return without_queries(without_secrets(str(error))) or type(error).__name__
        return ""

    async def _copy(self, response: Any) -> None:
        most = shutil.disk_usage(tempfile.gettempdir()).free // 2
        async for content in response.content.iter_chunked(_COPIED_BYTES):
            self._copied.write(content)
            if max(self._copied.tell(), response.content_length or 0) > most:
                raise cut_short(
                    self.name, f"it is copied to {tempfile.gettempdir()}, and has more than the "
                    f"{most:,} bytes that are half of what is free there",
                    "Let TMPDIR name a folder with more space, or fetch the file.",
                )  # fmt: skip
        self._copied.flush()

    def _require_readable(self, response: Any) -> None:
        """Refuse what cannot be copied, or not checked; note the version and the packing."""
        status, headers = response.status, response.headers
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise FileNotFoundError(f"{self.name}: no such file. Check the address.")
        if status >= HTTPStatus.BAD_REQUEST:
            raise PermissionError(
                f"{self.name} is not given: the server answers {status}. Check the address and the "
                "credentials."
            )
        if status != HTTPStatus.OK:
            raise cut_short(self.name, f"the server answers {status}", _FETCH)
        encoding = headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _PACKINGS:
            raise cut_short(
                self.name, f'the server sends it encoded as "{encoding}", though it was asked for '
                "as it is", _FETCH,
            )  # fmt: skip
        is_chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
        if response.content_length is None and not is_chunked:
            raise cut_short(
                self.name, "the server says neither how long the file is nor where it ends, and a "
                "connection that breaks would look like its end", _FETCH,
            )  # fmt: skip
        self.version = headers.get("ETag") or headers.get("Last-Modified")
        packing = _PACKINGS[encoding]
        self.packing = "" if packing and self.name.lower().endswith(packing) else packing
