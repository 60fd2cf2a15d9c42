"""Tables that a log or a catalog makes of Parquet files: Delta Lake, Iceberg.

Their own library says of one version which files, columns and deleted rows it has; files are read
as any Parquet file is, in batches and in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.plain_types import has_fields, plain_schema
from fewpass.pipeline.tables.readers.arrow_files import opened_parquet, parquet_batches, row_groups
from fewpass.pipeline.tables.readers.arrow_rows import Part
from fewpass.pipeline.tables.readers.databases import OpenedTable, rows_of
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import parsing

Positions = NDArray[np.int64]
#: What a field, of a table or of its files, is recognised by; names may be others in a file.
Key = Callable[[Any], Any]
#: Settings of s3fs, as the environment has them for all libraries of that store, and as pyiceberg.
_STORE_SETTINGS = {
    "key": ("AWS_ACCESS_KEY_ID", "s3.access-key-id"),
    "secret": ("AWS_SECRET_ACCESS_KEY", "s3.secret-access-key"),
    "token": ("AWS_SESSION_TOKEN", "s3.session-token"),
    "endpoint_url": ("AWS_ENDPOINT_URL", "s3.endpoint"),
    "region_name": ("AWS_REGION", "s3.region"),
}


class DataFile(NamedTuple):
    """A Parquet file of a table."""

    address: Address
    n_rows: int | None  # None: some are deleted
    same: Mapping[str, Any]  # Arrow scalars of columns that all its rows have, and it has not
    deletes: tuple[str, ...] = ()  # files that name its deleted rows
    deleted: Callable[[], Positions] | None = None  # these rows (m,), ascending


@contextmanager
def table_errors(address: Address, kind: str, library: str, extra: str) -> Iterator[None]:
    """Raise errors of a table's library, or that it is not installed, as BadInput."""
    try:
        with parsing(address.name, f"the table of {kind} cannot be read", "Check the table."):
            yield
    except BadInput as error:
        if isinstance(error.__cause__, ImportError):
            raise BadInput(
                f"{address.name} needs {library}, which is not installed. Install it with pip "
                f"install 'fewpass[{extra}]'."
            ) from error
        raise


def table_of_files(
    address: Address, version: str, place: str, schema: Any, files: Sequence[DataFile],
    key: Key, fields_in: Callable[[Any], Sequence[Any]] = list,
) -> OpenedTable:  # fmt: skip
    """Return a version of a table that has some files.

    Parameters
    ----------
    key, fields_in
        What fields are recognised by, and the fields of a file's schema that have it.
    """
    if not files:
        raise BadInput(
            f"{address.name}: version {version} of the table has no rows. Name another "
            "(`table_version`)."
        )
    parts = [
        Part(
            file.address.name, partial(_batches, file, schema, key, fields_in), file.address.budget,
            file.n_rows, file.address.size, file.deletes,
        )
        for file in files
    ]  # fmt: skip
    schema = pa.schema([field.remove_metadata() for field in schema])
    note = f"{address.name}: version {version} of the table was read."
    n_bytes, sized = _bytes_of(parts), partial(_expanded, files[0].address)
    return OpenedTable(schema, parts, version, place, sized, rows_of(parts), n_bytes, (note,))


def _bytes_of(parts: Sequence[Part]) -> int | None:
    sizes = [part.n_bytes for part in parts]
    return None if None in sizes else sum(size for size in sizes if size)


def _expanded(first: Address, parts: Sequence[Part]) -> float:
    """Estimate the bytes of files, decompressed, by the first one."""
    with opened_parquet(first) as file:
        size = sum(group.n_bytes for group in row_groups(file))
    return float(size / (first.size or size or 1) * (_bytes_of(parts) or 0))


def _batches(
    file: DataFile, schema: Any, key: Key, fields_in: Callable[[Any], Sequence[Any]],
    columns: Sequence[str], rows: int, n_bytes: int,
) -> Iterator[Any]:  # fmt: skip
    """Yield rows of a file as rows of the table, whatever types and columns the file has."""
    whose = {name: field for field in schema for name in plain_schema(pa.schema([field])).names}
    fields = list({whose[column].name: whose[column] for column in columns}.values())
    with opened_parquet(file.address) as parquet:
        stored = {key(field): field for field in fields_in(parquet.schema_arrow)}
    there = [stored[key(field)].name for field in schema if key(field) in stored]
    if not there:
        raise BadInput(f"{file.address.name}: the file has no column of its table. Check both.")
    names = [stored[key(field)].name for field in fields if key(field) in stored]
    names = names or there[:1]  # one tells how many rows there are
    deleted, row = file.deleted() if file.deleted else np.empty(0, np.int64), 0
    for batch in parquet_batches(file.address, names, rows, n_bytes):
        left = _without(batch, deleted, row)
        own = [_column(left, file, field, stored.get(key(field)), key) for field in fields]
        yield pa.record_batch(own, names=[field.name for field in fields])
        row += batch.num_rows


def _column(batch: Any, file: DataFile, field: Any, stored: Any, key: Key) -> Any:
    if stored is None:
        value = file.same.get(field.name, pa.scalar(None, field.type))
        return pa.repeat(value.cast(field.type), batch.num_rows)
    cells, kind = batch.column(stored.name), _called(stored.type, field.type, key)
    with parsing(f"{file.address.name}, column {field.name}"):  # it may be wider by now
        is_safe = not pa.types.is_timestamp(field.type)
        return (cells.view(kind) if has_fields(kind) else cells).cast(field.type, safe=is_safe)


def _called(stored: Any, wanted: Any, key: Key) -> Any:
    """Return a stored type whose fields are called as in the table; those it has not, nothing."""
    if not (has_fields(stored) and has_fields(wanted)):
        return stored
    own, fields = {key(field): field for field in wanted}, list[Any]()
    for number, field in enumerate(stored):
        like = own.get(key(field), pa.field(f"\0{number}", field.type))
        fields.append(pa.field(like.name, _called(field.type, like.type, key)))
    return pa.struct(fields)


def _without(batch: Any, deleted: Positions, start: int) -> Any:
    """Return a batch, whose first row has a position in the file, without its deleted rows."""
    first, last = np.searchsorted(deleted, [start, start + batch.num_rows])
    there = np.ones(batch.num_rows, np.bool_)
    there[deleted[first:last] - start] = False
    return batch if first == last else batch.filter(pa.array(there))


def store_settings(store: Any, place: int = 0) -> dict[str, str]:
    """Return the settings that a file system of fsspec was made with, by the names of others.

    Parameters
    ----------
    store
        The file system.
    place
        0: as the environment has them; 1: as pyiceberg does.

    Raises
    ------
    BadInput
        A setting that has no other name.
    """
    given = dict(getattr(store, "storage_options", None) or {})
    given |= given.pop("client_kwargs", None) or {}
    given = {name: value for name, value in given.items() if value not in (None, False)}
    unknown = [name for name in given if name not in (*_STORE_SETTINGS, "auto_mkdir")]
    if unknown:
        raise BadInput(
            f"The library of such tables has no storage option like {unknown[0]!r}. Known are "
            f"{', '.join(_STORE_SETTINGS)}; set others in the environment."
        )
    settings = {
        names[place]: str(given[name]) for name, names in _STORE_SETTINGS.items() if name in given
    }
    if place == 0 and settings.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        settings["AWS_ALLOW_HTTP"] = "true"
    return settings
