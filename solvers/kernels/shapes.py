"""What kernels take and give: names that say what an array is, its shape and its kind of number.

n is the number of rows in memory, m that of rows to visit, d that of columns.  With the constant
column there are d + 1, and its number is the last one.  A name that one module alone has a use for
stands there: rows in rows.py, how many lanes in simd/lanes.py, models side by side in
simd/interleaved.py, losses and problems in losses/loss.py.

A checker sees how many axes there are.  Elements, and shapes of arrays without a name, it takes
for Any: where a kernel returns one, `no-any-return` is ignored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# One number, or one per model.  The same text is compiled for a float and for lanes, and plain
# Python runs it with a float or with an array (width,): no type but Any stands for all of them.
# Fields of NamedTuples that are declared as floats hold lanes there, too.
Number = Any  # a float, or a LaneVector
LaneVector = Any  # one float64 per lane of a register; in plain Python an array (width,)
Truth = Any  # what comparing Numbers gives: a bool, or one per lane

# By axes alone: for the names below, and for those in other modules.
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
WholeNumbers = np.ndarray[tuple[int], np.dtype[np.int64]]
Floats = NDArray[np.floating]  # of any shape, read end to end; float32 or float64
Array = NDArray[np.generic]  # of any shape and any kind of number
Index = int | np.integer  # where a number stands in them: kernels work it out as np.int64, too

# Of columns.
PerColumn = Vector  # (d,) or (d + 1,): weights, a gradient
SideBySide = Matrix  # (d, C) or (d + 1, C): C of them, laid out as rows.py wants it
LowerTriangle = Matrix  # (d, d) or (d + 1, d + 1): what is above the diagonal is not read

# Of rows.
PerRow = Vector  # (n,): targets, weights of rows, slopes; (0,) of slopes that are not kept
Order = WholeNumbers  # (m,): the rows to visit
RowState = Matrix  # (n, k): the k numbers kept of every row
Shares = Vector  # (k,): how much each of them counts in the row's dual variable

# Of text.
Bytes = NDArray[np.uint8]  # (size,)
Byte = Any  # one of them, np.uint8: a checker takes what stands at a place for an array
