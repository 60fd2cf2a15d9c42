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
_ROWS = 1024  # that are written at once: their texts as objects take memory


class RetainedCells(NamedTuple):
    """Cells of kept columns as they were read, which as bytes take many times as much memory."""

    names: tuple[str, ...]
    cells: tuple[Any, ...]  # an Arrow array (n,) of each
    where: str  # which rows these are, for messages

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
        for start in range(0, len(out), _ROWS):
            part = self.between(start, start + _ROWS)
            for k, (name, cells) in enumerate(zip(self.names, part.cells, strict=True)):
                own = slice(k * RETAINED_BYTES, (k + 1) * RETAINED_BYTES)
                out[start : start + _ROWS, own] = _as_bytes(name, cells, self.where)
        return out


def _as_bytes(name: str, cells: Any, where: str) -> Retained:
    """Return the texts of cells in UTF-8, (n, bytes), with zeros behind them."""
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
    words = np.array(column.to_pylist(), f"S{RETAINED_BYTES}")
    return words.view(np.uint8).reshape(len(column), RETAINED_BYTES)


def words_of_retained(retained: Retained, number: int) -> Words:
    """Return the texts (n,) of the kept column of a number, in UTF-8."""
    start = number * RETAINED_BYTES
    own = np.ascontiguousarray(retained[:, start : start + RETAINED_BYTES])
    return own.view(f"S{RETAINED_BYTES}")[:, 0]
