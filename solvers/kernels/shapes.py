"""Types of kernel arguments: names for arrays by shape and kind of number.

n is the number of rows in memory, m that of rows to visit, d that of columns.  With the constant
column there are d + 1, and its number is the last one.  Names used in one module
only are defined there: rows in rows.py, how many lanes in lanes.py, models side by side in
simd/interleaved.py, losses and problems in losses/loss.py.

Type checkers see the number of axes.  Elements, and arrays without a name, are Any for them: where
a kernel returns one, `no-any-return` is ignored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# One number, or one per model.  The same code is compiled for a float and for lanes, and runs in
# plain Python with a float or an array (width,): only Any covers all of them.  Fields of
# NamedTuples declared as floats may be lanes, too.
Number = Any  # a float, or a LaneVector
LaneVector = Any  # one float64 per lane of a register; in plain Python an array (width,)
Truth = Any  # result of comparing Numbers: a bool, or one per lane
Shrinks = Any  # a penalty that weights are shrunk by as they are read, or None

# By axes alone: for the names below, and for those in other modules.
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
WholeNumbers = np.ndarray[tuple[int], np.dtype[np.int64]]
Floats = NDArray[np.floating]  # of any shape, read end to end; float32 or float64
Array = NDArray[np.generic]  # of any shape and any kind of number
Index = int | np.integer  # index of a number; kernels compute it as np.int64, too

# Of columns.
PerColumn = Vector  # (d,) or (d + 1,): weights, a gradient
SideBySide = Matrix  # (d, C) or (d + 1, C): C vectors, laid out as in rows.py
LowerTriangle = Matrix  # (d, d) or (d + 1, d + 1): numbers above the diagonal are not read

# Of rows.
PerRow = Vector  # (n,): targets, weights of rows, slopes; (0,) for slopes that are not stored
Order = WholeNumbers  # (m,): the rows to visit
RowState = Matrix  # (n, k): k numbers per row
Shares = Vector  # (1,), or (1 + m,): of these numbers in the row's dual variable (duality.py)
Cuts = np.ndarray[tuple[int, int], np.dtype[np.int64]]  # (m, k + 1): ends of k parts of each row

# Of text.
Bytes = NDArray[np.uint8]  # (size,)
Byte = Any  # one of them, np.uint8: for type checkers an element is an array
