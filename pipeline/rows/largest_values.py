"""The largest absolute value of every column: what the scaling `maxabs` divides by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.column_statistics import with_room
from fewpass.storage.table import DenseTable, Table


class LargestValues:
    """Of all rows added so far, in the type of their values: 4 bytes a column of float32.

    Parameters
    ----------
    n_features
        Columns known now; sparse tables may bring more.
    """

    def __init__(self, n_features: int) -> None:
        self._largest: NDArray[Any] = np.zeros(n_features, np.float32)

    def add(self, table: Table) -> None:
        """Look at the table's rows, too."""
        values = table.X if isinstance(table, DenseTable) else table.data
        self._largest = self._largest.astype(values.dtype, copy=False)
        if isinstance(table, DenseTable):
            here = np.abs(values).max(axis=0, initial=0.0)
            np.maximum(self._largest, here, out=self._largest)
        else:
            np.maximum.at(self._largest, table.indices, np.abs(values))

    def widen(self, n_features: int) -> None:
        """Make room for columns up to `n_features` (sparse layout)."""
        self._largest = with_room(self._largest, n_features)

    def values(self, n_features: int) -> NDArray[np.float64]:
        """Return them, (n_features,), new."""
        self.widen(n_features)
        return np.array(self._largest[:n_features], np.float64)
