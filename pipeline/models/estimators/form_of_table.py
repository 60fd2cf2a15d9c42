"""The form of an additive model of rows in memory: what was asked for, targets to choose by."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import Encode, Encoding
from fewpass.pipeline.tables.additive.choosing import Formed, with_form
from fewpass.pipeline.tables.additive.of_table import asked_form, targets_in, weighted
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.additive.trials import SPLINES
from fewpass.pipeline.tables.encoding.applying import columns_of
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.solvers.bad_input import plainly, refusal

#: What the columns of targets and weights are called while rows are drawn.
TARGETS, WEIGHTS = "\0targets", "\0weights"


class OwnTargets(NamedTuple):
    """Targets of a sample, and the weights of its rows."""

    cells: Any  # Arrow array (n,)
    weight: Any  # (n,); None: all count the same


def that_count(rows: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return the rows of an Arrow table whose weight is not 0, their targets and weights.

    As they are where all weigh something, where none does, and what is refused later.
    """
    n = rows.num_rows
    if weight is None or np.shape(weight) != (n,) or (y is not None and np.shape(y) != (n,)):
        return rows, y, weight
    counts = np.asarray(weight) != 0
    if counts.all() or not counts.any():
        return rows, y, weight
    targets = None if y is None else np.asarray(y)[counts]
    return rows.filter(pa.array(counts)), targets, np.asarray(weight)[counts]


def with_targets(rows: Any, y: Any, weight: Any, asked: AskedForm) -> Any:
    """Return an Arrow table with columns of targets and of weights."""
    rows = rows.append_column(TARGETS, target_cells(y, rows.num_rows, asked))
    if weight is None or np.shape(weight) != (rows.num_rows,):  # which is refused later
        return rows
    return rows.append_column(WEIGHTS, pa.array(np.asarray(weight, np.float64)))


def without_targets(sample: Any) -> tuple[Any, OwnTargets]:
    """Return a sample without the columns of `with_targets`, and these."""
    names = [name for name in (TARGETS, WEIGHTS) if name in sample.column_names]
    columns = [sample.column(name).combine_chunks() for name in names]
    weight = columns[1].to_numpy(zero_copy_only=False) if len(columns) > 1 else None
    return sample.drop_columns(names), OwnTargets(columns[0], weight)


def form_asked(additive: Any, pairs: Any, knots: Any, pair_bins: Any) -> AskedForm | None:
    """Return what the parameters of an encoder ask for; None: no additive model."""
    if additive is False or additive is None:
        if pairs is not None or knots is not None or pair_bins is not None:
            raise ValueError(
                "pairs, knots and pair_bins are of additive models. Give additive=True, too."
            )
        return None
    if additive is not True and additive != SPLINES:
        raise ValueError(f"additive is {additive!r}. Give True, False or {SPLINES!r}.")
    encode: Encode = "additive" if additive is True else "splines"
    try:
        return asked_form(Encoding(encode=encode, pairs=pairs, knots=knots, pair_bins=pair_bins))
    except ValidationError as error:
        raise ValueError(refusal(error, Encoding, plainly)) from error


def target_cells(y: Any, n: int, asked: AskedForm) -> Any:
    """Return targets as an Arrow array (n,); nothing where none are needed."""
    if y is None:
        named = asked.pairs is not None and not isinstance(asked.pairs, int)
        if asked.form != SPLINES and not named:
            raise ValueError(
                "additive=True chooses pairs by the targets, and y is None. Give y, name the pairs "
                f"(pairs), or take additive={SPLINES!r}."
            )
        return pa.nulls(n)
    values = np.asarray(y)
    if values.shape != (n,):
        raise BadInput(f"y has the shape {values.shape}, and X has {n} rows. Give one of each row.")
    if values.dtype.kind in "biuf" or _are_numbers(values):
        return pa.array(values.astype(np.float64))
    return pa.array([None if one is None else str(one) for one in values.tolist()])


def _are_numbers(targets: Any) -> bool:
    """Return whether targets (n,) of Python's own types are numbers, or missing."""
    return targets.dtype.kind == "O" and all(
        one is None or isinstance(one, int | float | Decimal) for one in targets.tolist()
    )


def formed(
    recipe: Recipe, sample: Any, targets: OwnTargets, asked: AskedForm, seed: int, task: str
) -> Formed:
    """Return a recipe with the form that suits a sample, an Arrow table."""
    cells, weight = targets
    if pa.types.is_null(cells.type):
        own, rows = None, sample
    else:
        own, has = targets_in(cells, "plain" if pa.types.is_float64(cells.type) else None, task)
        rows = sample.filter(pa.array(has))
        own = weighted(own, None if weight is None else weight[has])
    names = [column.name for column in recipe.columns]
    return with_form(recipe, [*columns_of(rows, names)], own, asked, seed)
