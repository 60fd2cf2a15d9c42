"""A check that a form that random rows chose is better than linear at all times.

Rows drawn at random are of the same days as those that are learnt from, and say nothing of other
days.  So the rows are sorted by a column of dates and cut into five folds; each is predicted from
all others by both forms, each at the lam that it had best on random rows, as training will choose
it.

Rows of one period are correlated, so periods, not rows, are the sample.  The form stays if the mean
losses of the folds are lower by more than a standard error of the five, and if it surely loses more
in none, row by row.

Later rows are of days that no row is of, so days since the first have no curve; and may be of other
months.  So where dates are not of all twelve, month and day of the year have neither curves nor
pairs, the last fifth chooses the form in place of rows drawn at random, and a fold is predicted
from the folds before it, the first two excepted: pairs of flights were better in between, and
later ones lost 12 % by them.

None of this is asked where rows are held out at random: what is predicted is of the same days.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.additive.form_sample import EncodedForm, FormSample, Rows
from fewpass.pipeline.tables.additive.noise_columns import is_surely_less
from fewpass.pipeline.tables.additive.trials import LINEAR, FormTrial, others
from fewpass.pipeline.tables.encoding.date_parts import LEVELS_OF, Part, part_of_dates
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.variables import Variable

FOLDS_IN_TIME = 5
LEAST_BEFORE = 2  # fifths that a later one is predicted from
PARTS_OF_YEARS: tuple[Part, ...] = ("month", "day of the year")


class RowsInTime(NamedTuple):
    """Rows in the order of a column of dates."""

    by: str  # the column
    order: Rows  # those without a date first
    months: int  # that rows are of, of a year's twelve

    @classmethod
    def of(cls, recipe: Recipe, cells: Sequence[Any]) -> RowsInTime | None:
        """Sort rows by the first column of dates that differ; None: there is none."""
        return next(cls.by_each(recipe, cells), None)

    @classmethod
    def by_each(cls, recipe: Recipe, cells: Sequence[Any]) -> Iterator[RowsInTime]:
        """Yield rows sorted by each column of dates that differ."""
        for column, own in zip(recipe.columns, cells, strict=True):
            if isinstance(column, Date):
                moments = column.read(own).values
                present = moments[~np.isnan(moments)]
                if len(present) and present.min() < present.max():
                    at = np.where(np.isnan(moments), -np.inf, moments)
                    months = np.unique(part_of_dates(present, "month"))
                    yield cls(column.name, np.argsort(at, kind="stable"), len(months))

    @property
    def are_of_whole_years(self) -> bool:
        """Return whether rows are of all months."""
        return self.months == len(LEVELS_OF["month"])

    @property
    def last(self) -> Rows:
        """The last fifth."""
        n = len(self.order)
        return np.sort(self.order[n - n // FOLDS_IN_TIME :])

    @property
    def parts(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield what is learnt from, and a fifth that it predicts, the last one first: all others.

        Of dates not of all months those before it, of which there are to be two fifths.
        """
        n, folds = len(self.order), np.array_split(self.order, FOLDS_IN_TIME)
        least = 0 if self.are_of_whole_years else LEAST_BEFORE
        for k in range(FOLDS_IN_TIME - 1, least - 1, -1):
            before = np.sort(np.concatenate(folds[:k])) if least else others(n, folds[k])
            yield before, np.sort(folds[k])


def parts_gone_beyond(recipe: Recipe, cells: Sequence[Any]) -> list[Variable]:
    """Return days, and month and day of the year of dates not of all of a year's months."""
    each = [*RowsInTime.by_each(recipe, cells)]
    short = [one.by for one in each if not one.are_of_whole_years]
    days = [Variable(one.by, "days") for one in each]
    return [*days, *(Variable(name, part) for name in short for part in PARTS_OF_YEARS)]


def is_better_at_all_times(recipe: Recipe, sample: FormSample, rows: RowsInTime) -> bool:
    """Return whether the form of a recipe is better than linear in the folds of a sample."""
    assert recipe.additive is not None, "it has curves"
    assert recipe.additive.chosen is not None, "forms were compared"
    chosen, linear_recipe = recipe.additive.chosen, sample.linear_recipe
    lams = {one.form: one.lam for one in chosen.candidates}
    cells = dict(zip([one.name for one in linear_recipe.columns], sample.cells, strict=True))
    own = [cells[column.name] for column in recipe.columns]
    forms = {
        chosen.form: EncodedForm.of(recipe, own),
        LINEAR: sample.encoded(linear_recipe),
    }
    means = []
    for part in rows.parts:
        ours, theirs = (
            FormTrial.of(form, sample, encoded, [part], (lams[form],)).row_losses
            for form, encoded in forms.items()
        )
        if is_surely_less(theirs, ours):
            return False
        means.append((ours.mean(), theirs.mean()))
    return is_surely_less(*np.transpose(means))
