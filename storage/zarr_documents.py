"""Zarr metadata of groups and arrays, ``zarr.json``, made by zarr-python.

Each group or array is created through zarr-python's public interface in a store in memory, and
`Folder` writes the resulting documents: so they are Zarr's own at any address, while objects are
atomic and the manifest is written last, which zarr-python's stores do not guarantee.  Chunks are
encoded by `fewpass.storage.codec`.

zarr-python is imported with the first document, never for reading.  That takes 0.2 s of CPU time
and leaves one daemon thread (``zarr_io``, its event loop, which a forked process starts again); the
document of an array takes 1 ms and is cached, that of a group 0.3 ms.
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
    """Import zarr-python on a thread while kernels run without the GIL."""
    Thread(target=import_module, args=("zarr",), name="fewpass-import", daemon=True).start()


def group_document(attributes: Mapping[str, Any] | None = None) -> bytes:
    """Return the ``zarr.json`` of a group.

    Raises
    ------
    TypeError, ValueError
        The attributes are not JSON, or contain a number that is not finite.
    """
    import zarr  # noqa: PLC0415 - see the module's docstring
    from zarr.storage import MemoryStore  # noqa: PLC0415

    plain = json.loads(json.dumps(dict(attributes or {}), allow_nan=False))
    objects: dict[str, Buffer] = {}
    zarr.create_group(MemoryStore(objects), zarr_format=3, attributes=plain)
    return objects[DOCUMENT].to_bytes()


@lru_cache(maxsize=64)
def array_document(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the ``zarr.json`` of an array with chunks of `codec.encode`.

    Missing chunks read as NaN, 0 or false.
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
    """Return the ``zarr.json`` of an array (length,) in one chunk.

    Every chunk of a sparse set has three such arrays, of its own length.
    """
    document = json.loads(array_document((1,), (1,), dtype))
    document["shape"] = [length]
    document["chunk_grid"]["configuration"]["chunk_shape"] = [max(1, length)]
    return json.dumps(document, indent=2).encode()
