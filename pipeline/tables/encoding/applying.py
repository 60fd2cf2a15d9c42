"""A recipe applied to rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.apply_terms import (
    Entries,
    ReadCells,
    entries_of,
    read_cells,
    single_reads,
)
from fewpass.pipeline.tables.encoding.cells import Mask, as_array, unclipped_numbers
from fewpass.pipeline.tables.encoding.column_recipe import Slot
from fewpass.pipeline.tables.encoding.expansion import Expansion, expansion_of, has_codes
from fewpass.pipeline.tables.encoding.inference import FEW
from fewpass.pipeline.tables.encoding.number_recipe import Bins, Number
from fewpass.pipeline.tables.encoding.recipe import AnyColumn, Recipe, terms_of
from fewpass.pipeline.tables.encoding.terms import ColumnTerms
from fewpass.pipeline.tables.encoding.text import Ragged
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Floats, Vector, WholeNumbers
from fewpass.storage.table import index_dtype

if TYPE_CHECKING:
    from scipy import sparse


#: Share of the cells that may be words in a column of numbers.
MOST_WORDS = 0.5


class EncodedRows(NamedTuple):
    """Rows as their entries, not put together yet, or as codes that these are computed from."""

    n_rows: int
    n_outputs: int
    parts: tuple[Slot | Ragged, ...]  # in the order of the output columns; of codes none
    bad: tuple[tuple[int, Mask], ...] = ()  # columns of the recipe with cells (n,) that do not fit
    words: tuple[tuple[int, Mask], ...] = ()  # columns of numbers with words (n,) read as missing
    gaps: tuple[tuple[int, Mask], ...] = ()  # with cells (n,) missing that have no column for it
    codes: Floats | None = None  # (n, m)
    expansion: Expansion | None = None  # of codes

    def dense(self, dtype: Any) -> NDArray[Any]:
        """Return the rows (n, d)."""
        X = np.zeros((self.n_rows, self.n_outputs), dtype)
        rows = np.arange(self.n_rows)
        if self.codes is not None:
            data, indices, indptr = self.sparse(dtype)
            X[np.repeat(rows, np.diff(indptr)), indices] = data
        for one in self.parts:
            at = np.repeat(rows, np.diff(one.starts)) if isinstance(one, Ragged) else rows
            X[at, one.column] = one.value
        return X

    def sparse(self, dtype: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Return data, indices and indptr of the rows as a CSR matrix (n, d) without zeros."""
        if self.codes is not None and self.expansion is not None:
            return self.expansion.csr(np.ascontiguousarray(self.codes.T), dtype)
        counts = np.zeros(self.n_rows, np.int64)
        for one in self.parts:
            counts += np.diff(one.starts) if isinstance(one, Ragged) else one.value != 0.0
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        data = np.empty(indptr[-1], dtype)
        indices = np.empty(indptr[-1], index_dtype(self.n_outputs))
        at = indptr[:-1].copy()
        for one in self.parts:
            if isinstance(one, Ragged):
                _put_ragged(at, *one, indices, data)
            else:
                column = np.empty(self.n_rows, np.int64)
                column[:] = one.column
                _put_slot(at, column, one.value, indices, data)
        return data, indices, indptr


Columns = NDArray[np.integer]  # (nnz,)


@kernel
def _put_slot(
    at: WholeNumbers, column: WholeNumbers, value: Vector, indices: Columns, data: Floats
) -> None:
    for i in range(at.size):
        if value[i] != 0.0:
            indices[at[i]] = column[i]
            data[at[i]] = value[i]
            at[i] += 1


@kernel
def _put_ragged(
    at: WholeNumbers,
    starts: WholeNumbers,
    column: WholeNumbers,
    value: Vector,
    indices: Columns,
    data: Floats,
) -> None:
    for i in range(at.size):
        for k in range(starts[i], starts[i + 1]):
            indices[at[i]] = column[k]
            data[at[i]] = value[k]
            at[i] += 1


class PlainNumbers(NamedTuple):
    """Rows of numbers as they are."""

    columns: tuple[NDArray[np.floating], ...]  # (n,) each, NaN where a cell is missing
    bad: tuple[tuple[int, Mask], ...]  # as those of `EncodedRows`
    words: tuple[tuple[int, Mask], ...] = ()
    gaps: tuple[tuple[int, Mask], ...] = ()

    def dense(self, dtype: Any) -> NDArray[Any]:
        """Return the rows (n, d); what is too large for the type becomes infinite."""
        X = np.empty((len(self.columns[0]) if self.columns else 0, len(self.columns)), dtype)
        with np.errstate(over="ignore"):
            for k, column in enumerate(self.columns):
                X[:, k] = column
        return X


def as_they_are(cells: Sequence[Any]) -> PlainNumbers:
    """Return rows, given as an Arrow array (n,) for each column, as the numbers that they hold."""
    read = [unclipped_numbers(column) for column in cells]
    bad = ((k, one.bad) for k, one in enumerate(read) if one.bad is not None)
    return PlainNumbers(tuple(one.values for one in read), tuple(bad))


def encode(recipe: Recipe, cells: Sequence[Any]) -> EncodedRows:
    """Encode rows, given as an Arrow array (n,) for each column of the recipe.

    Raises
    ------
    BadInput
        When the cells of a column are of a type that it cannot read.
    """
    if not has_codes(recipe):
        return by_terms(recipe, cells)
    return in_codes(recipe, expansion_of(recipe), cells)


def in_codes(recipe: Recipe, expansion: Expansion, cells: Sequence[Any]) -> EncodedRows:
    """Encode rows of a recipe that has codes."""
    codes, faults = np.empty((len(cells[0]), expansion.n_codes)), _CellFaults([], [], [])
    for k, (column, of) in enumerate(zip(recipe.columns, cells, strict=True)):
        with _naming(column, of):
            read = expansion.read_into(codes, k, of)
            faults.note(k, column, read.bad, read.missing)
    bad, words, gaps = map(tuple, faults)
    return EncodedRows(len(codes), expansion.n_outputs, (), bad, words, gaps, codes, expansion)


def by_terms(recipe: Recipe, cells: Sequence[Any]) -> EncodedRows:
    """Encode rows of any recipe, term by term."""
    reader, faults = _ColumnReader(recipe, cells), _CellFaults([], [], [])
    parts: list[Slot | Ragged] = []
    for k, one in enumerate(terms_of(recipe)):
        entries = reader.entries(one)
        parts += entries.slots
        if k < len(recipe.columns):
            faults.note(k, recipe.columns[k], entries.bad, entries.missing)
    bad, words, gaps = map(tuple, faults)
    return EncodedRows(len(cells[0]), recipe.n_outputs, tuple(parts), bad, words, gaps)


class _ColumnReader:
    """Entries of some rows; a column that several terms are functions of is read once."""

    def __init__(self, recipe: Recipe, cells: Sequence[Any]) -> None:
        self._cells = {
            column.name: (column, of) for column, of in zip(recipe.columns, cells, strict=True)
        }
        self._used_again = recipe.additive is not None or bool(recipe.crosses)
        self._read: dict[tuple[str, type], ReadCells] = {}

    def entries(self, one: ColumnTerms) -> Entries:
        """Return the entries by the terms of one column, or of two."""
        with _naming(*self._cells[one.columns[0]]):
            ways = zip(one.columns, single_reads(one.read), strict=True)
            return entries_of(one, [self._read_once(name, how) for name, how in ways])

    def _read_once(self, name: str, how: Any) -> ReadCells:
        key, (column, cells) = (name, type(how)), self._cells[name]
        if key in self._read:
            return self._read[key]
        with _naming(column, cells):
            read = read_cells(how, cells)
        if self._used_again:  # all columns together would take memory
            self._read[key] = read
        return read


class _CellFaults(NamedTuple):
    """Cells (n,) that are not what their column holds, by the number of the column."""

    bad: list[tuple[int, Mask]]
    words: list[tuple[int, Mask]]  # read as missing numbers
    gaps: list[tuple[int, Mask]]  # missing numbers, where none was missing in the sample

    def note(self, k: int, column: AnyColumn, bad: Mask | None, missing: Mask | None) -> None:
        """Note the cells of the k-th column."""
        if isinstance(column, Number) and missing is not None and not column.has_missing:
            gaps = missing if bad is None else missing & ~bad
            if gaps.any():
                self.gaps.append((k, gaps))
        if bad is None:
            return
        are_missing = isinstance(column, Number | Bins) and column.takes_words
        (self.words if are_missing and not _are_mostly_words(bad) else self.bad).append((k, bad))


def _are_mostly_words(words: Mask) -> bool:
    """Return whether most cells (n,) of a column of numbers are words: it holds others now."""
    return len(words) >= FEW and bool(words.mean() > MOST_WORDS)


@contextmanager
def _naming(column: AnyColumn, cells: Any) -> Iterator[None]:
    """Name the column in errors of cells that it cannot read."""
    try:
        yield
    except pa.ArrowException as error:
        raise _other_type(column, cells, str(error)) from error


def _other_type(column: AnyColumn, cells: Any, why: str) -> BadInput:
    return BadInput(
        f"Column {column.name!r} holds {cells.type} values, but was a {column.kind} column "
        f"before ({why}). Give it the type that it had."
    )


def encoded(recipe: Recipe, rows: Any, dtype: Any = np.float64) -> sparse.csr_matrix:
    """Return rows, an Arrow table, as a CSR matrix (n, d); columns are matched by name.

    Raises
    ------
    BadInput
        When a column is missing, or holds other values than the sample did.
    """
    from scipy import sparse  # noqa: PLC0415 - whoever has estimators has it

    absent = [column.name for column in recipe.columns if column.name not in rows.column_names]
    if absent:
        raise BadInput(f"The rows have no column {absent[0]!r}, which there was before. Add it.")
    cells = [*columns_of(rows, [column.name for column in recipe.columns])]
    result = encode(recipe, cells)
    refuse_bad(recipe, cells, result)
    made = sparse.csr_matrix(result.sparse(dtype), (result.n_rows, result.n_outputs))
    made.has_sorted_indices = made.has_canonical_format = True
    return made


def refuse_bad(recipe: Recipe, cells: Sequence[Any], result: EncodedRows) -> None:
    """Raise BadInput, by row and column, where cells are not what their column holds."""
    for k, mask in result.bad:
        row = int(np.flatnonzero(mask)[0])
        raise _other_type(recipe.columns[k], cells[k], f"row {row} is {cells[k][row]}")


def columns_of(rows: Any, names: Sequence[str]) -> Iterator[Any]:
    """Yield the columns of an Arrow table, each in one piece."""
    for name in names:
        yield as_array(rows.column(name))
