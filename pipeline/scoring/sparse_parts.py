"""Parts of a sum whose arrays hold few numbers other than 0, kept as these: of a thousand slices.

Histograms of the scores of one slice have a place for every score that there may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.states import each_field

SMALL = 64  # numbers of an array that stays as it is
#: Bytes of a slice's sums beside the numbers of its sparse arrays, measured.
BYTES_OF_PART = 3_000


@dataclass(frozen=True, slots=True)
class SparseArray:
    """The numbers of an array that are not 0, in the order of their places; sums are sparse."""

    shape: tuple[int, ...]
    places: NDArray[np.int64]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, array: NDArray[np.float64]) -> Self:
        """Return the same numbers."""
        places = np.flatnonzero(array)
        return cls(array.shape, places, array.ravel()[places])

    def __add__(self, other: SparseArray) -> SparseArray:
        """Return the sum, each number the bits of that of whole arrays."""
        places = np.union1d(self.places, other.places)
        values = np.zeros(len(places))
        for one in (self, other):
            values[np.searchsorted(places, one.places)] += one.values
        return SparseArray(self.shape, places, values)

    def whole(self) -> NDArray[np.float64]:
        """Return the array."""
        array = np.zeros(self.shape)
        array.flat[self.places] = self.values
        return array


def sparse(part: Any) -> Any:
    """Return a part, or one field of it, with its larger arrays sparse; such parts add up."""
    if isinstance(part, tuple):
        return each_field(sparse, part)
    is_large = isinstance(part, np.ndarray) and part.size > SMALL
    return SparseArray.of(part) if is_large else part


def whole(part: Any) -> Any:
    """Return a part as it was."""
    if isinstance(part, tuple):
        return each_field(whole, part)
    return part.whole() if isinstance(part, SparseArray) else part


def bytes_of(part: Any) -> int:
    """Return the bytes of the numbers of a part's sparse arrays."""
    if isinstance(part, tuple):
        return sum(map(bytes_of, part))
    return part.places.nbytes + part.values.nbytes if isinstance(part, SparseArray) else 0
