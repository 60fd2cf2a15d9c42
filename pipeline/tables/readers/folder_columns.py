"""Columns that folders name, as in rows/year=2026/country=DE/part-0.parquet: Hive's custom."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.storage.column_schema import Schema

_MISSING = "__HIVE_DEFAULT_PARTITION__"
#: A whole number that is written as one: with zeros in front it is a code, and text.
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_TEXT, _NUMBER = pa.large_string(), pa.int64()


def named_in(path: str) -> dict[str, str]:
    """Return the columns that the folders of a path name, and their values as written."""
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    return {unquote(key): unquote(value) for key, equals, value in parts if equals and key}


class FolderColumns(NamedTuple):
    """Columns that the folders of files name, the same in all rows of a file."""

    kinds: Mapping[str, Any]  # Arrow types by column
    values: Mapping[str, Mapping[str, Any]]  # Arrow scalars by file and column

    @classmethod
    def of(
        cls, files: Sequence[str], stored: Collection[str], like: Schema | None
    ) -> FolderColumns:
        """Read the folders of files.

        Columns of whole numbers are such, others text; those of `like` have its types.

        Raises
        ------
        BadInput
            Folders of files differ in their columns, one is a column of the files (`stored`), or
            holds no whole number where one is expected.
        """
        written = {file: named_in(file) for file in files}
        names = tuple(written[files[0]])
        for file, columns in written.items():
            if tuple(columns) != names:
                raise BadInput(
                    f"{file} is in folders that name {_listed(columns)}, and {files[0]} in such "
                    f"that name {_listed(names)}. Read files of like folders together."
                )
        double = next((name for name in names if name in stored), None)
        if double is not None:
            raise BadInput(
                f"{files[0]}: a folder names the column {double!r}, which the file has itself. "
                "Rename one of them, or read a copy of the files elsewhere."
            )
        kinds = {name: _kind(name, written, like) for name in names}
        return cls(kinds, {file: _typed(file, columns, kinds) for file, columns in written.items()})

    def added(self, table: Any, file: str) -> Any:
        """Return an Arrow table of a file's rows with the columns that its folders name."""
        for name, value in self.values[file].items():
            table = table.append_column(name, pa.repeat(value, table.num_rows))
        return table


NO_FOLDERS = FolderColumns({}, {})


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"


def _kind(name: str, written: Mapping[str, Mapping[str, str]], like: Schema | None) -> Any:
    """Return the type of a column: the one it had before, or as its values are."""
    if like is not None and like.names is not None and name in like.names:
        return _NUMBER if like.types[like.names.index(name)] == str(_NUMBER) else _TEXT
    values = {columns[name] for columns in written.values()} - {_MISSING}
    return _NUMBER if values and all(map(_WHOLE.fullmatch, values)) else _TEXT


def _typed(file: str, columns: Mapping[str, str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    scalars = {}
    for name, value in columns.items():
        if kinds[name] == _NUMBER and value != _MISSING:
            if not _WHOLE.fullmatch(value):
                raise BadInput(
                    f"{file}: the folder {name}={value} names no whole number, and the column "
                    "holds such elsewhere. Rename the folder."
                )
            scalars[name] = pa.scalar(int(value), _NUMBER)
        else:
            scalars[name] = pa.scalar(None if value == _MISSING else value, kinds[name])
    return scalars
