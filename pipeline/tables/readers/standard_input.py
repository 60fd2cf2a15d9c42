"""Standard input as a file that can be opened, looked at, and read once."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS

STANDARD_INPUT = "standard input"
HEAD_BYTES = 16 << 20  # that may be looked at before rows are read


def is_standard_input(specs: Sequence[str]) -> bool:
    """Return whether sources name it."""
    return any(word in specs for word in STANDARD_INPUT_WORDS)


class StandardInput:
    """Opened like a store of one file; the head is retained until somebody reads beyond it.

    Parameters
    ----------
    stream
        Its bytes; default those of this process.
    """

    def __init__(self, stream: BinaryIO | None = None) -> None:
        if stream is None and sys.stdin is None:
            raise BadInput(
                "Standard input is closed, and rows were expected there. Name a file, or pipe rows "
                "into the command."
            )
        self._stream = stream or sys.stdin.buffer
        self._head: bytearray | None = bytearray()

    def open(self, _path: str, _mode: str) -> BinaryIO:
        """Begin at the first byte; BadInput where that is gone."""
        if self._head is None:
            raise BadInput(
                "Standard input was read, and cannot be read again. Write it into a file first."
            )
        return cast("BinaryIO", io.BufferedReader(_InputStream(self), 1 << 20))

    def read_into(self, at: int, out: memoryview) -> int:
        """Read on at a byte; what is beyond the head is read once."""
        if self._head is not None and at < len(self._head):
            part = self._head[at : at + len(out)]
            out[: len(part)] = part
            return len(part)
        count: int = cast("Any", self._stream).readinto(out) or 0
        if self._head is not None:
            if at + count > HEAD_BYTES:
                self._head = None
            else:
                self._head += out[:count]
        return count


class _InputStream(io.RawIOBase):
    def __init__(self, store: StandardInput) -> None:
        super().__init__()
        self._store, self._at = store, 0

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        count = self._store.read_into(self._at, memoryview(out).cast("B"))
        self._at += count
        return count

    def tell(self) -> int:
        return self._at
