"""Locations of addresses: which are the same file, and which folders a file is in."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fewpass.storage.addresses import TABLE_SERVERS, local_path, open_store, protocol_of
from fewpass.storage.redaction import without_secrets

HERE = "file"  # the store of local files
#: Protocols of the same store.
_SAME_STORE = {"s3a": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs"}


class Location(NamedTuple):
    """Location of an address.

    Attributes
    ----------
    url
        The address; an absolute path on this machine.
    store
        `file` for this machine, else the store of the protocol.
    path
        Path in the store: with links resolved on this machine, else bucket and key.
    """

    url: str
    store: str
    path: str

    @classmethod
    def of(cls, url: str) -> Location:
        """Resolve an address; BadAddress if it is not allowed."""
        here = local_path(url)
        if here is not None:
            return cls(str(here), HERE, os.path.realpath(here))
        protocol = protocol_of(url)
        if protocol in TABLE_SERVERS:
            return cls(url, protocol, url)
        import fsspec  # noqa: PLC0415 - a path on this machine needs none of it

        path = fsspec.get_filesystem_class(protocol)._strip_protocol(url)  # noqa: SLF001 - theirs
        return cls(url, _SAME_STORE.get(protocol, protocol), path)

    @classmethod
    def along(cls, other: Location, way: str) -> Location:
        """Return where a way of `way_from` leads to, from where the other location is now."""
        if "://" in way or way.startswith("/"):
            return cls.of(way)
        head, mark, path = other.resolved.rpartition("://")
        return cls.of(head + mark + posixpath.normpath(posixpath.join(path, way)))

    def way_from(self, other: Location) -> str:
        """Return how it is found from another location, also after both were moved together.

        In another store it is found by its address alone.
        """
        if self.store != other.store:
            return self.resolved
        one, two = (each.resolved.rpartition("://")[2] for each in (self, other))
        return posixpath.relpath(f"/{one}", f"/{two}")

    @property
    def resolved(self) -> str:
        """The address, on this machine without links."""
        return self.path if self.is_local else self.url.rstrip("/")

    @property
    def key(self) -> str:
        """Store and path as one text, the same for all spellings of an address."""
        return f"{self.store}:{self.path}"

    @property
    def is_local(self) -> bool:
        """Return whether it is on this machine."""
        return self.store == HERE

    def is_same(self, other: Location) -> bool:
        """Return whether both are one file: by name, a link, or names that differ in case only."""
        if self.store != other.store:
            return False
        return self.path == other.path or (self.is_local and _is_one(self.path, other.path))

    def kind(self, storage_options: Mapping[str, Any] | None = None) -> str | None:
        """Return `file`, `folder` or `other`; None if nothing is there."""
        if self.is_local:
            path = Path(self.url)
            if path.is_dir():
                return "folder"
            if path.exists() and not path.is_file():
                return "other"
            return "file" if os.path.lexists(path) else None
        store, there = open_store(self.url, storage_options)
        store.invalidate_cache()
        with plain_errors(self.url), contextlib.suppress(FileNotFoundError):
            return "folder" if store.info(there)["type"] == "directory" else "file"
        return None

    def folders(self) -> Iterator[str]:
        """Yield the addresses of all folders that contain it, from the innermost."""
        if self.is_local:
            # Both the link and its target count.
            ways = (Path(self.path), Path(os.path.realpath(Path(self.url).parent), "name"))
            yield from dict.fromkeys(str(folder) for way in ways for folder in way.parents)
            return
        start = self.url.index("://") + 3
        above = self.url.rstrip("/")
        while "/" in above[start:]:
            above = above.rpartition("/")[0]
            yield above

    def is_in(self, folder: Location) -> bool:
        """Return whether it is inside a folder, at any depth."""
        if self.store != folder.store:
            return False
        if self.is_local:
            return any(_is_one(above, folder.path) for above in self.folders())
        return self.path.startswith(f"{folder.path.rstrip('/')}/")


@contextlib.contextmanager
def plain_errors(url: str) -> Iterator[None]:
    """Convert errors of stores, which have their own types, to OSError without secrets."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        kind = PermissionError if isinstance(error, PermissionError) else OSError
        raise kind(
            f"{without_secrets(url)} cannot be looked at ({without_secrets(str(error))}). Check "
            "the address, the network and the credentials."
        ) from error


def _is_one(path: str, other: str) -> bool:
    """Return whether two local paths are the same existing file or folder."""
    with contextlib.suppress(OSError):
        return Path(path).samefile(other)
    return False
