"""Typed columns (Parquet) that may be plain numbers, and cells of targets that may be no floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_same
from fewpass.pipeline.tables.encoding.plain_types import plain_type
from fewpass.pipeline.tables.readers.as_written import AsWritten
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.solvers.bad_input import MOST_WHOLE

#: What may be no float: padded with zeros, or of more digits than every float gives back.
_PERHAPS = r"^\s*[-+]?(?:0\d|[\d.]{16})"
_DIGITS, _BITS = 15, 64


def require_numbers(name: str, schema: Any, first: Any, columns: TableColumns) -> bool:
    """Return whether targets are words.

    BadInput for other columns than the first file's, and for columns of no use as what they are.
    """
    require_same(first.names, schema.names, name)
    types = [plain_type(schema.field(one).type) for one in first.names]
    for column in (*columns.features, columns.weight):
        if column is not None and not _is_number(types[column]):
            raise BadInput(
                f"{name}, row 1: {columns.title(column)} holds {types[column]} "
                "values, numbers were expected. Leave the column out "
                f"({columns.advice(column)}) or encode it as numbers."
            )
    label = columns.label
    if label is not None and not (_is_number(kind := types[label]) or _is_text(kind)):
        raise BadInput(
            f"{name}: the label, {columns.title(label)}, holds {kind} values, numbers or "
            "words were expected. Name another column (`label`)."
        )
    if label is not None and _is_text(types[label]) != _is_text(plain_type(first.types[label])):
        raise BadInput(
            f"{name}: the labels are words in one file and numbers in another. Write them alike."
        )
    return label is not None and _is_text(types[label])


def _is_number(kind: Any) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    exact = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
    return bool(exact or types.is_floating(kind) or types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


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
    far = pc.greater(cells, pa.scalar(MOST_WHOLE, cells.type))
    if not pa.types.is_signed_integer(cells.type):
        return far
    return pc.or_(far, pc.less(cells, pa.scalar(-MOST_WHOLE, cells.type)))


def _texts(cells: Any) -> list[str]:
    """Return cells as text; decimals without the zeros behind their last digit."""
    texts: list[str] = pc.utf8_trim_whitespace(pc.cast(cells, pa.large_string())).to_pylist()
    if pa.types.is_decimal(cells.type):
        return [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]
    return texts
