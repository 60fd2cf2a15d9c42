"""Arrays as the bytes of one Zarr v3 chunk, and back.

The codecs are those that Zarr calls bytes (little endian), blosc (lz4, byte shuffle) and crc32c.
What Zarr is told of an array is made by zarr-python (`zarr_documents.py`); the bytes of chunks
and the way that reads them (here, `objects.py`, `dataset.py`) are our own.  Chunks are
decoded straight into memory that is used again and again, and compared with what is on record:
zarr-python, zarrs and tensorstore take 2 to 3 times the processor time of a whole pass over dense
rows, 1.6 to 1.9 times over sparse ones, and none notices that two chunks were exchanged.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from crc32c import crc32c
from numcodecs import blosc
from numpy.typing import NDArray

Bytes = bytes | bytearray | memoryview | NDArray[np.uint8]

COMPRESSION: dict[str, Any] = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
TRAILER_BYTES = 4  # the crc32c at the end of every chunk, little endian
HEADER_BYTES = 16  # of blosc; bytes 4-8 hold the decoded size, 12-16 the encoded one
PLAIN = 0x02  # flag in the header's byte 2: what follows are the items as they are
#: So much of a chunk decides whether its bytes are shuffled: values that are mostly equal, such as
#: flags, shrink further as they are, twice as fast. The frame itself says how it is to be read.
SAMPLE_BYTES = 1 << 15
LEAST_SAVED = 1 / 8  # of the bytes; what saves less is stored plain: it is read twice as fast

# Several threads inside blosc store the blocks of a chunk in the order in which they finish, so
# equal rows would give unequal bytes; chunks are encoded side by side in our own threads instead.
blosc.use_threads = False


def checksum(data: Bytes, before: int = 0) -> int:
    """CRC-32C (Castagnoli) of the bytes, or of those with checksum `before` and these after them.

    The interpreter is free meanwhile, as it is not in the library that Zarr checks with.
    """
    return crc32c(cast("bytes", data), before)  # before Python 3.12 arrays have no such type


def encode(array: NDArray[Any], before: int = 0) -> bytes:
    """Bytes of the chunk that holds `array`, in C order.

    Parameters
    ----------
    array
        Numbers or booleans, at least one, less than 2 GiB.
    before
        Checksum of bytes that the one at the end covers, too, though they are not stored (0: none).
    """
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
    level = COMPRESSION["clevel"]
    first = little[: SAMPLE_BYTES // little.itemsize]
    shuffled, plain = (len(_compressed(first, level, how)) for how in (True, False))
    body = _compressed(little, level, shuffled < plain)
    if len(body) > (1.0 - LEAST_SAVED) * little.nbytes:
        body = _compressed(little, 0, True)
    return body + checksum(body, before).to_bytes(TRAILER_BYTES, "little")


def _compressed(array: NDArray[Any], level: int, shuffled: bool) -> bytes:
    """Return blosc's frame: compressed, or at level 0 plain with a header."""
    body: bytes = blosc.compress(
        array.view(np.uint8),
        COMPRESSION["cname"].encode(),
        level,
        blosc.SHUFFLE if shuffled else blosc.NOSHUFFLE,
        COMPRESSION["blocksize"],
        array.itemsize,
    )
    return body


def plain_parts(
    out: NDArray[Any], length: int, padded: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]] | None:
    """Return what a plain chunk of `length` bytes can be read into, header, `out` and checksum.

    None where a chunk of that length is not plain, or does not fit into `out`.
    """
    if length != HEADER_BYTES + out.nbytes + TRAILER_BYTES or padded > out.size:
        return None
    items = out.reshape(-1).view(np.uint8)
    return np.empty(HEADER_BYTES, np.uint8), items, np.empty(TRAILER_BYTES, np.uint8)


def check_plain(
    parts: tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]], expected: int
) -> None:
    """Check a plain chunk that was read into its parts; raises ValueError like `decode_into`."""
    header, items, trailer = parts
    found = checksum(items, checksum(header))
    for wanted in (int.from_bytes(trailer.tobytes(), "little"), expected):
        if found != wanted:
            raise ValueError(f"its checksum is {found:08x}, where {wanted:08x} was expected")
    held = int.from_bytes(header[4:8].tobytes(), "little")
    if held != items.size or not header[2] & PLAIN:
        raise ValueError(f"it holds {held} bytes, where {items.size} plain ones were expected")


def decode_into(
    raw: Bytes,
    out: NDArray[Any],
    padded: int = 0,
    expected: int | None = None,
    before: int = 0,
) -> None:
    """Check a chunk and decompress it straight into `out`.

    Parameters
    ----------
    raw
        The chunk's bytes, whole.
    out
        Where its first ``out.size`` items go: C-contiguous, of the chunk's type.
    padded
        How many items the chunk holds, where that is more than fit into `out` (the last chunk along
        an axis); then a copy of the chunk is decoded first.
    expected
        The checksum known from elsewhere; the one in the chunk itself is always checked.
    before
        As in `encode`.

    Raises
    ------
    ValueError
        With what was found and what was expected, when the bytes are not such a chunk.
    """
    bytes_ = np.frombuffer(raw, np.uint8)
    body = _checked_body(bytes_, expected, before)
    size = max(padded, out.size) * out.itemsize
    held = int.from_bytes(body[4:8].tobytes(), "little")
    encoded = int.from_bytes(body[12:16].tobytes(), "little")
    if (held, encoded) != (size, body.size):
        raise ValueError(
            f"it holds {held} bytes in {encoded}, where {size} in {body.size} were expected"
        )
    whole = out if padded <= out.size else np.empty(padded, out.dtype)
    try:
        blosc.decompress(body, whole.reshape(-1).view(np.uint8))
    except RuntimeError as error:
        raise ValueError(f"it cannot be decompressed ({error})") from error
    if whole is not out:
        out.reshape(-1)[:] = whole[: out.size]


def _checked_body(raw: NDArray[np.uint8], expected: int | None, before: int) -> NDArray[np.uint8]:
    if raw.size < HEADER_BYTES + TRAILER_BYTES:
        raise ValueError(f"it has {raw.size} bytes, fewer than any chunk")
    body = raw[:-TRAILER_BYTES]
    found = checksum(body, before)
    stored = int.from_bytes(raw[-TRAILER_BYTES:].tobytes(), "little")
    for wanted in (stored, stored if expected is None else expected):
        if found != wanted:
            raise ValueError(f"its checksum is {found:08x}, where {wanted:08x} was expected")
    return body


def chunk_shape(shape: tuple[int, ...], itemsize: int, limit: int) -> tuple[int, ...]:
    """Shape of chunks of at most `limit` bytes that are contiguous in the C order of the array."""
    room = max(1, limit // itemsize)
    chunks: list[int] = []
    for length in reversed(shape):
        chunks.append(max(1, min(length, room)))
        room = max(1, room // chunks[-1]) if chunks[-1] == length else 1
    return tuple(reversed(chunks))


def chunk_grid(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of chunks along each axis."""
    return tuple(math.ceil(length / chunk) for length, chunk in zip(shape, chunks, strict=True))
