"""A file at any address, written piece by piece, that appears atomically and durably."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Any

from fewpass.storage.addresses import local_path, open_store, require_no_secrets
from fewpass.storage.new_file import PARTIAL, NewFile, sync_folder
from fewpass.storage.os_errors import described
from fewpass.storage.own_files import mark

_BEFORE_ITS_LOCK = 10.0  # seconds that a writer may take from a file to its lock


@contextlib.contextmanager
def whole_file(
    url: str,
    *,
    replace: bool,
    before: Callable[[], None] = lambda: None,
) -> Iterator[IO[bytes]]:
    """Yield a stream; its content appears at `url` if the block ends without an error.

    Parameters
    ----------
    url
        A path in a folder that exists, or an address.
    replace
        Whether to replace an existing file; else FileExistsError.
    before
        Called before the file appears; may raise to prevent it.

    Raises
    ------
    FileNotFoundError
        The folder does not exist.
    OSError
        Writing fails; the message names `url`.
    """
    here = local_path(url)
    if here is not None:
        with _local(here, replace, before) as target:
            yield target
    else:
        with _stored(url, before) as target:
            yield target


@contextlib.contextmanager
def _local(path: Path, replace: bool, before: Callable[[], None]) -> Iterator[IO[bytes]]:
    """Write next to the final file, on the same disk."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(path.parent))
    _remove_abandoned(path)
    with _described(path):
        file = _Described(path)
    with file:
        target = io.BufferedWriter(file)
        try:
            yield target
            target.flush()
            mark(file.fileno(), path)
            before()
        except BaseException:
            with contextlib.suppress(OSError):  # the rest of the buffer is discarded
                target.close()
            raise
        with _described(path):
            file.put_in_place(replace=replace, durable=True)
    with _described(path):
        sync_folder(path.parent)


def _remove_abandoned(path: Path) -> None:
    """Remove what killed writers of a file have left next to it: those at work hold a lock.

    A file system without locks keeps it.
    """
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}{re.escape(PARTIAL)}")
    for name in filter(pattern.fullmatch, os.listdir(path.parent)):  # noqa: PTH208 - names alone
        left = path.with_name(name)
        with contextlib.suppress(OSError), FileIO(left, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(file.fileno()).st_mtime > _BEFORE_ITS_LOCK:
                left.unlink()


class _Described(NewFile):
    """A new file whose write errors name the final path, locked while it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with contextlib.suppress(OSError):
            fcntl.flock(self, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, content: Any, /) -> int:
        with _described(self.path):
            return super().write(content)


@contextlib.contextmanager
def _described(path: Path) -> Iterator[None]:
    """Add the path and advice to errors."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise described(error, str(path)) from error


@contextlib.contextmanager
def _stored(url: str, before: Callable[[], None]) -> Iterator[IO[bytes]]:
    """Write an object, which is stored at the end."""
    system, path = open_store(url, writing=True)
    require_no_secrets(url)
    if system.protocol == "memory":  # shows unfinished files
        whole = io.BytesIO()
        yield whole
        before()
        system.pipe_file(path, whole.getvalue())
        return
    target = system.open(path, "wb", autocommit=False)
    try:
        yield target
        target.close()
        before()
    except BaseException:
        with contextlib.suppress(ValueError):  # closed by a writer that failed while closing
            target.close()
        target.discard()
        raise
    target.commit()
