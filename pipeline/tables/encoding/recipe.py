"""A recipe: the encoding of every column of a table, fitted to a sample and applied to all rows.

Every column has one entry or a few in each row: a number in an output column of its own, a category
in that of its value.  A text has as many as it has words.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from fewpass.pipeline.decimal_text import NULL_VALUES
from fewpass.pipeline.tables.encoding.additive_recipe import Additive, described_additive
from fewpass.pipeline.tables.encoding.category_recipe import Category, Hashed
from fewpass.pipeline.tables.encoding.cells import hashable
from fewpass.pipeline.tables.encoding.column_recipe import OF_RECIPES, ColumnRecipe
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.identity_cache import cached_by_identity
from fewpass.pipeline.tables.encoding.lists import EmbeddingColumn, Tags
from fewpass.pipeline.tables.encoding.maps import Map
from fewpass.pipeline.tables.encoding.number_recipe import REACH, Bins, Number
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, PairCell
from fewpass.pipeline.tables.encoding.text_recipe import Text
from fewpass.storage.column_schema import FeatureRange

#: Stands between the values of two columns that are crossed.
_BETWEEN = " x "
#: Of members that most recipes lack.
_ABSENT = Field(exclude_if=lambda member: member is None)

AnyColumn = Annotated[
    Number | Bins | Category | Hashed | Text | Date | EmbeddingColumn | Tags | Map,
    Field(discriminator="kind"),
]


class Cross(BaseModel):
    """Pairs of the values of two columns, hashed."""

    model_config = OF_RECIPES

    of: tuple[str, str]
    """Names of the columns."""
    pairs: Hashed
    """The encoding of pairs; one with a missing value is missing."""

    def described(self) -> ColumnTerms:
        """Return the terms of a pair of cells, as plain data."""
        read = PairCell(between=_BETWEEN)
        return ColumnTerms(columns=self.of, read=read, terms=self.pairs.described().terms)


class Recipe(BaseModel):
    """The encoding of all columns of a table."""

    model_config = OF_RECIPES

    columns: tuple[AnyColumn, ...]
    crosses: tuple[Cross, ...] = ()
    additive: Annotated[Additive | None, _ABSENT] = None
    """Splines and pairs next to the columns; None: there are none."""
    null_values: Annotated[tuple[str, ...] | None, _ABSENT] = None
    """Words that stand for a missing one in columns of words and text; None: the usual ones."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the words that stand for a missing one in columns of words and text."""
        return NULL_VALUES if self.null_values is None else self.null_values

    @property
    def parts(self) -> tuple[ColumnRecipe, ...]:
        """Return the parts with output columns, in their order."""
        more = self.additive.parts if self.additive else ()
        return (*self.columns, *(cross.pairs for cross in self.crosses), *more)

    @property
    def term_columns(self) -> list[tuple[str, ...]]:
        """Return the columns of the source that each of `parts` is a function of."""
        own = [*((column.name,) for column in self.columns), *(cross.of for cross in self.crosses)]
        return [*own, *(part.columns for part in (self.additive.parts if self.additive else ()))]

    @property
    def outputs(self) -> list[str]:
        """Return the names of the output columns (d,)."""
        return [name for part in self.parts for name in part.outputs]

    @property
    def signs(self) -> NDArray[np.float64]:
        """Return 1 (d,); -1 where an output column falls with what it is named by."""
        return np.concatenate([part.signs for part in self.parts])

    def described(self) -> tuple[ColumnTerms, ...]:
        """Return the terms of a row, as plain data, in the order of `parts`."""
        first, all_of = 0, []
        for part in self.columns:
            all_of.append(part.described().behind(first, part.factor))
            first += part.width
        for cross in self.crosses:
            all_of.append(cross.described().behind(first, cross.pairs.factor))
            first += cross.pairs.width
        if self.additive is not None:
            columns = {column.name: column for column in self.columns}
            described = described_additive(self.additive, columns)
            for more, terms in zip(self.additive.parts, described, strict=True):
                all_of.append(terms.behind(first, more.factor))
                first += more.width
        return tuple(one.where_missing(self.missing) for one in all_of)

    @property
    def groups(self) -> tuple[FeatureRange, ...]:
        """Return the output columns of every column whose own are charged for together."""
        groups, first = [], 0
        for part in self.parts:
            if part.is_group and part.width > 1:
                groups.append(FeatureRange(first, part.width))
            first += part.width
        return tuple(groups)

    @property
    def layout(self) -> Literal["dense", "sparse"]:
        """Return the smaller layout of rows: a sparse value takes its index, too.

        With splines they are sparse, whose columns nobody scales: their sizes are the penalty.
        """
        if self.additive is not None:
            return "sparse"
        n_slots = sum(part.n_slots for part in self.parts)
        return "dense" if self.n_outputs <= 2 * n_slots else "sparse"

    @property
    def reach(self) -> float:
        """Return how many times the largest number of a column its line reaches; 1: none does."""
        numbers = (column for column in self.columns if isinstance(column, Number))
        return REACH if any(one.largest is not None for one in numbers) else 1.0

    @property
    def leaves_numbers(self) -> bool:
        """Return whether columns of numbers are as good without: no curve, no line that goes on."""
        return self.additive is None and self.reach == 1.0

    @property
    def n_outputs(self) -> int:
        """Return d."""
        return sum(part.width for part in self.parts)


@cached_by_identity
def terms_of(recipe: Recipe) -> tuple[ColumnTerms, ...]:
    """Return the description of a recipe."""
    return recipe.described()


def joined(one: Any, other: Any) -> Any:
    """Return the values of two columns together, an Arrow array of text."""
    between = pa.scalar(_BETWEEN, pa.large_string())
    return pc.binary_join_element_wise(hashable(one), hashable(other), between)
