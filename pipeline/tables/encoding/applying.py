"""A recipe applied to rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.cells import Mask
from fewpass.pipeline.tables.encoding.column_recipe import Slot
from fewpass.pipeline.tables.encoding.expansion import Expansion, expansion_of, has_codes
from fewpass.pipeline.tables.encoding.hats import HatSlots, put_hats
from fewpass.pipeline.tables.encoding.inference import FEW
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.recipe import AnyColumn, Recipe
from fewpass.pipeline.tables.encoding.text import Ragged
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Floats, Vector, WholeNumbers
from fewpass.storage.table import index_dtype

if TYPE_CHECKING:
    from scipy import sparse


#: Share of the cells that may be words in a column of numbers.
MOST_WORDS = 0.5


class Part(NamedTuple):
    """Entries of some rows in one slot, or in the columns of a text."""

    first: int  # output column where its own begin
    entries: Slot | Ragged | HatSlots


class Encoded(NamedTuple):
    """Rows as their entries, not put together yet."""

    n_rows: int
    n_outputs: int
    parts: tuple[Part, ...]  # in the order of the output columns
    bad: tuple[tuple[int, Mask], ...]  # columns of the recipe with cells (n,) that do not fit
    words: tuple[tuple[int, Mask], ...] = ()  # columns of numbers with words (n,) read as missing

    def dense(self, dtype: Any) -> NDArray[Any]:
        """Return the rows (n, d)."""
        X = np.zeros((self.n_rows, self.n_outputs), dtype)
        for first, entries in self.parts:
            if isinstance(entries, Slot):
                X[np.arange(self.n_rows), first + entries.column] = entries.value
            else:
                ragged = entries.ragged() if isinstance(entries, HatSlots) else entries
                rows = np.repeat(np.arange(self.n_rows), np.diff(ragged.starts))
                X[rows, first + ragged.column] = ragged.value
        return X

    def sparse(self, dtype: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Return data, indices and indptr of the rows as a CSR matrix (n, d) without zeros."""
        counts = np.zeros(self.n_rows, np.int64)
        for _, entries in self.parts:
            if isinstance(entries, Slot):
                counts += entries.value != 0.0
            elif isinstance(entries, HatSlots):
                counts += entries.counts()
            else:
                counts += np.diff(entries.starts)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        data = np.empty(indptr[-1], dtype)
        indices = np.empty(indptr[-1], index_dtype(self.n_outputs))
        at = indptr[:-1].copy()
        for first, entries in self.parts:
            if isinstance(entries, HatSlots):
                put_hats(at, first, entries.u, entries.heights, indices, data)
            elif isinstance(entries, Ragged):
                _put_ragged(at, first, *entries, indices, data)
            elif isinstance(column := entries.column, int):
                _put_column(at, first + column, entries.value, indices, data)
            else:
                _put_slot(at, first, column, entries.value, indices, data)
        return data, indices, indptr


Columns = NDArray[np.integer]  # (nnz,)


@kernel
def _put_slot(
    at: WholeNumbers,
    first: int,
    column: WholeNumbers,
    value: Vector,
    indices: Columns,
    data: Floats,
) -> None:
    for i in range(at.size):
        if value[i] != 0.0:
            indices[at[i]] = first + column[i]
            data[at[i]] = value[i]
            at[i] += 1


@kernel
def _put_column(
    at: WholeNumbers, column: int, value: Vector, indices: Columns, data: Floats
) -> None:
    for i in range(at.size):
        if value[i] != 0.0:
            indices[at[i]] = column
            data[at[i]] = value[i]
            at[i] += 1


@kernel
def _put_ragged(
    at: WholeNumbers,
    first: int,
    starts: WholeNumbers,
    column: WholeNumbers,
    value: Vector,
    indices: Columns,
    data: Floats,
) -> None:
    for i in range(at.size):
        for k in range(starts[i], starts[i + 1]):
            indices[at[i]] = first + column[k]
            data[at[i]] = value[k]
            at[i] += 1


class EncodedByCodes(NamedTuple):
    """Rows as the codes that their entries follow of."""

    expansion: Expansion
    codes: Floats  # (n, m)
    bad: tuple[tuple[int, Mask], ...]  # as those of `Encoded`
    words: tuple[tuple[int, Mask], ...]

    @property
    def n_rows(self) -> int:
        """Return n."""
        return len(self.codes)

    @property
    def n_outputs(self) -> int:
        """Return d."""
        return self.expansion.n_outputs

    def dense(self, dtype: Any) -> NDArray[Any]:
        """Return the rows (n, d)."""
        data, indices, indptr = self.sparse(dtype)
        X = np.zeros((self.n_rows, self.n_outputs), dtype)
        X[np.repeat(np.arange(self.n_rows), np.diff(indptr)), indices] = data
        return X

    def sparse(self, dtype: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Return data, indices and indptr of the rows as a CSR matrix (n, d) without zeros."""
        return self.expansion.csr(np.ascontiguousarray(self.codes.T), dtype)


def encode(recipe: Recipe, cells: Sequence[Any]) -> Encoded | EncodedByCodes:
    """Encode rows, given as an Arrow array (n,) for each column of the recipe.

    Raises
    ------
    BadInput
        When the cells of a column are of a type that it cannot read.
    """
    cells = recipe.said(cells)
    if not has_codes(recipe):
        return in_slots(recipe, cells)
    return in_codes(recipe, expansion_of(recipe), cells)


def in_codes(recipe: Recipe, expansion: Expansion, cells: Sequence[Any]) -> EncodedByCodes:
    """Encode rows of a recipe that has codes."""
    bad: list[tuple[int, Mask]] = []
    words: list[tuple[int, Mask]] = []
    codes = np.empty((len(cells[0]), expansion.n_codes))
    for k, (column, of) in enumerate(zip(recipe.columns, cells, strict=True)):
        try:
            mask = expansion.read_into(codes, k, of)
        except pa.ArrowException as error:
            raise _other_type(column, of, str(error)) from error
        if mask is not None:
            are_missing = isinstance(column, Number) and column.takes_words
            (words if are_missing and not _are_mostly_words(mask) else bad).append((k, mask))
    return EncodedByCodes(expansion, codes, tuple(bad), tuple(words))


def in_slots(recipe: Recipe, cells: Sequence[Any]) -> Encoded:
    """Encode rows of any recipe, slot by slot."""
    parts: list[Part] = []
    bad: list[tuple[int, Mask]] = []
    words: list[tuple[int, Mask]] = []
    start = 0
    for k, (column, of) in enumerate(zip(recipe.columns, cells, strict=True)):
        column_entries = _entries(column, of)
        parts += [Part(start, entries) for entries in column_entries.slots]
        bad += [(k, column_entries.bad)] if column_entries.bad is not None else []
        if (mask := column_entries.words) is not None:
            (bad if _are_mostly_words(mask) else words).append((k, mask))
        start += column.width
    for cross in recipe.crosses:
        names = [column.name for column in recipe.columns]
        one, other = (cells[names.index(name)] for name in cross.of)
        parts += [Part(start, entries) for entries in cross.entries(one, other).slots]
        start += cross.pairs.width
    if recipe.additive is not None:
        slots = recipe.additive.slots(recipe.columns, cells)
        parts += [Part(start + first, slot) for first, slot in slots]
        start += sum(part.width for part in recipe.additive.parts)
    return Encoded(len(cells[0]), start, tuple(parts), tuple(bad), tuple(words))


def _are_mostly_words(words: Mask) -> bool:
    """Say whether most cells (n,) of a column of numbers are words: it holds others now."""
    return len(words) >= FEW and bool(words.mean() > MOST_WORDS)


def _entries(column: AnyColumn, cells: Any) -> Any:
    try:
        return column.entries(cells)
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


def refuse_bad(recipe: Recipe, cells: Sequence[Any], result: Encoded | EncodedByCodes) -> None:
    """Raise BadInput, by row and column, where cells are not what their column holds."""
    for k, mask in result.bad:
        row = int(np.flatnonzero(mask)[0])
        raise _other_type(recipe.columns[k], cells[k], f"row {row} is {cells[k][row]}")


def columns_of(rows: Any, names: Sequence[str]) -> Iterator[Any]:
    """Yield the columns of an Arrow table, each in one piece."""
    for name in names:
        column = rows.column(name)
        yield column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
