"""Objects as files below a local directory: written whole or not at all.

The directory itself may be reached through symbolic links; below it none is followed, so that
nothing outside is read or written, whoever made the directory.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12

PARTIAL = ".partial"  # what a killed writer leaves behind is called .NAME.RANDOM.partial
#: Of an object to be read: no link is followed, and a pipe in its place does not wait for a writer.
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
#: What file systems say that know no second name of a file.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
_MOST_REMEMBERED = 1 << 16  # directories, some megabytes of names


class LinkFound(ValueError):  # noqa: N818  users read the message, not the name
    """A symbolic link where an object or a directory of objects should be."""


class NoFile(FileNotFoundError):  # noqa: N818  users read the message, not the name
    """What is there is a directory, a pipe or a device."""


def beside(path: Path) -> Path:
    """Return a new name beside a file, to write what is going to take its place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{PARTIAL}")


class NewFile(FileIO):
    """A file beside `path`, which takes that place once it is whole; until then nobody sees it.

    As a context manager it is gone at the end unless it was put in its place.

    Parameters
    ----------
    path
        Where it is to be.
    make_folders
        Make those that turn out to be missing.
    """

    def __init__(self, path: Path, *, make_folders: bool = False) -> None:
        self.path, self._beside = path, beside(path)
        try:
            super().__init__(self._beside, "xb")
        except FileNotFoundError:
            if not make_folders:
                raise
            path.parent.mkdir(parents=True, exist_ok=True)
            super().__init__(self._beside, "xb")
        self._has_name_beside = True

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        finally:
            if self._has_name_beside:
                with contextlib.suppress(OSError):  # gone, or a disk that nothing is removed from
                    self._beside.unlink()

    def put_in_place(self, *, replace: bool, durable: bool) -> None:
        """Bring the content to the disk and close the file, then name it at one stroke.

        The name is durable once its folder is: see `sync_folder`.

        Raises
        ------
        FileExistsError
            When something has that name, unless it is to be replaced.
        """
        if durable:
            os.fsync(self.fileno())
        self.close()
        if replace or not self._linked():
            self._beside.replace(self.path)
            self._has_name_beside = False

    def _linked(self) -> bool:
        """Give the file a second name; False where the name is free but files have only one."""
        try:
            self.path.hardlink_to(self._beside)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, "File exists", str(self.path)) from error
            return False
        return True


class LocalFiles:
    """The local half of `Folder`; see there for the meaning of the methods.

    Parameters
    ----------
    root
        The directory.
    top
        The directory from which on no link is followed: `root` (the default) or one above it.
    """

    def __init__(self, root: Path, top: Path | None = None) -> None:
        self.root, self.top = root, top or root
        self._inside = root.relative_to(self.top).parts
        self._prefix = "/".join((*self._inside, ""))
        self._plain: set[str] = set()  # directories, from the top, that were seen to be no links

    def address(self, key: str) -> str:
        """Name the object for people."""
        return str(self.root / key) if key else str(self.root)

    def path(self, key: str) -> Path:
        """Return where an object is or will be; LinkFound where a link leads there."""
        path = self.root / key
        self._require_plain(key)
        if path.is_symlink() and path != self.top:
            raise LinkFound(path)
        return path

    def read(self, key: str) -> bytes:
        """Return the bytes of the file."""
        with self._opened(key) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise NoFile(self.address(key))
            with FileIO(file, closefd=False) as stream:
                return stream.readall()

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

    def prefetch(self, key: str) -> None:
        """Have the system fetch the file meanwhile; it is allowed not to."""
        with contextlib.suppress(OSError, LinkFound), self._opened(key) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)

    @contextlib.contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        """Open a file to read, with no more calls than that: each one is a turn of all threads."""
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
                raise LinkFound(path) from error
            raise

    def _require_plain(self, key: str, *, once: bool = False) -> None:
        """Refuse links among the directories that an object lies in.

        `once`: a directory found to be none is not looked at again.  Reading does so; who can
        exchange directories meanwhile can exchange what is in them as well.
        """
        for directory in self._directories(key):
            if once and directory in self._plain:
                continue
            try:
                found = os.lstat(f"{self.top}/{directory}").st_mode
            except (FileNotFoundError, NotADirectoryError):
                return
            if stat.S_ISLNK(found):
                raise LinkFound(f"{self.top}/{directory}")
            if once:
                self._plain.add(directory)
        if len(self._plain) > _MOST_REMEMBERED:
            self._plain.clear()

    def _directories(self, key: str) -> Iterable[str]:
        """Name the directories of an object from the top down, as seen from there."""
        parts = [*self._inside, *key.split("/")[:-1]]
        return itertools.accumulate(parts, "{}/{}".format)

    def write(self, key: str, data: Buffer, *, durable: bool) -> None:
        """Write beside the file, then rename over it."""
        with NewFile(self.path(key), make_folders=True) as file:
            _write_all(file.fileno(), memoryview(data).cast("B"))
            file.put_in_place(replace=True, durable=durable)
        if durable:
            self.sync_directories([key])

    def create(self, key: str, data: Buffer, *, durable: bool) -> None:
        """Write beside the file, then link it there: the system refuses where one is."""
        with NewFile(self.path(key), make_folders=True) as file:
            _write_all(file.fileno(), memoryview(data).cast("B"))
            file.put_in_place(replace=False, durable=durable)
        if durable:
            self.sync_directories([key])

    def sync(self, key: str) -> None:
        """Bring the content of a file to the disk."""
        with self._opened(key) as file:
            os.fsync(file)

    def sync_directories(self, keys: Iterable[str]) -> None:
        """Bring to the disk that files of these names exist, and the directories they are in."""
        found: set[str] = set()
        for key in keys:
            directories = key.split("/")[:-1]
            found.update(["", *itertools.accumulate(directories, "{}/{}".format)])
        for path in (self.root.parent, *(self.root / name for name in sorted(found))):
            sync_folder(path)

    def append(self, key: str, data: bytes) -> None:
        """Append a line in one write; one that a killed writer left unfinished is ended first."""
        self.path(key).parent.mkdir(parents=True, exist_ok=True)
        opened = self._open(key, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK)
        with FileIO(opened, "ab+") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise NoFile(self.address(key))
            end = found.st_size
            if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
                data = b"\n" + data
            _write_all(file.fileno(), memoryview(data))

    def size(self, key: str) -> int:
        """Return the size of the file in bytes."""
        found = self.path(key).lstat()
        if not stat.S_ISREG(found.st_mode):
            raise NoFile(self.address(key))
        return found.st_size

    def list(self, prefix: str) -> list[str]:
        """Return the files below `prefix`, without what killed writers left."""
        return [key for key in self._walk(prefix) if not _is_partial(key)]

    def delete(self, key: str) -> None:
        """Remove the file."""
        self._require_plain(key)
        (self.root / key).unlink(missing_ok=True)

    def delete_tree(self, prefix: str) -> None:
        """Remove the directory and all below it."""
        path = self.path(prefix)
        if path.is_dir():
            shutil.rmtree(path)

    def delete_partials(self) -> None:
        """Remove what killed writers left."""
        for key in self._walk(""):
            if _is_partial(key):
                self.delete(key)

    def _walk(self, prefix: str) -> Iterator[str]:
        top = os.fspath(self.path(prefix))  # text: paths as objects take ten times as long
        for where, _, names in os.walk(top, onerror=_raise_unless_absent):
            inside = "/".join(filter(None, (prefix.strip("/"), where[len(top) :].strip("/"))))
            yield from (f"{inside}/{name}" if inside else name for name in names)


def _after(buffers: list[memoryview], filled: int) -> list[memoryview]:
    """Return what is left of buffers of which so many bytes are filled."""
    left = list(buffers)
    while left and filled >= len(left[0]):
        filled -= len(left.pop(0))
    return [left[0][filled:], *left[1:]] if left else []


def _is_partial(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name.startswith(".") and name.endswith(PARTIAL)


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
