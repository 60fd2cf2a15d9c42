"""Places of chunks of a changed data set: in the group of a generation, by their number there.

A generation shares chunks with earlier ones.  They stay where they were written, and its manifest
says where that is, so that a change costs what it changes, on a disk and in an object store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Of a place in the manifest.
PLACE: Final = np.dtype([("generation", "<u4"), ("number", "<u4")])


class ChunkPlace(NamedTuple):
    """The place of a chunk."""

    generation: int  # whose group it lies in; 1: what the ingest made
    number: int  # of the chunk in that group, from 0


def packed_places(places: Iterable[ChunkPlace]) -> bytes:
    """Return places as the manifest has them."""
    return np.array([tuple(place) for place in places], PLACE).tobytes()


def read_places(raw: bytes) -> NDArray[Any]:
    """Return the places in the manifest, (n_chunks,) of `PLACE`."""
    return np.frombuffer(raw, PLACE)


def not_among(places: NDArray[Any], others: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """Return the positions of those places that none of the others is."""
    there = np.concatenate([other.view(np.uint64) for other in others])
    return np.flatnonzero(~np.isin(places.view(np.uint64), there))
