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
from fewpass.pipeline.tables.readers.arrow_files import opened_parquet, parquet_batches, row_groups
from fewpass.pipeline.tables.readers.arrow_rows import Part
from fewpass.pipeline.tables.readers.databases import OpenedTable, rows_of
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import parsing

Positions = NDArray[np.int64]
#: By column of the table, what a file of some Arrow schema calls it; others are not in it.
NamesIn = Callable[[Any], Mapping[str, str]]
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
    names_in: NamesIn,
) -> OpenedTable:  # fmt: skip
    """Return a version of a table that has some files."""
    if not files:
        raise BadInput(
            f"{address.name}: version {version} of the table has no rows. Name another "
            "(`table_version`)."
        )
    schema = pa.schema([field.remove_metadata() for field in schema])
    parts = [
        Part(
            file.address.name, partial(_batches, file, schema, names_in), file.address.budget,
            file.n_rows, file.address.size, file.deletes,
        )
        for file in files
    ]  # fmt: skip
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
    file: DataFile, schema: Any, names_in: NamesIn, columns: Sequence[str], rows: int, n_bytes: int
) -> Iterator[Any]:
    """Yield rows of a file as rows of the table, whatever types and columns the file has."""
    fields = [schema.field(name) for name in dict.fromkeys(_field_of(c, schema) for c in columns)]
    with opened_parquet(file.address) as parquet:
        names = names_in(parquet.schema_arrow)
    if not names:
        raise BadInput(f"{file.address.name}: the file has no column of its table. Check both.")
    stored = [names[field.name] for field in fields if field.name in names]
    stored = stored or [next(iter(names.values()))]  # one tells how many rows there are
    deleted, row = file.deleted() if file.deleted else np.empty(0, np.int64), 0
    for batch in parquet_batches(file.address, stored, rows, n_bytes):
        left = _without(batch, deleted, row)
        own = [_column(left, file, field, names.get(field.name)) for field in fields]
        yield pa.record_batch(own, names=[field.name for field in fields])
        row += batch.num_rows


def _field_of(name: str, schema: Any) -> str:
    """Return the column of the table that a dotted name is a part of."""
    names = (field for field in schema.names if name == field or name.startswith(f"{field}."))
    return str(next(names))


def _column(batch: Any, file: DataFile, field: Any, stored: str | None) -> Any:
    if stored is None:
        value = file.same.get(field.name, pa.scalar(None, field.type))
        return pa.repeat(value.cast(field.type), batch.num_rows)
    with parsing(f"{file.address.name}, column {field.name}"):  # it may be wider by now
        is_safe = not pa.types.is_timestamp(field.type)
        return batch.column(stored).cast(field.type, safe=is_safe)


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
