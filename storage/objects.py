"""Objects with a recorded length and checksum, and arrays made of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from fewpass.storage import codec
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.ordered import ordered_map
from fewpass.storage.zarr_documents import array_document

CHUNK_BYTES = 16 << 20  # most decoded bytes of a chunk of a column
ENCODERS = 2  # chunks of an array that are compressed at a time
MOST_ITEMS = 1 << 48
MOST_COMPRESSION = 256  # times; LZ4 cannot do more than 255
RESTORE = "Restore it from a copy, or make it again from its source."

Length = Annotated[int, Field(ge=0)]
DtypeName = Literal[
    "float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64",
]  # fmt: skip


class StoredObject(NamedTuple):
    """Record of an object."""

    length: Length  # bytes
    crc32c: Annotated[int, Field(ge=0, lt=1 << 32)]  # of the content: see `content`


class ArrayLayout(BaseModel):
    """Layout of a vector in chunks."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    dtype: DtypeName
    shape: tuple[Annotated[int, Field(ge=0, le=MOST_ITEMS)]]
    chunk_shape: tuple[Annotated[int, Field(ge=1, le=MOST_ITEMS)]]

    @classmethod
    def of(cls, array: NDArray[Any]) -> ArrayLayout:
        """Return the layout of a vector in chunks of at most 16 MiB."""
        chunk = max(1, min(len(array), CHUNK_BYTES // array.itemsize))
        fields = {"dtype": array.dtype.name, "shape": array.shape, "chunk_shape": (chunk,)}
        return cls.model_validate(fields)

    @property
    def chunk_bytes(self) -> int:
        """Decoded bytes of a chunk."""
        return self.chunk_shape[0] * np.dtype(self.dtype).itemsize

    @property
    def n_chunks(self) -> int:
        """Number of chunks; 0 for an empty array."""
        return -(-self.shape[0] // self.chunk_shape[0])

    def chunks(self, prefix: str) -> Iterator[tuple[str, slice]]:
        """Yield the keys of the chunks, each with its part of the vector."""
        for k in range(self.n_chunks):
            first = k * self.chunk_shape[0]
            yield f"{prefix}/c.{k}", slice(first, min(first + self.chunk_shape[0], self.shape[0]))


def content(key: str, data: memoryview | bytes) -> memoryview:
    """Return the bytes of an object that its recorded checksum covers.

    Of a chunk all but the checksum at its end: the CRC-32C over both is a constant.
    """
    view = memoryview(data)
    return view if key.endswith(".json") else view[: -codec.TRAILER_BYTES]


def put(folder: Folder, key: str, data: bytes) -> StoredObject:
    """Write an object, to be made durable by ``folder.sync``, and return its record."""
    folder.write(key, data, durable=False)
    return StoredObject(len(data), codec.checksum(content(key, data)))


def put_array(folder: Folder, prefix: str, array: NDArray[Any]) -> dict[str, StoredObject]:
    """Write a vector below `prefix` and return the records of its objects."""
    layout = ArrayLayout.of(array)
    document = array_document(layout.shape, layout.chunk_shape, array.dtype)
    objects = {f"{prefix}/zarr.json": put(folder, f"{prefix}/zarr.json", document)}

    def encoded(chunk: tuple[str, slice]) -> tuple[str, bytes]:
        key, own = chunk[0], array[chunk[1]]
        return key, codec.encode(np.pad(own, (0, layout.chunk_shape[0] - len(own))))

    with ThreadPoolExecutor(ENCODERS) as pool:
        for key, body in ordered_map(pool, encoded, layout.chunks(prefix), ENCODERS):
            objects[key] = put(folder, key, body)
    return objects


def get_array(
    folder: Folder, prefix: str, layout: ArrayLayout, objects: Mapping[str, StoredObject]
) -> NDArray[Any]:
    """Read a vector, all its bytes verified; memory is bounded by the objects' lengths.

    Raises
    ------
    Damaged
        An object is missing or wrong, or the layout is too large for its objects.
    """
    for key, _ in layout.chunks(prefix):
        _require_space(folder, key, layout, objects[key])
    out = np.empty(layout.shape, layout.dtype)
    chunk = np.empty(layout.chunk_shape if layout.n_chunks else 0, layout.dtype)
    for key, part in layout.chunks(prefix):
        get_chunk(folder, key, objects[key], chunk, np.empty(objects[key].length, np.uint8))
        out[part] = chunk[: part.stop - part.start]
    return out


def _require_space(folder: Folder, key: str, layout: ArrayLayout, stored: StoredObject) -> None:
    if layout.chunk_bytes > MOST_COMPRESSION * stored.length:
        raise Damaged(
            f"{folder.address(key)} cannot hold {layout.chunk_bytes} bytes in {stored.length}. "
            "Do not use it."
        )
    require_length(folder, key, stored)


def require_keys(arrays: Mapping[str, ArrayLayout], objects: Mapping[str, StoredObject]) -> None:
    """Refuse records in which objects of these arrays are missing or superfluous.

    Raises
    ------
    ValueError
        With the first difference; fast for shapes of any size.
    """
    n_chunks = sum(layout.n_chunks for layout in arrays.values())
    below = {key for key in objects if any(key.startswith(f"{prefix}/") for prefix in arrays)}
    if len(below) != n_chunks + len(arrays):
        raise ValueError(
            f"it has {len(below)} objects of arrays, whose shapes make {n_chunks + len(arrays)}"
        )
    for prefix, layout in arrays.items():
        for key in (f"{prefix}/zarr.json", *(key for key, _ in layout.chunks(prefix))):
            if key not in below:
                raise ValueError(f"it has no record of {key}")


def require_length(folder: Folder, key: str, stored: StoredObject) -> None:
    """Raise Damaged unless the object exists with the recorded length."""
    _require_length_of(lambda: folder.size(key), folder, key, stored)


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
            f"{folder.address(key)} is damaged: it has {actual} bytes, where {stored.length} were "
            f"expected. {RESTORE}"
        )


def get_chunk(
    folder: Folder,
    key: str,
    stored: StoredObject,
    out: NDArray[Any],
    scratch: NDArray[np.uint8],
    padded: int = 0,
) -> float:
    """Read one chunk of an array into `out`; return the seconds spent in the store.

    Parameters
    ----------
    folder, key, stored
        The object and its record.
    out, padded
        As in `codec.decode_into`.
    scratch
        Memory for the encoded bytes, at least the recorded length.

    Raises
    ------
    Damaged
        The object is missing, or its length or checksum is not the recorded one.
    """
    parts = codec.plain_parts(out, stored.length, padded)
    raw, began = scratch[: stored.length], time.perf_counter()
    buffers = [part.data for part in parts or (raw,)]
    _require_length_of(lambda: folder.read_into(key, *buffers), folder, key, stored)
    fetched = time.perf_counter() - began
    try:
        if parts:
            codec.check_plain(parts, stored.crc32c)
        else:
            codec.decode_into(raw, out, padded, stored.crc32c)
    except ValueError as error:
        raise Damaged(
            f"{folder.address(key)} is damaged: {error}, by what {folder.address('manifest.json')} "
            f"has on record. {RESTORE}"
        ) from error
    return fetched


def get(folder: Folder, key: str, stored: StoredObject) -> bytes:
    """Read an object; Damaged if it is missing or differs from its record."""
    data = b""

    def read() -> int:
        nonlocal data
        data = folder.read(key, stored.length)
        return len(data)

    _require_length_of(read, folder, key, stored)
    actual, own = codec.checksum(content(key, data)), stored.crc32c
    if not key.endswith(".json"):
        own = int.from_bytes(data[-codec.TRAILER_BYTES :], "little")
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
