"""Objects as files below a local directory: written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12

PARTIAL = ".partial"  # what a killed writer leaves behind is called .NAME.RANDOM.partial


class LocalFiles:
    """The local half of `Folder`; see there for the meaning of the methods."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def address(self, key: str) -> str:
        """Name the object for people."""
        return str(self.root / key) if key else str(self.root)

    def read(self, key: str) -> bytes:
        """Return the bytes of the file."""
        return (self.root / key).read_bytes()

    def read_into(self, key: str, *buffers: memoryview) -> int:
        """Fill the buffers from the file, one after the other; return the file's size."""
        with self._opened(key) as file:
            wanted, done = sum(map(len, buffers)), 0
            left = [*buffers, memoryview(bytearray(1))]  # who fills the last byte is too long
            while got := os.readv(file, left):
                done, left = done + got, _after(left, got)
                if done >= wanted:
                    break
            return done if done <= wanted else os.fstat(file).st_size

    def announce(self, key: str) -> None:
        """Have the system fetch the file meanwhile; it is allowed not to."""
        with contextlib.suppress(OSError), self._opened(key) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)

    @contextlib.contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        """Open a file to read, with no more calls than that: each one is a turn of all threads."""
        file = os.open(f"{self.root}/{key}", os.O_RDONLY)
        try:
            yield file
        finally:
            os.close(file)

    def write(self, key: str, data: Buffer, *, durable: bool) -> None:
        """Write beside the file, then rename over it."""
        path = self.root / key
        partial = path.parent / f".{path.name}.{secrets.token_hex(6)}{PARTIAL}"
        try:
            with _create(partial) as file:
                _write_all(file.fileno(), memoryview(data).cast("B"))
                if durable:
                    os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        if durable:
            self.sync_directories([key])

    def create(self, key: str, data: Buffer) -> None:
        """Write beside the file, then link it there: the system refuses where one is."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.parent / f".{path.name}.{secrets.token_hex(6)}{PARTIAL}"
        try:
            with partial.open("xb", buffering=0) as file:
                _write_all(file.fileno(), memoryview(data).cast("B"))
            path.hardlink_to(partial)
        finally:
            partial.unlink(missing_ok=True)

    def sync(self, key: str) -> None:
        """Bring the content of a file to the disk."""
        _sync(self.root / key)

    def sync_directories(self, keys: Iterable[str]) -> None:
        """Bring to the disk that files of these names exist, and the directories they are in."""
        found = {self.root.parent}
        for key in keys:
            parents = (self.root / key).parents
            found.update(path for path in parents if path.is_relative_to(self.root))
        for directory in sorted(found):
            _sync(directory)

    def append(self, key: str, data: bytes) -> None:
        """Append a line in one write; one that a killed writer left unfinished is ended first."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            end = os.fstat(file.fileno()).st_size
            if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
                data = b"\n" + data
            _write_all(file.fileno(), memoryview(data))

    def size(self, key: str) -> int:
        """Return the size of the file in bytes."""
        path = self.root / key
        if path.is_dir():
            raise FileNotFoundError(path)
        return path.stat().st_size

    def list(self, prefix: str) -> list[str]:
        """Return the files below `prefix`, without what killed writers left."""
        return [key for key in self._walk(prefix) if not _is_partial(key)]

    def delete(self, key: str) -> None:
        """Remove the file."""
        (self.root / key).unlink(missing_ok=True)

    def delete_tree(self, prefix: str) -> None:
        """Remove the directory and all below it."""
        path = self.root / prefix
        if path.is_dir():
            shutil.rmtree(path)

    def delete_partials(self) -> None:
        """Remove what killed writers left."""
        for key in self._walk(""):
            if _is_partial(key):
                self.delete(key)

    def _walk(self, prefix: str) -> Iterator[str]:
        for where, _, names in os.walk(self.root / prefix, onerror=_raise_unless_absent):
            relative = Path(where).relative_to(self.root)
            yield from ((relative / name).as_posix() for name in names)


def _after(buffers: list[memoryview], filled: int) -> list[memoryview]:
    """Return what is left of buffers of which so many bytes are filled."""
    left = list(buffers)
    while left and filled >= len(left[0]):
        filled -= len(left.pop(0))
    return [left[0][filled:], *left[1:]] if left else []


def _create(path: Path) -> FileIO:
    """Open a new file; directories are made only when they turn out to be missing."""
    try:
        return path.open("xb", buffering=0)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb", buffering=0)


def _is_partial(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name.startswith(".") and name.endswith(PARTIAL)


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
