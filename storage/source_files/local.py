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
        found = os.stat(path)  # noqa: PTH116 - a path as fsspec has it
        self._path, self.size, self.version = path, found.st_size, found.st_mtime_ns

    def open(self, *, anywhere: bool) -> Checked:
        """Open the file at its first byte."""
        del anywhere
        return Checked(_LocalFile(self._path, (self.size, self.version)))


class _LocalFile(io.FileIO):
    """A file that ends where its size says, or says that it does not."""

    def __init__(self, path: str, known: _Stamp) -> None:
        super().__init__(path, "rb")
        self._path, self._known = path, known
        try:
            self.require_same()
        except SourceChanged:
            self.close()
            raise

    def readinto(self, out: Any) -> int:
        """Read on."""
        found = super().readinto(out)
        if not found and len(out) and self.tell() < self._known[0]:
            self.require_same()
            raise cut_short(
                self._path, f"{self._known[0]:,} bytes were expected, and {self.tell():,} came"
            )
        return found or 0

    def require_same(self) -> None:
        """Refuse another size or time of change than when the file was found."""
        found = os.fstat(self.fileno())
        if (found.st_size, found.st_mtime_ns) != self._known:
            raise changed(self._path, _difference(self._known[0], found.st_size))


def _difference(before: int, now: int) -> str:
    if before == now:
        return "its time of change is another"
    return f"{before:,} bytes at first, {now:,} now"
