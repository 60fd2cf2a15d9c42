"""The form of an additive model, by rows of the sample that are held out.

    linear              the columns as they are encoded otherwise
    splines             piecewise linear functions of numbers
    numbers as names    and whole numbers that name things with a feature each
    pairs               and functions of the pairs that most is left to be explained by
    second round        and of more pairs, given the first ones

The form of the least loss at its best lam, the simpler one of equal ones.  Where there is a column
of dates the last fifth of the rows by it is held out; else a fifth drawn at random, or of few rows
each of five parts in turn.  Where nobody asked for curves another form than linear must be better
by more than a standard error of the difference, row by row.  Where rows are learnt from once, pairs
stay if a method of one pass loses less with them, before each row of the sample is learnt from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.additive.forms import (
    FORMS,
    LINEAR,
    NAMES,
    PAIRS,
    SECOND,
    SPLINES,
    Bins,
    EncodedForm,
    FormSample,
    FormTrial,
    Rows,
    Tried,
)
from fewpass.pipeline.tables.additive.interactions import binned
from fewpass.pipeline.tables.additive.one_pass_losses import progressive_loss
from fewpass.pipeline.tables.additive.pairing import named_pairs
from fewpass.pipeline.tables.additive.rules import MOST_COLUMNS, AskedForm, FormRules
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets
from fewpass.pipeline.tables.additive.shape_grids import with_masses
from fewpass.pipeline.tables.encoding.additive_recipe import ChosenForm, TriedForm
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.pair_tables import PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe

#: A fifth is held out, of few rows in turn; of models of several scores, which take longer, fewer.
FEW_ROWS, FEW_OF_CLASSES, FOLDS, SHARE = 10_000, 5_000, 5, 5
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
    return FormChoice(whole, rows, targets.of(rows), asked, seed).formed()


def _drawn(n: int, most: int, seed: int) -> Rows:
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, CHOICE]).choice(n, most, replace=False))


class FormChoice:
    """The comparison of forms on rows of a sample.

    Parameters
    ----------
    whole
        The sample.
    rows
        Those of it that forms are compared on.
    targets
        Theirs.
    asked
        What somebody asked for.
    seed
        Of what is drawn.
    """

    def __init__(
        self, whole: FormSample, rows: Rows, targets: SampleTargets, asked: AskedForm, seed: int
    ) -> None:
        self._whole, self._rows, self._targets, self._asked = whole, rows, targets, asked
        self._sample, self._today = whole.some(rows), whole.today
        self._by, self._parts = held_out_parts(
            self._sample, seed, FEW_ROWS if targets.classes <= 2 else FEW_OF_CLASSES
        )
        self._tried: dict[str, list[Tried]] = {}
        self._progressive: dict[str, float] = {}

    def formed(self) -> Formed:
        """Compare the forms, and return the recipe of the best."""
        curved = EncodedForm.of(self._sample.recipe(), self._sample.cells)
        trials = self._trials(self._sample)
        linear = EncodedForm.of(self._today, self._sample.cells)
        self._tried[LINEAR] = [trial.tried(linear) for trial in trials]
        self._tried[SPLINES] = [trial.tried(curved) for trial in trials]
        names = trials[0].names(curved, self._tried[SPLINES][0])
        if names and self._are_names(names):
            curved = EncodedForm.of(self._sample.recipe(), self._sample.cells)
            return self._with_pairs(curved, NAMES)
        return self._with_pairs(curved, SPLINES)

    def _trials(self, sample: FormSample) -> list[FormTrial]:
        every = np.arange(sample.n_rows)
        return [
            FormTrial(sample, self._targets, np.setdiff1d(every, part, assume_unique=True), part)
            for part in self._parts
        ]

    def _are_names(self, names: Sequence[str]) -> bool:
        """Try columns of numbers as names, and go on with them where that is better."""
        whole = self._whole.with_names(names)
        sample = whole.some(self._rows)
        form = EncodedForm.of(sample.recipe(), sample.cells)
        self._tried[NAMES] = [trial.tried(form) for trial in self._trials(sample)]
        better = self._of(NAMES).loss < self._of(SPLINES).loss
        if better:
            self._whole, self._sample = whole, sample
        return better

    def _with_pairs(self, curved: EncodedForm, base: str) -> Formed:
        sample = self._sample
        bins = binned(sample.variables, sample.numbers, sample.categories, np.arange(sample.n_rows))
        trials = self._trials(sample)
        paired = [
            trial.with_pairs(curved, own, bins)
            for trial, own in zip(trials, self._tried[base], strict=True)
        ]
        for form in (PAIRS, SECOND):
            if all(form in one.tried for one in paired):
                self._tried[form] = [one.tried[form] for one in paired]
        form = self._best(any(PAIRS in one.tried for one in paired))
        first, second = paired[0].pairs
        if len(trials) > 1 and form in (PAIRS, SECOND):
            first, second = self._pairs_of_all(curved, base, bins), []
        if self._asked.one_pass and form in (PAIRS, SECOND):
            forms = {base: [], PAIRS: first, SECOND: [*first, *second]}
            form = self._in_one_pass({one: forms[one] for one in self._tried if one in forms})
        chosen = ChosenForm(
            form=form, rows=sample.n_rows - len(self._parts[0]),
            held_out_rows=sum(map(len, self._parts)), held_out_by=self._by,
            candidates=tuple(map(self._recorded, self._tried)), looked_at=paired[0].looked_at,
        )  # fmt: skip
        if form == LINEAR:
            return Formed(self._today, chosen)
        pairs = [*first, *second] if form == SECOND else first if form == PAIRS else []
        return _finished(self._whole, pairs, chosen)

    def _pairs_of_all(self, curved: EncodedForm, base: str, bins: Bins) -> list[PairTable]:
        """Return the pairs that all rows choose, each of which was held out in turn before."""
        every = np.arange(self._sample.n_rows)
        trial = FormTrial(self._sample, self._targets, every, every[:LEAST_HELD_OUT])
        tried = trial.tried(curved, (self._of(base).lam,))
        return trial.chosen(curved, tried, (), bins)[0]

    def _in_one_pass(self, forms: dict[str, list[PairTable]]) -> str:
        """Return the form of the least progressive loss, the first of equal ones."""
        for form, pairs in forms.items():
            encoded = EncodedForm.of(self._sample.recipe(pairs), self._sample.cells)
            lam = self._of(form).lam
            self._progressive[form] = progressive_loss(encoded.table, encoded.d, self._targets, lam)
        return min(self._progressive, key=lambda form: self._progressive[form])

    def _recorded(self, form: str) -> TriedForm:
        return self._of(form).model_copy(update={"progressive": self._progressive.get(form)})

    def _best(self, has_pairs: bool) -> str:
        """Return the form of the least loss; linear, where nobody asked and little is gained."""
        if isinstance(self._asked.pairs, int) and has_pairs:
            return PAIRS
        best = min(map(self._of, self._tried), key=lambda one: (one.loss, FORMS.index(one.form)))
        linear = self._of(LINEAR)
        is_sure = linear.loss - best.loss > best.deviation
        return LINEAR if self._asked.unasked and not is_sure else best.form

    def _of(self, form: str) -> TriedForm:
        """Return what became of a form at its best lam of all parts."""
        each = self._tried[form]
        k = self._best_lam(form)
        rows = self._losses(form)
        above = rows - self._losses(LINEAR)
        total = sum(self._targets.of(part).total for part in self._parts)
        return TriedForm(
            form=form, features=each[0].features, loss=float(rows.sum() / total),
            lam=each[0].models.lams[k],
            deviation=float(above.std() * np.sqrt(len(above)) / total),
        )  # fmt: skip

    def _best_lam(self, form: str) -> int:
        sums = np.sum([one.losses.sum(axis=1) for one in self._tried[form]], axis=0)
        return int(np.argmin(sums))

    def _losses(self, form: str) -> Floats:
        """Return the losses of all held-out rows."""
        k = self._best_lam(form)
        return np.concatenate([one.losses[k] for one in self._tried[form]])


def held_out_parts(
    sample: FormSample, seed: int, few: int = FEW_ROWS
) -> tuple[str | None, list[Rows]]:
    """Return the rows that are held out, one part after the other, and the dates they are by.

    Below `few` rows each part is held out in turn.
    """
    n = sample.n_rows
    for column, cells in zip(sample.today.columns, sample.cells, strict=True):
        if isinstance(column, Date):
            moments = column.moments(cells)
            order = np.argsort(np.where(np.isnan(moments), -np.inf, moments), kind="stable")
            if np.nanmin(moments) < np.nanmax(moments):
                return column.name, [np.sort(order[n - n // SHARE :])]
    order = np.random.default_rng([seed, CHOICE, 1]).permutation(n)
    if n < few:
        return None, [np.sort(part) for part in np.array_split(order, FOLDS)]
    return None, [np.sort(order[: n // SHARE])]


def _finished(whole: FormSample, pairs: Sequence[PairTable], chosen: ChosenForm | None) -> Formed:
    """Return the recipe with what shapes need, counted on all rows of the sample."""
    counted = [table.counted(whole.variables) for table in pairs]
    recipe = whole.recipe(counted)
    assert recipe.additive is not None, "it has splines"
    own = recipe.additive.model_copy(update={"chosen": chosen})
    made = with_masses(recipe.model_copy(update={"additive": own}), whole.variables)
    return Formed(made, chosen)
