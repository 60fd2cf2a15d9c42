"""The form of an additive model, by rows of the sample that are held out.

    linear              the columns as they are encoded otherwise
    splines             piecewise linear functions of numbers
    numbers as names    and whole numbers that name things with a feature each
    pairs               and functions of the pairs that most is left to be explained by, upon
                        splines or, where these were surely better, upon names: what loses less
    second round        and of more pairs, given the first ones, or of these in finer cells

and all of these once more without columns of words that say nothing (needless_columns.py).
The form of the least loss at its best lam, the simpler one of equal ones.  Which rows are held out:
candidates.py.  Where nobody asked for curves, or rows are too few for pairs, another form than
linear must be better by more than a standard error of the difference, row by row (by one and a
half where nobody asked and rows are few); and, unasked, where there are dates, in every stretch of
time (stretches.py).  Where rows are learnt from once, pairs stay if a method of one pass loses less
with them, before each row of the sample is learnt from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.additive.candidates import (
    CurvedColumns,
    FormCandidate,
    HeldOutParts,
    PairsUpon,
    drawn_rows,
)
from fewpass.pipeline.tables.additive.forms import (
    ALL_COLUMNS,
    FORMS,
    LINEAR,
    NAMES,
    PAIRS,
    SECOND,
    SPLINES,
    EncodedForm,
    FormSample,
    Rows,
)
from fewpass.pipeline.tables.additive.needless_columns import (
    is_better_without,
    is_surely_less,
    wide_columns,
)
from fewpass.pipeline.tables.additive.one_pass_losses import progressive_loss
from fewpass.pipeline.tables.additive.pairing import named_pairs
from fewpass.pipeline.tables.additive.rules import MOST_COLUMNS, AskedForm, FormRules
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets
from fewpass.pipeline.tables.additive.shape_grids import with_masses
from fewpass.pipeline.tables.additive.stretches import (
    RowsInTime,
    is_better_at_all_times,
    unseen_parts,
)
from fewpass.pipeline.tables.encoding.additive_recipe import ChosenForm
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.pair_tables import PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe

#: Rows below which each part is held out in turn; of several scores, which take longer, fewer.
FEW_ROWS, FEW_OF_CLASSES = 10_000, 5_000
MOST_IN_TURN = 5_000_000  # entries of the rows times scores: of more, one part is held out


class Formed(NamedTuple):
    """A recipe, and how its form was chosen."""

    recipe: Recipe
    chosen: ChosenForm | None  # None: it was asked for, or there was nothing to choose
    left_out: tuple[str, ...] = ()  # columns that rows are better predicted without
    row_losses: Floats = np.zeros(0)  # of held-out rows

    def agreed_by(self, date: str) -> Formed:
        """Return the same, with the column by whose every fifth it is better than linear."""
        assert self.chosen is not None, "forms were compared"
        chosen = self.chosen.model_copy(update={"agreed_by": date})
        return self._replace(recipe=_recording(self.recipe, chosen), chosen=chosen)


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
    if asked.unasked and targets is None:
        return Formed(today, None)  # nothing tells whether curves are better
    explicit = asked.form == SPLINES or asked.knots is not None or asked.pairs is not None
    if not rules.levels or (len(today.columns) > MOST_COLUMNS and not explicit):
        return Formed(today, None)
    if asked.pairs is not None and not isinstance(asked.pairs, int):
        whole = FormSample.of(today, cells, rules)
        pairs = named_pairs(asked.pairs, whole.numbers, whole.categories)
        return _finished(whole, [whole.table(pair) for pair in pairs], None)
    whole = FormSample.of(today, cells, rules, unseen_parts(today, cells))
    if targets is None or asked.form == SPLINES:
        return _finished(whole, [], None)
    entries = sum(part.n_slots for part in whole.recipe().parts) + 4 * rules.rounds * rules.pairs
    rows = drawn_rows(len(cells[0]), asked.most_rows(entries), seed)
    few = FEW_ROWS if targets.classes <= 2 else FEW_OF_CLASSES
    scores = targets.classes if targets.classes > 2 else 1
    few = few if entries * len(rows) * scores <= MOST_IN_TURN else 0
    columns = CurvedColumns.of(whole, rows)
    in_time = RowsInTime.of(today, columns.sample.cells)
    at_random = asked.unasked and (in_time is None or in_time.are_of_whole_years)
    later = None if at_random else in_time
    held_out = HeldOutParts.of(len(rows), targets.of(rows), seed, few, later)
    formed = FormChoice(rows, held_out, asked).formed(columns)
    if in_time is None or not asked.unasked or formed.recipe.additive is None:
        return formed
    agree = is_better_at_all_times(formed.recipe, columns.sample, held_out.targets, in_time)
    return formed.agreed_by(in_time.by) if agree else Formed(today, None)


class FormChoice:
    """The comparison of forms on rows of a sample.

    Parameters
    ----------
    rows
        Which of the sample forms are compared on.
    held_out
        Which of these are held out, and the targets of all.
    asked
        What somebody asked for.
    """

    def __init__(self, rows: Rows, held_out: HeldOutParts, asked: AskedForm) -> None:
        self._rows, self._held_out, self._asked = rows, held_out, asked

    def formed(self, columns: CurvedColumns) -> Formed:
        """Return the recipe of the best form, of all columns or without those that say nothing."""
        simple = self._simple(columns)
        needless = self._needless(columns, simple[-1])
        best = self._best_form(columns, simple)
        if not needless:
            return best
        fewer = CurvedColumns.of(columns.whole.without(needless), self._rows)
        return _better(best, self._best_form(fewer, self._simple(fewer)), needless)

    def _simple(self, columns: CurvedColumns) -> list[FormCandidate]:
        """Return the candidates without names and pairs: linear, and with splines."""
        today = columns.whole.today
        today = as_they_are(today) if self._asked.plain else today
        linear = EncodedForm.of(today, columns.sample.cells)
        return [
            self._held_out.candidate(LINEAR, columns, linear),
            self._held_out.candidate(SPLINES, columns),
        ]

    def _needless(self, columns: CurvedColumns, splines: FormCandidate) -> list[str]:
        """Return columns of words without whose weights held-out rows do not surely lose more."""
        names, with_all = [], splines.losses
        trials = self._held_out.trials(columns.sample)
        for name, own in wide_columns(columns.sample.recipe(), self._asked.wanted):
            each = zip(trials, splines.tried, strict=True)
            without = [trial.losses_without(columns.encoded, one, own) for trial, one in each]
            if not is_surely_less(with_all, np.concatenate(without)):
                names.append(name)
        return names

    def _best_form(self, columns: CurvedColumns, simple: list[FormCandidate]) -> Formed:
        """Return the best form of columns: with pairs upon curves, or upon names if these pay."""
        splines = simple[-1]
        first = self._held_out.trials(columns.sample)[0]
        names = first.names(columns.encoded, splines.tried[0], self._asked.wanted)
        if not names:
            return self._with_pairs(columns, splines, simple)
        named = CurvedColumns.of(columns.whole.with_names(names), self._rows)
        by_names = self._held_out.candidate(NAMES, named)
        tried = [*simple, by_names]
        curved = self._with_pairs(columns, splines, tried)
        if not by_names.is_surely_better(splines):
            return curved
        # Names have no order, so pairs with them are of levels, which takes more rows than curves
        # do: whether they stay is decided with pairs.
        ways = (self._with_pairs(named, by_names, tried), curved)
        return min(ways, key=lambda way: way.chosen.loss if way.chosen else np.inf)

    def _with_pairs(
        self, columns: CurvedColumns, base: FormCandidate, simple: list[FormCandidate]
    ) -> Formed:
        """Return the best of the forms without pairs, and of pairs next to one of these."""
        paired = PairsUpon.of(columns, base, self._held_out)
        tried = [*simple, *paired.candidates]
        best = self._best(base, tried)
        pairs: dict[str, list[PairTable]] = {}
        progressive: dict[str, float] = {}
        if best.form in (PAIRS, SECOND):
            pairs = {base.form: []} | paired.tables(self._held_out)
            if self._asked.one_pass:
                progressive = self._in_one_pass(columns, tried, pairs)
                own = [one for one in tried if one.form in progressive]
                best = min(own, key=lambda one: progressive[one.form])
        chosen = self._chosen(best, tried, progressive, paired.parts[0].looked_at)
        if best.form == LINEAR:
            return Formed(best.whole.today, chosen, row_losses=best.losses)
        made = _finished(best.whole, pairs.get(best.form, []), chosen)
        return made._replace(row_losses=best.losses)

    def _best(self, base: FormCandidate, tried: Sequence[FormCandidate]) -> FormCandidate:
        """Return the form of the least loss; linear, where little is gained and little is certain.

        Names that were tried are none of them where the base is curves.
        """
        pairs = [one for one in tried if one.form == PAIRS]
        if isinstance(self._asked.pairs, int) and pairs:
            return pairs[0]
        linear, total = tried[0], self._held_out.total
        forms = [one for one in tried if one.form != NAMES or base.form == NAMES]
        records = [one.recorded(linear, total) for one in forms]
        k = min(range(len(forms)), key=lambda k: (records[k].loss, FORMS.index(forms[k].form)))
        least = self._asked.errors(len(self._rows)) * records[k].deviation
        return forms[k] if records[0].loss - records[k].loss > least else linear

    def _in_one_pass(
        self, columns: CurvedColumns, tried: Sequence[FormCandidate],
        pairs: dict[str, list[PairTable]],
    ) -> dict[str, float]:  # fmt: skip
        """Return the progressive losses of the forms that have these pairs."""
        sample, losses = columns.sample, {}
        for one in tried:
            if one.form in pairs:
                made = EncodedForm.of(sample.recipe(pairs[one.form]), sample.cells)
                targets = self._held_out.targets
                losses[one.form] = progressive_loss(made.table, made.d, targets, one.lam)
        return losses

    def _chosen(
        self, best: FormCandidate, tried: Sequence[FormCandidate],
        progressive: dict[str, float], looked_at: int,
    ) -> ChosenForm:  # fmt: skip
        """Return what recipes retain of a choice."""
        held_out = self._held_out
        recorded = (
            one.recorded(tried[0], held_out.total, progressive.get(one.form)) for one in tried
        )
        return ChosenForm(
            form=best.form, rows=len(self._rows) - len(held_out.parts[0]),
            held_out_rows=sum(map(len, held_out.parts)), held_out_by=held_out.by,
            candidates=tuple(recorded), looked_at=looked_at, measure=held_out.targets.measure,
        )  # fmt: skip


def as_they_are(today: Recipe) -> Recipe:
    """Return a recipe of numbers that are standardised and nothing more, as plain ones are."""
    largest = float(np.finfo(np.float64).max)
    usual = {"low": -largest, "high": largest, "rank": None, "lowest": None, "log": None}
    columns = tuple(
        column.model_copy(update=usual) if isinstance(column, Number) else column
        for column in today.columns
    )
    return today.model_copy(update={"columns": columns})


def _better(formed: Formed, fewer: Formed, names: Sequence[str]) -> Formed:
    """Return what was chosen without columns where that is surely better than with them."""
    ours, theirs = formed.chosen, fewer.chosen
    assert ours is not None, "forms were compared"
    assert theirs is not None, "forms were compared"
    if theirs.form == LINEAR or not is_better_without(fewer.row_losses, formed.row_losses):
        return formed
    best = next(one for one in ours.candidates if one.form == ours.form)
    best = best.model_copy(update={"form": ALL_COLUMNS})
    candidates = (ours.candidates[0], *theirs.candidates[1:], best)
    chosen = theirs.model_copy(update={"candidates": candidates})
    return Formed(_recording(fewer.recipe, chosen), chosen, tuple(names))


def _finished(whole: FormSample, pairs: Sequence[PairTable], chosen: ChosenForm | None) -> Formed:
    """Return the recipe with what shapes need, counted on all rows of the sample."""
    counted = [table.counted(whole.variables) for table in pairs]
    made = with_masses(_recording(whole.recipe(counted), chosen), whole.variables)
    return Formed(made, chosen)


def _recording(recipe: Recipe, chosen: ChosenForm | None) -> Recipe:
    """Return a recipe that says how its form was chosen."""
    assert recipe.additive is not None, "it has splines"
    own = recipe.additive.model_copy(update={"chosen": chosen})
    return recipe.model_copy(update={"additive": own})
