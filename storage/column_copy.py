"""A copy of a data set by row and by column, as plain files to be memory-mapped.

For methods that read single rows and columns in any order, which would each decode a whole
compressed chunk.  The copy is in ``by-column/`` below the data set, uncompressed; its manifest,
written last, names the data set (docs/format.md, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from fewpass.storage.addresses import command
from fewpass.storage.chunk_table import ManifestPart
from fewpass.storage.codec import checksum
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import StoredObject, require_length
from fewpass.storage.seal import seal, unseal
from fewpass.storage.table import DenseTable, SparseTable, Table, concatenate, index_dtype

FOLDER = "by-column"
KEY = "manifest.json"
FORMAT = "fewpass-columns"
BLOCK_BYTES = 16 << 20  # read at a time while checking

Shapes = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
Arrays = dict[str, NDArray[Any]]  # by name; see `shapes`


class RawArray(ManifestPart):
    """One file: the numbers of an array in C order, little endian."""

    dtype: Literal["float32", "float64", "int32", "int64"]
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    crc32c: Annotated[int, Field(ge=0, lt=1 << 32)]  # of the whole file

    @property
    def n_bytes(self) -> int:
        """Length of the file."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class ColumnsManifest(ManifestPart):
    """The manifest of a copy; its presence proves that the copy is complete."""

    format: Literal["fewpass-columns"] = "fewpass-columns"
    version: Literal[1] = 1
    dataset: str  # fingerprint of the data set
    arrays: dict[str, RawArray]
    fingerprint: str = ""

    def sealed(self) -> bytes:
        """Return the bytes of ``manifest.json``."""
        return seal(self.model_dump(mode="json", exclude={"fingerprint"}))


def copy_folder(dataset: Dataset) -> Folder:
    """Return the folder of a data set's copy, which need not exist."""
    return dataset.generation_folder.child(FOLDER)


def shapes(dataset: Dataset) -> Shapes:
    """Return type and shape of every array of a copy.

    Dense: ``rows`` (n, d) and ``columns`` (d, n).  Sparse: ``rows/...`` in CSR, ``columns/...`` in
    CSC: of column j the rows ``indices[indptr[j]:indptr[j+1]]``, ascending.  Both: ``target`` (n,).
    """
    manifest = dataset.manifest
    n, d, nnz, dtype = manifest.n_rows, manifest.n_features, manifest.nnz, np.dtype(manifest.dtype)
    result: Shapes = {"target": (np.dtype(np.float64), (n,))}
    if manifest.layout == "dense":
        result |= {"rows": (dtype, (n, d)), "columns": (dtype, (d, n))}
        return result
    for name, count, other in (("rows", n, d), ("columns", d, n)):
        result[f"{name}/data"] = (dtype, (nnz,))
        result[f"{name}/indices"] = (index_dtype(other), (nnz,))
        result[f"{name}/indptr"] = (np.dtype(np.int64), (count + 1,))
    return result


def copy_bytes(dataset: Dataset) -> int:
    """Return the bytes of a copy, on disk or in memory."""
    return sum(math.prod(shape) * dtype.itemsize for dtype, shape in shapes(dataset).values())


def has_columns(dataset: Dataset) -> bool:
    """Return whether there is a copy of this data set in its present state."""
    folder = copy_folder(dataset)
    if not (folder.is_local and folder.exists(KEY)):
        return False
    return _manifest(folder).dataset == dataset.manifest.fingerprint


def map_columns(dataset: Dataset) -> Arrays:
    """Map a copy into memory after verifying every byte; pages are read as needed.

    Raises
    ------
    FileNotFoundError
        There is no copy of the data set in its present state.
    Damaged
        A file is missing, or its length or checksum is not the recorded one.
    """
    folder = copy_folder(dataset)
    if not has_columns(dataset):
        raise FileNotFoundError(
            f"{folder.url} holds no column copy of this data set. Make one with "
            f"`{command('column-copy', dataset.folder.url)}`."
        )
    manifest = _manifest(folder)
    expected = {name: (dtype.name, shape) for name, (dtype, shape) in shapes(dataset).items()}
    if {name: (a.dtype, a.shape) for name, a in manifest.arrays.items()} != expected:
        raise Damaged(f"{folder.address(KEY)} names other arrays than its data set has. {AGAIN}")
    arrays = {name: _mapped(folder, name, array) for name, array in manifest.arrays.items()}
    _require_inside(folder, arrays)
    return arrays


def load_columns(dataset: Dataset) -> Arrays:
    """Make the arrays of a copy in memory from the data set's chunks; takes twice `copy_bytes`."""
    table = concatenate([dataset.read_chunk(k) for k in range(dataset.n_chunks)])
    return {"target": table.target} | by_row(table) | _transposed(table, dataset)


def by_row(table: Table) -> Arrays:
    """Return the arrays of a table under the names of a copy."""
    if isinstance(table, DenseTable):
        return {"rows": table.X}
    return {
        "rows/data": table.data,
        "rows/indices": table.indices,
        "rows/indptr": table.indptr,
    }


def _transposed(table: Table, dataset: Dataset) -> Arrays:
    if isinstance(table, DenseTable):
        return {"columns": np.ascontiguousarray(table.X.T)}
    n, d = dataset.n_rows, dataset.n_features
    order = np.argsort(table.indices, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(table.indices, minlength=d))])
    return {
        "columns/data": table.data[order],
        "columns/indices": row_indices(table, 0)[order].astype(index_dtype(n)),
        "columns/indptr": indptr.astype(np.int64),
    }


def row_indices(table: SparseTable, first: int) -> NDArray[np.int64]:
    """Return the row of every value (nnz,); the first row of the table is `first`."""
    return np.repeat(np.arange(first, first + table.n_rows), np.diff(table.indptr))


def faults(dataset: Dataset) -> Iterator[str]:
    """Read a copy, if there is one, and yield a sentence for each fault."""
    if copy_folder(dataset).is_local and copy_folder(dataset).exists(KEY):
        try:
            map_columns(dataset)
        except (Damaged, FileNotFoundError) as error:
            yield str(error)


AGAIN = "Make it again with `fewpass column-copy`."


def _manifest(folder: Folder) -> ColumnsManifest:
    try:
        return ColumnsManifest.model_validate(unseal(folder.read(KEY)))
    except (ValidationError, ValueError) as error:
        raise Damaged(f"{folder.address(KEY)} is damaged: {error}. {AGAIN}") from error


def _mapped(folder: Folder, name: str, array: RawArray) -> NDArray[Any]:
    """Map one file copy-on-write: kernels are compiled for writable arrays."""
    require_length(folder, name, StoredObject(array.n_bytes, array.crc32c))
    actual = file_checksum(folder, name)
    if actual != array.crc32c:
        raise Damaged(
            f"{folder.address(name)} is damaged: its checksum is {actual:08x}, where "
            f"{array.crc32c:08x} was expected. {AGAIN}"
        )
    if not array.n_bytes:
        return np.empty(array.shape, array.dtype)
    path = folder.local_path(name)
    return np.asarray(np.memmap(path, array.dtype, mode="c", shape=array.shape))


def file_checksum(folder: Folder, name: str) -> int:
    """Return the CRC-32C of a file, read block by block."""
    crc = 0
    with folder.local_path(name).open("rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            crc = checksum(block, crc)
    return crc


def _require_inside(folder: Folder, arrays: Arrays) -> None:
    """Refuse indices with which compiled code would read outside its arrays."""
    for name in ("rows", "columns") if "rows/data" in arrays else ():
        other = "columns" if name == "rows" else "rows"
        indptr, indices = arrays[f"{name}/indptr"], arrays[f"{name}/indices"]
        most = len(arrays[f"{other}/indptr"]) - 1
        rising = (
            indptr[0] == 0 and indptr[-1] == indices.size and bool((np.diff(indptr) >= 0).all())
        )
        step = BLOCK_BYTES // indices.itemsize
        blocks = (indices[at : at + step] for at in range(0, indices.size, step))
        if not rising or any(block.min() < 0 or block.max() >= most for block in blocks):
            raise Damaged(f"{folder.address(name)} points outside its arrays. {AGAIN}")
