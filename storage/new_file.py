"""A file of this machine that appears whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from io import FileIO
from pathlib import Path

PARTIAL = ".partial"  # a killed writer leaves .NAME.RANDOM.partial behind
#: Errors of file systems without hard links.
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


def temporary_name(path: Path) -> Path:
    """Return a new name next to a file, for content that will replace it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{PARTIAL}")


class NewFile(FileIO):
    """A new file next to `path` that is renamed to it once it is complete.

    As a context manager it is removed at the end, unless it was put in place.

    Parameters
    ----------
    path
        The final path.
    make_folders
        Create missing folders.
    """

    def __init__(self, path: Path, *, make_folders: bool = False) -> None:
        self.path, self._temporary = path, temporary_name(path)
        try:
            super().__init__(self._temporary, "xb")
        except FileNotFoundError:
            if not make_folders:
                raise
            path.parent.mkdir(parents=True, exist_ok=True)
            super().__init__(self._temporary, "xb")
        self._has_name_beside = True

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        finally:
            if self._has_name_beside:
                with contextlib.suppress(OSError):  # already removed, or not removable
                    self._temporary.unlink()

    def put_in_place(self, *, replace: bool, durable: bool) -> None:
        """Flush the content to disk, close the file, and rename it atomically.

        The name is durable once its folder is: see `sync_folder`.

        Raises
        ------
        FileExistsError
            The path exists, unless it is to be replaced.
        """
        if durable:
            os.fsync(self.fileno())
        self.close()
        if replace or not self._linked():
            self._temporary.replace(self.path)
            self._has_name_beside = False

    def _linked(self) -> bool:
        """Create a hard link at `path`; False if the file system has none."""
        try:
            self.path.hardlink_to(self._temporary)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, "File exists", str(self.path)) from error
            return False
        return True


def sync_folder(path: Path) -> None:
    """Flush the entries of a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
