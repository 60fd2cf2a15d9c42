"""The form of an additive model, by rows of the sample that are held out.

    linear          the columns as they are encoded otherwise
    splines         piecewise linear functions of numbers
    pairs           and functions of the pairs that most is left to be explained by
    second round    and of more pairs, given the first ones

The form of the least loss at its best lam, the simpler one of equal ones.  Where there is a column
of dates the last fifth of the rows by it is held out; else a fifth drawn at random, or of few rows
each of five parts in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fewpass.pipeline.tables.additive.forms import (
    FORMS,
    LINEAR,
    PAIRS,
    SECOND,
    SPLINES,
    EncodedForm,
    FormSample,
    FormsCompared,
    FormTrial,
    Rows,
)
from fewpass.pipeline.tables.additive.interactions import binned
from fewpass.pipeline.tables.additive.pairing import named_pairs
from fewpass.pipeline.tables.additive.rules import MOST_COLUMNS, AskedForm, FormRules
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets
from fewpass.pipeline.tables.additive.shape_grids import with_masses
from fewpass.pipeline.tables.encoding.additive_recipe import ChosenForm, TriedForm
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.pair_tables import PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe

FEW_ROWS, FOLDS, SHARE = 5_000, 5, 5  # a fifth is held out, of few rows in turn
CHOICE = 61  # what a random generator is for
LEAST_HELD_OUT = 10


class Formed(NamedTuple):
    """A recipe, and how its form was chosen."""

    recipe: Recipe
    chosen: ChosenForm | None  # None: it was asked for, or there was nothing to choose


def with_form(
    today: Recipe, cells: Sequence[Any], targets: SampleTargets | None, asked: AskedForm, seed: int
) -> Formed:
    """Return a recipe with the splines and pairs that suit a sample.

    Parameters
    ----------
    today
        How columns are encoded without.
    cells
        The sample: an Arrow array (n,) for each column.
    targets
        Of its rows; None: there are none to choose by, and no pairs.
    asked
        What somebody asked for.
    seed
        Of the rows that are drawn.
    """
    rules = FormRules.of(len(cells[0]), len(today.columns), asked)
    explicit = asked.form == SPLINES or asked.knots is not None or asked.pairs is not None
    if not rules.levels or (len(today.columns) > MOST_COLUMNS and not explicit):
        return Formed(today, None)
    whole = FormSample.of(today, cells, rules)
    if asked.pairs is not None and not isinstance(asked.pairs, int):
        pairs = named_pairs(asked.pairs, whole.numbers, whole.categories)
        return _finished(whole, [whole.table(pair) for pair in pairs], None)
    if targets is None or asked.form == SPLINES:
        return _finished(whole, [], None)
    entries = sum(part.n_slots for part in whole.recipe().parts) + 4 * rules.rounds * rules.pairs
    rows = _drawn(len(cells[0]), asked.most_rows(entries), seed)
    fewer = whole if len(rows) == len(cells[0]) else whole._replace(
        cells=[of.take(pa.array(rows)) for of in cells]
    )  # fmt: skip
    if fewer is not whole:
        fewer = FormSample.of(today, fewer.cells, rules)._replace(splines=whole.splines)
    return _chosen(whole, fewer, targets.of(rows), asked, seed)


def _drawn(n: int, most: int, seed: int) -> Rows:
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, CHOICE]).choice(n, most, replace=False))


def _chosen(
    whole: FormSample, sample: FormSample, targets: SampleTargets, asked: AskedForm, seed: int
) -> Formed:
    """Compare the forms, and return the recipe of the best."""
    n = sample.n_rows
    bins = binned(sample.variables, sample.numbers, sample.categories, np.arange(n))
    linear = EncodedForm.of(sample.today, sample.cells)
    curved = EncodedForm.of(sample.recipe(), sample.cells)
    by, parts = held_out_parts(sample, seed)
    every = np.arange(n)
    trials = [
        FormTrial(sample, targets, bins, np.setdiff1d(every, part, assume_unique=True), part)
        for part in parts
    ]
    compared = [trial.compared(linear, curved) for trial in trials]
    scored = sum(len(part) for part in parts)
    candidates = _candidates(compared, scored)
    form = min(candidates, key=lambda one: (one.loss, FORMS.index(one.form))).form
    if isinstance(asked.pairs, int) and any(PAIRS in one.tried for one in compared):
        form = PAIRS
    first, second = compared[0].pairs
    if len(parts) > 1 and form in (PAIRS, SECOND):
        trial = FormTrial(sample, targets, bins, every, every[:LEAST_HELD_OUT])
        lam = next(one.lam for one in candidates if one.form == SPLINES)
        first, _ = trial.chosen(curved, trial.tried(curved, (lam,)), ())
        second = []
    chosen = ChosenForm(
        form=form, rows=n - len(parts[0]), held_out_rows=scored, held_out_by=by,
        candidates=tuple(candidates), looked_at=compared[0].looked_at,
    )  # fmt: skip
    if form == LINEAR:
        return Formed(whole.today, chosen)
    pairs = [*first, *second] if form == SECOND else first if form == PAIRS else []
    return _finished(whole, pairs, chosen)


def held_out_parts(sample: FormSample, seed: int) -> tuple[str | None, list[Rows]]:
    """Return the rows that are held out, one part after the other, and the dates they are by."""
    n = sample.n_rows
    for column, cells in zip(sample.today.columns, sample.cells, strict=True):
        if isinstance(column, Date):
            moments = column.moments(cells)
            order = np.argsort(np.where(np.isnan(moments), -np.inf, moments), kind="stable")
            if np.nanmin(moments) < np.nanmax(moments):
                return column.name, [np.sort(order[n - n // SHARE :])]
    order = np.random.default_rng([seed, CHOICE, 1]).permutation(n)
    if n < FEW_ROWS:
        return None, [np.sort(part) for part in np.array_split(order, FOLDS)]
    return None, [np.sort(order[: n // SHARE])]


def _candidates(compared: Sequence[FormsCompared], scored: int) -> list[TriedForm]:
    """Return what became of every form that all parts have, at its best lam of all parts."""
    candidates = []
    for form in FORMS:
        each = [one.tried[form] for one in compared if form in one.tried]
        if len(each) < len(compared):
            continue
        losses = np.sum([one.losses for one in each], axis=0)
        best = int(np.argmin(losses))
        candidates.append(
            TriedForm(
                form=form, features=each[0].features, loss=float(losses[best] / scored),
                lam=each[0].models.lams[best],
            )
        )  # fmt: skip
    return candidates


def _finished(whole: FormSample, pairs: Sequence[PairTable], chosen: ChosenForm | None) -> Formed:
    """Return the recipe with what shapes need, counted on all rows of the sample."""
    counted = [table.counted(whole.variables) for table in pairs]
    recipe = whole.recipe(counted)
    assert recipe.additive is not None, "it has splines"
    own = recipe.additive.model_copy(update={"chosen": chosen})
    made = with_masses(recipe.model_copy(update={"additive": own}), whole.variables)
    return Formed(made, chosen)
