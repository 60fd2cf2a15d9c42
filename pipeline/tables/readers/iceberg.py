"""Tables of Iceberg, by pyiceberg."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.plain_types import has_fields
from fewpass.pipeline.tables.readers.databases import DatabaseRows, OpenedTable
from fewpass.pipeline.tables.readers.finding import Address, described_file
from fewpass.pipeline.tables.readers.source import Expected
from fewpass.pipeline.tables.readers.table_files import (
    DataFile,
    Positions,
    store_settings,
    table_errors,
    table_of_files,
)
from fewpass.storage.addresses import open_store

_FIELD_ID = b"PARQUET:field_id"


class IcebergRows(DatabaseRows):
    """Rows of a snapshot of an Iceberg table, by pyiceberg; see `TableReader` for the methods.

    The table is a file of metadata, a folder with a version hint, or one of a catalog that
    pyiceberg's own configuration has: ``iceberg://CATALOG/NAMESPACE.TABLE``.
    """

    kind: ClassVar[str] = "Iceberg"
    has_versions: ClassVar[bool] = True

    def opened(self, address: Address, options: SourceOptions, _expected: Expected) -> OpenedTable:
        with table_errors(address, self.kind, "pyiceberg", "iceberg"):
            table = _iceberg_at(address)
            table.catalog.close()  # files are read without it
            version = options.table_version
            version = _newest(table) if version is None else version
            scan = table.scan(snapshot_id=_snapshot(address.name, table, version))
            own = version.partition("/")[2]  # a schema; else the columns that the snapshot had
            fields = table.schemas()[int(own)] if own else scan.projection()
            schema = fields.as_arrow()
            tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
            files = [_of_iceberg(address, table, task, fields, schema) for task in tasks]
            with_ids = partial(_with_ids, table.name_mapping())
            place = f"{self.kind} {table.metadata.table_uuid}"
            return table_of_files(address, version, place, schema, files, _id_of, with_ids)


def _iceberg_at(address: Address) -> Any:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    if address.store is None:
        catalog, _, name = address.path.partition("://")[2].partition("/")
        return load_catalog(catalog).load_table(name)
    url = address.path if address.is_local else address.store.unstrip_protocol(address.path)
    return StaticTable.from_metadata(str(url), store_settings(address.store, 1))


def _newest(table: Any) -> str:
    """Return the version that is the table of now: its columns may be newer than its rows."""
    snapshot, schema = table.current_snapshot(), table.schema().schema_id
    if snapshot is None:
        return ""
    own = f"{snapshot.snapshot_id}"
    return own if snapshot.schema_id in (None, schema) else f"{own}/{schema}"


def _snapshot(name: str, table: Any, version: str) -> int:
    """Return the id of a version's snapshot; BadInput where the table has none such."""
    if not version:
        raise BadInput(f"{name}: the table has no snapshot yet. Write rows to it.")
    own = int(version.partition("/")[0])
    if table.snapshot_by_id(own) is None:
        newest = ", ".join(str(one.snapshot_id) for one in table.snapshots()[-5:])
        raise BadInput(
            f"{name}: the table has no snapshot {own} (`table_version`). Its newest are {newest}."
        )
    return own


def _of_iceberg(table: Address, of: Any, task: Any, fields: Any, schema: Any) -> DataFile:
    """Return a file that a snapshot has."""
    path, store = str(task.file.file_path), table.store
    if task.file.file_format.name != "PARQUET":
        raise BadInput(
            f"{path} is a file of {task.file.file_format.name}. Tables of Parquet files are read: "
            "rewrite the table's files."
        )
    protocol, separator, _ = path.partition("://")
    is_there = store is not None and (not separator or protocol in _protocols(store))
    place = (store, store._strip_protocol(path)) if is_there else open_store(path)  # noqa: SLF001
    address = described_file(*place)._replace(budget=table.budget)
    same = _same_in(of, task, fields, schema)
    if task.delete_files:
        deletes = tuple(sorted(one.file_path for one in task.delete_files))
        return DataFile(address, None, same, deletes, partial(_positions, of.io, task))
    return DataFile(address, task.file.record_count, same)


def _protocols(store: Any) -> tuple[str, ...]:
    return (store.protocol,) if isinstance(store.protocol, str) else tuple(store.protocol)


def _same_in(table: Any, task: Any, fields: Any, schema: Any) -> dict[str, Any]:
    """Return the values of columns that a file may lack: by default, or of its partition."""
    same = {
        field.name: pa.scalar(field.initial_default, schema.field(field.name).type)
        for field in fields.fields
        if field.initial_default is not None
    }
    for place, part in enumerate(table.specs()[task.file.spec_id].fields):
        name = fields.find_column_name(part.source_id)
        if str(part.transform) == "identity" and name in schema.names:
            kind = schema.field(name).type
            own = pa.int32() if pa.types.is_date(kind) else None  # days, which Arrow casts alone
            same[name] = pa.scalar(task.file.partition[place], own).cast(kind)
    return same


def _id_of(field: Any) -> bytes | None:
    """Return the id of a field, as text; None: it has none."""
    return (field.metadata or {}).get(_FIELD_ID)


def _with_ids(mapping: Any, stored: Any) -> list[Any]:
    """Return the fields of a file that have ids: their own, or by names where it has none."""
    fields = list(stored) if any(map(_id_of, stored)) else _by_names(mapping or (), stored)
    return [field for field in fields if _id_of(field)]


def _by_names(mapped: Any, stored: Any) -> list[Any]:
    """Return fields with the ids that a name mapping has for them, inner ones, too."""
    ids = {name: one for one in mapped for name in one.names}
    return [_identified(field, ids.get(field.name)) for field in stored]


def _identified(field: Any, mapped: Any) -> Any:
    if mapped is None:
        return field
    if has_fields(field.type):
        field = field.with_type(pa.struct(_by_names(mapped.fields, field.type)))
    return field.with_metadata({_FIELD_ID: str(mapped.field_id)})


def _positions(io: Any, task: Any) -> Positions:
    """Return the positions of a file's rows that the files of deletes name."""
    from pyiceberg.io.pyarrow import _read_deletes  # noqa: PLC0415 - their only reader

    parts = [
        np.asarray(part)
        for one in task.delete_files
        for path, part in _read_deletes(io, one).items()
        if path == task.file.file_path
    ]
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))
