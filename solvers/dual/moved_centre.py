"""The arrays of `psdca` between two passes, part by part: each part stays in a core's cache.

Of a million columns, or of a hundred classes, whole arrays are tens of megabytes, and what is done
to them one after the other costs as much as a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 1 << 13  # numbers of each array: 64 KB, and too few for threads of a BLAS


class Charges(NamedTuple):
    """What squares cost next to the scale of the steps: of all columns, or one by one."""

    before: Any
    now: Any  # reg
    own: float  # the penalty's: the rest of reg, kap, is the centre's

    def of(self, part: slice | int) -> Charges:
        """Return those of some columns."""
        before, now = (one[part] if np.ndim(one) else one for one in (self.before, self.now))
        return Charges(before, now, self.own)


def parts_of(w: NDArray[np.float64]) -> Iterator[slice]:
    """Yield slices of the columns of w, (d + 1,) or (d + 1, wide)."""
    columns = max(1, AT_ONCE * len(w) // max(1, w.size))
    for first in range(0, len(w), columns):
        yield slice(first, min(first + columns, len(w)))


def move(
    w: NDArray[np.float64], x: NDArray[np.float64], z: NDArray[np.float64],
    reached: NDArray[np.float64], beta: float, charges: Charges,
) -> None:  # fmt: skip
    """Make x what a pass reached, z ahead of it by beta (x' - x), and w go with z, in place.

    Where reg is not what it was, s = reg w - kap z stays.  The last column is the constant one,
    whose entry of z stays 0.
    """
    for part in parts_of(w):
        before, reg, own = charges.of(part)
        ahead = reached[part] - x[part]
        ahead *= beta
        ahead += reached[part]
        if part.stop == len(w):
            ahead[-1] = 0.0
        x[part] = reached[part]
        if np.any(before != reg):
            w[part] = (before * w[part] + (reg - before) * z[part]) / reg
        if np.any(reg != own):
            w[part] += (reg - own) / reg * (ahead - z[part])
        z[part] = ahead


def squared_distance(
    x: NDArray[np.float64], w: NDArray[np.float64], z: NDArray[np.float64], charges: Charges
) -> float:
    """Return ||x - v||^2, v being what the steps alone added up."""
    total = 0.0
    for part in parts_of(w):
        away = (x[part] - steps_alone(w[part], z[part], charges.of(part))).ravel()
        total += float(away @ away)
    return total


def steps_alone(w: Any, z: Any, charges: Charges) -> Any:
    """Return v = reg w - kap z."""
    return charges.now * w - (charges.now - charges.own) * z
