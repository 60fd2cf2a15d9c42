"""Writing a data set: chunks in any order, the manifest last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fewpass.storage import codec
from fewpass.storage.array_layout import (
    CODE_PARTS,
    RETAINED_KEY,
    SPARSE_PARTS,
    chunk_documents,
    chunk_parts,
    chunk_templates,
    root_documents,
)
from fewpass.storage.column_order import ColumnOrder, is_order
from fewpass.storage.column_schema import KEY as SCHEMA
from fewpass.storage.column_schema import Schema
from fewpass.storage.folder import Folder
from fewpass.storage.hashed_names import KEY as NAMES
from fewpass.storage.hashed_names import HashedNames, written
from fewpass.storage.manifest import (
    COLUMN_ORDER,
    KEY,
    RETAINED_BYTES,
    ChangeRecord,
    ChunkRecord,
    ChunkTable,
    Labels,
    Layout,
    Manifest,
    Norms,
    OffsetStats,
    Scaling,
    Shuffle,
    SourceRecord,
    Values,
    WeightStats,
    chunk_table,
    format_version,
    norms,
    read_manifest,
    row_parts,
)
from fewpass.storage.objects import ArrayLayout, StoredObject, put, put_array, require_length
from fewpass.storage.table import DenseTable, Table, index_dtype

BLOCK_ITEMS = 1 << 16  # numbers squared at a time, so that they stay in the processor's cache


class DatasetWriter:
    """Writes the chunks of a data set and commits it.

    Several threads or processes may write different chunks; writing a chunk again replaces it.
    Readers see no data set until `commit` returns.

    Parameters
    ----------
    folder
        The folder; it must not contain a data set.
    layout, n_features, n_rows, chunk_rows, dtype, has_weight, has_offset, codes, retained
        As in the manifest; every chunk but the last has `chunk_rows` rows.

    Raises
    ------
    FileExistsError
        The folder contains a data set.
    ValueError
        There are no rows or no features.
    """

    def __init__(
        self,
        folder: Folder,
        layout: Layout,
        n_features: int,
        n_rows: int,
        chunk_rows: int,
        dtype: Literal["float32", "float64"],
        has_weight: bool,
        has_offset: bool = False,
        codes: int | None = None,
        retained: Sequence[str] = (),
    ) -> None:
        if min(n_features, n_rows, chunk_rows) < 1:
            raise ValueError(
                f"A data set of {n_rows} rows and {n_features} features in chunks of {chunk_rows} "
                "rows cannot be stored. Give at least one of each."
            )
        if folder.exists(KEY):
            raise FileExistsError(
                f"{folder.url} already holds a data set. Choose another place, or delete it first."
            )
        self.folder = folder
        self.layout: Layout = layout
        self.n_rows, self.n_features, self.chunk_rows = n_rows, n_features, chunk_rows
        self.dtype: Literal["float32", "float64"] = dtype
        self.has_weight, self.has_offset, self.retained = has_weight, has_offset, tuple(retained)
        self.codes = codes
        self.row_parts = row_parts(has_weight=has_weight, has_offset=has_offset)
        self._columns: dict[str, ArrayLayout] = {}
        self._objects: dict[str, StoredObject] = {}

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_rows // self.chunk_rows)

    def rows_of(self, k: int) -> int:
        """Return the number of rows of chunk `k`."""
        return min(self.chunk_rows, self.n_rows - k * self.chunk_rows)

    def write_chunk(
        self, k: int, table: Table, codes: NDArray[np.float64] | None = None
    ) -> ChunkRecord:
        """Write chunk `k`: rows ``k * chunk_rows`` and following.

        Parameters
        ----------
        k, table
            The chunk's number and rows.
        codes
            (m, n) of which these follow, where the set stores codes.

        Returns
        -------
        ChunkRecord
            The record for `commit`.

        Raises
        ------
        ValueError
            The table has other properties than the writer, or values that are not finite or too
            large to square.
        """
        self._require_fitting(k, table, codes)
        with np.errstate(over="ignore", invalid="ignore"):  # refused just below
            squares = row_squares(table)
            sum_fourth = np.square(squares).sum()
        record = ChunkRecord(
            rows=table.n_rows,
            nnz=table.nnz,
            target_sum=_finite(k, table.target.sum()),
            max_square=_finite(k, squares.max()),
            sum_square=_finite(k, squares.sum()),
            sum_fourth=_finite(k, sum_fourth),
            objects={},
        )
        return record.model_copy(update={"objects": self._put_chunk(k, table, codes)})

    def link_chunk(self, k: int, other: Folder, table: ChunkTable, number: int) -> ChunkRecord:
        """Have chunk `number` of another set, whose table is given, as chunk `k` of this one.

        The record lacks ``sum_fourth``, which no manifest has: give `commit` norms of its own.
        """
        objects: dict[str, StoredObject] = {}
        for key, column in table.objects.items():
            stored = column[number]
            if stored is not None:
                objects[key.format(chunk=k)] = stored
                self.folder.link(key.format(chunk=k), other, key.format(chunk=number))
        return ChunkRecord(
            rows=table.rows[number],
            nnz=table.nnz[number],
            target_sum=table.target_sum[number],
            max_square=table.max_square[number],
            sum_square=table.sum_square[number],
            sum_fourth=0.0,
            objects=objects,
        )

    def write_columns(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Write statistics of the features: arrays of `n_features` numbers, stored as float64.

        Raises
        ------
        ValueError
            An array has another length.
        """
        for name, values in columns.items():
            if values.shape != (self.n_features,):
                raise ValueError(
                    f"Column statistic {name!r} has shape {values.shape}, where "
                    f"({self.n_features},) was expected. Hand over one number per feature."
                )
            self._put_column(name, np.ascontiguousarray(values, np.float64))

    def write_column_order(self, order: ColumnOrder) -> None:
        """Write the order of the stored columns, unless it is the source's order.

        Raises
        ------
        ValueError
            The order is of other columns, or the set is dense, which has no other order.
        """
        if order.source is None:
            return
        if self.layout == "dense" or not is_order(order.source, self.n_features):
            raise ValueError(
                f"An order of {order.source.size} columns was given for a {self.layout} set of "
                f"{self.n_features}. Give one of all columns of a sparse set."
            )
        self._put_column(COLUMN_ORDER, order.source)

    def _put_column(self, name: str, array: NDArray[Any]) -> None:
        self._columns[name] = ArrayLayout.of(array)
        self._objects.update(put_array(self.folder, f"columns/{name}", array))

    def commit(
        self,
        records: Sequence[ChunkRecord],
        *,
        targets: Labels | Values,
        weights: WeightStats | None = None,
        offsets: OffsetStats | None = None,
        scaling: Scaling | None = None,
        shuffle: Shuffle | None = None,
        sources: Sequence[SourceRecord] = (),
        bad_rows: Mapping[str, int] | None = None,
        versions: Mapping[str, str] | None = None,
        schema: Schema | None = None,
        hashed_names: HashedNames | None = None,
        own_norms: Norms | None = None,
        changes: Sequence[ChangeRecord] = (),
        home: Folder | None = None,
    ) -> Manifest:
        """Make everything durable, then write the manifest, which completes the data set.

        Parameters
        ----------
        records
            One per chunk, in the order of the chunks.
        targets, weights, offsets, scaling, shuffle, sources, bad_rows, versions
            As in the manifest.
        schema
            The columns of the source, if known.
        hashed_names
            Names of hashed columns, if known.
        own_norms
            Moments of the rows' norms [default: those of the records].
        changes, home
            What made this generation of an earlier one, and the folder of the data set, whose
            manifest is replaced [default: the first generation, which lies where it is written].

        Raises
        ------
        ValueError
            The records are not those of all chunks, or the schema has other features.
        Damaged
            A recorded object is missing.
        """
        self._require_all(records)
        shape = (self.n_rows, self.n_features)
        dtype = np.dtype(self.dtype)
        coded, later = self.codes is not None, bool(self.retained or changes)
        version = format_version(
            self._columns, has_schema=schema is not None, coded=coded, later=later
        )
        documents = root_documents(
            version,
            self.layout,
            shape,
            self.chunk_rows,
            dtype,
            self.row_parts,
            self.codes,
            len(self.retained),
        )
        objects = {key: put(self.folder, key, data) for key, data in documents.items()}
        objects |= self._objects
        if schema is not None:
            objects[SCHEMA] = self._put_schema(schema)
        if hashed_names:
            objects[NAMES] = put(self.folder, NAMES, written(hashed_names))
        manifest = Manifest(
            version=version,
            layout=self.layout,
            n_rows=self.n_rows,
            n_features=self.n_features,
            nnz=sum(record.nnz for record in records),
            dtype=self.dtype,
            chunk_rows=self.chunk_rows,
            codes=self.codes,
            has_weight=self.has_weight,
            targets=targets,
            norms=own_norms or norms(records),
            weights=weights,
            offsets=offsets,
            scaling=scaling or Scaling(),
            shuffle=shuffle or Shuffle(),
            sources=tuple(sources),
            bad_rows=dict(bad_rows or {}),
            versions=dict(versions or {}),
            columns=self._columns,
            objects=objects,
            chunks=chunk_table(records, self._templates()),
            retained=self.retained,
            changes=tuple(changes),
        )
        self._make_durable(objects, records)
        raw = manifest.sealed()
        (home or self.folder).write(KEY, raw)
        return read_manifest(raw)

    def _templates(self) -> list[str]:
        return chunk_templates(
            self.layout, self.row_parts, coded=self.codes is not None, retained=bool(self.retained)
        )

    def _put_schema(self, schema: Schema) -> StoredObject:
        if schema.n_features != self.n_features:
            raise ValueError(
                f"A schema of {schema.n_features} features was given for a data set of "
                f"{self.n_features}. Give one of these columns."
            )
        return put(self.folder, SCHEMA, schema.written())

    def _make_durable(
        self, objects: Mapping[str, StoredObject], records: Sequence[ChunkRecord]
    ) -> None:
        every = dict(objects)
        for record in records:
            every |= record.objects
        for key, stored in every.items():
            require_length(self.folder, key, stored)
        self.folder.delete_partials()
        self.folder.sync(every)

    def _put_chunk(
        self, k: int, table: Table, codes: NDArray[np.float64] | None
    ) -> dict[str, StoredObject]:
        objects: dict[str, StoredObject] = {}
        if self.layout == "sparse" and codes is None:
            shape = (table.n_rows, self.n_features)
            documents = chunk_documents(k, shape, table.nnz, np.dtype(self.dtype))
            objects = {key: put(self.folder, key, data) for key, data in documents.items()}
        parts = chunk_parts(self.layout, self.row_parts, coded=codes is not None)
        for name, template in parts.items():
            part = codes if codes is not None and name in CODE_PARTS else getattr(table, name)
            if part.size:
                key = template.format(chunk=k)
                objects[key] = put(self.folder, key, codec.encode(self._as_stored(name, part)))
        if table.retained is not None:
            key = RETAINED_KEY.format(chunk=k)
            objects[key] = put(
                self.folder, key, codec.encode(self._as_stored("retained", table.retained))
            )
        return objects

    def _as_stored(self, name: str, part: NDArray[Any]) -> NDArray[Any]:
        """Pad the last chunk of an array with zeros: Zarr's chunks all have one shape."""
        if name in SPARSE_PARTS:
            return part
        if name in CODE_PARTS:
            return np.pad(part, ((0, 0), (0, self.chunk_rows - part.shape[1])))
        missing = self.chunk_rows - part.shape[0]
        if not missing:
            return part
        return np.concatenate([part, np.zeros((missing, *part.shape[1:]), part.dtype)])

    def _require_fitting(self, k: int, table: Table, codes: NDArray[np.float64] | None) -> None:
        actual: dict[str, Any] = {"rows": table.n_rows, "weights": table.weight is not None}
        expected: dict[str, Any] = {"rows": self.rows_of(k), "weights": self.has_weight}
        actual |= {"offsets": table.offset is not None}
        expected |= {"offsets": self.has_offset}
        actual |= {"kept bytes": 0 if table.retained is None else table.retained.shape[1]}
        expected |= {"kept bytes": RETAINED_BYTES * len(self.retained)}
        if isinstance(table, DenseTable):
            actual |= {"layout": "dense", "dtype": table.X.dtype, "features": table.X.shape[1]}
            expected |= {"features": self.n_features}
        else:
            actual |= {
                "layout": "sparse",
                "dtype": table.data.dtype,
                "indices": table.indices.dtype,
            }
            expected |= {"indices": index_dtype(self.n_features)}
        expected |= {"layout": self.layout, "dtype": np.dtype(self.dtype)}
        actual |= {"codes": None if codes is None else codes.shape}
        expected |= {"codes": None if self.codes is None else (self.codes, self.rows_of(k))}
        if actual != expected:
            raise ValueError(
                f"Chunk {k} has {actual}, where {expected} was expected. Convert it first."
            )

    def _require_all(self, records: Sequence[ChunkRecord]) -> None:
        rows = [record.rows for record in records]
        if rows != [self.rows_of(k) for k in range(self.n_chunks)]:
            raise ValueError(
                f"{len(rows)} chunks with {sum(rows)} rows were handed over, where {self.n_chunks} "
                f"with {self.n_rows} were expected. Write every chunk, then commit them in order."
            )


def row_squares(table: Table) -> NDArray[np.float64]:
    """Return ||x||^2 of every row, (n,), summed in double precision."""
    if isinstance(table, DenseTable):
        return _dense_squares(table.X)
    squares = np.zeros(table.n_rows)
    filled = np.flatnonzero(np.diff(table.indptr))
    ends = np.append(table.indptr[filled], table.nnz)
    start = 0
    while start < filled.size:
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + BLOCK_ITEMS)) - 1)
        values = table.data[ends[start] : ends[stop]].astype(np.float64)
        np.square(values, out=values)
        squares[filled[start:stop]] = np.add.reduceat(values, ends[start:stop] - ends[start])
        start = stop
    return squares


def _dense_squares(X: NDArray[Any]) -> NDArray[np.float64]:
    squares = np.empty(X.shape[0])
    step = max(1, BLOCK_ITEMS // X.shape[1])
    for start in range(0, X.shape[0], step):
        block = X[start : start + step].astype(np.float64)
        np.einsum("ij,ij->i", block, block, out=squares[start : start + step])
    return squares


def _finite(k: int, number: np.floating) -> float:
    if not np.isfinite(number):
        raise ValueError(
            f"Chunk {k} has values that are not finite, or too large to square. "
            "Remove or scale them before they are stored."
        )
    return float(number)
