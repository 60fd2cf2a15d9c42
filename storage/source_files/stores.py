"""Sources in object stores, and in any file system of fsspec."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, cast

from fewpass.storage.source_files.checked import Checked, ReadAnywhere, changed
from fewpass.storage.source_files.ranges import BUFFER_BYTES, RangeFile, RangeReply

#: Fields with an object's version, best first: listings of S3 have no VersionId, single answers do.
_VERSIONS = ("generation", "ETag", "etag", "e_tag", "VersionId", "version_id", "md5Hash",
             "content_md5", "checksum", "LastModified", "last_modified", "updated", "mtime",
             "modified", "created")  # fmt: skip


def version_in(info: Mapping[str, Any]) -> str | None:
    """Return an object's version from a store's information; None without any."""
    versions = (info.get(name) for name in _VERSIONS)
    return next((str(value) for value in versions if value not in (None, "", "null")), None)


class StoreSource:
    """An object in a store; see `OpenableFile`.

    Parameters
    ----------
    store
        An fsspec file system.
    path
        In the store.
    name
        The address, without secrets.
    info
        The store's information on the object.
    """

    packing = ""

    def __init__(self, store: Any, path: str, name: str, info: Mapping[str, Any]) -> None:
        self._store, self._path, self.name = store, path, name
        self.size: int | None = info["size"]
        self.version = version_in(info)

    def open(self, *, anywhere: bool) -> Checked:
        del anywhere
        file = self._store.open(self._path, "rb")
        if self.size is None:
            return Checked(_AsItComes(file))
        self.compare(getattr(file, "details", None) or self._store.info(self._path))
        ranges = _ObjectRanges(self, file)
        return Checked(RangeFile(ranges, self.name, self.size), BUFFER_BYTES)

    def compare(self, info: Mapping[str, Any]) -> None:
        """Raise SourceChanged if a store's information differs from the first one."""
        size, version = info["size"], version_in(info)
        if size != self.size:
            raise changed(self.name, f"{self.size:,} bytes at first, {size:,} now")
        if version != self.version:
            raise changed(self.name, f"version {self.version} at first, {version} now")

    def info_now(self) -> Mapping[str, Any]:
        """Return the store's current information on the object."""
        self._store.invalidate_cache()
        return cast("Mapping[str, Any]", self._store.info(self._path))


class _ObjectRanges:
    """An open object; see `Ranges`."""

    def __init__(self, source: StoreSource, file: Any) -> None:
        self._source, self._file = source, file
        self._conditional = bool(getattr(file, "read_kw", None))  # s3fs asks with If-Match

    def part(self, start: int, end: int) -> RangeReply:
        """Request once, without fsspec's caches, which would hide missing bytes."""
        fetch = getattr(self._file, "_fetch_range", None) or self._read
        try:
            content = fetch(start, end)
        except OSError as error:
            if type(error).__name__ != "FileExpired":  # s3fs: another version is there
                raise
            raise changed(self._source.name, "its ETag is another") from error
        if len(content) > end - start:
            return RangeReply(
                b"", f"{len(content):,} bytes came where {end - start:,} were asked for"
            )
        return RangeReply(content)

    def _read(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        return cast("bytes", self._file.read(end - start))

    def require_same(self, *, whole: bool) -> None:
        """Ask the store, unless every request had an If-Match condition."""
        if whole and not self._conditional:
            self._source.compare(self._source.info_now())

    def close(self) -> None:
        with contextlib.suppress(AttributeError):
            self._file.close()


class _AsItComes(ReadAnywhere):
    """A file of unknown size: read in order, up to its end."""

    def __init__(self, file: Any) -> None:
        super().__init__(0)
        self._file = file

    def seekable(self) -> bool:
        return False

    def readinto(self, out: Any) -> int:
        content = self._file.read(len(out))
        out[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
