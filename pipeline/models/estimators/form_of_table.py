"""The form of an additive model of rows in memory: what was asked for, targets to choose by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import Encode, Encoding
from fewpass.pipeline.tables.additive.choosing import with_form
from fewpass.pipeline.tables.additive.forms import SPLINES
from fewpass.pipeline.tables.additive.of_table import asked_form, targets_in
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.encoding.applying import columns_of
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.solvers.bad_input import plainly, refusal

#: What the column of targets is called while rows are drawn.
TARGETS = "\0targets"


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
    if values.dtype.kind in "biuf":
        return pa.array(values.astype(np.float64))
    return pa.array([None if one is None else str(one) for one in values.tolist()])


def formed(
    recipe: Recipe, sample: Any, targets: Any, asked: AskedForm, seed: int, task: str
) -> Recipe:
    """Return a recipe with the curves and pairs that suit a sample, an Arrow table."""
    cells = targets.combine_chunks()
    if pa.types.is_null(cells.type):
        own, rows = None, sample
    else:
        own, has = targets_in(cells, "plain" if pa.types.is_float64(cells.type) else None, task)
        rows = sample.filter(pa.array(has))
    names = [column.name for column in recipe.columns]
    return with_form(recipe, [*columns_of(rows, names)], own, asked, seed).recipe
