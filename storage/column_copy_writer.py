"""Writing a column copy in bounded memory: chunks -> files by row, spill by range -> by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.codec import checksum
from fewpass.storage.column_copy import (
    KEY,
    ColumnsManifest,
    RawArray,
    by_row,
    copy_bytes,
    copy_folder,
    file_checksum,
    row_indices,
    shapes,
)
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.table import DenseTable, SparseTable, Table, concatenate

SPILL = ".spill"
SORT_BYTES = 64  # of memory per value of a range that is being sorted

Share = Callable[[float], None]  # called with the fraction of the work that is done


def write_columns(dataset: Dataset, memory: int, tell: Share = lambda _: None) -> int:
    """Write the copy, or replace it; there is none until this returns.

    Parameters
    ----------
    dataset
        On this machine.
    memory
        Memory budget in bytes, beyond 16 per column and one chunk's rows.
    tell
        Called with the fraction done after every chunk.

    Returns
    -------
    int
        Bytes of the copy.

    Raises
    ------
    ValueError
        The data set is not on this machine: remote files cannot be mapped.
    """
    folder = copy_folder(dataset)
    if not folder.is_local:
        raise ValueError(
            f"{dataset.folder.url} is not on this machine, and a column copy is for mapping files "
            "into memory. Copy the data set here first, or train with enough `memory`."
        )
    folder.delete(KEY)
    folder.delete_tree()
    write = _write_dense if dataset.manifest.layout == "dense" else _write_sparse
    checksums = write(dataset, folder, memory, tell)
    folder.delete_tree(SPILL)
    arrays = {
        name: RawArray(dtype=dtype.name, shape=shape, crc32c=checksums[name])  # type: ignore[arg-type]
        for name, (dtype, shape) in shapes(dataset).items()
    }
    folder.sync(list(arrays))
    manifest = ColumnsManifest(dataset=dataset.manifest.fingerprint, arrays=arrays)
    folder.write(KEY, manifest.sealed())
    return copy_bytes(dataset)


class _RawFiles:
    """Files that arrays are appended to, each with a running checksum."""

    def __init__(self, folder: Folder, *names: str) -> None:
        self._folder, self.checksums = folder, dict.fromkeys(names, 0)
        for name in names:
            _append(folder, name, b"")

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Append an array's numbers."""
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        self.checksums[name] = checksum(data, self.checksums[name])
        _append(self._folder, name, data)


def _append(folder: Folder, name: str, data: bytes) -> None:
    """Append to a file, made if missing, that errors name."""
    path = folder.local_path(name)
    with folder.naming_errors(name):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)


# -- dense ----------------------------------------------------------------------------------------


def _write_dense(dataset: Dataset, folder: Folder, memory: int, tell: Share) -> dict[str, int]:
    """Write rows in order, and the parts of all columns at their places."""
    n, itemsize = dataset.n_rows, np.dtype(dataset.manifest.dtype).itemsize
    files, start = _RawFiles(folder, "rows", "target", "columns"), 0
    for table in _groups(dataset, memory // 4):
        assert isinstance(table, DenseTable), "the data set is dense"
        files.append("rows", table.X)
        files.append("target", table.target)
        with folder.naming_errors("columns"), folder.local_path("columns").open("r+b") as columns:
            for j, share in enumerate(np.ascontiguousarray(table.X.T)):
                columns.seek((j * n + start) * itemsize)
                columns.write(share.tobytes())
        start += table.n_rows
        tell(start / n)
    return files.checksums | {"columns": file_checksum(folder, "columns")}


def _groups(dataset: Dataset, most_bytes: int) -> Any:
    """Yield the rows of several chunks at once, for longer runs of a column's values."""
    row_bytes = dataset.n_features * np.dtype(dataset.manifest.dtype).itemsize + 8
    chunks = max(1, most_bytes // (row_bytes * dataset.manifest.chunk_rows))
    for first in range(0, dataset.n_chunks, chunks):
        together = range(first, min(first + chunks, dataset.n_chunks))
        yield concatenate([dataset.read_chunk(k) for k in together])


# -- sparse ---------------------------------------------------------------------------------------


def _write_sparse(dataset: Dataset, folder: Folder, memory: int, tell: Share) -> dict[str, int]:
    """Read all chunks twice: for the rows and the lengths of columns, then for the columns."""
    counts, checksums = _write_rows(dataset, folder, lambda share: tell(share / 3.0))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    most = max(1, memory // SORT_BYTES)
    bounds = ranges(indptr, most)
    _partition(dataset, folder, bounds, lambda share: tell((1.0 + share) / 3.0))
    files = _RawFiles(folder, "columns/data", "columns/indices", "columns/indptr")
    for g in range(len(bounds) - 1):
        _write_range(dataset, folder, g, bounds[g + 1] - bounds[g] == 1, most, files)
        tell((2.0 + (g + 1) / (len(bounds) - 1)) / 3.0)
    files.append("columns/indptr", indptr)
    return checksums | files.checksums


def ranges(indptr: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Divide columns into ranges of at most `most` values, or of one column; return the bounds."""
    bounds, d = [0], len(indptr) - 1
    while bounds[-1] < d:
        start = bounds[-1]
        stop = int(np.searchsorted(indptr, indptr[start] + most, side="right")) - 1
        bounds.append(min(d, max(stop, start + 1)))
    return np.array(bounds)


def _write_rows(
    dataset: Dataset, folder: Folder, tell: Share
) -> tuple[NDArray[np.int64], dict[str, int]]:
    counts, values = np.zeros(dataset.n_features, np.int64), 0
    files = _RawFiles(folder, "rows/data", "rows/indices", "rows/indptr", "target")
    files.append("rows/indptr", np.zeros(1, np.int64))
    for k in range(dataset.n_chunks):
        table = _sparse(dataset.read_chunk(k))
        parts = by_row(table) | {"rows/indptr": table.indptr[1:] + values, "target": table.target}
        for name, part in parts.items():
            files.append(name, part)
        np.add.at(counts, table.indices, 1)
        values += table.nnz
        tell((k + 1) / dataset.n_chunks)
    return counts, files.checksums


def _partition(dataset: Dataset, folder: Folder, bounds: NDArray[np.int64], tell: Share) -> None:
    """Append every value, with its row and column, to the spill file of its range."""
    kind, start = _record(dataset), 0
    for k in range(dataset.n_chunks):
        table = _sparse(dataset.read_chunk(k))
        which = np.searchsorted(bounds, table.indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        records = np.empty(table.nnz, kind)
        records["row"] = row_indices(table, start)[order]
        records["column"] = table.indices[order]
        records["value"] = table.data[order]
        ends = np.searchsorted(which[order], np.arange(len(bounds)))
        for g in np.flatnonzero(np.diff(ends)):
            _append(folder, f"{SPILL}/{g:06d}", records[ends[g] : ends[g + 1]].tobytes())
        start += table.n_rows
        tell((k + 1) / dataset.n_chunks)


def _write_range(
    dataset: Dataset, folder: Folder, g: int, alone: bool, most: int, files: _RawFiles
) -> None:
    """Sort a range's values by column, rows ascending; a single column is sorted already."""
    path = folder.local_path(f"{SPILL}/{g:06d}")
    if not path.exists():
        return
    with path.open("rb") as file:
        while (records := np.fromfile(file, _record(dataset), most if alone else -1)).size:
            order = slice(None) if alone else np.argsort(records["column"], kind="stable")
            files.append("columns/data", records["value"][order])
            files.append("columns/indices", records["row"][order])
    path.unlink()


def _record(dataset: Dataset) -> np.dtype[Any]:
    types = shapes(dataset)
    return np.dtype(
        [
            ("row", types["columns/indices"][0]),
            ("column", types["rows/indices"][0]),
            ("value", types["rows/data"][0]),
        ]
    )


def _sparse(table: Table) -> SparseTable:
    assert isinstance(table, SparseTable), "the data set is sparse"
    return table
