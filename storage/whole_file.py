"""A file at any address, written piece by piece, that appears atomically and durably."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import time
from collections.abc import Callable, Container, Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Any

from fewpass.storage.addresses import local_path, open_store, require_no_secrets
from fewpass.storage.new_file import PARTIAL, NewFile, sync_folder
from fewpass.storage.os_errors import described
from fewpass.storage.own_files import mark
from fewpass.storage.remote_files import stored_stream

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
        system, path = open_store(url, writing=True)
        require_no_secrets(url)
        with stored_stream(system, path, before) as target:
            yield target


@contextlib.contextmanager
def _local(path: Path, replace: bool, before: Callable[[], None]) -> Iterator[IO[bytes]]:
    """Write next to the final file, on the same disk."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(path.parent))
    remove_abandoned(path.parent, {path.name})
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


def remove_abandoned(folder: Path, names: Container[str]) -> None:
    """Remove what killed writers of files of these names have left: those at work hold a lock.

    One that has begun to write has had its lock.  A file system without locks keeps it.
    """
    pattern = re.compile(rf"\.(.+)\.[0-9a-f]{{12}}{re.escape(PARTIAL)}")
    for name in os.listdir(folder):  # noqa: PTH208 - names alone
        of = pattern.fullmatch(name)
        if of is None or of[1] not in names:
            continue
        left = folder / name
        with contextlib.suppress(OSError), FileIO(left, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            facts = os.fstat(file.fileno())
            if facts.st_size or time.time() - facts.st_mtime > _BEFORE_ITS_LOCK:
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
