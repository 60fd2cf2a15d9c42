"""Whole numbers that name things, such as persons and places: a feature for each of them.

A column of whole numbers of more than 32 values, two rows of each on average, may count or name.
It is tried as names where what its curve leaves differs between its values by more than chance, by
the statistic of pairs (interactions.py) on a table of one row, and where the halves of the rows
agree on it.  Held-out rows decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from fewpass.pipeline.tables.additive.interactions import (
    SIGNIFICANT,
    Binned,
    Codes,
    alone,
    holds,
    of_levels,
)
from fewpass.pipeline.tables.encoding.category_recipe import Category, in_order
from fewpass.pipeline.tables.encoding.cells import Floats, words_of
from fewpass.pipeline.tables.encoding.date_recipe import are_years
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.variables import Variable
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows

FEW_VALUES, ROWS_OF_VALUE = 32, 2
MOST_NAMES = 5_000  # of a column: the most frequent ones


def numbers_that_may_name(
    linear_recipe: Recipe, variables: VariablesOfRows, rows: Codes
) -> Iterator[tuple[str, Binned]]:
    """Yield columns of whole numbers that may be names, and the cell of each of some rows."""
    for column in linear_recipe.columns:
        if not isinstance(column, Number) or column.written != "plain" or column.n_words:
            continue
        values = variables.numbers(Variable(column.name))[rows]
        present = values[~np.isnan(values)]
        if len(present) <= FEW_VALUES or (present != np.round(present)).any():
            continue
        names, codes = np.unique(values, return_inverse=True, equal_nan=True)
        few_enough = FEW_VALUES < len(names) <= len(present) / ROWS_OF_VALUE
        if few_enough and not are_years(present):
            yield column.name, Binned(codes, len(names))


def columns_of_names(
    may_name: Sequence[tuple[str, Binned]], g: Floats, h: Floats, phis: Floats
) -> list[str]:
    """Return the columns whose values differ by more than chance, g and h (K, n) given."""
    chosen = []
    for name, values in may_name:
        is_much = of_levels(values, g, h, phis).z > SIGNIFICANT
        if is_much and holds(alone(values), values, g, h, phis, centred=False):
            chosen.append(name)
    return chosen


def as_names(linear_recipe: Recipe, cells: Sequence[Any], names: Sequence[str]) -> Recipe:
    """Return a recipe in which columns of numbers are words, one feature for each frequent one."""
    columns = tuple(
        _category(column.name, own) if column.name in names else column
        for column, own in zip(linear_recipe.columns, cells, strict=True)
    )
    return linear_recipe.model_copy(update={"columns": columns})


def _category(name: str, cells: Any) -> Category:
    counted = pc.value_counts(words_of(cells).drop_null())
    counts = counted.field("counts").to_numpy(zero_copy_only=False)
    words = counted.field("values").to_pylist()
    enough = sorted(
        (-int(count), word) for count, word in zip(counts, words, strict=True)
        if count >= ROWS_OF_VALUE
    )[:MOST_NAMES]  # fmt: skip
    share = round(float(cells.null_count) / max(1, len(cells)), 6)
    values = in_order(word for _, word in enough)
    return Category(name=name, values=values, missing_share=share)
