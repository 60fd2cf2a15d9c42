"""The blocks of a bucket file: rows as their arrays lie in memory.

A block is an int64 triple (rows, values, bytes per column index) and then, of a dense table, ``X,
target[, weight]``; of a sparse one ``row lengths (int64), indices, data, target[, weight]``.
"""

from __future__ import annotations

from io import FileIO
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from storage.table import DenseTable, SparseTable, Table

HEADER_ITEMS = 3


def write_block(file: BinaryIO, table: Table) -> None:
    """Append the rows as one block."""
    index_bytes = 0 if isinstance(table, DenseTable) else table.indices.itemsize
    parts: list[NDArray[Any]] = [np.array([table.n_rows, table.nnz, index_bytes], np.int64)]
    if isinstance(table, DenseTable):
        parts.append(table.X)
    else:
        parts += [np.diff(table.indptr), table.indices, table.data]
    parts += [table.target] if table.weight is None else [table.target, table.weight]
    file.writelines(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data for part in parts)


def read_blocks(file: FileIO, table: Table) -> None:
    """Fill the table from all blocks of the file.

    Raises
    ------
    ValueError
        When the blocks have fewer or more rows or values than the table.
    """
    row = value = 0
    while row < table.n_rows:
        row, value = _read_block(file, table, row, value)
    if file.read(1) or (isinstance(table, SparseTable) and value != table.data.size):
        raise ValueError(f"{row} rows and {value} values are not where it ends")
    if isinstance(table, SparseTable):
        np.cumsum(table.indptr, out=table.indptr)


def _read_block(file: FileIO, table: Table, row: int, value: int) -> tuple[int, int]:
    header = np.empty(HEADER_ITEMS, np.int64)
    _fill(file, header)
    rows, nnz, index_bytes = header.tolist()
    stop, end = row + rows, value + nnz
    most = table.data.size if isinstance(table, SparseTable) else end
    if rows < 1 or nnz < 0 or stop > table.n_rows or end > most:
        raise ValueError(f"a block of {rows} rows and {nnz} values at row {row} is too much")
    if isinstance(table, DenseTable):
        _fill(file, table.X[row:stop])
    else:
        _fill(file, table.indptr[row + 1 : stop + 1])  # lengths, added up in the end
        _fill_indices(file, table.indices[value:end], index_bytes)
        _fill(file, table.data[value:end])
    _fill(file, table.target[row:stop])
    if table.weight is not None:
        _fill(file, table.weight[row:stop])
    return stop, end


def _fill_indices(file: FileIO, indices: NDArray[Any], index_bytes: int) -> None:
    """Read indices that may have been narrower than those of later blocks."""
    if index_bytes == indices.itemsize:
        _fill(file, indices)
    else:
        narrow = np.empty(indices.size, np.int32)
        _fill(file, narrow)
        indices[:] = narrow


def _fill(file: FileIO, part: NDArray[Any]) -> None:
    room = part.reshape(-1).view(np.uint8).data
    while room:
        got = file.readinto(room)
        if not got:
            raise ValueError(f"it ends {len(room)} bytes early")
        room = room[got:]
