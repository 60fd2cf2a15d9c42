"""The numbers of a data set by column, statistics and stored order, in one safetensors file.

Arrays lie end to end and are written and read one by one: there may be millions of columns.  The
manifest has the type and the checksum of each, in the order of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fewpass.storage.codec import checksum
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import RESTORE, StoredObject, missing, require_length

KEY: Final = "columns.safetensors"
COLUMN_ORDER: Final = "source"  # the array with the order of the stored columns
#: Names of the types in the file.
Dtype = Literal["float64", "int32", "int64"]
CODES: Final[dict[Dtype, str]] = {"float64": "F64", "int32": "I32", "int64": "I64"}

#: Makes the numbers (d,) of every column.
Column = Callable[[], NDArray[Any]]


class StoredColumns(NamedTuple):
    """Record of an array of the file."""

    dtype: Dtype
    crc32c: Annotated[int, Field(ge=0, lt=1 << 32)]  # of its bytes


Records = dict[str, StoredColumns]


def makers_of(columns: Mapping[str, NDArray[Any]]) -> dict[str, Column]:
    """Return arrays that are there as what makes them."""
    return {name: partial(np.asarray, numbers) for name, numbers in columns.items()}


def file_bytes(records: Mapping[str, StoredColumns], n_features: int) -> int:
    """Return the length of the file with these arrays."""
    dtypes = {name: record.dtype for name, record in records.items()}
    return len(_header(dtypes, n_features)) + n_features * _row_bytes(records)


def _row_bytes(records: Mapping[str, StoredColumns]) -> int:
    return sum(np.dtype(record.dtype).itemsize for record in records.values())


def write_columns(
    folder: Folder, columns: Mapping[str, Column], order: ColumnOrder, n_features: int
) -> tuple[StoredObject, Records]:
    """Write the file, to be made durable by ``folder.sync``; return its record and its arrays'.

    Parameters
    ----------
    folder, n_features
        Where to, and the length of each array.
    columns
        Statistics, stored as float64; called one after the other.
    order
        Of the stored columns, which comes last unless it is the source's: of smaller items.

    Raises
    ------
    ValueError
        An array has another length.
    """
    length, whole, records = 0, 0, Records()
    every, dtypes = dict(columns), dict[str, Dtype]()
    dtypes |= dict.fromkeys(columns, "float64")
    if order.source is not None:
        every[COLUMN_ORDER] = partial(np.asarray, order.source)
        dtypes[COLUMN_ORDER] = "int32" if order.source.itemsize == 4 else "int64"

    def counted(data: memoryview) -> memoryview:
        nonlocal length, whole
        length, whole = length + len(data), checksum(data, whole)
        return data

    def pieces() -> Iterator[memoryview]:
        yield counted(memoryview(_header(dtypes, n_features)))
        for name, make in every.items():
            data = _as_stored(name, make(), dtypes[name], n_features)
            records[name] = StoredColumns(dtypes[name], checksum(data))
            yield counted(data)

    folder.write_pieces(KEY, pieces(), durable=False)
    return StoredObject(length, whole), records


def _as_stored(name: str, numbers: NDArray[Any], dtype: Dtype, n_features: int) -> memoryview:
    if numbers.shape != (n_features,):
        raise ValueError(
            f"Column statistic {name!r} has shape {numbers.shape}, where ({n_features},) was "
            "expected. Hand over one number per feature."
        )
    return np.ascontiguousarray(numbers, np.dtype(dtype).newbyteorder("<")).view(np.uint8).data


def _header(dtypes: Mapping[str, Dtype], n_features: int) -> bytes:
    arrays, start = dict[str, Any](), 0
    for name, dtype in dtypes.items():
        end = start + n_features * np.dtype(dtype).itemsize
        places = {"shape": [n_features], "data_offsets": [start, end]}
        arrays[name], start = {"dtype": CODES[dtype], **places}, end
    text = json.dumps(arrays).encode()
    padded = text + b" " * (-len(text) % 8)
    return len(padded).to_bytes(8, "little") + padded


def read_column(
    folder: Folder,
    stored: StoredObject,
    records: Mapping[str, StoredColumns],
    name: str,
    n_features: int,
) -> NDArray[Any]:
    """Read an array of the file, all its bytes verified.

    Raises
    ------
    Damaged
        The file is missing or has another length, or the array another checksum.
    """
    require_length(folder, KEY, stored)  # before memory is taken
    names = [*records]
    after = {other: records[other] for other in names[names.index(name) :]}
    first = stored.length - n_features * _row_bytes(after)
    column = np.empty(n_features, records[name].dtype)
    try:
        folder.read_range_into(KEY, first, column.view(np.uint8).data)
    except FileNotFoundError as error:
        raise missing(folder, KEY) from error
    actual, expected = checksum(column.view(np.uint8)), records[name].crc32c
    if actual != expected:
        raise Damaged(
            f"{folder.address(KEY)} is damaged: the checksum of {name} is {actual:08x}, where "
            f"{expected:08x} was expected. {RESTORE}"
        )
    return column
