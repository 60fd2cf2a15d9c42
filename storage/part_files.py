"""Rows on their way to a random order: parts of a source, grouped by bucket, in memory or in files.

A part's file has a header; of each bucket where its rows, and their values, begin, and a CRC-32C;
where the last ones end; and then the arrays of its rows one after the other, those of a bucket
together in each.  The CRC begins with what the rows are of, the part's name and the bucket's
number: what is damaged, or lies in another place, is refused when it is read.

Files are not brought to the disk, which would cost an ingest 6 % of its time (measured): what a
power cut takes is found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.codec import checksum
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.local_files import NoFile, ReadAt
from fewpass.storage.table import DenseTable, SparseTable, Table, cut

Keys = NDArray[np.float64]
Ends = NDArray[np.int64]
#: Advice on damage: the next ingest starts afresh.
READ_AGAIN = "Run the same command again: it reads all rows anew."
_MAGIC = int.from_bytes(b"fewpart2", "little")
_OF_VALUES = ("indices", "data")  # the arrays with an item for each value, in place of each row
_HEADER = np.dtype(
    [(name, "<i8") for name in ("magic", "index_bytes", "buckets", "rows", "values", "crc32c")]
)
_NUMBERS = ("row", "value")
_BUCKET = np.dtype([*((name, "<i8") for name in _NUMBERS), ("crc32c", "<u4")])
_CRC_BYTES = _BUCKET["crc32c"].itemsize
#: What lies in a file's place, by the error of opening it.
_IN_PLACE: dict[type[Exception], str] = {Damaged: "it is a link", NoFile: "it is no file"}


class DamagedPart(Damaged):
    """Damage to an unfinished ingest; rows must be read again.

    Attributes
    ----------
    part : str or None
        The part whose rows these are; None: it is not one part that is damaged.
    """

    part: str | None = None


class RowKind(NamedTuple):
    """Properties that all rows of a source share."""

    layout: Literal["dense", "sparse"]
    dtype: Literal["float32", "float64"]
    n_features: int | None
    has_weight: bool
    has_offset: bool = False
    retained_bytes: int = 0  # of each row, of columns kept as they are written
    has_keys: bool = True


class PartPlace(NamedTuple):
    """The name of a part of rows: the checksums of its buckets begin with it."""

    rows: str  # a digest of what decides on them
    name: str

    @property
    def checksum(self) -> int:
        """The CRC-32C of both."""
        return checksum(f"{self.rows} {self.name}".encode())


class GroupedRows(NamedTuple):
    """Rows put together by bucket, those of each in the order in which they came."""

    table: Table
    keys: Keys | None  # (n,) None: rows keep their order
    ends: Ends  # (n_buckets,) where each bucket's rows end

    @property
    def value_ends(self) -> Ends:
        """Return the end of each bucket's values."""
        if isinstance(self.table, DenseTable):
            return np.multiply(self.ends, self.table.X.shape[1])
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

    def read(self, folder: Folder, place: PartPlace, first: int, stop: int) -> slice:
        """Read the rows of buckets first <= b < stop of a part's file; return where they are.

        Raises
        ------
        DamagedPart
            The file is missing or has been changed.
        """
        try:
            with folder.opened(place.name) as file:
                header, index = _read_index(file, first, stop)
                own = self._next(*(int(index[-1][name] - index[0][name]) for name in _NUMBERS))
                stored = _of_width(own, int(header["index_bytes"]))
                _read_arrays(file, header, index[0], stored)
            _require_whole(stored, index, place, first)
        except (FileNotFoundError, Damaged, ValueError, OverflowError) as error:
            here, why = folder.address(place.name), _IN_PLACE.get(type(error), error)
            damage = DamagedPart(f"{here} is not as it was written ({why}). {READ_AGAIN}")
            damage.part = place.name
            raise damage from error
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


def write_part(folder: Folder, place: PartPlace, rows: GroupedRows) -> int:
    """Write the file of a part, whole or not at all, under its name; return its bytes.

    Raises
    ------
    OSError
        It cannot be written; the message names it.
    """
    arrays, values = _arrays(rows.table, rows.keys), rows.value_ends
    index_bytes = arrays["indices"].itemsize if "indices" in arrays else 0
    header = np.zeros(1, _HEADER)
    header[0] = (_MAGIC, index_bytes, len(rows.ends), rows.ends[-1], values[-1], 0)
    header["crc32c"] = checksum(header.tobytes())
    index = np.zeros(len(rows.ends) + 1, _BUCKET)
    index["row"][1:], index["value"][1:] = rows.ends, values
    index["crc32c"][:-1] = _checksums(arrays, index, place, 0)
    every = [_bytes_of(header), _stored(index), *map(_bytes_of, arrays.values())]
    folder.write(place.name, *every, durable=False)
    return sum(map(len, every))


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
) -> list[int]:
    """Return the checksum of each bucket.

    Parameters
    ----------
    arrays
        Of the buckets from `first` on.
    index
        Of these, and the next one.
    """
    stored = []  # bytes of each array, and where buckets begin there
    for name, array in arrays.items():
        own = index[_NUMBERS[name in _OF_VALUES]]
        stored.append((_bytes_of(array), ((own - own[0]) * _item_bytes(array)).tolist()))
    every, before = [], place.checksum
    for k in range(len(index) - 1):
        crc = checksum((first + k).to_bytes(8, "little"), before)
        for text, at in stored:
            crc = checksum(text[at[k] : at[k + 1]], crc)
        every.append(crc)
    return every


def _item_bytes(array: NDArray[Any]) -> int:
    """Return the bytes of a row of an array."""
    return array.itemsize * math.prod(array.shape[1:])


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _of_width(own: dict[str, NDArray[Any]], index_bytes: int) -> dict[str, NDArray[Any]]:
    """Return arrays as a file has them: columns that all rows have as wide ones may be narrow."""
    if "indices" not in own or own["indices"].itemsize == index_bytes:
        return own
    if index_bytes not in (4, 8):
        raise ValueError(f"its columns are of {index_bytes} bytes")
    return own | {"indices": np.empty(len(own["indices"]), f"i{index_bytes}")}


def _stored(index: NDArray[Any]) -> memoryview:
    """Return the bytes of an index, which end with where the last bucket ends."""
    return _bytes_of(index)[:-_CRC_BYTES]


def _read_index(file: ReadAt, first: int, stop: int) -> tuple[Any, NDArray[Any]]:
    """Return the header, and the index of buckets first <= b < stop and the next one."""
    header = np.empty(1, _HEADER)
    _fill(file, 0, _bytes_of(header))
    own, header["crc32c"] = int(header["crc32c"][0]), 0
    if header["magic"][0] != _MAGIC or checksum(header.tobytes()) != own:
        raise ValueError("it is no such file")
    n_buckets = int(header["buckets"][0])
    if stop > n_buckets:
        raise ValueError(f"it has {n_buckets} buckets, where {stop} were expected")
    index = np.empty(stop - first + 1, _BUCKET)
    _fill(file, _HEADER.itemsize + first * _BUCKET.itemsize, _stored(index))
    if any((np.diff(index[name]) < 0).any() for name in _NUMBERS):
        raise ValueError("its buckets do not follow each other")
    return header[0], index


def _read_arrays(file: ReadAt, header: Any, begin: Any, own: dict[str, NDArray[Any]]) -> None:
    """Fill arrays with what a run of buckets has of each in the file."""
    at = _HEADER.itemsize + (int(header["buckets"]) + 1) * _BUCKET.itemsize - _CRC_BYTES
    for name, array in own.items():
        of_values = name in _OF_VALUES
        n, start = int(header["values" if of_values else "rows"]), begin[int(of_values)]
        item = _item_bytes(array)
        _fill(file, at + int(start) * item, _bytes_of(array))
        at += n * item


def _fill(file: ReadAt, at: int, rest: memoryview) -> None:
    if got := len(rest) - file(at, rest):
        raise ValueError(f"it ends {got} bytes early")


def _require_whole(
    own: Mapping[str, NDArray[Any]], index: NDArray[Any], place: PartPlace, first: int
) -> None:
    """Refuse buckets whose checksum is another."""
    actual, expected = _checksums(own, index, place, first), index["crc32c"][:-1].tolist()
    for number, (crc, wanted) in enumerate(zip(actual, expected, strict=True), first):
        if crc != wanted:
            raise ValueError(
                f"the checksum of bucket {number} is {crc:08x}, where {wanted:08x} was expected"
            )
