"""Record batches of files, validated before anything reads them.

A batch is a few buffers and what its file says of them.  Arrow takes that on trust: offsets beyond
a buffer are read all the same, which ends the process, or makes its memory a file's values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.tables.readers.borders import parsing, told


def validated(batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Yield the record batches of a file, each validated in full.

    Raises
    ------
    BadInput
        A batch that cannot be read, or whose values are not what its type says; by column and row.
    """
    following, row = iter(batches), 1
    while True:
        with parsing(f"{name}, from row {row:,} on"):
            batch = next(following, None)
        if batch is None:
            return
        require_valid(batch, f"{name}, rows {row:,} to {row + batch.num_rows - 1:,}")
        yield batch
        row += batch.num_rows


def require_legible(fields: Iterable[Any]) -> None:
    """Look at all names of a schema, inner ones too; UnicodeDecodeError where one is no text."""
    for field in fields:
        str(field.name)
        kind = field.type
        require_legible(kind.field(k) for k in range(kind.num_fields))


def require_valid(rows: Any, where: str) -> None:
    """Refuse a batch or a table whose buffers are not what its types say; BadInput by column."""
    try:
        rows.validate(full=True)
    except pa.ArrowException as error:
        name, why = _first_fault(rows, error)
        raise BadInput(
            f"{where}: the values of column {shown_name(name)} are damaged ({told(why)}). Fetch "
            "or write them anew."
        ) from error


def _first_fault(rows: Any, error: Exception) -> tuple[str, Exception]:
    for field, column in zip(rows.schema, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowException as found:
            return field.name, found
    return rows.schema.names[0] if rows.schema.names else "", error
