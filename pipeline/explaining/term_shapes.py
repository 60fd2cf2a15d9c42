"""What a column contributes to scores as a function of its value: curves, and bars.

The features of a column are a function of that column alone, so its contribution is one curve (of
numbers and days) or a bar for each value (of categories), whatever the other columns are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.explaining.contributions import TermWeights, Vector, mean_features
from fewpass.pipeline.explaining.score_terms import ScoreTerms, terms_of
from fewpass.pipeline.rows.scaling import Scaler, unscaled
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.applying import encode
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe, TypicalCells
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.protocol import Weights

Mask = NDArray[np.bool_]

#: Bars of a column whose output columns say more than its values, such as words of a text.
MOST_BARS = 20


class TermShape(NamedTuple):
    """What one column contributes at some of its values.

    Attributes
    ----------
    name
        Of the term.
    title
        Of the column, or of a part of it: the weekday of a date.
    kind
        `number`, `date` (seconds since 1970) or `bars`.
    points
        (n,) numbers, or names of bars.
    contributions
        (K, n) for each score, compared with the mean row.
    missing
        (K,) of a missing value; None where `points` has it.
    """

    name: str
    title: str
    kind: str
    points: Sequence[float] | Sequence[str]
    contributions: Vector
    missing: Vector | None = None


class ModelTerms(NamedTuple):
    """A model's terms and weights, for features as the recipe makes them."""

    recipe: Recipe
    terms: ScoreTerms
    coef: Vector  # (K, d)
    means: Vector  # (d,)

    @classmethod
    def of(cls, model: Model) -> ModelTerms | None:
        """Return those of a model; None where columns are numbers as they come, or rows scaled."""
        recipe = recipe_in(model.record.columns)
        if recipe is None or model.record.scaling.kind == "unit-rows":
            return None
        scaler = Scaler(model.record.scaling.kind, model.scale, model.shift)
        coef = np.atleast_2d(unscaled(model.weights, scaler).coef)
        means = mean_features(model)
        means = means if scaler.scale is None else means / scaler.scale
        means = means if scaler.shift is None else means + scaler.shift
        return cls(recipe, terms_of(model), coef, means)

    def shapes(self, term: int) -> list[TermShape]:
        """Return the curves and bars of a term; none of one of two columns."""
        columns = self.terms.columns[term]
        places = [k for k, column in enumerate(self.recipe.columns) if (column.name,) == columns]
        if not places:
            return []
        looks = self.recipe.columns[places[0]].typical_cells
        if not looks:
            return [self._largest(term)]
        if self.recipe.additive is not None:  # curves next to the column's own features
            looks = [looks[0]._replace(outputs=slice(None))]
        return [self._looked_at(term, places[0], look) for look in looks]

    def _looked_at(self, term: int, place: int, look: TypicalCells) -> TermShape:
        """Encode typical cells, all others missing, and see what the term makes of them."""
        used = self._used(term, place, look.outputs)
        shown = self._contributions(place, look.cells, used)
        title, name = look.title, self.terms.names[term]
        if look.at and isinstance(look.at[0], str):
            return TermShape(name, title, "bars", look.at, shown)
        nothing = self.recipe.columns[place].nothing(1)
        missing = self._contributions(place, nothing, self.terms.of == term)[:, 0]
        return TermShape(name, title, "date" if look.is_date else "number", look.at, shown, missing)

    def _used(self, term: int, place: int, outputs: slice) -> Mask:
        """Return which features (d,) are looked at: all of a term, or a part of its column's."""
        if outputs == slice(None):
            return np.asarray(self.terms.of == term)
        first = sum(column.width for column in self.recipe.columns[:place])
        used = np.zeros(len(self.terms.of), np.bool_)
        used[first + outputs.start : first + outputs.stop] = True
        return used

    def _contributions(self, place: int, cells: pa.Array, used: Mask) -> Vector:
        """Return what the features `used` contribute, (K, n)."""
        n = len(cells)
        table = [column.nothing(n) for column in self.recipe.columns]
        table[place] = cells
        data, indices, indptr = encode(self.recipe, table).sparse(np.float64)
        rows = SparseRows(data, indices.view(f"u{indices.itemsize}"), indptr)
        weights = np.where(used, self.coef, 0.0)
        of = np.zeros(len(used), np.int64)
        means = (weights @ self.means)[:, None]
        at = TermWeights(Weights(weights, np.zeros(len(weights))), of, means)
        return at.contributions(rows)[:, :, 0].T

    def _largest(self, term: int) -> TermShape:
        """Return the largest weights of a term's features, which are those of its words."""
        own = np.flatnonzero(self.terms.of == term)
        first = int(own[0])
        part = self._part(first)
        coef = self.coef[:, own] * part.signs
        order = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:MOST_BARS]
        names, name = part.outputs, self.terms.names[term]
        return TermShape(name, name, "bars", [names[int(j)] for j in order], coef[:, order])

    def _part(self, first: int) -> ColumnRecipe:
        starts = np.cumsum([0, *(part.width for part in self.recipe.parts)])
        return self.recipe.parts[int(np.searchsorted(starts, first))]
