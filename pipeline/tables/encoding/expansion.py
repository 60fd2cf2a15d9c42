"""Compact codes from which all features of a row are computed: numbers and places of levels.

A row of codes is several times smaller than its features, so codes are what is stored, and rows
are expanded where they are read.  A recipe has codes where each of its columns is a number, a
category or a date; text, hashes, lists and maps have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.apply_terms import ReadCells, read_cells
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.expanding import expand_rows
from fewpass.pipeline.tables.encoding.expansion_steps import Code, StepsInMaking
from fewpass.pipeline.tables.encoding.identity_cache import cached_by_identity
from fewpass.pipeline.tables.encoding.number_recipe import Bins, Number
from fewpass.pipeline.tables.encoding.recipe import Recipe, terms_of
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.column_schema import Schema
from fewpass.storage.table import DenseTable, SparseTable, Table, index_dtype


class CsrParts(NamedTuple):
    """Rows as a CSR matrix."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[np.int64]


def has_codes(recipe: Recipe) -> bool:
    """Return whether the features of rows are computed from codes."""
    own = recipe.additive
    if own is None or recipe.crosses or any(pair.is_complete for pair in own.pairs):
        return False
    return all(map(_is_code, recipe.columns))


def _is_code(column: Any) -> bool:
    if isinstance(column, Number):
        return column.n_slots == 1 and column.lowest is None
    return isinstance(column, Bins | Category | Date)


class Expansion:
    """The codes of a recipe's rows, and their features.

    Parameters
    ----------
    recipe
        That `has_codes`.

    Attributes
    ----------
    n_codes, n_outputs, most : int
        m; d; features of a row, zeros among them.
    """

    def __init__(self, recipe: Recipe) -> None:
        described = terms_of(recipe)
        making = StepsInMaking(described, len(recipe.columns))
        self._described, self._codes = described, tuple(making.codes)
        self.n_codes, self.n_outputs, self.most = len(making.codes), recipe.n_outputs, making.most
        self._steps = making.steps()

    def row_bytes(self, dtype: Any) -> int:
        """Return the bytes of a row's features in memory, where none is 0."""
        item = np.dtype(dtype).itemsize + index_dtype(self.n_outputs).itemsize
        return 8 + int(self.most * item)

    def read_into(self, codes: Floats, k: int, cells: Any) -> ReadCells:
        """Read the k-th column's codes of rows, codes (n, m); return what its cells hold."""
        (name,), how = self._described[k].columns, self._described[k].read
        read = read_cells(how, cells)
        for place, code in enumerate(self._codes):
            if code.column == name:
                codes[:, place] = code.of(read)
        return read

    def codes_of(self, cells: Sequence[Any], before: dict[Code, Floats]) -> Floats:
        """Return the codes of rows (m, n); those of `before`, where they are kept, are not read."""
        for described, of in zip(self._described, cells, strict=False):
            own = [code for code in self._codes if code.column == described.columns[0]]
            if not before.keys() >= {*own}:
                read = read_cells(described.read, of)
                before |= {code: code.of(read) for code in own}
        return np.array([before[code] for code in self._codes], np.float64)

    def expand(
        self, codes: Floats, indptr: NDArray[np.int64], indices: NDArray[Any], data: NDArray[Any]
    ) -> int:
        """Write the features of rows, codes (m, n), that are not 0; return how many.

        -1 where there is no room for all.
        """
        return expand_rows(self._steps, codes, self.most, indptr, indices, data)

    def csr(self, codes: Floats, dtype: Any) -> CsrParts:
        """Return the features of rows, codes (m, n), that are not 0."""
        n = codes.shape[1]
        indptr, data = np.empty(n + 1, np.int64), np.empty(n * self.most, dtype)
        indices = np.empty(n * self.most, index_dtype(self.n_outputs))
        nnz = self.expand(codes, indptr, indices, data)
        return CsrParts(data[:nnz], indices[:nnz], indptr)

    def with_values(self, rows: Table, dtype: Any) -> tuple[SparseTable, Floats]:
        """Return rows with values in place of their codes, and these, (m, n)."""
        assert isinstance(rows, DenseTable), "rows of codes are dense"
        codes = np.ascontiguousarray(rows.X.T, np.float64)
        parts = self.csr(codes, dtype)
        return SparseTable(*parts, rows.target, rows.weight, rows.offset, rows.retained), codes


def expansion_in(schema: Schema) -> Expansion:
    """Return the expansion of rows stored as codes, by the recipe of their schema.

    Raises
    ------
    BadInput
        When there is none, or it has no codes.
    """
    recipe = recipe_in(schema)
    if recipe is None or not has_codes(recipe):
        raise BadInput("Rows are stored as codes, but their recipe has none. Ingest again.")
    return expansion_of(recipe)


@cached_by_identity
def expansion_of(recipe: Recipe) -> Expansion:
    """Return the expansion of a recipe's rows."""
    return Expansion(recipe)
