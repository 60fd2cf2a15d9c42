"""A data set as a table: `fewpass.Dataset`, and the rows that `fewpass inspect --rows` shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.ingest.retained_columns import words_of_retained
from fewpass.storage import dataset as stored
from fewpass.storage.column_schema import Schema
from fewpass.storage.manifest import Labels
from fewpass.storage.table import DenseTable, Table, cut

#: Features of one column of the source that have a column each; of more, a row has a list.
MOST_COLUMNS = 64
#: What columns without a name are called, by their part of a row.
_CALLED = {"label": "label", "weight": "weight", "offset": "offset"}


class ShownColumn(NamedTuple):
    """A column that a data set is shown by."""

    name: str
    origin: Literal["kept", "feature", "label", "weight", "offset"]
    became: str
    """The features that it became, in words."""
    of: str
    """The column of the source that it belongs to; a curve, and what two columns make, have names
    of their own."""


class FeaturePart(NamedTuple):
    """Consecutive features that are shown together."""

    columns: tuple[ShownColumn, ...]  # one for each, or one of lists
    first: int
    width: int
    name_of: Callable[[int], str]

    def shown(self, table: Table) -> list[Any]:
        """Return an Arrow array of rows (n,) for each column."""
        if len(self.columns) == self.width:
            return [pa.array(column) for column in features_of(table, self.first, self.width).T]
        rows = _sparse(table, self.first, self.width)
        different, at = np.unique(rows.indices, return_inverse=True)
        names = pa.array([self.name_of(int(k)) for k in different], pa.string())
        entries = pa.StructArray.from_arrays(
            [names.take(pa.array(at)), pa.array(rows.data)], names=["feature", "value"]
        )
        return [pa.LargeListArray.from_arrays(pa.array(rows.indptr, pa.int64()), entries)]


class DatasetTable:
    """A data set, to be looked into: columns with names, and rows as any library has them.

    Columns are, in this order: kept ones as they were written, features, label, weight and offset.
    Features are as they are stored, named as in `fewpass explain`; more than 64 of one column
    of the source are one column of lists.

    Parameters
    ----------
    dataset
        Folder or address of a data set made by `ingest`.
    storage_options
        For fsspec: endpoint, credentials.

    Attributes
    ----------
    dataset : str
        Its address.

    Raises
    ------
    NotADataset
        There is none.
    Damaged
        Its manifest has been changed.
    """

    def __init__(
        self, dataset: str | os.PathLike[str], storage_options: dict[str, Any] | None = None
    ) -> None:
        self._stored = stored.Dataset.open(os.fspath(dataset), storage_options)
        self.dataset = self._stored.folder.url

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"Dataset({self.dataset!r}, {counted(rows, 'row')}, {counted(columns, 'column')})"

    def __len__(self) -> int:
        return self._stored.n_rows

    @property
    def generation(self) -> int:
        """Number of the generation: 1 is what the ingest made."""
        return self._stored.manifest.generation

    @property
    def fingerprint(self) -> str:
        """Return the name of the state of the rows; another after each `append` and `forget`."""
        return self._stored.manifest.fingerprint

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns as in `columns`."""
        return self._stored.n_rows, len(self.columns)

    @cached_property
    def columns(self) -> tuple[ShownColumn, ...]:
        """All columns: `name`, `origin`, `became`, what became of it, and whose it is (`of`).

        `origin` is kept, feature, label, weight or offset.
        """
        retained = (
            ShownColumn(name, "kept", "as written", name) for name in self._stored.manifest.retained
        )
        features = (column for part in self._parts for column in part.columns)
        return tuple(_distinct([*retained, *features, *self._others()]))

    def head(self, rows: int = 20) -> pa.Table:
        """Return the first rows in stored order, an Arrow table; a shuffled set has any there."""
        if rows < 0:
            raise BadInput(f"{counted(rows, 'row')} were asked for. Ask for 0 at least.")
        return self.to_arrow(rows)

    def to_arrow(self, rows: int | None = None) -> pa.Table:
        """Return all rows, or the first, as an Arrow table, in the order that they are stored in.

        Raises
        ------
        Damaged
            A stored object is missing or has been changed.
        """
        return pa.concat_tables([self._empty, *self.batches(rows)])

    def batches(self, rows: int | None = None) -> Iterator[pa.Table]:
        """Yield the rows chunk by chunk, so that a set larger than memory can be read."""
        left = self._stored.n_rows if rows is None else rows
        for k in range(self._stored.n_chunks):
            if left <= 0:
                return
            yield self._chunk(k, left)
            left -= self._stored.manifest.rows_of(k)

    def to_pandas(self, rows: int | None = None) -> Any:
        """Return all rows, or the first, as a pandas frame.

        Raises
        ------
        BadInput
            pandas is not installed.
        """
        _required("pandas", "to_pandas")
        return self.to_arrow(rows).to_pandas()

    def to_polars(self, rows: int | None = None) -> Any:
        """Return all rows, or the first, as a Polars frame.

        Raises
        ------
        BadInput
            Polars is not installed.
        """
        return _required("polars", "to_polars").from_arrow(self.to_arrow(rows))

    def to_dask(self) -> Any:
        """Return all rows as a Dask frame of a partition for each chunk, read when it is computed.

        Raises
        ------
        BadInput
            pandas is not installed.
        """
        _required("pandas", "to_dask")
        frames = _required("dask.dataframe", "to_dask")
        rows = map(self._stored.manifest.rows_of, range(self._stored.n_chunks))
        ends = np.cumsum([0, *rows])
        return frames.from_map(
            self._frame, range(self._stored.n_chunks), ends[:-1].tolist(),
            meta=self._empty.to_pandas(),
        )  # fmt: skip

    # -- parts -------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {"_stored": self._stored, "dataset": self.dataset}

    @cached_property
    def _parts(self) -> list[FeaturePart]:
        return [*_parts_of(self._stored)]

    @cached_property
    def _empty(self) -> pa.Table:
        return self._chunk(0, 1).slice(0, 0)

    def _frame(self, k: int, first: int) -> Any:
        frame = self._chunk(k, self._stored.manifest.rows_of(k)).to_pandas()
        frame.index += first
        return frame

    def _others(self) -> Iterator[ShownColumn]:
        manifest, schema = self._stored.manifest, self._stored.schema
        labels = isinstance(manifest.targets, Labels)
        label, weight = _name_of(schema, "label"), _name_of(schema, "weight")
        yield ShownColumn(label, "label", "a class" if labels else "number", label)
        if manifest.has_weight:
            yield ShownColumn(weight, "weight", "weight of the row", weight)
        if manifest.has_offset:
            yield ShownColumn("offset", "offset", "added to the score", "offset")

    def _chunk(self, k: int, most: int) -> pa.Table:
        table = self._stored.with_retained(k, self._stored.read_chunk(k))
        return self.shown(cut(table, 0, min(most, table.n_rows)))

    def shown(self, table: Table) -> pa.Table:
        """Return stored rows, with kept columns where there are any, as they are shown."""
        arrays = [*self._retained(table)]
        arrays += [array for part in self._parts for array in part.shown(table)]
        arrays.append(self._targets(table))
        arrays += [pa.array(one) for one in (table.weight, table.offset) if one is not None]
        return pa.table(arrays, names=[column.name for column in self.columns])

    def _retained(self, table: Table) -> Iterator[Any]:
        for number in range(len(self._stored.manifest.retained)):
            assert table.retained is not None, "the set keeps columns"
            words = pa.array(words_of_retained(table.retained, number).tolist(), pa.binary())
            words = words.cast(pa.string())
            yield pc.if_else(pc.equal(words, ""), None, words)

    def _targets(self, table: Table) -> Any:
        targets = self._stored.manifest.targets
        if not isinstance(targets, Labels):
            return pa.array(table.target)
        return pa.array(targets.labels).take(pa.array(table.target.astype(np.int64)))


def _parts_of(dataset: stored.Dataset) -> Iterator[FeaturePart]:
    """Yield how all features of a data set are shown, in their order."""
    recipe = recipe_in(dataset.schema)
    if recipe is None:
        yield _plain(dataset)
        return
    first = 0
    for part in recipe.parts:
        names, n = part.outputs, part.width
        shown = [ShownColumn(name, "feature", part.summary, part.name) for name in names]
        if n > MOST_COLUMNS:
            name = f"{part.name} (features)"
            shown = [ShownColumn(name, "feature", part.summary, part.name)]
        yield FeaturePart(tuple(shown), first, n, names.__getitem__)
        first += n


def _plain(dataset: stored.Dataset) -> FeaturePart:
    """Return the features of a set whose columns are the source's."""
    own = dataset.schema.feature_names if dataset.schema is not None else None
    others, d = dataset.hashed_names, dataset.n_features

    def name_of(k: int) -> str:
        return own[k] if own else str(others.get(k, f"x{k}"))

    scaling = dataset.manifest.scaling.kind
    became = "number" if scaling == "none" else f"number, scaled ({scaling})"
    if dataset.manifest.layout == "sparse" and d > MOST_COLUMNS:
        said = f"{d:,} features, those that are not 0"
        return FeaturePart((ShownColumn("features", "feature", said, "features"),), 0, d, name_of)
    columns = (ShownColumn(name, "feature", became, name) for name in map(name_of, range(d)))
    return FeaturePart(tuple(columns), 0, d, name_of)


def features_of(table: Table, first: int, width: int) -> NDArray[Any]:
    """Return some features (n, width) of rows."""
    if isinstance(table, DenseTable):
        return table.X[:, first : first + width]
    X: NDArray[Any] = _sparse(table, first, width).toarray()
    return X


def _sparse(table: Table, first: int, width: int) -> sparse.csr_matrix:
    """Return some features of rows as a CSR matrix (n, width)."""
    if isinstance(table, DenseTable):
        return sparse.csr_matrix(table.X[:, first : first + width])
    shape = table.n_rows, max(first + width, int(table.indices.max(initial=-1)) + 1)
    rows = sparse.csr_matrix((table.data, table.indices, table.indptr), shape)
    return rows[:, first : first + width]


def _name_of(schema: Schema | None, role: str) -> str:
    position = getattr(schema, role, None)
    if schema is None or schema.names is None or position is None:
        return _CALLED[role]
    return str(schema.names[position])


def _distinct(columns: list[ShownColumn]) -> Iterator[ShownColumn]:
    """Yield the columns, those with a name that came before with a number behind it."""
    seen: set[str] = set()
    for column in columns:
        name, number = column.name, 2
        while name in seen:
            name, number = f"{column.name} ({number})", number + 1
        seen.add(name)
        yield column._replace(name=name)


def _required(module: str, method: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise BadInput(
            f"`{method}` needs {package}, which is not installed ({error}). "
            f"Install it (pip install {package}), or use `to_arrow`."
        ) from error


Dataset = DatasetTable
