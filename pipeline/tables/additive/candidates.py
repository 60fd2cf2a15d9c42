"""Candidates for the form of a model, and what each came to on rows that are held out.

A fifth drawn at random is held out, or of few rows each of five parts in turn; where somebody asked
for curves and there is a column of dates, the last fifth by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.pipeline.tables.additive.forms import (
    PAIRS,
    SECOND,
    EncodedForm,
    FormSample,
    FormTrial,
    PairsTried,
    Rows,
    Tried,
)
from fewpass.pipeline.tables.additive.interactions import VariablesInCells
from fewpass.pipeline.tables.additive.needless_columns import is_surely_less
from fewpass.pipeline.tables.additive.pairing import both_rounds
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets
from fewpass.pipeline.tables.additive.stretches import RowsInTime
from fewpass.pipeline.tables.encoding.additive_recipe import TriedForm
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.pair_tables import PairTable

#: A fifth is held out, or each of that many parts in turn.
FOLDS, SHARE = 5, 5
CHOICE = 61  # what a random generator is for
#: Rows that a trial has to have to compare on, where none are held out.
LEAST_HELD_OUT = 10


class FormCandidate(NamedTuple):
    """A form, and what it came to on every part of the rows that is held out."""

    form: str
    whole: FormSample  # the columns that it is of
    tried: tuple[Tried, ...]  # of every part

    @property
    def best(self) -> int:
        """Which lam is best of all parts."""
        return int(np.argmin(np.sum([one.losses.sum(axis=1) for one in self.tried], axis=0)))

    @property
    def lam(self) -> float:
        """The best lam, of 1/n."""
        return self.tried[0].models.lams[self.best]

    @property
    def losses(self) -> Floats:
        """The losses of all held-out rows at the best lam."""
        k = self.best
        return np.concatenate([one.losses[k] for one in self.tried])

    def is_surely_better(self, other: FormCandidate) -> bool:
        """Say whether rows lose less than with another form, by more than a standard error."""
        return is_surely_less(self.losses, other.losses)

    def recorded(
        self, linear: FormCandidate, total: float, progressive: float | None = None
    ) -> TriedForm:
        """Return what recipes retain of it; `total` divides the losses of all held-out rows."""
        rows = self.losses
        above = rows - linear.losses
        return TriedForm(
            form=self.form, features=self.tried[0].features, loss=float(rows.sum() / total),
            lam=self.lam, deviation=float(above.std() * np.sqrt(len(above)) / total),
            progressive=progressive,
        )  # fmt: skip


class CurvedColumns(NamedTuple):
    """Columns with curves that candidates are made of; with names in place of some, or without."""

    whole: FormSample
    sample: FormSample  # of the rows that forms are compared on
    encoded: EncodedForm  # likewise

    @classmethod
    def of(cls, whole: FormSample, rows: Rows) -> CurvedColumns:
        """Encode the rows that forms are compared on."""
        sample = whole.some(rows)
        return cls(whole, sample, EncodedForm.of(sample.recipe(), sample.cells))


class HeldOutParts(NamedTuple):
    """Rows that are held out, one part after the other."""

    targets: SampleTargets  # of all rows
    by: str | None  # the dates that rows are held out by; None: at random
    parts: list[Rows]

    @classmethod
    def of(
        cls, n: int, targets: SampleTargets, seed: int, few: int, later: RowsInTime | None = None
    ) -> HeldOutParts:
        """Hold out the last of n rows, or some drawn at random; below `few` each part in turn."""
        if later is not None:
            return cls(targets, later.by, [later.last])
        order = np.random.default_rng([seed, CHOICE, 1]).permutation(n)
        if n < few:
            return cls(targets, None, [np.sort(part) for part in np.array_split(order, FOLDS)])
        return cls(targets, None, [np.sort(order[: n // SHARE])])

    @property
    def total(self) -> float:
        """What the sum of the losses of all held-out rows is divided by.

        That is for their mean in the targets' own units, as `train` and `evaluate` tell it.
        """
        return sum(self.targets.of(part).total for part in self.parts) / self.targets.unit

    def trials(self, sample: FormSample) -> list[FormTrial]:
        """Return a trial for each part: of forms learnt from all other rows."""
        every = np.arange(sample.n_rows)
        return [
            FormTrial(sample, self.targets, np.setdiff1d(every, part, assume_unique=True), part)
            for part in self.parts
        ]

    def candidate(
        self, form: str, columns: CurvedColumns, encoded: EncodedForm | None = None
    ) -> FormCandidate:
        """Try a form on every part: the columns with curves, or encoded in another way."""
        encoded = encoded or columns.encoded
        tried = tuple(trial.tried(encoded) for trial in self.trials(columns.sample))
        return FormCandidate(form, columns.whole, tried)


class PairsUpon(NamedTuple):
    """Pairs next to a candidate that has none, chosen by the rows that each part leaves."""

    columns: CurvedColumns
    base: FormCandidate
    bins: VariablesInCells  # of all rows
    parts: list[PairsTried]

    @classmethod
    def of(cls, columns: CurvedColumns, base: FormCandidate, held_out: HeldOutParts) -> PairsUpon:
        """Choose pairs, and try them, for every part."""
        sample = columns.sample
        bins = VariablesInCells.of(sample.variables, sample.numbers, sample.categories)
        each = zip(held_out.trials(sample), base.tried, strict=True)
        parts = [trial.with_pairs(columns.encoded, own, bins) for trial, own in each]
        return cls(columns, base, bins, parts)

    @property
    def candidates(self) -> list[FormCandidate]:
        """The forms with pairs that every part has some of."""
        return [
            FormCandidate(form, self.columns.whole, tuple(one.tried[form] for one in self.parts))
            for form in (PAIRS, SECOND)
            if all(form in one.tried for one in self.parts)
        ]

    def tables(self, held_out: HeldOutParts) -> dict[str, list[PairTable]]:
        """Return the pairs of each form: where there are several parts, those of all rows."""
        first, second = self.parts[0].pairs
        if len(self.parts) > 1:
            first, second = self._of_all_rows(held_out)
        return {PAIRS: first, SECOND: both_rounds(first, second)}

    def _of_all_rows(self, held_out: HeldOutParts) -> tuple[list[PairTable], list[PairTable]]:
        """Return the pairs of both rounds, each given the form before it at its best lam."""
        every = np.arange(self.columns.sample.n_rows)
        sample = self.columns.sample
        trial = FormTrial(sample, held_out.targets, every, every[:LEAST_HELD_OUT])
        encoded = self.columns.encoded
        first, _ = trial.chosen(encoded, trial.tried(encoded, (self.base.lam,)), (), self.bins)
        forms = {one.form: one for one in self.candidates}
        if SECOND not in forms:
            return first, []
        paired = EncodedForm.of(sample.recipe(first), sample.cells)
        tried = trial.tried(paired, (forms[PAIRS].lam,))
        return first, trial.chosen(paired, tried, first, self.bins)[0]


def drawn_rows(n: int, most: int, seed: int) -> Rows:
    """Return the rows of a sample of n that forms are compared on."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, CHOICE]).choice(n, most, replace=False))
