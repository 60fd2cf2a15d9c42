"""What Zarr is told of our groups and arrays: their ``zarr.json``, made by zarr-python.

Each group or array is created through zarr-python's public interface in a store in memory, and
what it leaves there is written by `Folder`: so the documents are Zarr's own on every kind of
address, and still each object is whole or absent and the manifest last, which zarr-python's stores
do not promise.  The bytes of chunks are ours (`fewpass.storage.codec`).

zarr-python is imported by the first document: whoever only reads pays nothing for it.  It takes
0.2 s of a processor and leaves one daemon thread (``zarr_io``, its event loop, which a forked
process starts anew); an array takes 1 ms and is kept, a group 0.3 ms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from fewpass.storage.codec import COMPRESSION

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer

DOCUMENT = "zarr.json"


def import_ahead() -> None:
    """Import zarr-python on a thread, while kernels that leave the interpreter free are at work."""
    Thread(target=import_module, args=("zarr",), name="fewpass-import", daemon=True).start()


def group_document(attributes: Mapping[str, Any] | None = None) -> bytes:
    """Return the ``zarr.json`` of a group.

    Raises
    ------
    TypeError, ValueError
        When the attributes are no JSON, or have a number that is not finite.
    """
    import zarr  # noqa: PLC0415 - see the module's docstring
    from zarr.storage import MemoryStore  # noqa: PLC0415

    plain = json.loads(json.dumps(dict(attributes or {}), allow_nan=False))
    objects: dict[str, Buffer] = {}
    zarr.create_group(MemoryStore(objects), zarr_format=3, attributes=plain)
    return objects[DOCUMENT].to_bytes()


@lru_cache(maxsize=64)
def array_document(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the ``zarr.json`` of an array whose chunks `codec.encode` makes.

    What was never written reads as NaN, 0 or false.
    """
    import zarr  # noqa: PLC0415 - see the module's docstring
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec  # noqa: PLC0415
    from zarr.storage import MemoryStore  # noqa: PLC0415

    objects: dict[str, Buffer] = {}
    zarr.create_array(
        MemoryStore(objects),
        zarr_format=3,
        shape=shape,
        chunks=chunks,
        dtype=dtype.newbyteorder("="),
        fill_value={"f": np.nan, "b": False}.get(dtype.kind, 0),
        filters=None,
        serializer=BytesCodec(endian="little"),
        compressors=[BloscCodec(typesize=dtype.itemsize, **COMPRESSION), Crc32cCodec()],
    )
    return objects[DOCUMENT].to_bytes()


def vector_document(length: int, dtype: np.dtype[Any]) -> bytes:
    """Return the ``zarr.json`` of an array (length,) in one chunk, that of one item filled in.

    Every chunk of a sparse set has three such arrays, of its own length.
    """
    document = json.loads(array_document((1,), (1,), dtype))
    document["shape"] = [length]
    document["chunk_grid"]["configuration"]["chunk_shape"] = [max(1, length)]
    return json.dumps(document, indent=2).encode()
