"""Faults of a recipe whose parts do not fit: columns that are not there, functions of other kinds.

Each part is checked where it is made (pydantic); what one says of another is checked here, when a
recipe is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.additive_shapes import grid_of, shape_variables
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.date_parts import LEVELS_OF
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.variables import Variable, level_names


def faults_in(recipe: Recipe, names: Sequence[str] | None) -> Iterator[str]:
    """Yield the faults of a recipe of columns of these names; None: they have none."""
    own = [column.name for column in recipe.columns]
    if names is not None and own != [*names]:
        wrong = next((a, b) for a, b in zip(own, names, strict=True) if a != b)
        yield f"it names column {shown_name(wrong[0])} where {shown_name(wrong[1])} was expected"
        return
    for cross in recipe.crosses:
        for name in cross.of:
            if name not in own:
                yield f"crosses names column {shown_name(name)}, which it has not"
    if recipe.additive is not None:
        yield from _faults_of_functions(recipe, recipe.additive)


def _faults_of_functions(recipe: Recipe, additive: Additive) -> Iterator[str]:
    columns = {column.name: column for column in recipe.columns}
    faults = [
        f"{where} is a function of {Variable(axis.column, axis.part).title!r:.80}, which is no "
        f"{'number' if is_number else 'category'} of its columns"
        for where, axis, is_number in _axes(additive)
        if not _is_variable(columns.get(axis.column), axis.part, is_number=is_number)
    ]
    yield from faults or _faults_of_masses(recipe, additive)


def _axes(additive: Additive) -> Iterator[tuple[str, Any, bool]]:
    """Yield what functions are of, where each stands, and whether it is a number."""
    for k, spline in enumerate(additive.splines):
        yield f"additive.splines.{k}", spline, True
    for k, pair in enumerate(additive.pairs):
        for name, axis in (("a", pair.a), ("b", pair.b)):
            yield f"additive.pairs.{k}.{name}", axis, axis.kind == "hats"


def _is_variable(column: Any, part: str, *, is_number: bool) -> bool:
    if isinstance(column, Date):
        return part != "" and (part in LEVELS_OF) is not is_number
    return isinstance(column, Number if is_number else Category) and part == ""


def _faults_of_masses(recipe: Recipe, additive: Additive) -> Iterator[str]:
    """Yield counts of the sample that are not those of a variable's points, or of its levels."""
    columns = {column.name: column for column in recipe.columns}
    each = zip(shape_variables(recipe), chain(additive.masses, repeat(())), strict=False)
    for (variable, is_number), masses in each:
        wanted = (
            len(grid_of(recipe, variable)) + 1
            if is_number
            else len(level_names(columns[variable.column], variable.part))
        )
        if len(masses) != wanted or not (np.isfinite(masses).all() and min(masses) >= 0.0):
            yield (
                f"additive.masses of {shown_name(variable.title)} has "
                f"{counted(len(masses), 'count')}, where {wanted} of at least 0 were expected"
            )
