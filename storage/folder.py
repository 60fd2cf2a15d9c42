"""A folder of objects at any allowed address: a local path, memory://, s3://, ...

All storage of the package goes through this module, which makes writes atomic: an object either has
all bytes of a `write`, or is unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewpass.storage.addresses import local_path, require_no_secrets
from fewpass.storage.local_files import LinkInPath, LocalFiles, NoFile, ReadAt, ReadObject
from fewpass.storage.os_errors import described
from fewpass.storage.redaction import without_secrets
from fewpass.storage.remote_files import RemoteFiles

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12

PROBE = ".fewpass-write-test"


class Damaged(OSError):  # noqa: N818  users read the name, and it says enough
    """An object that is missing or has a wrong length or checksum; the message has its address."""


class NotADataset(ValueError):  # noqa: N818  likewise
    """A folder without a data set, or with a format that this version cannot read."""


class Folder:
    """Objects below one address, each named by a key such as ``"X/c.0.0"``.

    A folder need not exist; it is created with the first object.  Instances can be pickled, with
    their storage options, which are never shown.

    Parameters
    ----------
    url
        A path (made absolute), or an address that `fewpass.storage.addresses` allows: ``file://``,
        ``memory://``, ``s3://bucket/name``, ...  The path may contain symbolic links;
        inside the folder none is followed.
    storage_options
        Passed to fsspec's file system (endpoint, credentials); none by default.

    Attributes
    ----------
    url : str
        The absolute path or the address, without a trailing slash.
    is_local : bool
        Whether the objects are files of this machine.

    Raises
    ------
    BadAddress
        The protocol is not allowed, or the address contains a password or a query.
    """

    def __init__(
        self, url: str | os.PathLike[str], storage_options: dict[str, Any] | None = None
    ) -> None:
        self.storage_options = dict(storage_options or {})
        path = local_path(os.fspath(url))
        self.is_local = path is not None
        if path is not None:
            self.url = str(path)
            self._files: LocalFiles | RemoteFiles = LocalFiles(path)
        else:
            self.url = _trimmed(require_no_secrets(os.fspath(url)))
            self._files = RemoteFiles(self.url, self.storage_options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._files, LocalFiles) and self._files.top != self._files.root:
            top = type(self)(str(self._files.top), self.storage_options)
            return top.child, (self._files.root.relative_to(self._files.top).as_posix(),)
        return type(self), (self.url, self.storage_options)

    @property
    def name(self) -> str:
        """Last part of the address."""
        return self.url.rpartition("/")[2]

    def address(self, key: str = "") -> str:
        """Return the full address of an object, for messages."""
        return self._files.address(key)

    def child(self, name: str) -> Folder:
        """Return the folder `name` inside this one; links to it are not followed, either."""
        made = type(self)(f"{self.url}/{_checked(name)}", self.storage_options)
        if isinstance(self._files, LocalFiles):
            made._files = LocalFiles(Path(made.url), self._files.top)  # noqa: SLF001 - our own
        return made

    def local_path(self, key: str = "") -> Path:
        """Return the path of an object on this machine.

        Raises
        ------
        ValueError
            The folder is not local.
        Damaged
            The path contains a symbolic link inside the folder.
        """
        if not isinstance(self._files, LocalFiles):
            raise ValueError(f"{self.url} is not on this machine. Use a local path here.")  # noqa: TRY004
        with self.naming_errors(key):
            return self._files.path(_checked(key))

    def read(self, key: str, expected: int | None = None) -> bytes:
        """Return all bytes of an object; of one that is longer than expected maybe one more only.

        A store that need not ask for the length first answers one request.

        Raises
        ------
        FileNotFoundError, PermissionError
            It does not exist; it may not be read.
        """
        with self.naming_errors(key):
            return self._files.read(_checked(key), expected)

    def read_into(self, key: str, *buffers: memoryview) -> ReadObject:
        """Copy an object's first bytes into buffers, one after the other."""
        with self.naming_errors(key):
            return self._files.read_into(_checked(key), *buffers)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return bytes start <= k < start + length of an object; fewer where it ends before.

        Raises
        ------
        FileNotFoundError
            It does not exist.
        """
        with self.naming_errors(key):
            return self._files.read_range(_checked(key), start, length)

    def read_range_into(self, key: str, start: int, *buffers: memoryview) -> int:
        """Copy bytes from `start` on into buffers, one after the other; return how many came."""
        with self.naming_errors(key):
            return self._files.read_range_into(_checked(key), start, *buffers)

    @contextmanager
    def opened(self, key: str) -> Iterator[ReadAt]:
        """Yield what copies bytes of an object into buffers, by their place; a file stays open."""
        with self.naming_errors(key), self._files.opened(_checked(key)) as read_at:
            yield read_at

    def prefetch(self, key: str) -> None:
        """Announce that an object will be read, so that a slow disk can begin."""
        self._files.prefetch(_checked(key))

    def write(self, key: str, *data: Buffer, durable: bool = True) -> None:
        """Write an object atomically.

        Parameters
        ----------
        key, data
            The object's name and its bytes, in one or several buffers.
        durable
            Whether it survives a power cut once this returns (the default).  Writing is cheaper
            without; `sync` makes many objects durable at once.
        """
        self.write_pieces(key, data, durable=durable)

    def write_pieces(self, key: str, pieces: Iterable[Buffer], *, durable: bool) -> None:
        """Write an object atomically as `write`, of buffers that are made one after the other."""
        with self.naming_errors(key):
            self._files.write(_checked(key), pieces, durable=durable)

    def write_part(self, key: str, start: int, data: Buffer) -> None:
        """Write a part of a file that processes write together, from byte `start` on.

        `sync` makes it durable.  A store has no such files: there each part is an object, which a
        put makes durable.
        """
        with self.naming_errors(key):
            self._files.write_part(_checked(key), start, data)

    def read_part(self, key: str, start: int, out: memoryview) -> int:
        """Fill `out` with a part that was written at `start`; return how many bytes came."""
        with self.naming_errors(key):
            return self._files.read_part(_checked(key), start, out)

    def create(self, key: str, data: Buffer, *, durable: bool = True) -> bool:
        """Write a new object; return False if there is one, which is not changed.

        `durable` as in `write`.
        """
        with self.naming_errors(key):
            try:
                self._files.create(_checked(key), data, durable=durable)
            except FileExistsError:
                return False
        return True

    def sync(self, keys: Collection[str]) -> None:
        """Make objects durable; FileNotFoundError names the first missing one of this machine's.

        A store is asked nothing: what was put there is durable.
        """
        if not isinstance(self._files, LocalFiles):
            return
        for key in keys:
            with self.naming_errors(key):
                self._files.sync(_checked(key))
        with self.naming_errors(""):
            self._files.sync_directories(keys)

    def sync_deleted(self, keys: Collection[str]) -> None:
        """Make durable that objects are gone, whose folders are there; a store is asked nothing."""
        if isinstance(self._files, LocalFiles) and keys:
            with self.naming_errors(""):
                self._files.sync_directories(keys)

    def append_line(self, key: str, text: str) -> None:
        """Append a line of text to an object, created if missing; for one writer only."""
        with self.naming_errors(key):
            self._files.append(_checked(key), f"{text}\n".encode())

    def exists(self, key: str) -> bool:
        """Return whether the object exists."""
        try:
            self.size(key)
        except FileNotFoundError:
            return False
        return True

    def size(self, key: str) -> int:
        """Return the size of an object in bytes; FileNotFoundError if it does not exist."""
        with self.naming_errors(key):
            return self._files.size(_checked(key))

    def sizes(self, keys: Collection[str]) -> dict[str, int]:
        """Return the sizes in bytes of those objects that exist.

        A store is asked for a thousand at once.
        """
        with self.naming_errors(""):
            return self._files.sizes([_checked(key) for key in keys])

    def list(self, prefix: str = "") -> list[str]:
        """Return the keys of all objects below the folder `prefix`, at any depth, sorted."""
        with self.naming_errors(prefix):
            return sorted(self._files.list(_checked(prefix)))

    def names(self) -> Sequence[str]:
        """Return the names of objects, and of folders of some, that lie in this folder itself."""
        with self.naming_errors(""):
            return self._files.names()

    def delete(self, key: str) -> None:
        """Remove an object, if it exists."""
        with self.naming_errors(key):
            self._files.delete(_checked(key))

    def delete_tree(self, prefix: str = "") -> None:
        """Remove all objects below the folder `prefix`, if there are any."""
        with self.naming_errors(prefix):
            self._files.delete_tree(_checked(prefix))

    def delete_partials(self) -> None:
        """Remove unfinished files of writers that were killed."""
        with self.naming_errors(""):
            self._files.delete_partials()

    def require_writable(self) -> None:
        """Write and remove a small object, so that a long job fails at once and not at its end.

        Raises
        ------
        FileExistsError
            There is a file at the folder's path.
        PermissionError
            Nothing can be written here.
        """
        here = local_path(self.url) if self.is_local else None
        if here is not None and here.is_file():
            raise FileExistsError(
                f"{self.url} is a file, and a folder was expected. Choose another place."
            )
        try:
            self.append_line(PROBE, "")  # in place: another command's delete_partials may run now
            self.delete(PROBE)
        except (PermissionError, FileExistsError, NotADirectoryError, FileNotFoundError) as error:
            raise PermissionError(
                f"Nothing can be written to {self.url} ({error}). "
                "Choose another folder, or have its permissions changed."
            ) from error

    @contextmanager
    def naming_errors(self, key: str) -> Iterator[None]:
        """Make storage errors name the object by its full address."""
        try:
            yield
        except (NoFile, IsADirectoryError, BlockingIOError) as error:
            raise NoFile(f"{self.address(key)} is no file. Check the address.") from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(
                f"{self.address(key)} does not exist. Check the address."
            ) from error
        except PermissionError as error:
            raise PermissionError(
                f"{self.address(key)} may not be accessed ({error}). "
                "Check the permissions or the credentials."
            ) from error
        except LinkInPath as error:
            raise Damaged(
                f"{error} is a symbolic link, and none is followed inside of a folder. Put what it "
                "leads to in its place."
            ) from error
        except OSError as error:
            raise described(error, self.address(key)) from error
        except ValueError:
            raise
        except Exception as error:
            if self.is_local:
                raise
            # stores have their own errors: no credentials, no such host, ...
            raise OSError(
                f"{self.address(key)} cannot be reached ({without_secrets(str(error))}). "
                "Check the network and the credentials."
            ) from error


def _trimmed(url: str) -> str:
    return url.rstrip("/") if not url.endswith("://") else url


def _checked(key: str) -> str:
    """Refuse keys outside the folder: manifests from elsewhere contain keys, too."""
    if key.startswith("/") or ".." in key.split("/") or "\\" in key or "\0" in key:
        raise ValueError(
            f"{key!r} is not the name of an object below a folder. Use names like 'a/b'."
        )
    return key.rstrip("/")
