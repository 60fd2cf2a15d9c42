"""Rows of a data set as they are stored, to be stored again: values, or the codes of a recipe."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.encoding.expansion import Expansion, expansion_in
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import DenseTable, SparseTable, Table
from fewpass.storage.writer import DatasetWriter


class StoredRows:
    """Reads and writes rows in the form of one data set, and with its retained columns.

    Parameters
    ----------
    dataset
        Whose form it is.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        coded, schema = dataset.manifest.coded, dataset.schema
        self._expansion: Expansion | None = None
        if coded and schema is not None:
            self._expansion = expansion_in(schema)

    def read(self, k: int) -> Table:
        """Return the rows of a chunk: columns in stored order, or codes in their place."""
        coded = self._expansion is not None
        table = self.dataset.read_codes(k) if coded else self.dataset.read_stored(k)
        return self.dataset.with_retained(k, table)

    def values(self, table: Table) -> Table:
        """Return rows with values in place of codes."""
        if self._expansion is None or not isinstance(table, DenseTable):
            return table
        parts = self._expansion.csr(_codes_in(table), self.dataset.manifest.dtype)
        return SparseTable(*parts, table.target, table.weight, table.offset, table.retained)

    def write(self, writer: DatasetWriter, k: int, table: Table) -> ChunkRecord:
        """Write a chunk, which the commit makes durable."""
        coded = self._expansion is not None and isinstance(table, DenseTable)
        codes = _codes_in(table) if coded else None
        return writer.write_chunk(k, self.values(table), codes)


def _codes_in(table: Table) -> NDArray[np.float64]:
    """Return the codes (m, n) of rows that have these in place of values."""
    assert isinstance(table, DenseTable), "rows of codes are dense"
    return np.ascontiguousarray(table.X.T, np.float64)
