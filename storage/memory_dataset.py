"""Rows in memory as a data set of one chunk; nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.chunk_records import row_squares
from fewpass.storage.chunk_table import ChunkRecord, ChunkTable
from fewpass.storage.column_schema import Groups
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import (
    Labels,
    Manifest,
    Norms,
    OffsetStats,
    Scaling,
    Shuffle,
    Values,
    WeightStats,
)
from fewpass.storage.table import DenseTable, Table, take
from fewpass.storage.table_buffer import ChunkBuffer


class MemoryDataset(Dataset):
    """A data set with its rows in the memory of this process.

    Parameters
    ----------
    table
        The rows; of a sparse table canonical: indices ascending and distinct in a row.
    n_features
        Number of columns.
    targets
        Kind of the targets: labels, whose positions are stored, or numbers.
    groups
        The group of every column (d,), where columns belong together.
    """

    in_memory = True

    def __init__(
        self,
        table: Table,
        n_features: int,
        targets: Labels | Values,
        groups: Groups | None = None,
    ) -> None:
        super().__init__(_Nowhere(), manifest_of(table, n_features, targets))
        self.table = table
        if not may_be_measured(table):
            _measured(table)  # which may refuse rows
        self.feature_groups = groups

    def read_stored(self, k: int) -> Table:
        assert k == 0, "there is one chunk"
        return self.table

    def read_into(self, k: int, buffer: ChunkBuffer) -> int:
        """Copy the rows; return 0, as nothing is read from a store."""
        arrays = self.read_stored(k)._asdict()
        for name, array in buffer.allocate(self.table.n_rows, self.table.nnz).items():
            array[:] = arrays[name]
        buffer.commit(self.table.n_rows, self.table.nnz)
        return 0

    def sample(self, n: int) -> Table:
        """Return n random rows, as rows may be sorted; the same ones for the same n."""
        if n >= self.n_rows:
            return self.table
        return take(self.table, np.random.default_rng(0).choice(self.n_rows, n, replace=False))


class _Nowhere(Folder):
    """A placeholder for a folder, for which no file system is opened."""

    def __init__(self) -> None:
        self.storage_options, self.is_local, self.url = {}, False, "memory://rows"

    def __reduce__(self) -> tuple[Any, ...]:
        return _Nowhere, ()


class MemoryManifest(Manifest):
    """A manifest that measures the rows' norms when they are first asked for."""

    def __getattr__(self, name: str) -> Any:
        """Measure what is not there yet."""
        if name not in ("norms", "chunks"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        table: Table = self.__dict__["_table"]
        self.__dict__["norms"], self.__dict__["chunks"] = _measured(table)
        return self.__dict__[name]

    def rows_of(self, k: int) -> int:
        """Return the rows of the one chunk, without measuring them."""
        assert k == 0, "there is one chunk"
        return min(self.chunk_rows, self.n_rows)


def manifest_of(table: Table, n_features: int, targets: Labels | Values) -> Manifest:
    """Return the manifest that ingest would write, without column statistics.

    Asking for its norms raises ValueError where a row is too long for them.
    """
    dense = isinstance(table, DenseTable)
    manifest = MemoryManifest.model_construct(  # the values are valid already
        layout="dense" if dense else "sparse",
        n_rows=table.n_rows,
        n_features=n_features,
        nnz=table.nnz,
        dtype=(table.X if isinstance(table, DenseTable) else table.data).dtype.name,
        chunk_rows=table.n_rows,
        has_weight=table.weight is not None,
        targets=targets,
        weights=_weights(table.weight),
        offsets=_offsets(table),
        scaling=Scaling(),
        shuffle=Shuffle(seed=None),
        sources=(),
        bad_rows={},
        versions={},
        columns={},
        objects={},
    )
    manifest.__dict__["_table"] = table
    return manifest


def may_be_measured(table: Table) -> bool:
    """Say whether the norms of the rows are numbers for certain: all values as large as one are.

    A dot product of BLAS would have its threads wait for more, at the cost of as many processors.
    """
    values = table.X if isinstance(table, DenseTable) else table.data
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    total = values.size * largest * largest
    return bool(np.isfinite(total * total))


def _measured(table: Table) -> tuple[Norms, ChunkTable]:
    squares = row_squares(table)
    with np.errstate(over="ignore"):
        fourth = float(np.mean(squares * squares))
    if not np.isfinite(fourth):
        raise ValueError(
            "A row's norm is so large that its fourth power overflows. Scale the "
            "columns before (StandardScaler), or remove such rows."
        )
    norms = Norms(
        mean_square=float(squares.mean()), max_square=float(squares.max()), mean_fourth=fourth
    )
    record = ChunkRecord(
        table.n_rows,
        table.nnz,
        float(table.target.sum()),
        norms.max_square,
        float(squares.sum()),
        fourth * table.n_rows,
        {},
    )
    return norms, ChunkTable.of([record], [])


def _offsets(table: Table) -> OffsetStats | None:
    if table.offset is None:
        return None
    mean, mean_exp = np.average([table.offset, np.exp(table.offset)], 1, table.weight).tolist()
    return OffsetStats(mean=mean, mean_exp=mean_exp)


def _weights(weight: NDArray[np.float64] | None) -> WeightStats | None:
    if weight is None:
        return None
    return WeightStats(total=float(weight.sum()), maximum=float(weight.max()))
