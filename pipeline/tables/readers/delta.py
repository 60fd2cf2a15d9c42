"""Tables of Delta Lake, by delta-rs (the library deltalake)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.databases import DatabaseRows, OpenedTable
from fewpass.pipeline.tables.readers.finding import Address, described_file
from fewpass.pipeline.tables.readers.source import Expected
from fewpass.pipeline.tables.readers.table_files import (
    DataFile,
    store_settings,
    table_errors,
    table_of_files,
)

#: What a table may ask its readers to know: the last three whether or not it uses them.
_FEATURES = (
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview",
    "v2Checkpoint", "vacuumProtocolCheck",
    "variantType", "variantType-preview", "variantShredding-preview",
)  # fmt: skip
_PHYSICAL = b"delta.columnMapping.physicalName"


class DeltaRows(DatabaseRows):
    """Rows of a version of a Delta Lake table, by delta-rs; see `TableReader` for the methods."""

    kind: ClassVar[str] = "Delta Lake"
    has_versions: ClassVar[bool] = True

    def opened(self, address: Address, options: SourceOptions, _expected: Expected) -> OpenedTable:
        version = options.table_version
        with table_errors(address, self.kind, "deltalake", "delta"):
            from deltalake import DeltaTable  # noqa: PLC0415 - an extra

            store = address.store
            url = address.path if address.is_local else str(store.unstrip_protocol(address.path))
            number = None if version is None else int(version)
            table = DeltaTable(url, version=number, storage_options=store_settings(store) or None)
            _require_readable(table, address.name)
            schema = pa.schema(table.schema())
            added = pa.table(table.get_add_actions(flatten=False)).sort_by("path").to_pylist()
            files = [_of_delta(address, one, schema) for one in added]
            place = f"{self.kind} {table.metadata().id}"
            return table_of_files(address, str(table.version()), place, schema, files, _in_files)


def _in_files(field: Any) -> bytes:
    """Return what the table's files call a field."""
    physical: bytes = (field.metadata or {}).get(_PHYSICAL, field.name.encode())
    return physical


def _require_readable(table: Any, name: str) -> None:
    """Refuse a table whose rows are not those of its files, or may be others: BadInput."""
    features = list(table.protocol().reader_features or ())
    unknown = [one for one in features if one not in _FEATURES]
    if unknown:
        raise BadInput(
            f"{name}: the table asks its readers for {', '.join(unknown)}, which is not known "
            "here. Write a copy of it without, or its rows as Parquet."
        )
    if "deletionVectors" in features and pa.table(table.deletion_vectors()).num_rows:
        raise BadInput(
            f"{name}: rows of the table are deleted by deletion vectors, which are not read here. "
            "Have its files written anew (REORG TABLE ... APPLY (PURGE)), or write its rows as "
            "Parquet, for example by DuckDB: COPY (FROM delta_scan('...')) TO 'rows.parquet'."
        )


def _of_delta(table: Address, added: Mapping[str, Any], schema: Any) -> DataFile:
    """Return a file that a version has, by what its log says."""
    path = unquote(added["path"])
    if "://" in path:
        path = table.store._strip_protocol(path)  # noqa: SLF001 - fsspec's own name for it
    elif not path.startswith("/"):
        path = f"{table.path.rstrip('/')}/{path}"
    address = described_file(table.store, path)._replace(budget=table.budget)
    partition = (added.get("partition") or {}).items()
    same = {name: pa.scalar(value, schema.field(name).type) for name, value in partition}
    return DataFile(address, added["num_records"], same)
