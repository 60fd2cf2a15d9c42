"""Arrow's many types as the few that encodings read.

Views, lists in views, runs and extensions hold what plain arrays hold, but most of Arrow's
functions do not take them.  Cells must have been validated: nothing is checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Bytes of a view: a length, and the text itself or where it is.
_VIEW_BYTES = 16


def plain_type(kind: Any) -> Any:
    """Return the type that cells of an Arrow type have once they are plain."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_dictionary(kind):
        return _plain_dictionary_type(kind)
    return _plain_list_type(kind)


def _plain_dictionary_type(kind: Any) -> Any:
    inner = plain_type(kind.value_type)
    if pa.types.is_nested(inner) or pa.types.is_dictionary(inner):
        return inner
    return kind if inner == kind.value_type else pa.dictionary(kind.index_type, inner)


def _plain_list_type(kind: Any) -> Any:
    types = pa.types
    if types.is_map(kind):
        key, item = plain_type(kind.key_type), plain_type(kind.item_type)
        return kind if (key, item) == (kind.key_type, kind.item_type) else pa.map_(key, item)
    is_view = types.is_list_view(kind) or types.is_large_list_view(kind)
    if is_view or types.is_list(kind) or types.is_large_list(kind):
        inner = _plain_element(kind.value_type)
        return kind if not is_view and inner == kind.value_type else pa.large_list(inner)
    if types.is_fixed_size_list(kind):
        inner = _plain_element(kind.value_type)
        return kind if inner == kind.value_type else pa.large_list(inner)
    return kind


def _plain_element(kind: Any) -> Any:
    plain = plain_type(kind)
    return plain.value_type if pa.types.is_dictionary(plain) else plain


def plain(cells: Any) -> Any:
    """Return cells, an Arrow array, as a plain one: the same where it is that already."""
    kind, types = cells.type, pa.types
    if plain_type(kind) == kind:
        return cells
    if isinstance(kind, pa.BaseExtensionType):
        return plain(cells.storage)
    if types.is_run_end_encoded(kind):
        return _plain_runs(cells)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _without_hidden_views(cells).cast(plain_type(kind))
    if types.is_dictionary(kind):
        return _plain_dictionary(cells)
    return _plain_map(cells) if types.is_map(kind) else _plain_list(cells)


def text_in(cells: Any) -> Any:
    """Return bytes as the text that some writers mean by them, where they are UTF-8."""
    if not (pa.types.is_binary(cells.type) or pa.types.is_large_binary(cells.type)):
        return cells
    try:
        return cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        return cells


def plain_table(table: Any) -> Any:
    """Return an Arrow table with plain columns, and structures taken apart, however deep."""
    while True:
        if any(plain_type(field.type) != field.type for field in table.schema):
            columns = [_plain_chunks(column) for column in table.columns]
            table = pa.table(columns, schema=_schema_of(table.schema, columns))
        if not any(has_fields(field.type) for field in table.schema):
            return table
        table = table.flatten()


def plain_schema(schema: Any) -> Any:
    """Return the schema that `plain_table` gives a table of this one."""
    while True:
        fields = [field.with_type(plain_type(field.type)) for field in schema]
        if not any(has_fields(field.type) for field in fields):
            return pa.schema(fields, schema.metadata)
        parts = [part for field in fields for part in _fields(field)]
        schema = pa.schema(parts, schema.metadata)


def has_fields(kind: Any) -> bool:
    """Return whether cells of a type are taken apart: columns of their own for their fields."""
    return bool(pa.types.is_struct(kind))


def _fields(field: Any) -> list[Any]:
    if not has_fields(field.type):
        return [field]
    return [inner.with_name(f"{field.name}.{inner.name}") for inner in field.type]


def _schema_of(schema: Any, columns: list[Any]) -> Any:
    pairs = zip(schema.names, columns, strict=True)
    return pa.schema([pa.field(name, column.type) for name, column in pairs], schema.metadata)


def _plain_chunks(column: Any) -> Any:
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    return pa.chunked_array([plain(chunk) for chunk in column.chunks], kind)


def _without_hidden_views(cells: Any) -> Any:
    """Return views with those of missing cells emptied.

    Nothing is said of what stands there, so validating passes it over; a cast does not.
    """
    if not cells.null_count:
        return cells
    valid, views, *data = cells.buffers()
    end = cells.offset + len(cells)
    own = np.frombuffer(views, np.uint8, end * _VIEW_BYTES).reshape(end, _VIEW_BYTES).copy()
    own[cells.offset :][np.asarray(cells.is_null())] = 0
    return pa.Array.from_buffers(
        cells.type, len(cells), [valid, pa.py_buffer(own), *data], cells.null_count, cells.offset
    )


def _plain_runs(cells: Any) -> Any:
    """Decode runs; Arrow's own function does not know runs of every type."""
    first, count = cells.find_physical_offset(), cells.find_physical_length()
    ends = np.asarray(cells.run_ends.slice(first, count)) - cells.offset
    values = plain(cells.values.slice(first, count))
    return values.take(pa.array(np.searchsorted(ends, np.arange(len(cells)), side="right")))


def _plain_dictionary(cells: Any) -> Any:
    values = plain(cells.dictionary)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_nested(values.type):
        return values.take(cells.indices)
    return pa.DictionaryArray.from_arrays(cells.indices, values)


def _plain_list(cells: Any) -> Any:
    """Return lists whose own elements are plain; Arrow's cast forgets where a slice begins."""
    inner = plain(pc.list_flatten(cells))
    if pa.types.is_dictionary(inner.type):
        inner = inner.dictionary_decode()
    missing = cells.is_null()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(cells), 0), np.int64)
    lengths = np.where(np.asarray(missing), 0, lengths)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.LargeListArray.from_arrays(offsets, inner, mask=missing)


def _plain_map(cells: Any) -> Any:
    offsets = np.asarray(cells.offsets)
    first, count = offsets[0], offsets[-1] - offsets[0]
    keys, items = (plain(part.slice(first, count)) for part in (cells.keys, cells.items))
    if cells.null_count:
        missing = np.append(np.asarray(cells.is_null()), False)
        begins = pa.array(offsets - first, pa.int32(), mask=missing)
    else:
        begins = pa.array(offsets - first, pa.int32())
    return pa.MapArray.from_arrays(begins, keys, items)
