"""The blocks of a bucket file: the arrays of rows as in memory, with a checksum per block.

A block is an int64 triple (rows, values, bytes per column index); then, of a dense table, ``X``,
of a sparse one ``row lengths (int64), indices, data``; then ``target[, weight][, offset]`` and
``[, retained]``, and a uint32: the CRC-32C of the file so far, without checksums, starting with the
bucket's number.  So a block is valid only after the same blocks, in the file of its own bucket.
"""

from __future__ import annotations

from io import FileIO
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.codec import checksum
from fewpass.storage.table import DenseTable, SparseTable, Table

HEADER_ITEMS = 3


class Extent(NamedTuple):
    """Extent of a bucket file."""

    length: int  # bytes
    crc32c: int  # of all of them except checksums, starting with the bucket's number


def empty(bucket: int) -> Extent:
    """Return the extent of an empty bucket."""
    return Extent(0, checksum(bucket.to_bytes(8, "little")))


def write_block(file: BinaryIO, table: Table, before: Extent) -> Extent:
    """Append the rows as one block to a file; return its new extent."""
    index_bytes = 0 if isinstance(table, DenseTable) else table.indices.itemsize
    parts: list[NDArray[Any]] = [np.array([table.n_rows, table.nnz, index_bytes], np.int64)]
    if isinstance(table, DenseTable):
        parts.append(table.X)
    else:
        parts += [np.diff(table.indptr), table.indices, table.data]
    each_row = (table.target, table.weight, table.offset, table.retained)
    parts += [part for part in each_row if part is not None]
    length, crc = before
    for part in parts:
        content = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        file.write(content.data)
        length, crc = length + content.size, checksum(content, crc)
    trailer = np.uint32(crc).tobytes()
    file.write(trailer)
    return Extent(length + len(trailer), crc)


def read_blocks(file: FileIO, table: Table, bucket: int) -> Extent:
    """Fill the table from the blocks of a bucket's file; return their extent.

    Raises
    ------
    ValueError
        A block has been moved or changed, or the blocks have fewer or more rows or values than the
        table.  The content of the table is then undefined.
    """
    blocks = _Blocks(file, bucket)
    row = value = 0
    while row < table.n_rows:
        row, value = blocks.read(table, row, value)
    if isinstance(table, SparseTable):
        if value != table.data.size:
            raise ValueError(f"it holds {value} values, where {table.data.size} were expected")
        np.cumsum(table.indptr, out=table.indptr)
    return blocks.extent


class _Blocks:
    """The blocks of one file, in order, and the extent read so far."""

    def __init__(self, file: FileIO, bucket: int) -> None:
        self.file, self.extent = file, empty(bucket)

    def read(self, table: Table, row: int, value: int) -> tuple[int, int]:
        """Read one block into the table at a row and a value; return the positions after it."""
        header = np.empty(HEADER_ITEMS, np.int64)
        self._fill(header)
        rows, nnz, index_bytes = header.tolist()
        stop, end = row + rows, value + nnz
        _require_space(table, row, header.tolist(), stop, end)
        if isinstance(table, DenseTable):
            self._fill(table.X[row:stop])
        else:
            lengths = table.indptr[row + 1 : stop + 1]  # cumulative sums at the end
            self._fill(lengths)
            if lengths.min() < 0 or lengths.sum() != nnz:
                raise ValueError(f"the rows from {row} on do not share out their {nnz} values")
            self._fill_indices(table.indices[value:end], index_bytes)
            self._fill(table.data[value:end])
        self._fill(table.target[row:stop])
        for part in (table.weight, table.offset, table.retained):
            if part is not None:
                self._fill(part[row:stop])
        self._check(row)
        return stop, end

    def _check(self, row: int) -> None:
        """Verify the checksum at the end of the block that begins at a row."""
        length, crc = self.extent
        trailer = np.empty(1, np.uint32)
        self._fill(trailer)
        if int(trailer[0]) != crc:
            raise ValueError(
                f"the checksum of the block at row {row} is {crc:08x}, where {trailer[0]:08x} was "
                "expected"
            )
        self.extent = Extent(length + trailer.nbytes, crc)

    def _fill_indices(self, indices: NDArray[Any], index_bytes: int) -> None:
        """Read indices, which may be narrower than those of later blocks."""
        if index_bytes == indices.itemsize:
            self._fill(indices)
        else:
            narrow = np.empty(indices.size, np.int32)
            self._fill(narrow)
            indices[:] = narrow

    def _fill(self, part: NDArray[Any]) -> None:
        content = part.reshape(-1).view(np.uint8)
        rest = content.data
        while rest:
            got = self.file.readinto(rest)
            if not got:
                raise ValueError(f"it ends {len(rest)} bytes early")
            rest = rest[got:]
        length, crc = self.extent
        self.extent = Extent(length + content.size, checksum(content, crc))


def _require_space(table: Table, row: int, header: list[int], stop: int, end: int) -> None:
    """Refuse a block that is larger than the rest of the table, or of another kind."""
    rows, nnz, index_bytes = header
    if isinstance(table, SparseTable):
        most, widths = table.data.size, {4, table.indices.itemsize}
    else:
        most, widths = end, {0}
    if rows < 1 or nnz < 0 or stop > table.n_rows or end > most or index_bytes not in widths:
        raise ValueError(f"a block of {rows} rows and {nnz} values at row {row} cannot be there")
