"""Typed columns (Parquet) that may be plain numbers, and cells of targets that may be no floats."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_same
from fewpass.pipeline.tables.encoding.plain_types import plain_type
from fewpass.pipeline.tables.readers.columns import TableColumns


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
