"""Knots of numbers by the quantiles of a sample."""

from __future__ import annotations

import math

import numpy as np

from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.variables import Variable
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows


def knots_of(present: Floats, parts: int) -> tuple[float, ...]:
    """Return the distinct quantiles 0, 1/parts, ..., 1 of numbers, or all of few distinct ones.

    A number that is several quantiles brings its neighbours, so that these may differ from it.
    """
    values = np.unique(present)
    if len(values) <= parts + 1:
        return tuple(values.tolist())
    shares = np.arange(parts + 1) / parts
    quantiles = np.quantile(present, shares, method="inverted_cdf")
    knots, times = np.unique(quantiles, return_counts=True)
    spikes = np.searchsorted(values, knots[times > 1])
    neighbours = np.concatenate([spikes - 1, spikes + 1])
    neighbours = values[neighbours[(neighbours >= 0) & (neighbours < len(values))]]
    return tuple(np.unique(np.concatenate([knots, neighbours])).tolist())


def fitted_splines(
    variables: VariablesOfRows, numbers: list[Variable], levels: int
) -> tuple[Spline, ...]:
    """Return a spline for every variable with more than two distinct numbers."""
    splines = []
    for variable in numbers:
        values = variables.numbers(variable)
        knots = knots_of(values[~np.isnan(values)], 1 << levels)
        if len(knots) > 2:
            own = min(levels, math.ceil(math.log2(len(knots) - 1)))
            splines.append(
                Spline(
                    name=f"{variable.title} curve", column=variable.column, part=variable.part,
                    knots=knots, levels=own, missing_as=variables.missing_as(variable),
                )
            )  # fmt: skip
    return tuple(splines)
