"""Zarr metadata of groups and arrays, ``zarr.json``, as zarr-python writes it, byte for byte.

Zarr v3 fixes these documents, and a test compares each with zarr-python's own.  They are spelled
here since importing zarr-python costs a process 0.1 s of CPU time, 4 MB and a thread, for a text
of twenty lines.  `Folder` writes them: objects are atomic and the manifest is written last, which
zarr-python's stores do not guarantee.  Chunks are encoded by `fewpass.storage.codec`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fewpass.storage.codec import COMPRESSION


def group_document(
    attributes: Mapping[str, Any] | None = None, arrays: Mapping[str, Any] | None = None
) -> bytes:
    """Return the ``zarr.json`` of a group.

    `arrays`: contents of the documents of its arrays by name, which then have none of their own.

    Raises
    ------
    TypeError, ValueError
        The attributes are not JSON, or contain a number that is not finite.
    """
    consolidated = {}
    if arrays is not None:
        inline = {"kind": "inline", "must_understand": False, "metadata": dict(arrays)}
        consolidated = {"consolidated_metadata": inline}
    return _as_text(
        {"attributes": dict(attributes or {}), "zarr_format": 3, **consolidated}
        | {"node_type": "group"}
    )


@lru_cache(maxsize=64)
def array_document(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the ``zarr.json`` of an array with chunks of `codec.encode`.

    Missing chunks read as NaN, 0 or false.
    """
    return _as_text(array_content(shape, chunks, dtype))


def array_content(
    shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any]
) -> dict[str, Any]:
    """Return what the ``zarr.json`` of an array says."""
    return {
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": {"f": "NaN", "b": False}.get(dtype.kind, 0),
        "codecs": [_as_bytes(dtype), _by_blosc(dtype), {"name": "crc32c"}],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def vector_content(length: int, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return what the ``zarr.json`` of an array (length,) in one chunk says."""
    return array_content((length,), (max(1, length),), dtype)


def _as_bytes(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the codec from numbers to bytes; those of one byte have no order."""
    if dtype.itemsize == 1:
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": "little"}}


def _by_blosc(dtype: np.dtype[Any]) -> dict[str, Any]:
    return {"name": "blosc", "configuration": {"typesize": dtype.itemsize, **COMPRESSION}}


def _as_text(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=2, allow_nan=False).encode()
