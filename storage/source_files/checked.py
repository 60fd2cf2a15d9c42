"""What every way to a source's bytes holds: as many come as were announced, and of one version."""

from __future__ import annotations

import errno
import io
from typing import Any, Protocol

AGAIN = "Give the same command again; if it comes to the same, fetch the file whole and read that."
WAIT = "Read it when nobody writes to it: give the command again."


#: What a page of the web begins with, in small letters.
_PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body")


def is_page(begins: bytes) -> bool:
    """Say whether a server sent a page in place of a file, as to who has not logged in."""
    return begins[:200].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_PAGES)


class CutShort(OSError):  # noqa: N818  users read the message, not the name
    """A source of which fewer bytes came than it has, however often they were asked for."""


class SourceChanged(OSError):  # noqa: N818  likewise
    """A source that is not what it was when it was first looked at."""


def cut_short(name: str, fact: str, advice: str = AGAIN) -> CutShort:
    """Return the error of a source, by its name without secrets, and what came of it."""
    return CutShort(errno.EIO, f"{fact}. {advice}", name)


def changed(name: str, fact: str) -> SourceChanged:
    """Return the error of a source, by its name without secrets, and what is another now."""
    return SourceChanged(errno.ESTALE, f"the file changed while it was read ({fact}). {WAIT}", name)


class Checked(io.BufferedReader):
    """A source's bytes; `require_same` is asked once they were read."""

    def require_same(self) -> None:
        """Refuse a file that has changed since it was opened.

        Raises
        ------
        SourceChanged
            When it has.
        """
        raw: Any = self.raw
        raw.require_same()


class OpenableFile(Protocol):
    """One file of a source, as it was when it was found."""

    @property
    def size(self) -> int | None:
        """Its bytes as stored; None where nobody says."""

    @property
    def version(self) -> int | str | None:
        """What changes when its content does; None where nothing but the size says so."""

    @property
    def packing(self) -> str:
        """`.gz` where a server sends it compressed whatever its name says, else nothing."""

    def open(self, *, anywhere: bool) -> Checked:
        """Open the file at its first byte.

        Parameters
        ----------
        anywhere
            Whether it is going to be read at other places than one after the other.

        Raises
        ------
        SourceChanged, CutShort
            Here or while reading: another version than was found, fewer bytes than it has.
        """


class ReadAnywhere(io.RawIOBase):
    """A file of a known size that is read at any place; subclasses say how bytes come."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self._at = size, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Return where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to another place."""
        self._at = max(0, offset + {0: 0, 1: self._at, 2: self.size}[whence])
        return self._at

    def readinto(self, out: Any) -> int:
        """Read on."""
        room = memoryview(out).cast("B")
        wanted = max(0, min(len(room), self.size - self._at))
        if not wanted:
            return 0
        found = self._copy(room[:wanted], self._at)
        self._at += found
        return found

    def require_same(self) -> None:
        """Refuse a file that has changed; by default what cannot have."""

    def _copy(self, out: memoryview, at: int) -> int:
        raise NotImplementedError
