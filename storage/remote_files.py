"""Objects in any file system of fsspec: one put writes one object."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fewpass.storage.addresses import open_store, protocol_of, require_writable
from fewpass.storage.source_file import is_page

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12


class RemoteFiles:
    """The remote half of `Folder`; see there for the meaning of the methods."""

    def __init__(self, url: str, storage_options: dict[str, Any]) -> None:
        self._url, self._protocol = url, protocol_of(url)
        self._fs, root = open_store(url, storage_options)
        self._root = root.rstrip("/")

    def address(self, key: str) -> str:
        """Return the address of an object, for messages."""
        return f"{self._url}/{key}" if key else self._url

    def read(self, key: str, expected: int | None = None) -> bytes:
        """Return the content of an object; of one longer than expected maybe one byte more only."""
        data = self._whole(key) if expected is None else self._range(key, expected + 1)
        if is_page(data):
            raise OSError(
                "a page of the web came in its place, as where a login is asked for, or the "
                "address is another"
            )
        return data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return a part of an object, in one request; fewer bytes where it ends before."""
        try:
            data: bytes = self._fs.cat_file(self._path(key), start=start, end=start + length)
        except FileNotFoundError:
            raise
        except (OSError, ValueError):  # an object that ends before has no such range
            return b"" if self.size(key) <= start else self._whole(key)[start : start + length]
        return data

    def _whole(self, key: str) -> bytes:
        data: bytes = self._fs.cat_file(self._path(key))
        return data

    def _range(self, key: str, stop: int) -> bytes:
        """Read the first bytes, in one request: of a whole object stores first ask for its size."""
        try:
            data: bytes = self._fs.cat_file(self._path(key), start=0, end=stop)
        except FileNotFoundError:
            raise
        except (OSError, ValueError):  # an empty object has no such range
            return self._whole(key)
        return data

    def read_into(self, key: str, *buffers: memoryview) -> int:
        """Fill the buffers from the object, one after the other; return the object's size."""
        wanted, done = sum(map(len, buffers)), 0
        data = memoryview(self.read(key, wanted))
        for buffer in buffers:
            part = data[done : done + len(buffer)]
            buffer[: len(part)] = part
            done += len(part)
        return len(data) if len(data) <= wanted else self.size(key)

    def prefetch(self, key: str) -> None:
        """Do nothing: fetching twice would cost more than waiting."""

    def write(self, key: str, data: Buffer, *, durable: bool) -> None:  # noqa: ARG002  a put is durable
        self._writable().pipe_file(self._path(key), bytes(data))

    def create(self, key: str, data: Buffer, *, durable: bool) -> None:  # noqa: ARG002  likewise
        """Put an object unless it exists; with two concurrent writers the store decides."""
        store = self._writable()
        store.invalidate_cache()
        store.pipe_file(self._path(key), bytes(data), mode="create")

    def sync(self, key: str) -> None:
        """Check that an object exists: a put that returned is durable."""
        self.size(key)

    def sync_directories(self, keys: Iterable[str]) -> None:
        """Do nothing: object stores have no directories."""

    def append(self, key: str, data: bytes) -> None:
        """Read, extend, put: object stores cannot append."""
        self._writable()
        before = b""
        with contextlib.suppress(FileNotFoundError):
            before = self.read(key)
        self.write(key, before + data, durable=True)

    def size(self, key: str) -> int:
        """Return the size of the object in bytes."""
        # Another process may have written since this one last listed.
        self._fs.invalidate_cache()
        info = self._fs.info(self._path(key))
        if info["type"] != "file":
            raise FileNotFoundError(key)
        size = info["size"]
        return len(self.read(key)) if size is None else int(size)  # some web servers do not say

    def list(self, prefix: str) -> list[str]:
        """Return the objects below `prefix`."""
        self._fs.invalidate_cache()
        try:
            paths = self._fs.find(self._path(prefix))
        except FileNotFoundError:
            return []
        start = len(self._root) + 1
        return [path[start:] for path in paths if path[: start - 1] == self._root]

    def delete(self, key: str) -> None:
        """Delete an object."""
        with contextlib.suppress(FileNotFoundError):
            self._writable().rm_file(self._path(key))

    def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`."""
        store = self._writable()
        store.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            store.rm(self._path(prefix), recursive=True)

    def delete_partials(self) -> None:
        """Do nothing: a put leaves no partial object."""

    def _writable(self) -> Any:
        require_writable(self._protocol)
        return self._fs

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root
