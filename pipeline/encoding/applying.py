"""A recipe applied to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from pipeline.encoding.recipe import Recipe, width_of
from pipeline.errors import BadInput


def encoded(recipe: Recipe, rows: Any, dtype: Any = np.float64) -> sparse.csr_matrix:
    """Return rows, an Arrow table, as a CSR matrix (n, d); columns are matched by name.

    Raises
    ------
    BadInput
        When a column is missing, or holds other values than the sample did.
    """
    absent = [column.name for column in recipe.columns if column.name not in rows.column_names]
    if absent:
        raise BadInput(f"The rows have no column {absent[0]!r}, which there was before. Add it.")
    slots, start = [], 0
    for column in recipe.columns:
        cells = rows.column(column.name).combine_chunks()
        try:
            found = list(column.slots(cells))
        except pa.ArrowException as error:
            raise BadInput(
                f"Column {column.name!r} holds {cells.type} values, but was a {column.kind} column "
                f"before ({error}). Give it the type that it had."
            ) from error
        slots += [(slot.column + start, slot.value) for slot in found]
        start += width_of(column)
    n, m = rows.num_rows, len(slots)
    index = np.int32 if start < 2**31 else np.int64
    indices, data = np.empty((n, m), index), np.empty((n, m), dtype)
    for k, (column_of, value) in enumerate(slots):
        indices[:, k], data[:, k] = column_of, value
    made = sparse.csr_matrix(
        (data.ravel(), indices.ravel(), np.arange(0, n * m + 1, m)), (n, start)
    )
    made.eliminate_zeros()
    return made
