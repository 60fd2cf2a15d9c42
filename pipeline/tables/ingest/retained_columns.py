"""Columns that are kept as they were written: what rows are found by later, and not learnt from.

A cell becomes its text in UTF-8 and zeros up to a fixed width, which Zarr stores as bytes and
LZ4 makes small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.storage.manifest import RETAINED_BYTES

Retained = NDArray[np.uint8]
Words = NDArray[np.bytes_]
_ROWS = 1024  # that are written at once: the places of their bytes take memory


class RetainedCells(NamedTuple):
    """Cells of kept columns as they were read, which as bytes take many times as much memory."""

    names: tuple[str, ...]
    cells: tuple[Any, ...]  # an Arrow array (n,) of each
    where: str  # which rows these are, for messages

    def taken(self, rows: NDArray[np.int64]) -> RetainedCells:
        """Return those of some rows."""
        return self._replace(cells=tuple(cells.take(rows) for cells in self.cells))

    def between(self, start: int, stop: int) -> RetainedCells:
        """Return those of the rows start <= i < stop."""
        return self._replace(cells=tuple(cells.slice(start, stop - start) for cells in self.cells))

    def as_bytes(self, out: Retained) -> Retained:
        """Write them to `out` (n, bytes), a missing cell as an empty text, and return it.

        Raises
        ------
        BadInput
            A cell is longer than what is kept of one.
        """
        out[:] = 0
        for start in range(0, len(out), _ROWS):
            part = self.between(start, start + _ROWS)
            for k, (name, cells) in enumerate(zip(self.names, part.cells, strict=True)):
                own = slice(k * RETAINED_BYTES, (k + 1) * RETAINED_BYTES)
                _write(out[start : start + _ROWS, own], name, cells, self.where)
        return out


def _write(out: Retained, name: str, cells: Any, where: str) -> None:
    """Write the texts of cells into rows of zeros."""
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
    if not longest:
        return
    _, ends, content = column.buffers()
    n = len(column)
    ends = np.frombuffer(ends, np.int64, n + 1, column.offset * 8)
    lengths = np.diff(ends)
    at = np.arange(ends[0], ends[-1])
    places = at - np.repeat(ends[:-1], lengths)
    out[np.repeat(np.arange(n), lengths), places] = np.frombuffer(content, np.uint8)[at]


def words_of_retained(retained: Retained, number: int) -> Words:
    """Return the texts (n,) of the kept column of a number, in UTF-8."""
    start = number * RETAINED_BYTES
    own = np.ascontiguousarray(retained[:, start : start + RETAINED_BYTES])
    return own.view(f"S{RETAINED_BYTES}")[:, 0]
