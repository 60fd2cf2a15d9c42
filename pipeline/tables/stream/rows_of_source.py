"""Rows of a source in memory, described as a data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewpass.pipeline.rows.scaling import Scaler
from fewpass.storage.column_file import StoredColumns
from fewpass.storage.column_schema import Schema
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table, take


class RowsOfSource(MemoryDataset):
    """Rows of a source in memory, described as the data set that it could have become."""

    def __init__(
        self, table: Table, n_features: int, targets: Labels | Values, scaler: Scaler,
        schema: Schema | None, names: HashedNames, place: str, **measured: Any,
    ) -> None:  # fmt: skip
        super().__init__(table, n_features, targets)
        self._source_schema, self._scaler, self.place = schema, scaler, place
        self._names = names
        stored = dict.fromkeys(scaler.columns(), StoredColumns("float64", ()))
        self.manifest = self.manifest.model_copy(
            update={"scaling": scaler.describe(), "columns": stored} | measured
        )

    @property
    def schema(self) -> Schema | None:
        """The columns of the source."""
        return self._source_schema

    @property
    def hashed_names(self) -> HashedNames:
        """Names of columns that names were hashed to."""
        return self._names

    def sample(self, n: int) -> Table:
        """Return n of these rows at random, the same for the same number."""
        here = self.table.n_rows
        if n >= here:
            return self.table
        return take(self.table, np.random.default_rng(0).choice(here, n, replace=False))

    def column(self, name: str) -> Any:
        """Scale or shift of every feature."""
        return self._scaler.columns()[name]
