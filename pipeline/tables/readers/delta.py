"""Tables of Delta Lake, by delta-rs (the library deltalake)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

#: What a table may ask its readers to know.
_FEATURES = (
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview",
    "v2Checkpoint", "vacuumProtocolCheck",
)  # fmt: skip
#: What writers put into the list of readers whether or not the table uses it.
_OF_TYPES = ("variantType", "variantType-preview", "variantShredding-preview")
_PHYSICAL = b"delta.columnMapping.physicalName"


class DeltaRows(TableFileRows):
    """Rows of a version of a Delta Lake table; see `TableRows` for the methods."""

    kind: ClassVar[str] = "Delta Lake"

    def opened(self, address: Address, version: str | None) -> VersionOfTable:
        with of_table(address, self.kind, "deltalake", "delta"):
            from deltalake import DeltaTable  # noqa: PLC0415 - an extra

            options = as_environment(address.store) or None
            number = None if version is None else int(version)
            table = DeltaTable(_url(address), version=number, storage_options=options)
            _require_features(table, address.name)
            schema = pa.schema(table.schema())
            added = pa.table(table.get_add_actions(flatten=False)).sort_by("path")
            remaining = _remaining(table) if "deletionVectors" in _features(table) else {}
            files = [_file(address, one, schema, remaining) for one in added.to_pylist()]
            _require_used(remaining, files, address.name)
        counts = [file.n_rows for file in files]
        rows = None if remaining or None in counts else sum(n for n in counts if n)
        return VersionOfTable(
            str(table.version()),
            _without_metadata(schema),
            files,
            rows,
            _names(schema),
            str(table.metadata().id),
        )


def _url(address: Address) -> str:
    return address.path if address.is_local else str(address.store.unstrip_protocol(address.path))


def _features(table: Any) -> list[str]:
    protocol = table.protocol()
    features = list(protocol.reader_features or [])
    if protocol.min_reader_version == 2:  # which stands for this feature
        features.append("columnMapping")
    return features


def _require_features(table: Any, name: str) -> None:
    """Refuse a table with features that are not known here: rows may differ from its files'."""
    unknown = [one for one in _features(table) if one not in (*_FEATURES, *_OF_TYPES)]
    if unknown:
        raise BadInput(
            f"{name}: the table asks its readers for {', '.join(unknown)}, which is not known "
            "here. Write a copy of it without, or its rows as Parquet."
        )


def _without_metadata(schema: Any) -> Any:
    return pa.schema([field.remove_metadata() for field in schema])


def _names(schema: Any) -> Callable[[Any], Mapping[str, str]]:
    """Return what finds the columns of a table in a file."""
    physical = {
        field.name: (field.metadata or {}).get(_PHYSICAL, field.name.encode()).decode()
        for field in schema
    }
    return lambda stored: {name: own for name, own in physical.items() if own in stored.names}


def _file(
    table: Address, added: Mapping[str, Any], schema: Any, remaining: Mapping[str, Any]
) -> DataFile:
    """Return a file that a version has, by what its log says."""
    path = unquote(added["path"])
    if "://" in path:
        path = table.store._strip_protocol(path)  # noqa: SLF001 - fsspec's own name for it
    elif not path.startswith("/"):
        path = f"{table.path.rstrip('/')}/{path}"
    address = described_file(table.store, path)._replace(budget=table.budget)
    same = {
        name: pa.scalar(value, schema.field(name).type)
        for name, value in (added.get("partition") or {}).items()
    }
    own = remaining.get(_own_name(path))
    deleted = nothing_deleted if own is None else partial(_positions, own)
    return DataFile(address, added["num_records"], same, deleted)


def _own_name(path: str) -> str:
    """Return the name of a file without folders: each has one of its own, which none else has."""
    return path.rpartition("/")[2]


def _remaining(table: Any) -> dict[str, Any]:
    """Return which rows are left of each file with deleted ones: Arrow arrays of booleans."""
    vectors = pa.table(table.deletion_vectors())
    columns = vectors.column("filepath").to_pylist(), vectors.column("selection_vector")
    return {_own_name(unquote(url)): rows.values for url, rows in zip(*columns, strict=True)}


def _require_used(remaining: Mapping[str, Any], files: Sequence[DataFile], name: str) -> None:
    """Refuse a list of deleted rows that belongs to no file, or to several; BadInput."""
    names = [_own_name(file.address.path) for file in files]
    wrong = next((own for own in remaining if names.count(own) != 1), None)
    if wrong is not None:
        raise BadInput(
            f"{name}: rows of {wrong} are deleted, and {names.count(wrong)} files of the table "
            "have that name. Write a copy of the table."
        )


def _positions(remaining: Any) -> NDArray[np.int64]:
    positions: NDArray[np.int64] = np.flatnonzero(
        pc.invert(remaining).to_numpy(zero_copy_only=False)
    )
    return positions
