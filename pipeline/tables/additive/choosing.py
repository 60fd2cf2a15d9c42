"""The form of an additive model, by rows of the sample that are held out.

    linear              the columns as they are encoded otherwise
    splines             piecewise linear functions of numbers
    numbers as names    and whole numbers that name things with a feature each
    pairs               and functions of the pairs that most is left to be explained by, upon
                        splines or, where these were surely better, upon names: what loses less
    second round        and of more pairs, given the first ones, or of these in finer cells

and all of these once more without columns of words that say nothing (noise_columns.py).  Next to
text, whose thousands of words are fitted each time, a fifth of the rows is held out once, neither
names nor fewer columns are tried, and pairs for a single score alone.
The form of the least loss at its best lam, the simpler one of equal ones.  Which rows are held out:
trials.py.  Where curves are tried unasked, or rows are too few for pairs, another form than
linear must be better by more than a standard error of the difference, row by row; and, unasked,
where there are dates, in every period (time_folds.py).  Where rows are learnt from once, pairs stay
if a method of one pass loses less with them, before each row of the sample is learnt from.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.passes.blas import one_blas_thread
from fewpass.pipeline.tables.additive.form_sample import FormSample
from fewpass.pipeline.tables.additive.lines_beyond import with_lines_beyond
from fewpass.pipeline.tables.additive.noise_columns import (
    is_better_without,
    is_surely_less,
    wide_columns,
)
from fewpass.pipeline.tables.additive.pairing import named_pairs
from fewpass.pipeline.tables.additive.row_groups import RowGroups, column_of_groups
from fewpass.pipeline.tables.additive.rules import MOST_COLUMNS, AskedForm, FormRules
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets, progressive_loss
from fewpass.pipeline.tables.additive.smoothing import smoothed
from fewpass.pipeline.tables.additive.time_folds import (
    RowsInTime,
    is_better_at_all_times,
    parts_gone_beyond,
)
from fewpass.pipeline.tables.additive.trials import (
    FORMS,
    LINEAR,
    NAMES,
    PAIRS,
    SECOND,
    SPLINES,
    FormTrial,
    drawn_rows,
    held_out_parts,
    losses_without,
    names_of_things,
    tables_of_pairs,
    with_pairs,
)
from fewpass.pipeline.tables.encoding.additive_recipe import ChosenForm
from fewpass.pipeline.tables.encoding.additive_shapes import grid_of, shape_variables
from fewpass.pipeline.tables.encoding.apply_terms import between_knots
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.pair_tables import PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows

#: Text, several scores and five folds in time took 48 s for 25, and no table of two had curves.
TOO_MUCH = (
    "next to text and dates, and for more than two labels, they are tried where rows are held out "
    "at random (`test_fraction=0.2`)"
)
#: Deviations that plain numbers are from their mean, at most, where forms are compared.
FARTHEST = 1e30
OF_ONE_GROUP = "whole groups are held out to choose by, and rows are of one"

#: Rows below which each part is held out in turn; of several scores, which take longer, fewer.
FEW_ROWS, FEW_OF_CLASSES = 10_000, 5_000
MOST_IN_TURN = 5_000_000  # entries of the rows times scores: of more, one part is held out


class Formed(NamedTuple):
    """A recipe, and how its form was chosen."""

    recipe: Recipe
    chosen: ChosenForm | None  # None: it was asked for, or there was nothing to choose
    left_out: tuple[str, ...] = ()  # columns that rows are better predicted without
    row_losses: Floats = np.zeros(0)  # of held-out rows
    refuted_by: str | None = None  # a column of dates by which the chosen form is not better
    why_linear: str = ""  # where no form was compared
    alike_by: str | None = None  # a column by whose groups the others differ
    sample: FormSample | None = None  # that the chosen form was tried on

    def smoothed(self) -> Formed:
        """Return the same with strengths for each part, where held-out rows lose less by these."""
        if self.sample is None or self.chosen is None or self.recipe.additive is None:
            return self
        with one_blas_thread():
            own = smoothed(self.recipe, self.sample, self.chosen.best.lam)
        if own is None:
            return self
        chosen = self.chosen.model_copy(update={"smoothing": own.share})
        return self._replace(recipe=_recording(own.recipe, chosen), chosen=chosen)

    def agreed_by(self, date: str) -> Formed:
        """Return the same, with the column by whose every fifth it is better than linear."""
        assert self.chosen is not None, "forms were compared"
        chosen = self.chosen.model_copy(update={"agreed_by": date})
        return self._replace(recipe=_recording(self.recipe, chosen), chosen=chosen)


def with_form(
    linear_recipe: Recipe, cells: Sequence[Any], targets: SampleTargets | None, asked: AskedForm,
    seed: int, groups: RowGroups | None = None,
) -> Formed:  # fmt: skip
    """Return a recipe with the splines and pairs that suit a sample.

    Parameters
    ----------
    linear_recipe
        How columns are encoded without.
    cells
        The sample: an Arrow array (n,) for each column.
    targets
        Of its rows; None: there are none to choose by, and no pairs.
    asked
        The form that settings ask for.
    seed
        Of the rows that are drawn.
    groups
        Groups that are held out as a whole, also to evaluate on; None: rows are.
    """
    rules = FormRules.of(len(cells[0]), len(linear_recipe.columns), asked)
    if asked.unasked and targets is None:
        return Formed(
            linear_recipe, None, why_linear="targets are of one value, or too many labels"
        )
    explicit = asked.form == SPLINES or asked.knots is not None or asked.pairs is not None
    if not rules.levels or (len(linear_recipe.columns) > MOST_COLUMNS and not explicit):
        return Formed(linear_recipe, None, why_linear="there are too few rows, or too many columns")
    rows = drawn_rows(len(cells[0]), asked.most_rows(len(cells)), seed)
    linear_recipe = with_lines_beyond(linear_recipe, cells, targets, rows)
    if asked.pairs is not None and not isinstance(asked.pairs, int):
        whole = FormSample.of(linear_recipe, cells, rules)
        pairs = named_pairs(asked.pairs, whole.numbers, whole.categories)
        return _finished(whole, [whole.table(pair) for pair in pairs], None)
    left_out = [] if asked.at_random else parts_gone_beyond(linear_recipe, cells)
    whole = FormSample.of(linear_recipe, cells, rules, left_out)
    if asked.unasked and not (whole.splines or len(whole.categories) > 1):
        return Formed(linear_recipe, None, why_linear="no column is a number that differs")
    if targets is None or asked.form == SPLINES:
        return _finished(whole, [], None)
    formed = _compared(whole, targets, asked, seed, groups)
    return formed if asked.one_pass else formed.smoothed()


def _compared(
    whole: FormSample, targets: SampleTargets, asked: AskedForm, seed: int,
    groups: RowGroups | None,
) -> Formed:  # fmt: skip
    """Return the best form of a sample, by some of its rows."""
    rules, linear_recipe = whole.rules, whole.linear_recipe
    entries = sum(part.n_slots for part in whole.recipe().parts) + 4 * rules.rounds * rules.pairs
    rows = drawn_rows(whole.n_rows, asked.most_rows(entries), seed)
    few = FEW_ROWS if targets.classes <= 2 else FEW_OF_CLASSES
    scores = targets.classes if targets.classes > 2 else 1
    few = few if entries * len(rows) * scores <= MOST_IN_TURN and not whole.has_text else 0
    if whole.has_text and scores > 1:
        whole = replace(whole, rules=rules._replace(pairs=0))
    sample = whole.some(rows)
    groups = groups and groups.of(rows)
    if groups and groups.are_one:
        if asked.unasked:
            return Formed(linear_recipe, None, why_linear=OF_ONE_GROUP)
        groups = None
    by_days = not (asked.at_random or groups)
    in_time = None if not by_days else RowsInTime.of(linear_recipe, sample.cells)
    if in_time is not None and asked.unasked and whole.has_text and scores > 1:
        return Formed(linear_recipe, None, why_linear=TOO_MUCH)
    by_any = asked.unasked and (in_time is None or in_time.are_of_whole_years)
    later = None if by_any else in_time
    parts = groups.parts(seed, few) if groups else held_out_parts(
        len(rows), seed, few, later and later.last
    )  # fmt: skip
    sample = replace(
        sample, given=targets.of(rows), held_out_by=later and later.by, parts=parts,
        groups_of=groups and groups.by,
    )  # fmt: skip
    if in_time is not None and asked.unasked:
        return _best_at_all_times(sample, asked, in_time)
    formed = _best_of_columns(sample, asked)
    return formed._replace(alike_by=column_of_groups(sample)) if by_days else formed


def _best_at_all_times(sample: FormSample, asked: AskedForm, in_time: RowsInTime) -> Formed:
    """Return the best form that is better than linear at all times, with pairs or without."""
    curves = replace(sample, rules=sample.rules._replace(pairs=0))
    for tried in (sample, curves):
        formed = _best_of_columns(tried, asked)
        if formed.recipe.additive is None:
            return formed
        if is_better_at_all_times(formed.recipe, sample, in_time):
            return formed.agreed_by(in_time.by)
        if not formed.recipe.additive.pairs:
            break  # it would be the best once more
    return Formed(sample.linear_recipe, formed.chosen, refuted_by=in_time.by)


def _best_of_columns(sample: FormSample, asked: AskedForm) -> Formed:
    """Return the recipe of the best form, of all columns or without those that say nothing.

    Curves say which.
    """
    simple = _simple_forms(sample, asked)
    noise = _noise(simple[-1], asked)
    if noise:
        fewer = _simple_forms(sample.without(noise), asked)
        if is_better_without(fewer[-1].row_losses, simple[-1].row_losses):
            best = _best_form(fewer, asked)._replace(left_out=tuple(noise))
            return best if best.recipe.additive else _best_form(simple, asked)
    return _best_form(simple, asked)


def _simple_forms(sample: FormSample, asked: AskedForm) -> list[FormTrial]:
    """Try the forms without names and pairs: linear, and with splines."""
    recipe = sample.linear_recipe
    recipe = as_they_are(recipe) if asked.plain and recipe.leaves_numbers else recipe
    linear = sample.encoded(recipe)
    return [
        FormTrial.of(LINEAR, sample, linear, sample.parts),
        FormTrial.of(SPLINES, sample, sample.curved, sample.parts),
    ]


def _noise(splines: FormTrial, asked: AskedForm) -> list[str]:
    """Return columns of words without whose weights held-out rows do not surely lose more."""
    sample, with_all = splines.sample, splines.row_losses
    if sample.has_text:
        return []
    return [
        name
        for name, own in wide_columns(sample.recipe(), asked.wanted)
        if not is_surely_less(with_all, losses_without(splines, sample.curved, own))
    ]


def _best_form(simple: list[FormTrial], asked: AskedForm) -> Formed:
    """Return the best form of columns: with pairs upon curves, or upon names if these pay."""
    splines = simple[-1]
    names = [] if splines.sample.has_text else names_of_things(splines, asked.wanted)
    if not names:
        return _best_with_pairs(splines, simple, asked)
    named = splines.sample.with_names(names)
    by_names = FormTrial.of(NAMES, named, named.curved, named.parts)
    tried = [*simple, by_names]
    curved = _best_with_pairs(splines, tried, asked)
    if not by_names.is_surely_better(splines):
        return curved
    # Names have no order, so pairs with them are of levels, which takes more rows than curves do:
    # whether they stay is decided with pairs.
    ways = (_best_with_pairs(by_names, tried, asked), curved)
    return min(ways, key=lambda way: way.chosen.loss if way.chosen else np.inf)


def _best_with_pairs(base: FormTrial, simple: list[FormTrial], asked: AskedForm) -> Formed:
    """Return the best of the forms without pairs, and of pairs next to one of these."""
    paired, of_rounds, n_pairs = with_pairs(base)
    tried = [*simple, *paired]
    best = _least_loss(base, tried, asked)
    pairs: dict[str, list[PairTable]] = {}
    progressive: dict[str, float] = {}
    if best.form in (PAIRS, SECOND):
        pairs = {base.form: []} | tables_of_pairs(base, paired, of_rounds)
        if asked.one_pass:
            progressive = _in_one_pass(base.sample, tried, pairs)
            own = [one for one in tried if one.form in progressive]
            best = min(own, key=lambda one: progressive[one.form])
    chosen = _chosen(best, tried, progressive, n_pairs)
    if best.form == LINEAR:
        return Formed(best.sample.linear_recipe, chosen, row_losses=best.row_losses)
    made = _finished(best.sample.whole or best.sample, pairs.get(best.form, []), chosen)
    return made._replace(row_losses=best.row_losses, sample=best.sample)


def _least_loss(base: FormTrial, tried: Sequence[FormTrial], asked: AskedForm) -> FormTrial:
    """Return the form of the least loss; linear, where little is gained and little is certain.

    Names that were tried are none of them where the base is curves.
    """
    pairs = [one for one in tried if one.form == PAIRS]
    if isinstance(asked.pairs, int) and pairs:
        return pairs[0]
    linear = tried[0]
    forms = [one for one in tried if one.form != NAMES or base.form == NAMES]
    records = [one.recorded(linear) for one in forms]
    k = min(range(len(forms)), key=lambda k: (records[k].loss, FORMS.index(forms[k].form)))
    least = asked.errors(base.sample.n_rows) * records[k].deviation
    return forms[k] if records[0].loss - records[k].loss > least else linear


def _in_one_pass(
    sample: FormSample, tried: Sequence[FormTrial], pairs: dict[str, list[PairTable]]
) -> dict[str, float]:
    """Return the progressive losses of the forms that have these pairs."""
    losses = {}
    for one in tried:
        if one.form in pairs:
            made = sample.encoded(sample.recipe(pairs[one.form]))
            losses[one.form] = progressive_loss(made.table, made.d, sample.targets, one.lam)
    return losses


def _chosen(
    best: FormTrial, tried: Sequence[FormTrial], progressive: dict[str, float], n_pairs: int
) -> ChosenForm:
    """Return the record of a choice in recipes."""
    sample = best.sample
    return ChosenForm(
        form=best.form, rows=len(sample.parts[0][0]),
        held_out_rows=sum(len(scored) for _, scored in sample.parts),
        held_out_by=sample.held_out_by, groups_of=sample.groups_of,
        candidates=tuple(one.recorded(tried[0], progressive.get(one.form)) for one in tried),
        looked_at=n_pairs, measure=sample.targets.measure,
    )  # fmt: skip


def as_they_are(recipe: Recipe) -> Recipe:
    """Return a recipe of numbers that are standardised and nothing more, as plain ones are."""
    columns = (_as_it_is(one) if isinstance(one, Number) else one for one in recipe.columns)
    return recipe.model_copy(update={"columns": tuple(columns)})


def _as_it_is(column: Number) -> Number:
    """Return a number standardised alone; only what is no float32 then is clipped."""
    largest, far = sys.float_info.max, FARTHEST * column.deviation
    ends = max(-largest, column.mean - far), min(largest, column.mean + far)
    usual = {"low": ends[0], "high": ends[1], "rank": None, "lowest": None, "log": None}
    return column.model_copy(update=usual)


def _finished(whole: FormSample, pairs: Sequence[PairTable], chosen: ChosenForm | None) -> Formed:
    """Return the recipe with what shapes need, counted on all rows of the sample."""
    counted = [whole.variables.counted(table) for table in pairs]
    made = with_masses(_recording(whole.recipe(counted), chosen), whole.variables)
    return Formed(made, chosen)


def with_masses(recipe: Recipe, variables: VariablesOfRows) -> Recipe:
    """Return a recipe with the rows of a sample at every point of every variable, missing last."""
    assert recipe.additive is not None, "asked before"
    masses = []
    for variable, is_number in shape_variables(recipe):
        if is_number:
            grid, numbers = grid_of(recipe, variable), variables.numbers(variable)
            shares = between_knots(numbers, np.isnan(numbers), grid)
            counts = sum(np.bincount(level, share, len(grid) + 1) for level, share in shares)
        else:
            levels = variables.levels(variable)
            counts = np.bincount(levels.codes, minlength=len(levels.names)).astype(np.float64)
        masses.append(tuple(np.asarray(counts).tolist()))
    own = recipe.additive.model_copy(update={"masses": tuple(masses)})
    return recipe.model_copy(update={"additive": own})


def _recording(recipe: Recipe, chosen: ChosenForm | None) -> Recipe:
    """Return a recipe that says how its form was chosen."""
    assert recipe.additive is not None, "it has splines"
    own = recipe.additive.model_copy(update={"chosen": chosen})
    return recipe.model_copy(update={"additive": own})
