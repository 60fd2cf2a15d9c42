"""Targets of Arrow columns that may be no floats: see `as_written`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.readers.as_written import LARGEST_EXACT, AsWritten

#: What may be no float: padded with zeros, or of more digits than every float gives back.
_PERHAPS = r"^\s*[-+]?(?:0\d|[\d.]{16})"
_DIGITS, _BITS = 15, 64


def in_cells(cells: Any) -> AsWritten | None:
    """Return which cells (n,) of an Arrow array no float may be; None where all are floats."""
    kind, types = cells.type, pa.types
    if types.is_integer(kind) and kind.bit_width == _BITS:
        perhaps = _beyond(cells)
    elif types.is_decimal(kind) and kind.precision > _DIGITS:
        perhaps = pc.is_valid(cells)
    elif types.is_string(kind) or types.is_large_string(kind):
        perhaps = pc.match_substring_regex(cells, _PERHAPS)
    else:
        return None
    rows = np.flatnonzero(np.asarray(perhaps.fill_null(fill_value=False), np.bool_))
    return AsWritten(rows, lambda: _texts(cells.take(pa.array(rows)))) if rows.size else None


def _beyond(cells: Any) -> Any:
    """Say which whole numbers floats may not be: an Arrow array."""
    far = pc.greater(cells, pa.scalar(LARGEST_EXACT, cells.type))
    if not pa.types.is_signed_integer(cells.type):
        return far
    return pc.or_(far, pc.less(cells, pa.scalar(-LARGEST_EXACT, cells.type)))


def _texts(cells: Any) -> list[str]:
    """Return cells as text; decimals without the zeros behind their last digit."""
    found: list[str] = pc.utf8_trim_whitespace(pc.cast(cells, pa.large_string())).to_pylist()
    if pa.types.is_decimal(cells.type):
        return [text.rstrip("0").rstrip(".") if "." in text else text for text in found]
    return found
