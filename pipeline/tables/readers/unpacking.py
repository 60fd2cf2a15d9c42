"""What unpacking a compressed file takes: the window that its first bytes ask for."""

from __future__ import annotations

import lzma
from typing import BinaryIO

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.tables.readers.charsets import peekable

_LOOKED_AT = 1 << 12
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_LARGEST = 1 << 40


def require_window(stored: BinaryIO, compression: str, name: str, room: Budget) -> BinaryIO:
    """Return a stored stream from its beginning, if memory has room for what unpacking it takes.

    Raises
    ------
    BadInput
        When it has not, with the window and the budget.
    """
    if compression not in (".xz", ".zst"):
        return stored
    peeked = peekable(stored)
    head = peeked.peek(_LOOKED_AT)[:_LOOKED_AT]
    size = _of_xz(head) if compression == ".xz" else _of_zstandard(head)
    room.require_window(
        size, f"{name}: unpacking the file takes",
        "Pack it with a smaller one (xz -6, zstd -19 and no long window)",
    )  # fmt: skip
    return peeked


def _of_xz(head: bytes) -> int:
    """Return bytes within which the beginning can be unpacked, an eighth too many at most; or 0."""
    size = 1 << 16
    while size < _LARGEST:
        try:
            lzma.LZMADecompressor(memlimit=size).decompress(head, max_length=1)
        except lzma.LZMAError as error:
            if "limit" not in str(error):
                return 0
            size += size // 8
        else:
            return size
    return _LARGEST


def _of_zstandard(head: bytes) -> int:
    """Return the window of a frame (RFC 8878, section 3.1.1.1); 0: there is none."""
    if len(head) < 6 or not head.startswith(_ZSTANDARD):
        return 0
    descriptor = head[4]
    if not descriptor & 0x20:
        exponent, mantissa = head[5] >> 3, head[5] & 7
        base = 1 << (10 + exponent)
        return base + (base >> 3) * mantissa
    n_bytes = (1, 2, 4, 8)[descriptor >> 6]
    begin = 5 + (0, 1, 2, 4)[descriptor & 3]
    return int.from_bytes(head[begin : begin + n_bytes], "little") + (256 if n_bytes == 2 else 0)
