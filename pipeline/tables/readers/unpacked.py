"""Files compressed by bzip2 or xz: all streams in them, behind which zeros may stand and no more.

Python's own readers stop without a word at what is no further stream: rows behind a damaged header
would be missing.
"""

from __future__ import annotations

import bz2
import io
import lzma
from typing import Any, BinaryIO, cast

_READ_BYTES = 1 << 16
_KINDS: dict[str, Any] = {".bz2": bz2.BZ2Decompressor, ".xz": lzma.LZMADecompressor}


def unpacked(stored: BinaryIO, compression: str) -> BinaryIO:
    """Return the bytes of a compressed file; zeros behind it are padding.

    Raises
    ------
    OSError, lzma.LZMAError, EOFError
        While reading: damaged data, or its end before that of a stream.
    """
    raw = _Unpacked(stored, _KINDS[compression])
    return cast("BinaryIO", io.BufferedReader(raw, _READ_BYTES))


class _Unpacked(io.RawIOBase):
    """Streams of compressed bytes, one after the other."""

    def __init__(self, stored: BinaryIO, kind: Any) -> None:
        super().__init__()
        self._stored, self._kind = stored, kind
        self._decompressor, self._ahead = kind(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        found = b""
        while not found:
            if self._decompressor.eof and not self._next_stream():
                return 0
            found = self._decompressor.decompress(self._given(), len(out))
        out[: len(found)] = found
        return len(found)

    def _given(self) -> bytes:
        """Return the next compressed bytes, none where enough were given before."""
        if not self._decompressor.needs_input:
            return b""
        given, self._ahead = self._ahead or self._stored.read(_READ_BYTES), b""
        if not given:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        return given

    def _next_stream(self) -> bool:
        """Begin the stream behind one that has ended; say whether there is any."""
        rest = self._decompressor.unused_data.lstrip(b"\0")
        while not rest:
            more = self._stored.read(_READ_BYTES)
            if not more:
                return False
            rest = more.lstrip(b"\0")
        self._decompressor, self._ahead = self._kind(), rest
        return True
