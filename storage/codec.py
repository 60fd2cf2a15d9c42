"""Encoding of arrays as Zarr v3 chunks, and decoding.

The codecs are those that Zarr calls bytes (little endian), blosc (lz4, byte shuffle) and crc32c.
The metadata of arrays is what zarr-python writes (`zarr_documents.py`); encoding and decoding of
chunks (here, `objects.py`, `dataset.py`) are our own.  Chunks are decoded directly into reused
memory, and verified against recorded checksums: zarr-python, zarrs and tensorstore take 2 to 3
times the CPU time of a whole pass over dense rows, 1.6 to 1.9 times over sparse ones, and none of
them detects that two chunks were exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from crc32c import crc32c
from numcodecs import blosc, lz4
from numpy.typing import NDArray

Bytes = bytes | bytearray | memoryview | NDArray[np.uint8]

#: Of a frame of blosc.  What decoding a block takes stays in a core's cache, and is memory that
#: the C library keeps: for blocks of 512 KiB it asks the system for new pages, frame by frame.
BLOCK_BYTES = 1 << 17
COMPRESSION: dict[str, Any] = {
    "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": BLOCK_BYTES
}  # fmt: skip
TRAILER_BYTES = 4  # the crc32c at the end of every chunk, little endian
HEADER_BYTES = 16  # of blosc; bytes 4-8 hold the decoded size, 12-16 the encoded one
#: Flags in the header's byte 2: the bytes of items are shuffled; the items follow uncompressed;
#: blocks are not split into a stream for each byte of items; and what makes a frame of LZ4.
SHUFFLED, PLAIN, UNSPLIT, LZ4 = 0x01, 0x02, 0x10, 0x20
#: Bytes of a chunk that decide whether its bytes are shuffled: mostly equal values, such as flags,
#: compress better without shuffling, and twice as fast.  The frame itself records the choice.
SAMPLE_BYTES = 1 << 15
#: Of the bytes; a chunk that saves less is stored uncompressed.  In every pass, decoding values
#: takes as long as a step.
LEAST_SAVED, LEAST_SAVED_OF_VALUES = 1 / 8, 1 / 2
#: Of the bytes of a stream of whole numbers; one that LZ4 makes no smaller is stored as it is.
#: Frequent columns' low bytes shrink by a fourth, at a seventh of the time of reading sparse rows.
SMALL_STREAM = 1 / 2
LEAST_SPLIT = 128  # bytes of a stream; blosc splits no block into shorter ones
ACCELERATION = 5  # of LZ4, as blosc has it at our level

# With several threads, blosc stores the blocks of a chunk in the order in which they finish, so
# that equal rows would give different bytes; instead, several chunks are encoded at once in our
# threads.
blosc.use_threads = False


def checksum(data: Bytes, before: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of the bytes, continued from the checksum `before`.

    Unlike the library that Zarr uses, it releases the GIL.
    """
    return crc32c(
        cast("bytes", data), before
    )  # before Python 3.12 there is no such type for arrays


def encode(array: NDArray[Any]) -> bytes:
    """Return the bytes of the chunk with the items of `array` in C order.

    Parameters
    ----------
    array
        Numbers or booleans, at least one, less than 2 GiB.
    """
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
    level = COMPRESSION["clevel"]
    first = little[: SAMPLE_BYTES // little.itemsize]
    shuffled, plain = (_compressed(first, level, how) for how in (True, False))
    stay = plain_streams(shuffled) if little.dtype.kind in "iu" else []
    if any(stay) and len(shuffled) < len(plain):
        body = _frame(little, stay)
    else:
        body = _compressed(little, level, len(shuffled) < len(plain))
    least_saved = LEAST_SAVED_OF_VALUES if little.dtype.kind == "f" else LEAST_SAVED
    if len(body) > (1.0 - least_saved) * little.nbytes:
        body = _compressed(little, 0, True)
    return body + checksum(body).to_bytes(TRAILER_BYTES, "little")


def own_checksum(chunk: bytes | memoryview) -> int:
    """Return the checksum that an encoded chunk ends with."""
    return int.from_bytes(memoryview(chunk)[-TRAILER_BYTES:], "little")


def _compressed(array: NDArray[Any], level: int, shuffled: bool) -> bytes:
    """Return blosc's frame: compressed, or uncompressed with a header at level 0."""
    body: bytes = blosc.compress(
        array.view(np.uint8),
        COMPRESSION["cname"].encode(),
        level,
        blosc.SHUFFLE if shuffled else blosc.NOSHUFFLE,
        COMPRESSION["blocksize"],
        array.itemsize,
    )
    return body


def plain_streams(sample: bytes) -> list[bool]:
    """Say of every byte of items whether LZ4 hardly shrinks it, by the frame of a single block."""
    if sample[2] & (PLAIN | UNSPLIT):
        return []
    n_bytes, block = (int(n) for n in np.frombuffer(sample, "<u4", 2, 4))
    if n_bytes != block or block < LEAST_SPLIT * sample[3]:
        return []
    at, stay = int.from_bytes(sample[HEADER_BYTES : HEADER_BYTES + 4], "little"), []
    for _ in range(sample[3]):
        length = int.from_bytes(sample[at : at + 4], "little")
        stay.append(length > SMALL_STREAM * block / sample[3])
        at += 4 + length
    return stay


def _frame(items: NDArray[Any], stay: list[bool]) -> bytes:
    """Return a frame of blosc with some of its streams stored as they are.

    Every reader of blosc reads it: a stream as long as its bytes is not compressed.
    """
    block = min(BLOCK_BYTES, items.nbytes) // items.itemsize
    blocks = [_streams(items[k : k + block], stay, block) for k in range(0, items.size, block)]
    starts = HEADER_BYTES + 4 * len(blocks) + np.cumsum([0, *map(len, blocks)])
    sizes = np.array([items.nbytes, block * items.itemsize, starts[-1]], "<u4")
    header = bytes([2, 1, SHUFFLED | LZ4, items.itemsize]) + sizes.tobytes()
    return b"".join([header, starts[:-1].astype("<i4").tobytes(), *blocks])


def _streams(items: NDArray[Any], stay: list[bool], block: int) -> bytes:
    """Return the streams of a block, each behind its length; all as one of a shorter last block."""
    shifts = range(0, 8 * items.itemsize, 8)
    streams = [(items >> shift).astype(np.uint8) for shift in shifts]
    if items.size < block:
        streams, stay = [np.concatenate(streams)], [False]
    packed = []
    for stream, plain in zip(streams, stay, strict=True):
        data: bytes = stream.tobytes() if plain else lz4.compress(stream, ACCELERATION)[4:]
        data = data if len(data) < stream.size else stream.tobytes()
        packed += [len(data).to_bytes(4, "little"), data]
    return b"".join(packed)


def plain_parts(
    out: NDArray[Any], length: int, padded: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]] | None:
    """Return buffers for an uncompressed chunk of `length` bytes: header, `out` and checksum.

    None if a chunk of that length is compressed, or does not fit into `out`.
    """
    if length != HEADER_BYTES + out.nbytes + TRAILER_BYTES or padded > out.size:
        return None
    items = out.reshape(-1).view(np.uint8)
    return np.empty(HEADER_BYTES, np.uint8), items, np.empty(TRAILER_BYTES, np.uint8)


def verify(pieces: Sequence[Bytes], expected: int | None = None) -> None:
    """Verify a chunk's bytes, in one piece or several, of which the last has its checksum whole.

    Parameters
    ----------
    pieces
        The chunk, whole.
    expected
        The recorded checksum; the one in the chunk itself is always verified.

    Raises
    ------
    ValueError
        One of them is not that of the bytes; with both.
    """
    size, actual = sum(map(len, pieces)), 0
    if size < HEADER_BYTES + TRAILER_BYTES:
        raise ValueError(f"it has {size} bytes, fewer than any chunk")
    last = np.frombuffer(pieces[-1], np.uint8)
    for piece in (*pieces[:-1], last[:-TRAILER_BYTES]):
        actual = checksum(piece, actual)
    stored = own_checksum(last.data)
    for wanted in (stored, stored if expected is None else expected):
        if actual != wanted:
            raise ValueError(f"its checksum is {actual:08x}, where {wanted:08x} was expected")


def require_plain(header: NDArray[np.uint8], items: NDArray[np.uint8]) -> None:
    """Refuse, by a ValueError, an uncompressed chunk whose header says that it is another one."""
    decoded = int.from_bytes(header[4:8].tobytes(), "little")
    if decoded != items.size or not header[2] & PLAIN:
        raise ValueError(f"it holds {decoded} bytes, where {items.size} plain ones were expected")


def decode_into(raw: Bytes, out: NDArray[Any], padded: int = 0) -> None:
    """Decompress a verified chunk directly into `out`.

    Parameters
    ----------
    raw
        The chunk's bytes, whole.
    out
        Receives its first ``out.size`` items; C-contiguous, of the chunk's type.
    padded
        Number of items in the chunk, if more than fit into `out` (the last chunk along an axis);
        the chunk is then decoded into a copy first.

    Raises
    ------
    ValueError
        The bytes are not such a chunk; with the actual and the expected numbers.
    """
    body = np.frombuffer(raw, np.uint8)[:-TRAILER_BYTES]
    size = max(padded, out.size) * out.itemsize
    decoded = int.from_bytes(body[4:8].tobytes(), "little")
    encoded = int.from_bytes(body[12:16].tobytes(), "little")
    if (decoded, encoded) != (size, body.size):
        raise ValueError(
            f"it holds {decoded} bytes in {encoded}, where {size} in {body.size} were expected"
        )
    whole = out if padded <= out.size else np.empty(padded, out.dtype)
    try:
        blosc.decompress(body, whole.reshape(-1).view(np.uint8))
    except RuntimeError as error:
        raise ValueError(f"it cannot be decompressed ({error})") from error
    if whole is not out:
        out.reshape(-1)[:] = whole[: out.size]
