"""Columns that are kept as they were written: what rows are found by later, and not learnt from.

A cell becomes its text in UTF-8 and zeros up to a fixed width, which Zarr stores as bytes and
LZ4 makes small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.storage.manifest import RETAINED_BYTES

Retained = NDArray[np.uint8]
Words = NDArray[np.bytes_]


def retained_of(names: Sequence[str], cells: Sequence[Any], where: str) -> Retained:
    """Return the cells of kept columns as bytes (n, bytes), a missing cell as an empty text.

    Parameters
    ----------
    names, cells
        The columns, and an Arrow array (n,) of each.
    where
        Which rows these are, for messages.

    Raises
    ------
    BadInput
        A cell is longer than what is kept of one.
    """
    pairs = zip(names, cells, strict=True)
    return np.concatenate([_padded(name, column, where) for name, column in pairs], axis=1)


def _padded(name: str, cells: Any, where: str) -> Retained:
    import pyarrow as pa  # noqa: PLC0415 - most rows keep nothing
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        column = cells.cast(pa.large_string()).fill_null("").cast(pa.large_binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadInput(
            f"{where}: column {shown_name(name)} holds {cells.type} values, which cannot be kept "
            "as text. Keep another column."
        ) from error
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > RETAINED_BYTES:
        raise BadInput(
            f"{where}: a cell of column {shown_name(name)} has {longest} bytes, and at most "
            f"{RETAINED_BYTES} are kept of one. Keep a column of ids or other short cells."
        )
    _, ends, content = column.buffers()
    n = len(column)
    ends = np.frombuffer(ends, np.int64, n + 1, column.offset * 8) if n else np.zeros(1, np.int64)
    lengths = np.diff(ends)
    padded = np.zeros((n, RETAINED_BYTES), np.uint8)
    if longest:
        at = np.arange(ends[0], ends[-1])
        places = at - np.repeat(ends[:-1], lengths)
        padded[np.repeat(np.arange(n), lengths), places] = np.frombuffer(content, np.uint8)[at]
    return padded


def words_of_retained(retained: Retained, number: int) -> Words:
    """Return the texts (n,) of the kept column of a number, in UTF-8."""
    start = number * RETAINED_BYTES
    own = np.ascontiguousarray(retained[:, start : start + RETAINED_BYTES])
    return own.view(f"S{RETAINED_BYTES}")[:, 0]
