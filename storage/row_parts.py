"""Rows on their way to a random order: parts of a source, grouped by bucket, in memory or in files.

A part's file has a header, an index with an entry for each bucket and one more, and then the arrays
of its rows one after the other, those of a bucket together in each.  An entry has where the rows,
and the values, of the bucket begin, and a CRC-32C of all that it has, which begins with what the
rows are of, the part's number and the bucket's: what is damaged, or lies in another place, is
refused when it is read.

Files are not brought to the disk, which would cost an ingest 6 % of its time (measured): what a
power cut takes is found.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.codec import checksum
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.table import DenseTable, SparseTable, Table, cut

Keys = NDArray[np.float64]
Ends = NDArray[np.int64]
#: Advice on damage: the next ingest starts afresh.
READ_AGAIN = "Run the same command again: it reads all rows anew."
_MAGIC = int.from_bytes(b"fewpart1", "little")
_OF_VALUES = ("indices", "data")  # the arrays with an item for each value, in place of each row
_HEADER = np.dtype(
    [(name, "<i8") for name in ("magic", "index_bytes", "buckets", "rows", "values")]
)
_ENTRY = np.dtype([("row", "<i8"), ("value", "<i8"), ("crc32c", "<i8")])


class DamagedPart(Damaged):
    """Damage to an unfinished ingest; rows must be read again."""


class RowKind(NamedTuple):
    """What all rows of a source look like."""

    layout: Literal["dense", "sparse"]
    dtype: Literal["float32", "float64"]
    n_features: int | None
    has_weight: bool
    has_offset: bool = False
    retained_bytes: int = 0  # of each row, of columns kept as they are written
    has_keys: bool = True


class PartPlace(NamedTuple):
    """Which part of which rows it is: with that the checksums of its buckets begin."""

    rows: str  # a digest of what decides on them
    number: int

    @property
    def checksum(self) -> int:
        """The CRC-32C of both."""
        return checksum(f"{self.rows} {self.number}".encode())


class GroupedRows(NamedTuple):
    """Rows put together by bucket, those of each in the order in which they came."""

    table: Table
    keys: Keys | None  # (n,) None: rows keep their order
    ends: Ends  # (n_buckets,) where each bucket's rows end

    @property
    def value_ends(self) -> Ends:
        """Where each bucket's values end."""
        if isinstance(self.table, DenseTable):
            return self.ends * self.table.X.shape[1]
        return self.table.indptr[self.ends]

    def between(self, first: int, stop: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of buckets first <= b < stop, by name, in the order of a file."""
        start, end = int(self.ends[first - 1]) if first else 0, int(self.ends[stop - 1])
        return _arrays(
            cut(self.table, start, end), None if self.keys is None else self.keys[start:end]
        )


class RowSpace:
    """Memory for rows of several parts, filled one part after the other.

    Parameters
    ----------
    kind
        What they look like.
    rows, values
        How many there will be.
    index_dtype
        Of the columns of sparse rows.
    """

    def __init__(self, kind: RowKind, rows: int, values: int, index_dtype: np.dtype[Any]) -> None:
        self.row, self.value = 0, 0
        self.keys = np.empty(rows) if kind.has_keys else None
        target = np.empty(rows)
        weight = np.empty(rows) if kind.has_weight else None
        offset = np.empty(rows) if kind.has_offset else None
        retained = None
        if kind.retained_bytes:
            retained = np.empty((rows, kind.retained_bytes), np.uint8)
        others = (target, weight, offset, retained)
        self._indptr = np.zeros(rows + 1, np.int64)  # lengths of sparse rows, until all are there
        if kind.layout == "dense":
            X = np.empty((rows, kind.n_features or 0), kind.dtype)
            self.table: Table = DenseTable(X, *others)
        else:
            data, indices = np.empty(values, kind.dtype), np.empty(values, index_dtype)
            self.table = SparseTable(data, indices, self._indptr, *others)
        self._every = _arrays(self.table, self.keys)
        if "lengths" in self._every:
            self._every["lengths"] = self._indptr[1:]

    def take(self, rows: GroupedRows, first: int, stop: int) -> slice:
        """Copy the rows of buckets first <= b < stop of a part; return where they are."""
        given = rows.between(first, stop)
        own = self._next(len(given["target"]), len(given.get("data", ())))
        for name, array in own.items():
            array[:] = given[name]
        return self._filled(own)

    def read(self, path: Path, place: PartPlace, first: int, stop: int) -> slice:
        """Read the rows of buckets first <= b < stop of a part's file; return where they are.

        Raises
        ------
        DamagedPart
            The file is missing or has been changed.
        """
        try:
            with _opened(path) as file:
                header, index = _read_index(file, first, stop)
                rows, values = (int(index[name][-1] - index[name][0]) for name in ("row", "value"))
                own = self._next(rows, values)
                stored = _of_width(own, int(header["index_bytes"]))
                _read_arrays(file, header, index, stored)
            _require_whole(stored, index, place, first)
        except (FileNotFoundError, ValueError, OverflowError) as error:
            raise DamagedPart(f"{path} is not as it was written ({error}). {READ_AGAIN}") from error
        if stored is not own:
            own["indices"][:] = stored["indices"]
        return self._filled(own)

    def whole(self) -> Table:
        """Return all rows, once they are there."""
        if self.row != len(self.table.target):
            raise DamagedPart(
                f"{self.row} rows are there, where {len(self.table.target)} were "
                f"expected. {READ_AGAIN}"
            )
        np.cumsum(self._indptr, out=self._indptr)
        return self.table

    def _next(self, rows: int, values: int) -> dict[str, NDArray[Any]]:
        """Return the arrays that the next rows go to, by name, in the order of a file."""
        own = {}
        for name, array in self._every.items():
            at, n = (self.value, values) if name in _OF_VALUES else (self.row, rows)
            own[name] = array[at : at + n]
            if len(own[name]) != n:
                raise ValueError(f"it has {n} items of {name} for the {len(own[name])} expected")
        return own

    def _filled(self, own: Mapping[str, NDArray[Any]]) -> slice:
        start = self.row
        self.row += len(own["target"])
        self.value += len(own.get("data", ()))
        return slice(start, self.row)


def write_part(folder: Folder, key: str, place: PartPlace, rows: GroupedRows) -> None:
    """Write the file of a part, whole or not at all.

    Raises
    ------
    OSError
        It cannot be written; the message names it.
    """
    arrays, values = _arrays(rows.table, rows.keys), rows.value_ends
    index_bytes = arrays["indices"].itemsize if "indices" in arrays else 0
    header = np.zeros(1, _HEADER)
    header[0] = (_MAGIC, index_bytes, len(rows.ends), rows.ends[-1], values[-1])
    index = np.zeros(len(rows.ends) + 1, _ENTRY)
    index["row"][1:], index["value"][1:] = rows.ends, values
    for bucket, crc in _checksums(arrays, index, place, 0):
        index["crc32c"][bucket] = crc
    every = [header, index, *arrays.values()]
    folder.write(key, *map(_bytes_of, every), durable=False)


def _arrays(table: Table, keys: Keys | None) -> dict[str, NDArray[Any]]:
    """Return the arrays of rows by name, in the order of a file."""
    every: dict[str, NDArray[Any] | None] = {
        "keys": keys, "target": table.target, "weight": table.weight, "offset": table.offset,
        "retained": table.retained,
    }  # fmt: skip
    if isinstance(table, DenseTable):
        every["X"] = table.X
    else:
        every |= {"lengths": np.diff(table.indptr), "indices": table.indices, "data": table.data}
    return {name: array for name, array in every.items() if array is not None}


def _checksums(
    arrays: Mapping[str, NDArray[Any]], index: NDArray[Any], place: PartPlace, first: int
) -> Iterator[tuple[int, int]]:
    """Yield the place in the index of each bucket that has rows, and its checksum.

    Parameters
    ----------
    arrays
        Of the buckets from `first` on.
    index
        Their entries, and the next one.
    """
    row, value = (index[name] - index[name][0] for name in ("row", "value"))
    before = place.checksum
    for k in np.flatnonzero(np.diff(row)).tolist():
        crc = checksum((first + k).to_bytes(8, "little"), before)
        for name, array in arrays.items():
            ends = value if name in _OF_VALUES else row
            crc = checksum(_bytes_of(array[ends[k] : ends[k + 1]]), crc)
        yield k, crc


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file for reading, without following a link or waiting for a pipe in its place."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is no file")
        yield file
    finally:
        os.close(file)


def _of_width(own: dict[str, NDArray[Any]], index_bytes: int) -> dict[str, NDArray[Any]]:
    """Return arrays as a file has them: columns that all rows have as wide ones may be narrow."""
    if "indices" not in own or own["indices"].itemsize == index_bytes:
        return own
    if index_bytes not in (4, 8):
        raise ValueError(f"its columns are of {index_bytes} bytes")
    return own | {"indices": np.empty(len(own["indices"]), f"i{index_bytes}")}


def _read_index(file: int, first: int, stop: int) -> tuple[Any, NDArray[Any]]:
    """Return the header, and the entries of buckets first <= b <= stop."""
    header, index = np.empty(1, _HEADER), np.empty(stop - first + 1, _ENTRY)
    _fill(file, 0, header)
    if header["magic"][0] != _MAGIC:
        raise ValueError("it is no such file")
    if stop > header["buckets"][0]:
        raise ValueError(f"it has {header['buckets'][0]} buckets, where {stop} were expected")
    _fill(file, _HEADER.itemsize + first * _ENTRY.itemsize, index)
    if (np.diff(index["row"]) < 0).any() or (np.diff(index["value"]) < 0).any():
        raise ValueError("its index does not ascend")
    return header[0], index


def _read_arrays(file: int, header: Any, index: NDArray[Any], own: dict[str, NDArray[Any]]) -> None:
    """Fill arrays with what a run of buckets has of each in the file."""
    at = _HEADER.itemsize + (int(header["buckets"]) + 1) * _ENTRY.itemsize
    for name, array in own.items():
        of_values = name in ("indices", "data")
        n = int(header["values" if of_values else "rows"])
        start = int(index["value" if of_values else "row"][0])
        item = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        _fill(file, at + start * item, array)
        at += n * item


def _fill(file: int, at: int, array: NDArray[Any]) -> None:
    rest = array.reshape(-1).view(np.uint8).data
    while rest:
        got = os.preadv(file, [rest], at)
        if not got:
            raise ValueError(f"it ends {len(rest)} bytes early")
        rest, at = rest[got:], at + got


def _require_whole(
    own: Mapping[str, NDArray[Any]], index: NDArray[Any], place: PartPlace, first: int
) -> None:
    """Refuse buckets whose checksum is another."""
    for k, actual in _checksums(own, index, place, first):
        expected = int(index["crc32c"][k])
        if actual != expected:
            raise ValueError(
                f"the checksum of bucket {first + k} is {actual:08x}, where {expected:08x} was "
                "expected"
            )
