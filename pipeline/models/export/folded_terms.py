"""Terms with their weights: a curve as straight lines, a function of two columns as a table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.terms import HatsTerm, KnotAxis, TableTerm


class LinesOfScores(NamedTuple):
    """Straight lines between points, for each score."""

    x: NDArray[np.float64]  # (m,) ascending
    heights: NDArray[np.float64]  # (m, K)


def lines_of(term: HatsTerm, coef: Any) -> LinesOfScores:
    """Return a curve, weighed by coef (K, d)."""
    spline = Spline(
        name="curve", column="curve", knots=term.knots, levels=term.levels, alpha=term.alpha
    )
    x = spline.kinks()
    heights = np.zeros((len(x), len(coef)))
    for column, value in spline.features(x):
        heights += coef[:, np.broadcast_to(term.at + column, len(x))].T * value[:, None]
    return LinesOfScores(x, heights)


def table_of(term: TableTerm, coef: Any) -> NDArray[np.float64]:
    """Return the weights (levels of a, levels of b, K) of a function of two columns."""
    places = np.array(term.places)
    weights: NDArray[np.float64] = term.scale * coef.T[term.at + np.maximum(places, 0)]
    return np.where((places < 0)[:, :, None], 0.0, weights)


def n_levels(term: TableTerm) -> int:
    """Return how many levels b has."""
    return len(term.places[0])


def is_number(axis: Any) -> bool:
    """Say whether an axis has two levels per row."""
    return isinstance(axis, KnotAxis)
