"""Sources on this machine."""

from __future__ import annotations

import io
import os
from typing import Any

from fewpass.storage.source_files.checked import Checked, SourceChanged, changed, cut_short

_Stamp = tuple[int, int]  # bytes, and nanoseconds of the last change


class LocalSource:
    """A file of this machine; see `OpenableFile`."""

    packing = ""

    def __init__(self, path: str) -> None:
        status = os.stat(path)  # noqa: PTH116 - a path as fsspec has it
        self._path, self.size, self.version = path, status.st_size, status.st_mtime_ns
        self.inode = status.st_ino  # the same by all names that it has, and after a move

    def open(self, *, anywhere: bool) -> Checked:
        del anywhere
        return Checked(_LocalFile(self._path, (self.size, self.version)))


class _LocalFile(io.FileIO):
    """A file that raises CutShort if it ends before its size."""

    def __init__(self, path: str, expected: _Stamp) -> None:
        super().__init__(path, "rb")
        self._path, self._expected = path, expected
        try:
            self.require_same()
        except SourceChanged:
            self.close()
            raise

    def readinto(self, out: Any) -> int:
        count = super().readinto(out)
        if not count and len(out) and self.tell() < self._expected[0]:
            self.require_same()
            raise cut_short(
                self._path, f"{self._expected[0]:,} bytes were expected, and {self.tell():,} came"
            )
        return count or 0

    def require_same(self) -> None:
        status = os.fstat(self.fileno())
        if (status.st_size, status.st_mtime_ns) != self._expected:
            raise changed(self._path, _difference(self._expected[0], status.st_size))


def _difference(before: int, now: int) -> str:
    if before == now:
        return "its time of change is another"
    return f"{before:,} bytes at first, {now:,} now"
