"""The files of snapshots: a header (JSON), then the bytes of named arrays, as safetensors has them.

The metadata of the header has the snapshot's attributes, the CRC-32C of each array, and as its last
member the SHA-256 of everything before it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    ValidationError,
    model_validator,
)

from fewpass.storage.codec import checksum
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import MOST_ITEMS, RESTORE, Length, missing
from fewpass.storage.seal import fingerprint_of, seal, unseal

SUFFIX: Final = ".safetensors"
FORMAT: Final = "fewpass-snapshot"
METADATA = "__metadata__"
MOST_AXES = 32
DEPTH = 2  # braces that a header ends with: its own and those of its metadata
HEAD_BYTES = 1 << 16  # that are read of a file first: nearly every header is in them
MOST_HEADER_BYTES = 16 << 20
READ_BYTES = 64 << 20  # at most that a store is asked for at a time
ARRAY_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$"
KEY: Final = rf"^\d{{6,}}(\.\d+)?{re.escape(SUFFIX)}$"  # of a snapshot, or of a part of one
#: NumPy's types by their names in the file.
DTYPES = {
    "F64": "float64", "F32": "float32", "BOOL": "bool", "I8": "int8", "I16": "int16",
    "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16", "U32": "uint32",
    "U64": "uint64",
}  # fmt: skip
_CODES = {dtype: code for code, dtype in DTYPES.items()}

Vectors = Sequence[NDArray[Any]]  # stored end to end, as one array
Arrays = Mapping[str, NDArray[Any] | Vectors]


class StoredPart(NamedTuple):
    """A file with arrays of a snapshot, written before it, by this process or another."""

    key: Annotated[str, Field(pattern=KEY)]
    fingerprint: str  # of its header
    arrays: tuple[str, ...]


class ArrayPlace(BaseModel):
    """Type and shape of an array, and where its bytes are among those of all."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    dtype: str
    shape: tuple[Length, ...]
    data_offsets: tuple[Length, Length]

    @model_validator(mode="after")
    def _fits(self) -> ArrayPlace:
        if self.dtype not in DTYPES:
            raise ValueError(f"{self.dtype!r} is none of {tuple(DTYPES)}")
        if len(self.shape) > MOST_AXES or math.prod(max(1, n) for n in self.shape) > MOST_ITEMS:
            raise ValueError(f"shape {self.shape} is larger than any array")
        begin, end = self.data_offsets
        if end - begin != math.prod(self.shape) * np.dtype(DTYPES[self.dtype]).itemsize:
            raise ValueError(f"{end - begin} bytes are no {self.dtype} {self.shape}")
        return self


def _from_json(text: Any) -> Any:
    """Read attributes, as deep as Python can; ValueError for numbers that are not finite."""
    if not isinstance(text, str):
        raise ValueError("it is no text of JSON")  # noqa: TRY004 - which pydantic takes for one
    try:
        return json.loads(text, parse_constant=_not_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _not_finite(text: str) -> NoReturn:
    raise ValueError(f"it has the number {text}")


class SnapshotMetadata(BaseModel):
    """Metadata of a header: strings, as the format wants."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    format: Literal["fewpass-snapshot"]
    version: Literal["1"]
    key: str  # of the file
    attributes: Annotated[dict[str, Any], BeforeValidator(_from_json)]
    parts: Json[tuple[StoredPart, ...]]
    crc32c: Json[dict[str, int]]  # by array
    fingerprint: str


class SnapshotHeader(BaseModel):
    """The header of a file, and how many bytes come before the arrays."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    arrays: dict[Annotated[str, Field(pattern=ARRAY_NAME)], ArrayPlace]  # as their bytes lie
    metadata: SnapshotMetadata
    first: int

    @model_validator(mode="after")
    def _is_whole(self) -> SnapshotHeader:
        offsets = [0, *(at for place in self.arrays.values() for at in place.data_offsets)]
        if offsets[:-1:2] != offsets[1::2]:
            raise ValueError("its arrays do not lie end to end")
        if self.arrays.keys() != self.metadata.crc32c.keys():
            raise ValueError("its checksums are not those of its arrays")
        return self

    @property
    def file_bytes(self) -> int:
        """Length of the file."""
        return self.first + max((p.data_offsets[1] for p in self.arrays.values()), default=0)


# -- reading ---------------------------------------------------------------------------------------


def read_header(folder: Folder, key: str) -> SnapshotHeader:
    """Read the header of a file; Damaged unless it is whole, and the file as long as it says."""
    try:
        places, first = _unsealed(folder, key)
        fields = {"metadata": places.pop(METADATA, None), "arrays": places, "first": first}
        header = SnapshotHeader.model_validate(fields)
        size = folder.size(key)
    except FileNotFoundError as error:
        raise missing(folder, key) from error
    except ValidationError as error:
        fault = error.errors()[0]
        raise damaged(folder, key, f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error
    except ValueError as error:
        raise damaged(folder, key, error) from error
    if size != header.file_bytes:  # before memory is taken for arrays
        reason = f"it has {size} bytes, where {header.file_bytes} were expected"
        raise damaged(folder, key, reason)
    if header.metadata.key != key:
        raise damaged(folder, key, f"it was written as {header.metadata.key!r}")
    return header


def _unsealed(folder: Folder, key: str) -> tuple[dict[str, Any], int]:
    """Return a header as it is in the file, and the bytes up to its end; ValueError."""
    head = folder.read_range(key, 0, HEAD_BYTES)
    end = 8 + int.from_bytes(head[:8], "little")
    if not 8 < end <= MOST_HEADER_BYTES:
        raise ValueError(f"a header of {end - 8} bytes is none")
    if end > len(head):
        head += folder.read_range(key, len(head), end - len(head))
    return unseal(head[8:end].rstrip(b" "), DEPTH), end


def damaged(folder: Folder, key: str, fault: object) -> Damaged:
    """Return the error for a damaged file."""
    return Damaged(f"{folder.address(key)} is damaged: {fault}. {RESTORE}")


def read_arrays(
    folder: Folder, key: str, header: SnapshotHeader, wanted: Callable[[str], bool]
) -> dict[str, NDArray[Any]]:
    """Read arrays of a file, those that lie end to end in one go; Damaged if one was changed."""
    places = {name: place for name, place in header.arrays.items() if wanted(name)}
    arrays = {n: np.empty(p.shape, DTYPES[p.dtype]) for n, p in places.items()}
    views = {name: array.reshape(-1).view(np.uint8) for name, array in arrays.items()}
    for start, pieces in _runs((places[n].data_offsets[0], views[n]) for n in places):
        # a file that became shorter meanwhile has other checksums
        folder.read_range_into(key, header.first + start, *pieces)
    for name, view in views.items():
        actual, expected = checksum(view), header.metadata.crc32c[name]
        if actual != expected:
            reason = f"the checksum of {name} is {actual:08x}, where {expected:08x} was expected"
            raise damaged(folder, key, reason)
    return arrays


def _runs(
    views: Iterable[tuple[int, NDArray[np.uint8]]],
) -> Iterator[tuple[int, list[memoryview]]]:
    """Join bytes that lie end to end, up to what is read at a time."""
    first, end, run = 0, 0, list[memoryview]()
    for start, view in views:
        for at in range(0, len(view), READ_BYTES):
            piece = view[at : at + READ_BYTES].data
            if run and (start + at != end or end + len(piece) - first > READ_BYTES):
                yield first, run
                run = []
            first = first if run else start + at
            end = start + at + len(piece)
            run.append(piece)
    if run:
        yield first, run


# -- writing ---------------------------------------------------------------------------------------


def write_file(
    folder: Folder, key: str, attributes: str, arrays: Arrays, parts: Iterable[StoredPart] = ()
) -> StoredPart:
    """Write a file with attributes (JSON) and arrays; ValueError for arrays of other types."""
    stored = {name: _as_stored(name, array) for name, array in arrays.items()}
    # as readers of the format expect: every array begins at a multiple of its items
    ordered = sorted(stored, key=lambda name: -stored[name][0].itemsize)
    end, places, sums, views = 0, dict[str, Any](), dict[str, int](), list[memoryview]()
    for name in ordered:
        start, sums[name] = end, 0
        for view in (vector.view(np.uint8) for vector in stored[name]):
            end, sums[name] = end + len(view), checksum(view, sums[name])
            views += [view.data] if len(view) else []
        places[name] = _typed(arrays[name], stored[name]) | {"data_offsets": (start, end)}
    metadata = {
        "format": FORMAT, "version": "1", "key": key, "attributes": attributes,
        "parts": json.dumps([*parts]), "crc32c": json.dumps(sums),
    }  # fmt: skip
    text = seal(places | {METADATA: metadata}, depth=DEPTH)
    padded = text + b" " * (-len(text) % 8)
    folder.write(key, len(padded).to_bytes(8, "little") + padded, *views)
    return StoredPart(key, fingerprint_of(text, DEPTH), tuple(arrays))


def _typed(array: NDArray[Any] | Vectors, stored: Vectors) -> dict[str, Any]:
    shape = [sum(map(len, stored))] if isinstance(array, Sequence) else np.shape(array)
    return {"dtype": _CODES[stored[0].dtype.name], "shape": shape}


def _as_stored(name: str, array: NDArray[Any] | Vectors) -> Vectors:
    """Return the items of an array, or of several; ValueError if they cannot be stored."""
    if not re.fullmatch(ARRAY_NAME, name) or name == METADATA:
        raise ValueError(f"An array is called {name!r}. Use letters, digits and _ . -")
    given = [np.asarray(own) for own in (array if isinstance(array, Sequence) else [array])]
    for own in given:
        if own.dtype.name not in _CODES or own.dtype != given[0].dtype:
            raise ValueError(
                f"Array {name!r} has type {own.dtype}. Store one of {', '.join(_CODES)}."
            )
    return [np.ascontiguousarray(v, v.dtype.newbyteorder("<")).reshape(-1) for v in given]
