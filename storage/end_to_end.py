"""Many vectors stored as one, without concatenating them in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


class EndToEnd:
    """The interface of an array that snapshots use: type, length and slices.

    Parameters
    ----------
    parts
        Vectors of one type, at least one.
    """

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        self._parts = parts
        self._ends = [0, *accumulate(len(part) for part in parts)]
        self.dtype, self.itemsize = parts[0].dtype, parts[0].itemsize
        self.shape = (self._ends[-1],)

    def __getitem__(self, places: tuple[slice, ...]) -> NDArray[Any]:
        """Return the numbers at start <= k < stop, copied if they are in several parts."""
        start, stop = places[0].start, places[0].stop  # it has one axis
        each = zip(self._parts, pairwise(self._ends), strict=True)
        slices = [
            part[max(start, first) - first : stop - first]
            for part, (first, end) in each
            if first < stop and start < end
        ]
        return slices[0] if len(slices) == 1 else np.concatenate(slices or [self._parts[0][:0]])
