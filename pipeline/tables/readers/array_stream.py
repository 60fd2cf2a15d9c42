"""NPY arrays read row by row, from files and from NPZ archives; nothing is ever unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.pipeline.tables.readers.source import LONGEST_LABEL
from fewpass.pipeline.tables.readers.streams import opened

#: Arrays of an archive that are read.
ARRAYS = ("X", "y", "weight", "data", "indices", "indptr", "shape", "format")
#: Bytes, and rows, that no file has; other arrays of an archive that a message names.
_MOST, _SHOWN = 1 << 62, 20
_ENCRYPTED = 1  # a bit of a member's flags


class ArrayStream:
    """An array of rows in an NPY stream, read from the first row on.

    Raises
    ------
    BadInput
        Not an NPY array, Python objects, records, more than two dimensions, or stored by columns.
    """

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name
        self.shape, self.dtype = _header(stream, name)

    def read(self, n_rows: int) -> NDArray[Any]:
        """Next rows, fewer at the end: (rows,) or (rows, d).

        Raises
        ------
        BadInput
            The stream ends before its header says, or is damaged.
        """
        row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        with parsing(self._name, "the array is damaged"):
            content = self._stream.read(n_rows * row_bytes)
        if len(content) < n_rows * row_bytes:
            raise BadInput(
                f"{self._name}: the array of shape {self.shape} ends before its last row. "
                "Fetch or write it anew."
            )
        return np.frombuffer(content, self.dtype).reshape(n_rows, *self.shape[1:])

    def require_end(self) -> None:
        """Refuse bytes behind the last row: the header says of fewer rows than there are.

        In an archive, checksums are compared at the end alone.
        """
        with parsing(self._name, "the array is damaged"):
            rest = self._stream.read(1)
        if rest:
            raise BadInput(
                f"{self._name}: the array of shape {self.shape} goes on behind its last row. Fetch "
                "or write it anew."
            )


def _header(stream: BinaryIO, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with parsing(name, "it is not a NumPy array", "Save it by numpy.save."):
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, by_columns, dtype = read(stream)
    if any(type(count) is not int or not 0 <= count < _MOST for count in shape):
        raise BadInput(f"{name} has the shape {shape}, which no array has. Save it by numpy.save.")
    if dtype.itemsize * math.prod(shape) >= _MOST or not dtype.itemsize:
        raise BadInput(
            f"{name} has the shape {shape} of {dtype}, which no file holds. Save it by numpy.save."
        )
    if dtype.kind in "US" and dtype.itemsize > 4 * LONGEST_LABEL:
        raise BadInput(
            f"{name} holds words of {format_bytes(dtype.itemsize)}. Write labels of "
            f"{LONGEST_LABEL} characters at most."
        )
    if dtype.hasobject or dtype.kind not in "biufUS":
        raise BadInput(
            f"{name} holds {dtype} values, numbers were expected. Save it as an array of floats."
        )
    if by_columns and len(shape) > 1:
        raise BadInput(
            f"{name} is stored column by column, rows were expected. "
            "Save numpy.ascontiguousarray of it."
        )
    if len(shape) > 2:
        raise BadInput(f"{name} has shape {shape}, rows of numbers were expected. Reshape it.")
    return shape, dtype


@contextmanager
def opened_npy(address: Address) -> Iterator[ArrayStream]:
    """The array of an NPY file."""
    with opened(address) as (stream, _):
        yield ArrayStream(stream, address.name)


@contextmanager
def opened_npz(address: Address) -> Iterator[dict[str, ArrayStream]]:
    """The arrays of an NPZ file, by name, each read on its own."""
    with opened(address) as (stream, _), ExitStack() as stack:
        with parsing(address.name, "the archive is damaged"):
            archive = stack.enter_context(zipfile.ZipFile(stream))
        members = [info.filename for info in archive.infolist() if info.filename.endswith(".npy")]
        require_distinct(members, address.name)
        _require_open(archive, members, address.name)
        yield {
            name.removesuffix(".npy"): _member(stack, archive, name, address.name)
            for name in _expected_first(members)
        }


def _expected_first(members: Sequence[str]) -> list[str]:
    """Return the arrays that are read, and a few others for messages."""
    expected = [f"{name}.npy" for name in ARRAYS]
    others = [name for name in members if name not in expected]
    return [name for name in members if name in expected] + others[:_SHOWN]


def _require_open(archive: zipfile.ZipFile, members: Sequence[str], name: str) -> None:
    for member in members:
        if archive.getinfo(member).flag_bits & _ENCRYPTED:
            raise BadInput(
                f"{name}: the array {shown(member)} is encrypted. Save it anew by numpy.savez."
            )


def _member(stack: ExitStack, archive: zipfile.ZipFile, member: str, name: str) -> ArrayStream:
    with parsing(f"{name}, array {shown(member[:-4])}"):
        stream = stack.enter_context(archive.open(member))
    return ArrayStream(stream, f"{name}, array {member[:-4]}")


def checked_matrix(array: ArrayStream, name: str, longest_row: int) -> tuple[int, int]:
    """Rows and columns of an array that must be a matrix of numbers with some of both.

    BadInput also refuses rows of more than `longest_row` bytes.
    """
    if len(array.shape) != 2 or array.dtype.kind in "US":
        raise BadInput(
            f"{name} holds {array.dtype} of shape {array.shape}, a matrix of numbers was expected. "
            "Save one."
        )
    if 0 in array.shape:
        raise BadInput(f"{name} has no rows or no columns (shape {array.shape}). Leave it out.")
    require_row_size(array.dtype.itemsize * array.shape[1], name, longest_row)
    return array.shape[0], array.shape[1]


def require_row_size(row_bytes: int, name: str, longest_row: int) -> None:
    """Refuse rows that do not fit into memory: an archive of zeros may state any size."""
    if row_bytes > longest_row:
        raise BadInput(
            f"{name} has rows of {format_bytes(row_bytes)}, where the memory has room for "
            f"{format_bytes(longest_row)}. Check the file, or give more memory (`memory`)."
        )


def require_same(values: set[Any], what: str, addresses: Sequence[Address]) -> None:
    """Refuse files that do not fit together."""
    if len(values) > 1:
        raise BadInput(
            f"{addresses[0].name} and the other files have different {what}: "
            f"{', '.join(map(str, sorted(values, key=str)))}. Read files of one kind together."
        )
