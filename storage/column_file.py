"""The numbers of a data set by column, statistics and stored order, in one file.

Each array is a sequence of frames, encoded as chunks are, and arrays lie end to end: they are
written and read one by one, as there may be millions of columns.  The manifest has type and frames
of each, in the order of the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage import codec
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import RESTORE, StoredObject, missing, require_length

KEY: Final = "columns.bin"
COLUMN_ORDER: Final = "source"  # the array with the order of the stored columns
FRAME_ITEMS: Final = 1 << 21  # 16 MiB of float64
MOST_COMPRESSION: Final = 256  # times; LZ4 cannot do more than 255

Dtype = Literal["float64", "int32", "int64"]

#: Makes the numbers (d,) of every column.
Column = Callable[[], NDArray[Any]]


class StoredColumns(NamedTuple):
    """Record of an array of the file."""

    dtype: Dtype
    frames: tuple[StoredObject, ...]

    @property
    def n_bytes(self) -> int:
        """Bytes of the array in the file."""
        return sum(frame.length for frame in self.frames)

    def may_hold(self, n_features: int) -> bool:
        """Return whether the frames can have a number for each column."""
        counts, itemsize = [*map(len, _parts(n_features))], np.dtype(self.dtype).itemsize
        return len(counts) == len(self.frames) and all(
            count * itemsize <= MOST_COMPRESSION * frame.length
            for count, frame in zip(counts, self.frames, strict=True)
        )


Records = dict[str, StoredColumns]


def makers_of(columns: Mapping[str, NDArray[Any]]) -> dict[str, Column]:
    """Return arrays that are there as what makes them."""
    return {name: partial(np.asarray, numbers) for name, numbers in columns.items()}


def require_fitting(records: Records, n_features: int, file_bytes: int) -> None:
    """Refuse records that are not those of a file of this length; ValueError."""
    whole = sum(record.n_bytes for record in records.values()) == file_bytes
    if not whole or not all(record.may_hold(n_features) for record in records.values()):
        raise ValueError("its columns do not fit into their file")


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
        Of the stored columns, which comes last unless it is the source's.

    Raises
    ------
    ValueError
        An array has another length.
    """
    whole, frames = 0, defaultdict[str, list[StoredObject]](list)
    every, dtypes = dict(columns), dict[str, Dtype]()
    dtypes |= dict.fromkeys(columns, "float64")
    if order.source is not None:
        every[COLUMN_ORDER] = partial(np.asarray, order.source)
        dtypes[COLUMN_ORDER] = "int32" if order.source.itemsize == 4 else "int64"

    def pieces() -> Iterator[bytes]:
        nonlocal whole
        for name, make in every.items():
            for frame in _encoded(name, make(), dtypes[name], n_features):
                frames[name].append(StoredObject(len(frame), codec.own_checksum(frame)))
                whole = codec.checksum(frame, whole)
                yield frame

    folder.write_pieces(KEY, pieces(), durable=False)
    records = {name: StoredColumns(dtypes[name], tuple(frames[name])) for name in every}
    return StoredObject(sum(record.n_bytes for record in records.values()), whole), records


def _encoded(name: str, numbers: NDArray[Any], dtype: Dtype, n_features: int) -> Iterator[bytes]:
    if numbers.shape != (n_features,):
        raise ValueError(
            f"Column statistic {name!r} has shape {numbers.shape}, where ({n_features},) was "
            "expected. Hand over one number per feature."
        )
    for part in _parts(n_features):
        yield codec.encode(numbers[part.start : part.stop].astype(dtype, copy=False))


def _parts(n_features: int) -> Iterator[range]:
    """Yield the columns of each frame of an array."""
    starts = range(0, n_features, FRAME_ITEMS)
    return (range(start, min(start + FRAME_ITEMS, n_features)) for start in starts)


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
        The file is missing or has another length, or a frame another checksum.
    """
    require_length(folder, KEY, stored)  # before memory is taken
    names, record = [*records], records[name]
    start = sum(records[other].n_bytes for other in names[: names.index(name)])
    column = np.empty(n_features, record.dtype)
    for part, frame in zip(_parts(n_features), record.frames, strict=True):
        try:
            raw = folder.read_range(KEY, start, frame.length)
            codec.verify([raw], frame.crc32c)
            codec.decode_into(raw, column[part.start : part.stop])
        except FileNotFoundError as error:
            raise missing(folder, KEY) from error
        except ValueError as error:
            raise Damaged(
                f"{folder.address(KEY)} is damaged: {name} is not as it was written ({error}). "
                f"{RESTORE}"
            ) from error
        start += frame.length
    return column
