"""Values of the functions of an additive model for rows, by their definition: an oracle."""

import numpy as np

from fewpass.pipeline.tables.encoding.additive_shapes import ColumnCurve, Surface


def values_of(function, variables):
    """Values (n,) of a curve, of a category's steps or of a surface for `VariablesOfRows`."""
    if isinstance(function, ColumnCurve):
        numbers = variables.numbers(function.variable)
        own = np.interp(numbers, function.grid, function.values[:-1])
        return np.where(np.isnan(numbers), function.values[-1], own)
    if isinstance(function, Surface):
        products = variables.products(function.table.a, function.table.b)
        return sum(a.share * b.share * function.values[a.level, b.level] for a, b in products)
    return function.values[variables.levels(function.variable).codes]
