"""Guarantees of all source files: as many bytes as announced, of one version."""

from __future__ import annotations

import errno
import io
from typing import Any, Protocol

AGAIN = "Give the same command again; if it comes to the same, fetch the file whole and read that."
WAIT = "Read it when nobody writes to it: give the command again."


#: Beginnings of web pages, in lower case.
_PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body")


def is_page(begins: bytes) -> bool:
    """Whether a server sent a web page instead of a file, such as a login page."""
    return begins[:200].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_PAGES)


class CutShort(OSError):  # noqa: N818  users read the message, not the name
    """A source of which fewer bytes arrived than it has, after repeated requests."""


class SourceChanged(OSError):  # noqa: N818  likewise
    """A source that has changed since it was first opened."""


def cut_short(name: str, fact: str, advice: str = AGAIN) -> CutShort:
    """Return the error for an incomplete source, by its name without secrets."""
    return CutShort(errno.EIO, f"{fact}. {advice}", name)


def changed(name: str, fact: str) -> SourceChanged:
    """Return the error for a changed source, by its name without secrets."""
    return SourceChanged(errno.ESTALE, f"the file changed while it was read ({fact}). {WAIT}", name)


class Checked(io.BufferedReader):
    """A stream of a source's bytes; call `require_same` after reading them."""

    def require_same(self) -> None:
        """Raise SourceChanged if the file has changed since it was opened."""
        raw: Any = self.raw
        raw.require_same()


class OpenableFile(Protocol):
    """A source file in the version that was found first."""

    @property
    def size(self) -> int | None:
        """Size in bytes as stored; None if unknown."""

    @property
    def version(self) -> int | str | None:
        """Identifier that changes with the content; None if there is only the size."""

    @property
    def packing(self) -> str:
        """`.gz` if a server sends it compressed whatever its name is, else ""."""

    def open(self, *, anywhere: bool) -> Checked:
        """Open the file at its first byte.

        Parameters
        ----------
        anywhere
            Whether it will be read at arbitrary positions.

        Raises
        ------
        SourceChanged, CutShort
            Now or while reading: another version than was count first, or too few bytes.
        """


class ReadAnywhere(io.RawIOBase):
    """A file of known size with random access; subclasses fetch the bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {0: 0, 1: self._at, 2: self.size}[whence])
        return self._at

    def readinto(self, out: Any) -> int:
        target = memoryview(out).cast("B")
        wanted = max(0, min(len(target), self.size - self._at))
        if not wanted:
            return 0
        count = self._copy(target[:wanted], self._at)
        self._at += count
        return count

    def require_same(self) -> None:
        """Raise SourceChanged if the file has changed; by default nothing."""

    def _copy(self, out: memoryview, at: int) -> int:
        raise NotImplementedError
