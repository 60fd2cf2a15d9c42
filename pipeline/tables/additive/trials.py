"""Forms learnt from some rows of a sample, and compared on held-out ones.

A fifth drawn at random is held out, or of few rows each of five parts in turn; where curves were
asked for and there is a column of dates, the last fifth by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.paired_mean import PairedMean
from fewpass.pipeline.tables.additive.form_sample import EncodedForm, FormSample, Part, Rows
from fewpass.pipeline.tables.additive.interactions import holds, interactions, phis_of, ranked
from fewpass.pipeline.tables.additive.noise_columns import is_surely_less
from fewpass.pipeline.tables.additive.numbered_names import columns_of_names, numbers_that_may_name
from fewpass.pipeline.tables.additive.pairing import MOST_LOOKED_AT, both_rounds, pairs_of
from fewpass.pipeline.tables.additive.sample_fit import (
    SampleModels,
    SampleTargets,
    fitted_models,
    rows_of,
)
from fewpass.pipeline.tables.encoding.additive_recipe import TriedForm
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.pair_tables import PairTable
from fewpass.pipeline.tables.encoding.variables import Variable
from fewpass.solvers.kernels.scores import scores

PairsOfRounds = tuple[list[PairTable], list[PairTable]]

LINEAR, SPLINES, NAMES, PAIRS, SECOND = FORMS = (
    "linear", "splines", "numbers as names", "pairs", "second round",
)  # fmt: skip
#: A fifth is held out, or each of that many parts in turn.
FOLDS, SHARE = 5, 5
CHOICE = 61  # what a random generator is for
#: Rows that a trial has to have to compare on, where none are held out.
LEAST_HELD_OUT = 10


def drawn_rows(n: int, most: int, seed: int) -> Rows:
    """Return the rows of a sample of n that forms are compared on."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, CHOICE]).choice(n, most, replace=False))


def held_out_parts(n: int, seed: int, few: int, last: Rows | None) -> tuple[Part, ...]:
    """Hold out the last of n rows, or some drawn at random; below `few` each part in turn."""
    order = np.random.default_rng([seed, CHOICE, 1]).permutation(n)
    scored = [last] if last is not None else [np.sort(order[: n // SHARE])]
    if last is None and n < few:
        scored = [np.sort(part) for part in np.array_split(order, FOLDS)]
    return tuple((others(n, one), one) for one in scored)


def others(n: int, rows: Rows) -> Rows:
    """Return all of n rows but some."""
    return np.setdiff1d(np.arange(n), rows, assume_unique=True)


class FormTrial(NamedTuple):
    """A form, and the losses and models of every part of the rows that is held out."""

    form: str
    sample: FormSample
    features: int
    losses: tuple[Floats, ...]  # of each part: (lams, rows), times the rows' weights
    models: tuple[SampleModels, ...]

    @classmethod
    def of(
        cls, form: str, sample: FormSample, encoded: EncodedForm, parts: Sequence[Part],
        lams: tuple[float, ...] = (),
    ) -> FormTrial:  # fmt: skip
        """Train a form for several lam on every part."""
        each = [_losses_of(encoded, sample.targets, part, lams) for part in parts]
        losses, models = zip(*each, strict=True)
        return cls(form, sample, encoded.features, losses, models)

    def on(self, k: int) -> FormTrial:
        """Return the same on one part alone."""
        return self._replace(losses=self.losses[k : k + 1], models=self.models[k : k + 1])

    @property
    def best(self) -> int:
        """Return the number of the lam that is best of all parts."""
        return int(np.argmin(np.sum([one.sum(axis=1) for one in self.losses], axis=0)))

    @property
    def lam(self) -> float:
        """The best lam, of 1/n."""
        return self.models[0].lams[self.best]

    @property
    def row_losses(self) -> Floats:
        """The losses of all held-out rows at the best lam."""
        k = self.best
        return np.concatenate([one[k] for one in self.losses])

    def is_surely_better(self, other: FormTrial) -> bool:
        """Return whether rows lose less than with another form, by over a standard error."""
        return is_surely_less(self.row_losses, other.row_losses)

    def recorded(self, linear: FormTrial, progressive: float | None = None) -> TriedForm:
        """Return the record of it in recipes."""
        sample, rows = self.sample, self.row_losses
        weight = np.concatenate(
            [sample.targets.of(scored).row_weight for _, scored in sample.parts]
        )
        above = (rows - linear.row_losses) / np.where(weight > 0.0, weight, 1.0)
        return TriedForm(
            form=self.form, features=self.features, loss=float(rows.sum() / total_weight(sample)),
            lam=self.lam, progressive=progressive,
            deviation=float(PairedMean.of(above, weight).standard_error) * sample.targets.unit,
        )  # fmt: skip


def _losses_of(
    encoded: EncodedForm, targets: SampleTargets, part: Part, lams: tuple[float, ...]
) -> tuple[Floats, SampleModels]:
    learnt, scored = part
    own, theirs = targets.of(learnt), targets.of(scored)
    lams = lams or own.grid
    models = fitted_models(rows_of(encoded.table, learnt), encoded.d, own, lams)
    X = encoded.seen(scored)
    return np.asarray([theirs.losses(models.scores(k, X)) for k in range(len(lams))]), models


def total_weight(sample: FormSample) -> float:
    """Return the divisor of the sum of the losses of all held-out rows.

    It gives their mean in the targets' own units, as `train` and `evaluate` report it.
    """
    own = sample.targets
    return sum(own.of(scored).total for _, scored in sample.parts) / own.unit


def losses_without(trial: FormTrial, encoded: EncodedForm, own: slice) -> Floats:
    """Return the held-out rows' losses at each part's best lam, some features' weights as 0."""
    targets, losses = trial.sample.targets, []
    for k, (_, scored) in enumerate(trial.sample.parts):
        part = trial.on(k)
        at = part.models[0].models[part.best]
        coef = at.coef.copy()
        coef[..., encoded.own(own.start, own.stop)] = 0.0
        models = SampleModels((part.lam,), (at._replace(coef=coef),))
        losses.append(targets.of(scored).losses(models.scores(0, encoded.seen(scored))))
    return np.concatenate(losses)


def names_of_things(splines: FormTrial, wanted: Sequence[str]) -> list[str]:
    """Return the columns of whole numbers whose values differ beyond their curves.

    By the first part; not those whose kind settings name, `wanted`.
    """
    sample, part = splines.sample, splines.sample.parts[0]
    every = numbers_that_may_name(sample.linear_recipe, sample.variables, part[0])
    may = [one for one in every if one[0] not in wanted]
    if not may:
        return []
    g, h = _slopes_left(splines.on(0), sample.curved, part[0])
    return columns_of_names(may, g, h, phis_of(g, h, numbers=not sample.targets.classes))


def _slopes_left(trial: FormTrial, encoded: EncodedForm, learnt: Rows) -> tuple[Floats, Floats]:
    """Return g and h of the rows that are learnt from, given a form at its best lam, on a part."""
    own, (models,) = trial.sample.targets.of(learnt), trial.models
    return own.slopes(models.scores(trial.best, encoded.seen(learnt)))


def with_pairs(base: FormTrial) -> tuple[list[FormTrial], PairsOfRounds, int]:
    """Try pairs next to a form without, for as long as any are significant.

    Returns
    -------
    trials
        Of the forms with pairs that every part has some of.
    pairs
        Of the first part, in two rounds.
    n_pairs
        How many were looked at.
    """
    every = [_pairs_on(base, k) for k in range(len(base.sample.parts))]
    trials = [
        _all_parts([tried[form] for tried, _, _ in every])
        for form in (PAIRS, SECOND)
        if all(form in tried for tried, _, _ in every)
    ]
    _, pairs, n_pairs = every[0]
    return trials, pairs, n_pairs


def tables_of_pairs(
    base: FormTrial, trials: Sequence[FormTrial], pairs: PairsOfRounds
) -> dict[str, list[PairTable]]:
    """Return the pairs of each form of `with_pairs`: of several parts, those of all rows."""
    first, second = pairs if len(base.sample.parts) == 1 else _pairs_of_all_rows(base, trials)
    return {PAIRS: first, SECOND: both_rounds(first, second)}


def _all_parts(trials: Sequence[FormTrial]) -> FormTrial:
    losses = tuple(own for one in trials for own in one.losses)
    models = tuple(own for one in trials for own in one.models)
    return trials[0]._replace(losses=losses, models=models)


def _pairs_on(base: FormTrial, k: int) -> tuple[dict[str, FormTrial], PairsOfRounds, int]:
    """Return the trials of pairs on one part, the pairs of both rounds, and how many there are."""
    sample, part, tried = base.sample, base.sample.parts[k], dict[str, FormTrial]()
    first, n_pairs = chosen_pairs(base.on(k), sample.curved, part[0], ())
    second: list[PairTable] = []
    if first:
        paired = sample.encoded(sample.recipe(first))
        tried[PAIRS] = FormTrial.of(PAIRS, sample, paired, [part])
        if sample.rules.rounds > 1:
            second, _ = chosen_pairs(tried[PAIRS], paired, part[0], first)
    if second:
        both = sample.encoded(sample.recipe(both_rounds(first, second)))
        tried[SECOND] = FormTrial.of(SECOND, sample, both, [part])
    return tried, (first, second), n_pairs


def _pairs_of_all_rows(base: FormTrial, trials: Sequence[FormTrial]) -> PairsOfRounds:
    """Return the pairs of both rounds, each given the form before it at its best lam."""
    sample, every = base.sample, np.arange(base.sample.n_rows)
    part = every, every[:LEAST_HELD_OUT]
    curved = FormTrial.of(base.form, sample, sample.curved, [part], (base.lam,))
    first, _ = chosen_pairs(curved, sample.curved, every, ())
    if trials[-1].form != SECOND:
        return first, []
    encoded = sample.encoded(sample.recipe(first))
    paired = FormTrial.of(PAIRS, sample, encoded, [part], (trials[0].lam,))
    return first, chosen_pairs(paired, encoded, every, first)[0]


def chosen_pairs(
    trial: FormTrial, encoded: EncodedForm, learnt: Rows, taken: Sequence[PairTable]
) -> tuple[list[PairTable], int]:
    """Return the pairs that most is left to be explained by, and how many were looked at.

    Parameters
    ----------
    trial, encoded
        The form before, on one part.
    learnt
        Rows that it is learnt from.
    taken
        Pairs of that form, which may be taken again with finer cells.
    """
    sample = trial.sample
    rules, every = sample.rules, _pairs_to_look_at(trial, encoded, learnt)
    if not rules.pairs or not every:
        return [], 0
    g, h = _slopes_left(trial, encoded, learnt)
    own, numbers = sample.variables_in_cells.some(learnt), not sample.targets.classes
    phis = phis_of(g, h, numbers=numbers)
    before = [table.of for table in taken]
    again = [table.of for table in taken if sample.may_be_finer(table)]
    new = [pair for pair in every if pair not in before]
    measured = interactions(own.usual, new, g, h, numbers=numbers)
    measured += interactions(own.finer, again, g, h, numbers=numbers)
    holding = (
        one
        for one in ranked(measured)
        if holds(*own.pair((one.a, one.b), finer=(one.a, one.b) in again), g, h, phis)
    )
    return sample.tables([*islice(holding, rules.pairs)], taken), len(every)


def _pairs_to_look_at(
    trial: FormTrial, encoded: EncodedForm, learnt: Rows
) -> list[tuple[Variable, Variable]]:
    """Return all pairs; of many columns those of the most important ones."""
    every = pairs_of(trial.sample.numbers, trial.sample.categories)
    if len(every) <= MOST_LOOKED_AT:
        return every
    most = int(np.sqrt(2.0 * MOST_LOOKED_AT))
    variance: dict[str, float] = {}
    for name, added in _variance_by_part(trial, encoded, learnt):
        variance[name] = variance.get(name, 0.0) + added
    ordered = sorted(variance.items(), key=lambda one: (-one[1], one[0]))
    largest = {name for name, _ in ordered[:most]}
    both = [(a, b) for a, b in every if a.column in largest and b.column in largest]
    return both[:MOST_LOOKED_AT]


def _variance_by_part(
    trial: FormTrial, encoded: EncodedForm, learnt: Rows
) -> Iterator[tuple[str, float]]:
    """Yield the column of every part of the recipe, and the variance of its share of scores."""
    X = encoded.seen(learnt)
    coef = np.atleast_2d(trial.models[0].models[trial.best].coef)
    start = 0
    for part in trial.sample.recipe().parts:
        own = encoded.own(start, start + part.width)
        alone = np.zeros_like(coef)
        alone[:, own] = coef[:, own]
        added = sum(float(np.var(scores(w, 0.0, X))) for w in alone)
        yield getattr(part, "column", part.name), added
        start += part.width
