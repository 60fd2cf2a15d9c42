"""Rows by which the form of an additive model is chosen, and their features under a recipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.tables.additive.interactions import (
    FINER_LEVELS,
    LEVELS,
    Interaction,
    VariablesInCells,
)
from fewpass.pipeline.tables.additive.knots import fitted_splines
from fewpass.pipeline.tables.additive.numbered_names import as_names
from fewpass.pipeline.tables.additive.pairing import pair_axes, pair_table
from fewpass.pipeline.tables.additive.rules import FormRules
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets, rows_of
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.applying import by_terms
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.expansion import expansion_of, has_codes
from fewpass.pipeline.tables.encoding.expansion_steps import Code
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.pair_tables import PairSelection, PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.variables import Variable, variables_of
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows
from fewpass.storage.table import SparseTable

Rows = NDArray[np.int64]
Part = tuple[Rows, Rows]  # rows that a form is learnt from, and held-out ones


class EncodedForm(NamedTuple):
    """All rows under a recipe, with the features that some row has: of hashes that is a few."""

    table: SparseTable
    present: NDArray[np.int64]  # (d,) which of the recipe's features there are, ascending
    features: int  # of the recipe

    @classmethod
    def of(
        cls, recipe: Recipe, cells: Sequence[Any], codes: dict[Code, Floats] | None = None
    ) -> EncodedForm:
        """Encode rows as an ingest stores them; `codes` are those of the same rows before."""
        if has_codes(recipe):
            expansion = expansion_of(recipe)
            own = expansion.codes_of(cells, {} if codes is None else codes)
            data, indices, indptr = expansion.csr(own, np.float32)
        else:
            data, indices, indptr = by_terms(recipe, cells).sparse(np.float32)
        n_rows, n_outputs = len(cells[0]), recipe.n_outputs
        is_present = np.bincount(indices, minlength=n_outputs) > 0
        present = np.flatnonzero(is_present)
        places = (np.cumsum(is_present) - 1).astype(indices.dtype)[indices]
        table = SparseTable(data, places, indptr, np.zeros(n_rows), None)
        return cls(table, present, n_outputs)

    @property
    def d(self) -> int:
        """Number of features that models are made of."""
        return max(1, len(self.present))

    def own(self, start: int, stop: int) -> slice:
        """Return where those of the recipe's features from `start` to `stop` are."""
        first, last = np.searchsorted(self.present, (start, stop))
        return slice(int(first), int(last))

    def seen(self, rows: Rows) -> Any:
        """Return some rows as kernels see them."""
        return row_view(rows_of(self.table, rows))


@dataclass(frozen=True)
class FormSample:
    """Rows by which a form is chosen, and the splines and pairs that they may have.

    Those that forms are compared on are drawn from a `whole` sample, and have targets and parts
    that are held out.
    """

    linear_recipe: Recipe
    cells: Sequence[Any]  # Arrow arrays (n,), of its columns
    variables: VariablesOfRows
    numbers: list[Variable]
    categories: list[Variable]
    splines: tuple[Spline, ...]
    rules: FormRules
    left_out: Collection[Variable]  # parts of dates that have neither splines nor pairs
    whole: FormSample | None = None
    drawn: Rows | None = None  # rows of the whole
    given: SampleTargets | None = None
    parts: tuple[Part, ...] = ()
    held_out_by: str | None = None  # a column of dates; None: at random
    groups_of: str | None = None  # a column whose groups are held out as a whole

    @classmethod
    def of(
        cls, linear_recipe: Recipe, cells: Sequence[Any], rules: FormRules,
        left_out: Collection[Variable] = (),
    ) -> FormSample:  # fmt: skip
        """Fit splines to the numbers."""
        variables = VariablesOfRows(linear_recipe.columns, cells)
        every = variables_of(linear_recipe.columns)
        numbers, categories = ([one for one in own if one not in left_out] for own in every)
        splines = fitted_splines(variables, numbers, rules.levels)
        return cls(linear_recipe, cells, variables, numbers, categories, splines, rules, left_out)

    @property
    def n_rows(self) -> int:
        return self.variables.n_rows

    @property
    def has_text(self) -> bool:
        """Return whether a column is text, whose words are thousands of features."""
        return any(column.kind == "text" for column in self.linear_recipe.columns)

    @property
    def targets(self) -> SampleTargets:
        """Return those that forms are compared by."""
        assert self.given is not None, "forms are compared by targets"
        return self.given

    @cached_property
    def curved(self) -> EncodedForm:
        """The rows with splines."""
        return self.encoded(self.recipe())

    @cached_property
    def codes(self) -> dict[Code, Floats]:
        """Codes of the rows, which are read once for all forms."""
        return {}

    def encoded(self, recipe: Recipe) -> EncodedForm:
        """Return the rows under a recipe of the same columns."""
        return EncodedForm.of(recipe, self.cells, self.codes)

    @cached_property
    def variables_in_cells(self) -> VariablesInCells:
        """The variables as pairs are measured, all rows."""
        return VariablesInCells.of(self.variables, self.numbers, self.categories)

    def some(self, rows: Rows) -> FormSample:
        """Return some of the rows, with the splines of all."""
        if len(rows) == self.n_rows:
            return replace(self, whole=self, drawn=rows)
        cells = [of.take(pa.array(rows)) for of in self.cells]
        some = FormSample.of(self.linear_recipe, cells, self.rules, self.left_out)
        return replace(some, splines=self.splines, whole=self, drawn=rows)

    def with_names(self, names: Sequence[str]) -> FormSample:
        """Return the same with columns of numbers as words."""
        whole = self._whole
        named = as_names(whole.linear_recipe, whole.cells, names)
        return self._of_columns(named, whole.cells)

    def without(self, names: Sequence[str]) -> FormSample:
        """Return the same without some columns."""
        whole = self._whole
        each = zip(whole.linear_recipe.columns, whole.cells, strict=True)
        columns, cells = zip(*(one for one in each if one[0].name not in names), strict=True)
        return self._of_columns(whole.linear_recipe.model_copy(update={"columns": columns}), cells)

    def _of_columns(self, linear_recipe: Recipe, cells: Sequence[Any]) -> FormSample:
        """Return the same rows, targets and parts with other columns; `cells` are of the whole."""
        assert self.drawn is not None, "rows were drawn"
        some = FormSample.of(linear_recipe, cells, self.rules, self.left_out).some(self.drawn)
        own = {name: getattr(self, name) for name in ("given", "parts", "held_out_by", "groups_of")}
        return replace(some, **own)

    @property
    def _whole(self) -> FormSample:
        return self if self.whole is None else self.whole

    def recipe(self, pairs: Sequence[PairTable] = ()) -> Recipe:
        """Return the recipe with splines and pairs; splines replace ranks and logarithms."""
        gone = {"rank": None, "lowest": None, "log": None}
        columns = tuple(
            column.model_copy(update=gone) if isinstance(column, Number) else column
            for column in self.linear_recipe.columns
        )
        own = Additive(splines=self.splines, pairs=tuple(pairs), rows=self.n_rows)
        return self.linear_recipe.model_copy(update={"columns": columns, "additive": own})

    def table(
        self, pair: Interaction | tuple[Variable, Variable], *, finer: bool = False
    ) -> PairTable:
        """Return the table of a pair."""
        selection = None
        if isinstance(pair, Interaction):
            selection = PairSelection(score=pair.score, z=pair.z, df=pair.df)
        variables = (pair[0], pair[1])
        axes = self._axes(variables, finer=finer)
        return pair_table(variables, axes, self.variables, selection)

    def _axes(self, pair: tuple[Variable, Variable], *, finer: bool) -> tuple[Any, Any]:
        rules = self.rules
        bins, most = (rules.finer_bins, FINER_LEVELS) if finer else (rules.bins, LEVELS)
        return pair_axes(pair, self.numbers, self.variables, bins, most, rules.bins)

    def may_be_finer(self, table: PairTable) -> bool:
        """Return whether the table of a pair would have other axes with more bins."""
        return self._axes(table.of, finer=True) != (table.a, table.b)

    def tables(self, pairs: Sequence[Interaction], before: Sequence[PairTable]) -> list[PairTable]:
        """Return the tables of pairs, as many as there may be cells; again ones are finer."""
        left = self.rules.most_cells - sum(part.width for part in (*self.splines, *before))
        taken = [table.of for table in before]
        tables = []
        for pair in pairs:
            table = self.table(pair, finer=(pair.a, pair.b) in taken)
            left -= table.width
            if left < 0:
                break
            tables.append(table)
        return tables
