"""Columns of words that a model may be better without.

A category of many levels, or a text, has many weights, charged like all others.  A lam small enough
for curves and pairs lets the weights of a column that says little, such as names of persons,
overfit.  Columns without whose weights held-out rows do not surely lose more are left out together
for a trial, and for good where these rows then lose less by more than one and a half standard
errors of the mean difference, and by a fiftieth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.recipe import Recipe

#: Why a column is left out.
NEEDLESS = "held-out rows are predicted better without it"
_KINDS = ("category", "hashed", "text", "tags", "map")
#: Features of a column that may be noise; columns that are tried, the widest first.
FEWEST_FEATURES, MOST_TRIED = 24, 3

#: By how much rows are to lose less without columns: in standard errors, and as a share.
ERRORS, LEAST_GAIN = 1.5, 0.02


def wide_columns(recipe: Recipe, wanted: Sequence[str]) -> list[tuple[str, slice]]:
    """Return the columns of words with many features, and where these are; the widest first.

    Not those that settings name, `wanted` or crossed, and never all columns.
    """
    crossed = {name for columns in recipe.term_columns if len(columns) > 1 for name in columns}
    wide = [
        (column.name, own)
        for column, own in _columns(recipe)
        if column.kind in _KINDS
        and column.width >= FEWEST_FEATURES
        and column.name not in crossed
        and column.name not in wanted
    ]
    most = min(MOST_TRIED, len(recipe.columns) - 1)
    return sorted(wide, key=lambda one: one[1].start - one[1].stop)[:most]


def _columns(recipe: Recipe) -> Iterator[tuple[Any, slice]]:
    start = 0
    for column in recipe.columns:
        yield column, slice(start, start + column.width)
        start += column.width


def is_better_without(losses: Floats, others: Floats) -> bool:
    """Return whether rows (n,) lose less without columns, surely and by a share that matters."""
    matters = others.mean() - losses.mean() > LEAST_GAIN * others.mean()
    return matters and is_surely_less(losses, others, ERRORS)


def is_surely_less(losses: Floats, others: Floats, errors: float = 1.0) -> bool:
    """Return whether rows (n,) or parts lose less, by over `errors` standard errors.

    Losses are times the rows' weights.  Not as PairedMean has it: rows may be ten and parts three,
    whose spread about their own mean is less than that about the true one (hence n - 1).
    """
    less = others - losses
    return bool(less.mean() > errors * less.std(ddof=1) / np.sqrt(len(less)))
