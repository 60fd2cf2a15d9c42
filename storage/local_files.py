"""Objects as files below a local directory, written atomically.

The path of the directory may contain symbolic links; below it none is followed, so that nothing
outside is read or written, whoever created the directory.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12
from fewpass.storage.aligned_memory import aligned_empty
from fewpass.storage.new_file import PARTIAL, NewFile, sync_folder

#: For reading an object: without following links or waiting for the writer of a pipe.
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
#: Copies bytes from one on into a buffer; returns how many came.
ReadAt = Callable[[int, memoryview], int]
_MOST_BUFFERS = 1 << 10  # that the system fills at once
_MOST_REMEMBERED = 1 << 16  # directories, some megabytes of names


class ReadObject(NamedTuple):
    """The contents of an object that was read."""

    size: int  # bytes of the object, which may be more or fewer than were asked for
    version: int = 0  # another one once the file has been written to; 0: a store that tells none


class LinkInPath(ValueError):  # noqa: N818  users read the message, not the name
    """A symbolic link in place of an object or a directory of objects."""


class NoFile(FileNotFoundError):  # noqa: N818  users read the message, not the name
    """A directory, a pipe or a device in place of a file."""


class LocalFiles:
    """The local half of `Folder`; see there for the meaning of the methods.

    Parameters
    ----------
    root
        The directory.
    top
        The directory below which no link is followed: `root` (the default) or one above it.
    """

    def __init__(self, root: Path, top: Path | None = None) -> None:
        self.root, self.top = root, top or root
        self._inside = root.relative_to(self.top).parts
        self._prefix = "/".join((*self._inside, ""))
        self._plain: set[str] = set()  # directories below `top` that are known to be no links
        self._has_durable_name = False

    def address(self, key: str) -> str:
        """Return the path of an object, for messages."""
        return str(self.root / key) if key else str(self.root)

    def path(self, key: str) -> Path:
        """Return the path of an object; LinkInPath if it contains a link."""
        path = self.root / key
        self._require_plain(key)
        if path.is_symlink() and path != self.top:
            raise LinkInPath(path)
        return path

    def read(self, key: str, expected: int | None = None) -> bytes:  # noqa: ARG002  read anyway
        """Return the content of a file."""
        with self._opened(key) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise NoFile(self.address(key))
            with FileIO(file, closefd=False) as stream:
                return stream.readall()

    def read_into(self, key: str, *buffers: memoryview) -> ReadObject:
        """Fill the buffers from the file, one after the other."""
        with self._opened(key) as file:
            status = self._status(key, file)
            done = _fill(file, 0, buffers)
            size = done if done < sum(map(len, buffers)) else status.st_size
            return ReadObject(size, hash((status.st_ino, status.st_mtime_ns, status.st_ctime_ns)))

    def read_range_into(self, key: str, start: int, *buffers: memoryview) -> int:
        """Fill the buffers from byte `start` of the file on; return how many bytes came."""
        with self._opened(key) as file:
            self._status(key, file)
            return _fill(file, start, buffers)

    @contextlib.contextmanager
    def opened(self, key: str) -> Iterator[ReadAt]:
        """Yield what reads of a file, which is opened once."""
        with self._opened(key) as file:
            self._status(key, file)
            yield lambda start, out: _fill(file, start, [out])

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return a part of a file; fewer bytes where it ends before."""
        data = aligned_empty(length, np.uint8)
        return data[: self.read_range_into(key, start, data.data)].tobytes()

    def _status(self, key: str, file: int) -> os.stat_result:
        """Return the status of an open file; NoFile for a pipe, a directory or a device."""
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NoFile(self.address(key))
        return status

    def prefetch(self, key: str) -> None:
        """Ask the system to read the file ahead, as a hint."""
        with contextlib.suppress(OSError, LinkInPath), self._opened(key) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)

    @contextlib.contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        """Open a file for reading in few system calls, as each one releases the GIL."""
        if self._prefix + key.rpartition("/")[0] not in self._plain:
            self._require_plain(key, once=True)
        file = self._open(key, _READING)
        try:
            yield file
        finally:
            os.close(file)

    def _open(self, key: str, flags: int) -> int:
        path = f"{self.root}/{key}"
        try:
            return os.open(path, flags | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise LinkInPath(path) from error
            raise

    def _require_plain(self, key: str, *, once: bool = False) -> None:
        """Refuse links among the directories of an object.

        `once`: directories that were checked before are not checked again.  This suffices for
        reading; whoever can replace directories meanwhile can replace files in them as well.
        """
        for directory in self._directories(key):
            if once and directory in self._plain:
                continue
            try:
                mode = os.lstat(f"{self.top}/{directory}").st_mode
            except (FileNotFoundError, NotADirectoryError):
                return
            if stat.S_ISLNK(mode):
                raise LinkInPath(f"{self.top}/{directory}")
            if once:
                self._plain.add(directory)
        if len(self._plain) > _MOST_REMEMBERED:
            self._plain.clear()

    def _directories(self, key: str) -> Iterable[str]:
        """Return the directories of an object, relative to `top`, from the top down."""
        parts = [*self._inside, *key.split("/")[:-1]]
        return itertools.accumulate(parts, "{}/{}".format)

    def write(self, key: str, pieces: Iterable[Buffer], *, durable: bool) -> None:
        """Write a file next to it, then rename that."""
        with NewFile(self.path(key), make_folders=True) as file:
            for part in pieces:
                _write_all(file.fileno(), memoryview(part).cast("B"))
            file.put_in_place(replace=True, durable=durable)
        if durable:
            self.sync_directories([key])

    def write_part(self, key: str, start: int, data: Buffer) -> None:
        """Write a part of the file in place."""
        self.path(key).parent.mkdir(parents=True, exist_ok=True)
        file = self._open(key, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise NoFile(self.address(key))
            os.lseek(file, start, os.SEEK_SET)
            _write_all(file, memoryview(data).cast("B"))
        finally:
            os.close(file)

    def read_part(self, key: str, start: int, out: memoryview) -> int:
        """Fill `out` from byte `start` of the file on; return how many bytes came."""
        return self.read_range_into(key, start, out)

    def create(self, key: str, data: Buffer, *, durable: bool) -> None:
        """Write a file next to it, then link that, which fails if there is one."""
        with NewFile(self.path(key), make_folders=True) as file:
            _write_all(file.fileno(), memoryview(data).cast("B"))
            file.put_in_place(replace=False, durable=durable)
        if durable:
            self.sync_directories([key])

    def sync(self, key: str) -> None:
        """Flush the content of a file to disk."""
        with self._opened(key) as file:
            os.fsync(file)

    def sync_directories(self, keys: Iterable[str]) -> None:
        """Flush the directory entries of files, and of their directories, to disk."""
        parents: set[str] = set()
        for key in keys:
            directories = key.split("/")[:-1]
            parents.update(["", *itertools.accumulate(directories, "{}/{}".format)])
        for path in (self.root / name for name in sorted(parents)):
            sync_folder(path)
        if not self._has_durable_name:
            sync_folder(self.root.parent)
            self._has_durable_name = True

    def append(self, key: str, data: bytes) -> None:
        """Append a line in one write, all of it or nothing.

        A line that a killed writer left incomplete is finished first.
        """
        self.path(key).parent.mkdir(parents=True, exist_ok=True)
        opened = self._open(key, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK)
        with FileIO(opened, "ab+") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise NoFile(self.address(key))
            end = status.st_size
            if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
                data = b"\n" + data
            try:
                _write_all(file.fileno(), memoryview(data))
            except OSError:  # the disk is full
                os.ftruncate(file.fileno(), end)
                raise

    def size(self, key: str) -> int:
        """Return the size of the file in bytes."""
        status = self.path(key).lstat()
        if not stat.S_ISREG(status.st_mode):
            raise NoFile(self.address(key))
        return status.st_size

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those files that exist."""
        sizes: dict[str, int] = {}
        for key in keys:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                sizes[key] = self.size(key)
        return sizes

    def list(self, prefix: str) -> list[str]:
        """Return the files below `prefix`, except unfinished ones."""
        return [key for key in self._walk(prefix) if not is_partial(key)]

    def names(self) -> Sequence[str]:
        """Return the names of files and directories in the root."""
        try:
            return os.listdir(self.path(""))  # noqa: PTH208 - names alone
        except FileNotFoundError:
            return ()

    def delete(self, key: str) -> None:
        """Remove the file."""
        self._require_plain(key)
        (self.root / key).unlink(missing_ok=True)

    def delete_tree(self, prefix: str) -> None:
        """Remove a directory and everything below it."""
        path = self.path(prefix)
        if path.is_dir():
            shutil.rmtree(path)
        self._has_durable_name &= path != self.root

    def delete_partials(self) -> None:
        """Remove unfinished files of killed writers."""
        for key in self._walk(""):
            if is_partial(key):
                self.delete(key)

    def _walk(self, prefix: str) -> Iterator[str]:
        top = os.fspath(self.path(prefix))  # as text: Path objects take ten times as long
        for where, _, names in os.walk(top, onerror=_raise_unless_absent):
            inside = "/".join(filter(None, (prefix.strip("/"), where[len(top) :].strip("/"))))
            yield from (f"{inside}/{name}" if inside else name for name in names)


def _fill(file: int, start: int, buffers: Iterable[memoryview]) -> int:
    """Fill buffers from byte `start` of an open file on; return how many bytes came."""
    done, left = 0, _after(list(buffers), 0)
    while left and (got := os.preadv(file, left[:_MOST_BUFFERS], start + done)):
        done, left = done + got, _after(left, got)
    return done


def _after(buffers: list[memoryview], filled: int) -> list[memoryview]:
    """Return the rest of buffers after `filled` bytes."""
    left = list(buffers)
    while left and filled >= len(left[0]):
        filled -= len(left.pop(0))
    return [left[0][filled:], *left[1:]] if left else []


def is_partial(key: str) -> bool:
    """Return whether a file is what a writer has not finished."""
    name = key.rpartition("/")[2]
    return name.startswith(".") and name.endswith(PARTIAL)


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
