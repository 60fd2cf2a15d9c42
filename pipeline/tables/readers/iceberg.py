"""Tables of Iceberg, by pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.finding import Address, described_file
from fewpass.pipeline.tables.readers.store_settings import as_environment
from fewpass.pipeline.tables.readers.table_files import (
    DataFile,
    TableFileRows,
    VersionOfTable,
    nothing_deleted,
    of_table,
)
from fewpass.storage.addresses import open_store

#: What pyiceberg calls the settings of a store.
_PROPERTIES = {
    "AWS_ACCESS_KEY_ID": "s3.access-key-id", "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token", "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_REGION": "s3.region",
}  # fmt: skip
_FIELD_ID = b"PARQUET:field_id"


class IcebergRows(TableFileRows):
    """Rows of a snapshot of an Iceberg table; see `TableRows` for the methods.

    The table is a file of metadata, a folder with a version hint, or one of a catalog that
    pyiceberg's own configuration has: ``iceberg://CATALOG/NAMESPACE.TABLE``.
    """

    kind: ClassVar[str] = "Iceberg"

    def opened(self, address: Address, version: str | None) -> VersionOfTable:
        with of_table(address, self.kind, "pyiceberg", "iceberg"):
            table = _table(address)
            table.catalog.close()  # files are read without it
            version = _newest(table) if version is None else version
            scan = table.scan(snapshot_id=_snapshot(address.name, table, version))
            tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
            fields = _fields(table, scan, version)
            schema = pa.schema([field.remove_metadata() for field in fields.as_arrow()])
            files = [_file(address, table, task, fields, schema) for task in tasks]
        counts = [file.n_rows for file in files]
        rows = None if any(task.delete_files for task in tasks) else sum(n for n in counts if n)
        names = _names(fields, table.name_mapping())
        own = str(table.metadata.table_uuid)
        return VersionOfTable(version, schema, files, rows, names, own)


def _table(address: Address) -> Any:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    if address.store is None:
        catalog, _, name = address.path.partition("://")[2].partition("/")
        return load_catalog(catalog).load_table(name)
    settings = as_environment(address.store)
    properties = {_PROPERTIES[name]: v for name, v in settings.items() if name in _PROPERTIES}
    url = address.path if address.is_local else address.store.unstrip_protocol(address.path)
    return StaticTable.from_metadata(str(url), properties)


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


def _fields(table: Any, scan: Any, version: str) -> Any:
    """Return the columns of a version: those that its snapshot had, unless it names a schema."""
    own = version.partition("/")[2]
    return table.schemas()[int(own)] if own else scan.projection()


def _file(table: Address, of: Any, task: Any, fields: Any, schema: Any) -> DataFile:
    """Return a file that a snapshot has."""
    path = str(task.file.file_path)
    if task.file.file_format.name != "PARQUET":
        raise BadInput(
            f"{path} is a file of {task.file.file_format.name}. Tables of Parquet files are read: "
            "rewrite the table's files."
        )
    address = _address(table, path)._replace(budget=table.budget)
    deleted = partial(_positions, of.io, task) if task.delete_files else nothing_deleted
    return DataFile(address, task.file.record_count, _same(of, task, fields, schema), deleted)


def _address(table: Address, path: str) -> Address:
    protocol, separator, _ = path.partition("://")
    store = table.store
    if store is not None and (not separator or protocol in (*_protocols(store), "file")):
        if separator and protocol not in _protocols(store):
            return described_file(*open_store(path))
        return described_file(store, store._strip_protocol(path))  # noqa: SLF001 - fsspec's
    return described_file(*open_store(path))


def _protocols(store: Any) -> tuple[str, ...]:
    return (store.protocol,) if isinstance(store.protocol, str) else tuple(store.protocol)


def _same(table: Any, task: Any, fields: Any, schema: Any) -> dict[str, Any]:
    """Return the values of columns that a file may lack: by default, or of its partition."""
    same = {
        field.name: pa.scalar(field.initial_default, schema.field(field.name).type)
        for field in fields.fields
        if field.initial_default is not None
    }
    spec = table.specs()[task.file.spec_id]
    for place, part in enumerate(spec.fields):
        name = fields.find_column_name(part.source_id)
        if str(part.transform) == "identity" and name in schema.names:
            kind = schema.field(name).type
            same[name] = pa.scalar(task.file.partition[place]).cast(kind)
    return same


def _names(fields: Any, mapping: Any) -> Callable[[Any], Mapping[str, str]]:
    """Return what finds the columns of a table in a file: by ids, or by names where it has none."""
    called = {} if mapping is None else {
        field.field_id: list(field.names) for field in mapping.root
    }  # fmt: skip

    def names_in(stored: Any) -> Mapping[str, str]:
        ids = {int(field.metadata[_FIELD_ID]): field.name
               for field in stored if _FIELD_ID in (field.metadata or {})}  # fmt: skip
        if not ids:
            ids = {one: name for one, names in called.items()
                   for name in names if name in stored.names}  # fmt: skip
        return {one.name: ids[one.field_id] for one in fields.fields if one.field_id in ids}

    return names_in


def _positions(io: Any, task: Any) -> NDArray[np.int64]:
    """Return the positions of a file's rows that the files of deletes name."""
    from pyiceberg.io.pyarrow import _read_deletes  # noqa: PLC0415 - their only reader

    parts = [
        np.asarray(part)
        for one in task.delete_files
        for path, part in _read_deletes(io, one).items()
        if path == task.file.file_path
    ]
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))
