"""Objects with a recorded length and checksum, and arrays made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fewpass.storage import codec
from fewpass.storage.folder import Damaged, Folder

MOST_ITEMS = 1 << 48
WHOLE = (".json", ".bin")  # ends of keys of objects that end in no checksum
NEVER = 0  # as a version of a file: one that was not verified
RESTORE = "Restore it from a copy, or make it again from its source."

Length = Annotated[int, Field(ge=0)]


class StoredObject(NamedTuple):
    """Record of an object."""

    length: Length  # bytes
    crc32c: Annotated[int, Field(ge=0, lt=1 << 32)]  # of the content: see `content`


def content(key: str, data: memoryview | bytes) -> memoryview:
    """Return the bytes of an object that its recorded checksum covers.

    Of a chunk all but the checksum at its end: the CRC-32C over both is a constant.
    """
    view = memoryview(data)
    return view if key.endswith(WHOLE) else view[: -codec.TRAILER_BYTES]


def put(folder: Folder, key: str, data: bytes) -> StoredObject:
    """Write an object, to be made durable by ``folder.sync``, and return its record."""
    folder.write(key, data, durable=False)
    return StoredObject(len(data), codec.checksum(content(key, data)))


def require_length(folder: Folder, key: str, stored: StoredObject) -> None:
    """Raise Damaged unless the object exists with the recorded length."""
    _require_length_of(lambda: folder.size(key), folder, key, stored)


def make_durable(folder: Folder, objects: Mapping[str, StoredObject]) -> None:
    """Make objects durable; Damaged unless all exist with the recorded lengths."""
    sizes = folder.sizes(objects)
    for key, stored in objects.items():
        if key not in sizes:
            raise missing(folder, key)
        _require_length_of(partial(sizes.__getitem__, key), folder, key, stored)
    folder.sync(objects)


def _require_length_of(
    read: Callable[[], int], folder: Folder, key: str, stored: StoredObject
) -> None:
    """Call `read`; raise Damaged if it finds no object or returns another length."""
    try:
        actual = read()
    except FileNotFoundError as error:
        raise missing(folder, key) from error
    if actual != stored.length:
        raise Damaged(
            f"{folder.address(key)} is damaged: it has {actual} bytes, where "
            f"{folder.address('manifest.json')} has {stored.length} on record. {RESTORE}"
        )


def get_chunk(
    folder: Folder,
    key: str,
    stored: StoredObject,
    out: NDArray[Any],
    scratch: NDArray[np.uint8],
    padded: int = 0,
    verified: int = NEVER,
) -> int:
    """Read one chunk of an array into `out`.

    Parameters
    ----------
    folder, key, stored
        The object and its record.
    out, padded
        As in `codec.decode_into`.
    scratch
        Memory for the encoded bytes, at least the recorded length.
    verified
        The version of the file whose checksum this process has verified, which it does once.

    Returns
    -------
    int
        The version of the file that was read; NEVER if its store tells none.

    Raises
    ------
    Damaged
        The object is missing, or its length or checksum is not the recorded one.
    """
    parts = codec.plain_parts(out, stored.length, padded)
    raw = scratch[: stored.length]
    pieces = parts or (raw,)
    version = NEVER

    def read() -> int:
        nonlocal version
        size, version = folder.read_into(key, *(piece.data for piece in pieces))
        return size

    _require_length_of(read, folder, key, stored)
    try:
        if version == NEVER or version != verified:
            codec.verify(pieces, stored.crc32c)
        if parts:
            codec.require_plain(*parts[:2])
        else:
            codec.decode_into(raw, out, padded)
    except ValueError as error:
        raise Damaged(
            f"{folder.address(key)} is damaged: {error}, by what {folder.address('manifest.json')} "
            f"has on record. {RESTORE}"
        ) from error
    return version


def get(folder: Folder, key: str, stored: StoredObject) -> bytes:
    """Read an object; Damaged if it is missing or differs from its record."""
    data = b""

    def read() -> int:
        nonlocal data
        data = folder.read(key, stored.length)
        return len(data)

    _require_length_of(read, folder, key, stored)
    actual, own = codec.checksum(content(key, data)), stored.crc32c
    if not key.endswith(WHOLE):
        own = codec.own_checksum(data)
    if {actual} != {own, stored.crc32c}:
        raise Damaged(
            f"{folder.address(key)} is damaged: its checksum is {actual:08x}, where it ends with "
            f"{own:08x} and {folder.address('manifest.json')} has {stored.crc32c:08x}. {RESTORE}"
        )
    return data


def fault(folder: Folder, key: str, stored: StoredObject) -> str | None:
    """Read an object and return a sentence on its fault, if any."""
    try:
        get(folder, key, stored)
    except Damaged as error:
        return str(error)
    return None


def missing(folder: Folder, key: str, advice: str = RESTORE) -> Damaged:
    """Return the error for a missing object."""
    return Damaged(f"{folder.address(key)} is missing. {advice}")
