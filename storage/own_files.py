"""Which files fewpass wrote and nobody has changed since: those may be written anew.

The mark is an extended attribute of the file that holds its name, size and time of change, and its
number on the disk.  A copy, a renamed file and a changed one are the user's, and so is every file
where a disk has no attributes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

ATTRIBUTE = "user.fewpass"


def mark(file: int, path: Path) -> None:
    """Mark an open file, which is whole and about to be `path`, as written by fewpass."""
    with suppress(OSError):  # a disk without attributes
        os.setxattr(file, ATTRIBUTE, _mark_of(os.fstat(file), path))


def is_unchanged(path: Path) -> bool:
    """Whether fewpass wrote the file at `path`, under that name, and it is as it was."""
    try:
        found = os.getxattr(path, ATTRIBUTE)
        return found == _mark_of(path.stat(), path)
    except OSError:
        return False


def _mark_of(known: os.stat_result, path: Path) -> bytes:
    return f"{known.st_ino} {known.st_size} {known.st_mtime_ns} {path.name}".encode()
