"""Marks of files that fewpass wrote and nobody has changed since: these may be overwritten.

The mark is an extended attribute of the file with its name, size, time of change and inode number.
Copies, renamed and changed files belong to the user, as do all files on disks without attributes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

ATTRIBUTE = "user.fewpass"


def mark(file: int, path: Path) -> None:
    """Mark an open file, which is complete and will be renamed to `path`, as written by fewpass."""
    with suppress(OSError):  # a disk without attributes
        os.setxattr(file, ATTRIBUTE, _mark_of(os.fstat(file), path))


def is_unchanged(path: Path) -> bool:
    """Return whether fewpass wrote the file at `path` under that name, and nobody changed it."""
    try:
        actual = os.getxattr(path, ATTRIBUTE)
        return actual == _mark_of(path.stat(), path)
    except OSError:
        return False


def _mark_of(status: os.stat_result, path: Path) -> bytes:
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {path.name}".encode()
