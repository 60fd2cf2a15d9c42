"""The index of a pandas frame in Parquet and Arrow files: beside the columns, and none of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.cells import is_numeric
from fewpass.pipeline.tables.readers.source import Expected


def index_of(schema: Any) -> tuple[str, ...]:
    """Return the columns of an Arrow schema that pandas (or Dask) wrote its index into."""
    try:
        written = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        found = [name for name in written.get("index_columns", ()) if isinstance(name, str)]
    except (ValueError, AttributeError):  # what somebody else wrote there
        return ()
    return tuple(name for name in found if name in schema.names)


def left_out(
    index: Sequence[str], names: Sequence[str], options: SourceOptions, expected: Expected
) -> tuple[str, ...]:
    """Return the columns of an index that are left out: those nobody asks for, or knows."""
    schema = expected.schema
    if schema is not None and options.by_position and len(schema.types) == len(names):
        return ()
    crossed = {name for pair in options.cross for name in pair.split(",")}
    asked = {options.label, options.weight, *options.column, *options.drop, *crossed}
    known = set() if schema is None else {*(schema.feature_names or ())}
    if schema is not None and schema.names is not None:
        known |= {schema.names[k] for k in (schema.label, schema.weight) if k is not None}
    return tuple(name for name in index if name not in asked | known)


def sentence(index: Sequence[str], schema: Any) -> tuple[str, ...]:
    """Tell which columns were left out, and how to keep one."""
    if not index:
        return ()
    first = index[0]
    what = ", ".join(map(shown_name, index))
    said = (
        f"{what}: the index of the pandas frame that was written, left out as no column of it. Say "
        f"`column={first}={_kind(schema.field(first).type)}` to keep it."
    )
    return (said,)


def _kind(kind: Any) -> str:
    if pa.types.is_temporal(kind):
        return "date"
    return "number" if is_numeric(kind) else "category"
