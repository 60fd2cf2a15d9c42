"""Writing a data set: chunks in any order, the manifest last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.array_layout import root_documents
from fewpass.storage.chunk_form import ChunkForm
from fewpass.storage.chunk_places import ChunkPlace, packed_places
from fewpass.storage.chunk_records import measured_record
from fewpass.storage.chunk_table import ChunkRecord, ChunkTable
from fewpass.storage.column_file import KEY as COLUMNS
from fewpass.storage.column_file import Column, Records, write_columns
from fewpass.storage.column_order import ColumnOrder, is_order
from fewpass.storage.column_schema import KEY as SCHEMA
from fewpass.storage.column_schema import Schema
from fewpass.storage.folder import Folder
from fewpass.storage.hashed_names import KEY as NAMES
from fewpass.storage.hashed_names import HashedNames, written
from fewpass.storage.manifest import (
    FORMAT_VERSION,
    KEY,
    PLACED_VERSION,
    ChangeRecord,
    Labels,
    Layout,
    Manifest,
    OffsetStats,
    Scaling,
    Shuffle,
    SourceRecord,
    Values,
    WeightStats,
    norms,
    read_manifest,
    row_parts,
)
from fewpass.storage.objects import StoredObject, make_durable, put
from fewpass.storage.table import Table


class DatasetWriter:
    """Writes the chunks of a data set and commits it.

    Several threads or processes may write different chunks; writing a chunk again replaces it.
    Readers see no data set until `commit` returns.

    Parameters
    ----------
    folder
        The folder; it must not contain a data set.
    layout, n_features, n_rows, chunk_rows, dtype, has_weight, has_offset, codes, retained
        As in the manifest, `n_rows` of those that are written here; every chunk but the last has
        `chunk_rows` rows.

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
        parts = row_parts(has_weight=has_weight, has_offset=has_offset)
        self._form = ChunkForm(
            layout, n_features, chunk_rows, dtype, parts, codes, len(self.retained)
        )
        self._columns: Records = {}
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
        self._form.require_fitting(k, self.rows_of(k), table, codes)
        record = measured_record(k, table, self._form.templates)
        for key, data in self._form.encoded(table, codes):
            record.objects[key] = put(self.folder, key.format(chunk=k), data)
        return record

    def write_columns(
        self, columns: Mapping[str, Column], order: ColumnOrder | None = None
    ) -> None:
        """Write statistics of the features, and the order of the stored columns.

        Parameters
        ----------
        columns
            Each makes `n_features` numbers, stored as float64; called one after the other.
        order
            Of the stored columns [default: the source's].

        Raises
        ------
        ValueError
            An array has another length; the order is of other columns, or the set is dense, which
            has no other order.
        """
        order = order or ColumnOrder()
        source = order.source
        if source is not None and not (
            self.layout == "sparse" and is_order(source, self.n_features)
        ):
            raise ValueError(
                f"An order of {source.size} columns was given for a {self.layout} set of "
                f"{self.n_features}. Give one of all columns of a sparse set."
            )
        stored, self._columns = write_columns(self.folder, columns, order, self.n_features)
        self._objects[COLUMNS] = stored

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
        changes: Sequence[ChangeRecord] = (),
        places: Sequence[ChunkPlace] = (),
        home: Folder | None = None,
        named_by: Callable[[str], None] | None = None,
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
        changes, places, home
            What made this generation of an earlier one; where each chunk lies, in the group that
            was written here or in an earlier one; and the folder of the data set, whose manifest is
            replaced [default: the first generation, which lies where it is written].
        named_by
            Called with the fingerprint before there is a data set that has it.

        Raises
        ------
        ValueError
            The records are not those of all chunks, or the schema has other features.
        Damaged
            A recorded object is missing.
        """
        own = _in_group(len(changes) + 1, records, places)
        self._require_all(own)
        objects = self._put_root(schema, hashed_names)
        chunks = ChunkTable.of(records, self._form.templates)
        manifest = Manifest(
            version=PLACED_VERSION if places else FORMAT_VERSION,
            layout=self.layout,
            n_rows=sum(record.rows for record in records),
            n_features=self.n_features,
            nnz=sum(record.nnz for record in records),
            dtype=self.dtype,
            chunk_rows=self.chunk_rows,
            codes=self.codes,
            has_weight=self.has_weight,
            targets=targets,
            norms=norms(chunks),
            weights=weights,
            offsets=offsets,
            scaling=scaling or Scaling(),
            shuffle=shuffle or Shuffle(),
            sources=tuple(sources),
            bad_rows=dict(bad_rows or {}),
            versions=dict(versions or {}),
            columns=self._columns,
            objects=objects,
            chunks=chunks,
            retained=self.retained,
            changes=tuple(changes),
            places=packed_places(places),
        )
        self._make_durable(objects, own)
        raw = manifest.sealed()
        made = read_manifest(raw)
        if named_by is not None:
            named_by(made.fingerprint)
        (home or self.folder).write(KEY, raw)
        return made

    def _put_root(
        self, schema: Schema | None, hashed_names: HashedNames | None
    ) -> dict[str, StoredObject]:
        """Write what is outside chunks; return all such objects, those of columns included."""
        shape, form = (self.n_rows, self.n_features), self._form
        documents = root_documents(
            form.layout,
            shape,
            form.chunk_rows,
            np.dtype(form.dtype),
            form.row_parts,
            form.codes,
            form.n_retained,
        )
        objects = {key: put(self.folder, key, data) for key, data in documents.items()}
        objects |= self._objects
        if schema is not None:
            objects[SCHEMA] = self._put_schema(schema)
        if hashed_names:
            objects[NAMES] = put(self.folder, NAMES, written(hashed_names))
        return objects

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
        for k, record in enumerate(records):
            every |= record.named(k)
        self.folder.delete_partials()
        make_durable(self.folder, every)

    def _require_all(self, records: Sequence[ChunkRecord]) -> None:
        rows = [record.rows for record in records]
        if rows != [self.rows_of(k) for k in range(self.n_chunks)]:
            raise ValueError(
                f"{len(rows)} chunks with {sum(rows)} rows were handed over, where {self.n_chunks} "
                f"with {self.n_rows} were expected. Write every chunk, then commit them in order."
            )


def _in_group(
    generation: int, records: Sequence[ChunkRecord], places: Sequence[ChunkPlace]
) -> list[ChunkRecord]:
    """Return the records of the chunks that lie in the group of a generation, by number there."""
    if not places:
        return list(records)
    placed = zip(places, records, strict=True)
    own = {place.number: record for place, record in placed if place.generation == generation}
    return [own[number] for number in sorted(own)]
