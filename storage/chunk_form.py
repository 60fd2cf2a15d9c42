"""The form that all chunks of a data set share: which rows fit, and which objects they become."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage import codec
from fewpass.storage.array_layout import (
    CODE_PARTS,
    RETAINED_KEY,
    ROWS_DOCUMENT,
    SPARSE_PARTS,
    chunk_document,
    chunk_parts,
    chunk_templates,
)
from fewpass.storage.manifest import RETAINED_BYTES, Layout
from fewpass.storage.table import DenseTable, Table, index_dtype

Codes = NDArray[np.float64]


class ChunkForm(NamedTuple):
    """Properties of every chunk of a data set; the fields are those of its manifest."""

    layout: Layout
    n_features: int
    chunk_rows: int
    dtype: Literal["float32", "float64"]
    row_parts: tuple[str, ...]  # with a number per row
    codes: int | None
    n_retained: int  # kept columns

    @property
    def templates(self) -> list[str]:
        """Keys of all objects of a chunk, the chunk number left open."""
        coded, retained = self.codes is not None, self.n_retained > 0
        return chunk_templates(self.layout, self.row_parts, coded=coded, retained=retained)

    def encoded(self, table: Table, codes: Codes | None) -> Iterator[tuple[str, bytes]]:
        """Yield the objects of a chunk, one after the other, by keys with {chunk} left open."""
        if self.layout == "sparse" and codes is None:
            shape = (table.n_rows, self.n_features)
            yield ROWS_DOCUMENT, chunk_document(shape, table.nnz, np.dtype(self.dtype))
        parts = chunk_parts(self.layout, self.row_parts, coded=codes is not None)
        for name, template in parts.items():
            part = codes if codes is not None and name in CODE_PARTS else getattr(table, name)
            if part.size:
                yield template, codec.encode(self._as_stored(name, part))
        if table.retained is not None:
            stored = self._as_stored("retained", table.retained)
            yield RETAINED_KEY, codec.encode(stored)

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

    def require_fitting(self, k: int, rows: int, table: Table, codes: Codes | None) -> None:
        """Refuse a table that is not of `rows` rows of this form; ValueError."""
        actual, expected = self._actual(table, codes), self._expected(rows, table)
        if actual != expected:
            raise ValueError(
                f"Chunk {k} has {actual}, where {expected} was expected. Convert it first."
            )

    def _expected(self, rows: int, table: Table) -> dict[str, Any]:
        """Return what a table of this form has, by name."""
        expected: dict[str, Any] = {
            "rows": rows,
            "weights": "weight" in self.row_parts,
            "offsets": "offset" in self.row_parts,
            "kept bytes": RETAINED_BYTES * self.n_retained,
        }
        if isinstance(table, DenseTable):
            expected |= {"features": self.n_features}
        else:
            expected |= {"indices": index_dtype(self.n_features)}
        expected |= {"layout": self.layout, "dtype": np.dtype(self.dtype)}
        return expected | {"codes": None if self.codes is None else (self.codes, rows)}

    @staticmethod
    def _actual(table: Table, codes: Codes | None) -> dict[str, Any]:
        """Return what a table has, by the same names."""
        actual: dict[str, Any] = {
            "rows": table.n_rows,
            "weights": table.weight is not None,
            "offsets": table.offset is not None,
            "kept bytes": 0 if table.retained is None else table.retained.shape[1],
        }
        if isinstance(table, DenseTable):
            actual |= {"layout": "dense", "dtype": table.X.dtype, "features": table.X.shape[1]}
        else:
            values, indices = table.data.dtype, table.indices.dtype
            actual |= {"layout": "sparse", "dtype": values, "indices": indices}
        return actual | {"codes": None if codes is None else codes.shape}
