"""The columns of a data set: their order, their schema, their names, and statistics of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from fewpass.storage.column_file import COLUMN_ORDER, read_column
from fewpass.storage.column_file import KEY as COLUMNS
from fewpass.storage.column_order import ColumnOrder, is_order
from fewpass.storage.column_schema import KEY as SCHEMA
from fewpass.storage.column_schema import Groups, Schema
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.hashed_names import KEY as NAMES
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.hashed_names import read as read_names
from fewpass.storage.manifest import Manifest
from fewpass.storage.objects import RESTORE, get
from fewpass.storage.row_expansion import RowExpansion, expansion_of


class DatasetColumns:
    """Facts about a data set's columns; read when they are first asked for.

    Attributes
    ----------
    folder : Folder
        Where the data set is.
    generation_folder : Folder
        Where its objects are: in `folder`, or in the folder of its generation.
    manifest : Manifest
    """

    def __init__(self, folder: Folder, manifest: Manifest) -> None:
        self.folder = folder
        self.generation_folder = folder.child(manifest.place) if manifest.place else folder
        self.manifest = manifest

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.manifest.n_features

    @cached_property
    def column_order(self) -> ColumnOrder:
        """Order of the stored columns, which only `read_into` and `read_stored` show.

        Raises
        ------
        Damaged
            As for `read_into`, or it is not a permutation of the columns.
        """
        if COLUMN_ORDER not in self.manifest.columns:
            return ColumnOrder()
        source = self._column(COLUMN_ORDER)
        if not is_order(source, self.n_features):
            raise Damaged(
                f"{COLUMN_ORDER} in {self.generation_folder.address(COLUMNS)} is no order of its "
                f"{self.n_features} columns. Do not use this data set; ingest the source again."
            )
        return ColumnOrder(source)

    @cached_property
    def schema(self) -> Schema | None:
        """Schema of the source's columns; None if unknown.

        Raises
        ------
        Damaged
            It is missing, has been changed, or has other features than the set.
        """
        if not self.manifest.has_schema:
            return None
        raw = get(self.generation_folder, SCHEMA, self.manifest.objects[SCHEMA])
        try:
            schema = Schema.model_validate_json(raw)
        except ValidationError as error:
            raise Damaged(
                f"{self.generation_folder.address(SCHEMA)} is no schema: {error}. {RESTORE}"
            ) from error
        if schema.n_features != self.n_features:
            raise Damaged(
                f"{self.generation_folder.address(SCHEMA)} has {schema.n_features} features, where "
                f"{self.n_features} were expected. {RESTORE}"
            )
        return schema

    @cached_property
    def feature_groups(self) -> Groups | None:
        """The group of every feature (d,), in stored order; None where there are none.

        Raises
        ------
        Damaged
            As for `schema` and `column_order`.
        """
        groups = self.schema.feature_groups if self.schema is not None else None
        return None if groups is None else self.column_order.stored(groups)

    @cached_property
    def expansion(self) -> RowExpansion:
        """Return the maker of rows out of the codes that they are stored as.

        Raises
        ------
        Damaged
            As for `schema`, or it takes other codes, or makes other rows.
        """
        assert self.schema is not None, "the manifest was checked"
        expansion = expansion_of(self.schema)
        actual = (expansion.n_codes, expansion.n_outputs)
        if actual != (self.manifest.codes, self.n_features):
            raise Damaged(
                f"{self.folder.address(SCHEMA)} makes {actual[1]} features of {actual[0]} codes, "
                f"where {self.n_features} of {self.manifest.codes} were expected. {RESTORE}"
            )
        return expansion

    @cached_property
    def hashed_names(self) -> HashedNames:
        """Names of hashed columns, as far as known.

        Raises
        ------
        Damaged
            They are missing or have been changed.
        """
        if NAMES not in self.manifest.objects:
            return {}
        raw = get(self.generation_folder, NAMES, self.manifest.objects[NAMES])
        try:
            return read_names(raw, self.n_features)
        except ValueError as error:
            raise Damaged(f"{self.generation_folder.address(NAMES)}: {error}. {RESTORE}") from error

    def column(self, name: str) -> NDArray[np.float64]:
        """Return the statistic `name` of every feature: ``count``, ``mean``, ``variance``, ...

        In the source's order.

        Returns
        -------
        numpy.ndarray
            (n_features,) float64.

        Raises
        ------
        KeyError
            The set does not have it.
        Damaged
            As for `read_into`.
        """
        names = [each for each in self.manifest.columns if each != COLUMN_ORDER]
        if name not in names:
            raise KeyError(f"{self.folder.url} has no column statistic {name!r}, but {names}.")
        return self._column(name)

    def column_faults(self, on_read: Callable[[int], None]) -> Iterator[str]:
        """Yield sentences as `Dataset.verify`, of the columns' file, frame by frame.

        The checksum of the whole file does not notice another frame of the same length: each frame
        ends with its own checksum, and the CRC-32C over both is a constant.
        """
        sentences = dict[str, None]()  # a missing file has one
        for name, record in self.manifest.columns.items():
            try:
                self._column(name)
            except Damaged as error:
                sentences[str(error)] = None
            on_read(record.n_bytes)
        yield from sentences

    def _column(self, name: str) -> NDArray[Any]:
        stored, records = self.manifest.objects[COLUMNS], self.manifest.columns
        return read_column(self.generation_folder, stored, records, name, self.n_features)
