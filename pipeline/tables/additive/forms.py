"""The forms of a model that are compared: linear, with splines, with names, with pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.tables.additive.interactions import (
    FINER_LEVELS,
    LEVELS,
    Interaction,
    VariablesInCells,
    holds,
    interactions,
    phis_of,
    ranked,
)
from fewpass.pipeline.tables.additive.knots import fitted_splines
from fewpass.pipeline.tables.additive.numbered_names import (
    as_names,
    columns_of_names,
    numbers_that_may_name,
)
from fewpass.pipeline.tables.additive.pairing import (
    MOST_LOOKED_AT,
    both_rounds,
    pair_table,
    pairs_of,
)
from fewpass.pipeline.tables.additive.rules import FormRules
from fewpass.pipeline.tables.additive.sample_fit import (
    COARSE,
    FINE,
    SampleModels,
    SampleTargets,
    fitted_models,
    rows_of,
)
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.applying import encode
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.pair_tables import PairSelection, PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.variables import Variable, VariablesOfRows, variables_of
from fewpass.solvers.kernels.scores import scores
from fewpass.storage.table import SparseTable

LINEAR, SPLINES, NAMES, PAIRS, SECOND = FORMS = (
    "linear", "splines", "numbers as names", "pairs", "second round",
)  # fmt: skip
ALL_COLUMNS = "all columns"  # the best form with them, where some were left out
Rows = NDArray[np.int64]


class FormSample(NamedTuple):
    """Rows by which a form is chosen, and what may become of them."""

    today: Recipe  # without splines
    cells: Sequence[Any]  # Arrow arrays (n,), of its columns
    variables: VariablesOfRows
    numbers: list[Variable]
    categories: list[Variable]
    splines: tuple[Spline, ...]
    rules: FormRules
    unseen: Collection[Variable]  # parts of dates that rows tell too little of

    @classmethod
    def of(
        cls, today: Recipe, cells: Sequence[Any], rules: FormRules,
        unseen: Collection[Variable] = (),
    ) -> FormSample:  # fmt: skip
        """Fit splines to the numbers; `unseen` ones have neither splines nor pairs."""
        variables = VariablesOfRows(today.columns, cells)
        every = variables_of(today.columns)
        numbers, categories = ([one for one in own if one not in unseen] for own in every)
        splines = fitted_splines(variables, numbers, rules.levels)
        return cls(today, cells, variables, numbers, categories, splines, rules, unseen)

    @property
    def n_rows(self) -> int:
        return self.variables.n_rows

    def with_names(self, names: Sequence[str]) -> FormSample:
        """Return the same with columns of numbers as words."""
        named = as_names(self.today, self.cells, names)
        return FormSample.of(named, self.cells, self.rules, self.unseen)

    def without(self, names: Sequence[str]) -> FormSample:
        """Return the same without some columns."""
        each = zip(self.today.columns, self.cells, strict=True)
        columns, cells = zip(*(one for one in each if one[0].name not in names), strict=True)
        today = self.today.model_copy(update={"columns": columns})
        return FormSample.of(today, cells, self.rules, self.unseen)

    def some(self, rows: Rows) -> FormSample:
        """Return some of the rows, with the splines of all."""
        if len(rows) == self.n_rows:
            return self
        cells = [of.take(pa.array(rows)) for of in self.cells]
        some = FormSample.of(self.today, cells, self.rules, self.unseen)
        return some._replace(splines=self.splines)

    def recipe(self, pairs: Sequence[PairTable] = ()) -> Recipe:
        """Return the recipe with splines and pairs; splines replace ranks and logarithms."""
        gone = {"rank": None, "lowest": None, "log": None}
        columns = tuple(
            column.model_copy(update=gone) if isinstance(column, Number) else column
            for column in self.today.columns
        )
        own = Additive(splines=self.splines, pairs=tuple(pairs), rows=self.n_rows)
        return self.today.model_copy(update={"columns": columns, "additive": own})

    def table(
        self, pair: Interaction | tuple[Variable, Variable], *, finer: bool = False
    ) -> PairTable:
        """Return the table of a pair."""
        selection = None
        if isinstance(pair, Interaction):
            selection = PairSelection(score=pair.score, z=pair.z, df=pair.df)
        variables = (pair[0], pair[1])
        rules = self.rules
        bins, most = (rules.finer_bins, FINER_LEVELS) if finer else (rules.bins, LEVELS)
        return pair_table(
            variables, self.numbers, self.variables, bins, selection, most, rules.bins
        )

    def may_be_finer(self, table: PairTable) -> bool:
        """Say whether the table of a pair would have other axes with more bins."""
        finer = self.table(table.of, finer=True)
        return (finer.a, finer.b) != (table.a, table.b)

    def tables(self, pairs: Sequence[Interaction], before: Sequence[PairTable]) -> list[PairTable]:
        """Return the tables of pairs, as many as there may be cells; again ones are finer."""
        left = self.rules.most_cells - sum(part.width for part in (*self.splines, *before))
        taken = [table.of for table in before]
        tables = []
        for pair in pairs:
            table = self.table(pair, finer=(pair.a, pair.b) in taken)
            left -= table.width
            if left < 0:
                break
            tables.append(table)
        return tables


class EncodedForm(NamedTuple):
    """All rows under a recipe, with the features that some row has: of hashes that is a few."""

    table: SparseTable
    present: NDArray[np.int64]  # (d,) which of the recipe's features there are, ascending
    features: int  # of the recipe

    @classmethod
    def of(cls, recipe: Recipe, cells: Sequence[Any]) -> EncodedForm:
        """Encode rows as an ingest stores them."""
        made = encode(recipe, cells)
        data, indices, indptr = made.sparse(np.float32)
        present, places = np.unique(indices, return_inverse=True)
        places = places.astype(indices.dtype)
        table = SparseTable(data, places, indptr, np.zeros(made.n_rows), None)
        return cls(table, present, made.n_outputs)

    @property
    def d(self) -> int:
        """Number of features that models are made of."""
        return max(1, len(self.present))

    def own(self, start: int, stop: int) -> slice:
        """Return where those of the recipe's features from `start` to `stop` are."""
        first, last = np.searchsorted(self.present, (start, stop))
        return slice(int(first), int(last))

    def seen(self, rows: Rows) -> Any:
        """Return some rows as kernels see them."""
        return row_view(rows_of(self.table, rows))


class Tried(NamedTuple):
    """What a form came to on held-out rows."""

    features: int
    losses: Floats  # (lams, rows), times the rows' weights
    models: SampleModels

    @property
    def best(self) -> int:
        """Which lam is best."""
        return int(np.argmin(self.losses.sum(axis=1)))


class PairsTried(NamedTuple):
    """What pairs came to, and which were chosen on the way."""

    tried: dict[str, Tried]
    pairs: tuple[list[PairTable], list[PairTable]] = ([], [])  # of both rounds
    looked_at: int = 0


class FormTrial:
    """Forms learnt from some rows of a sample, and compared on others.

    Parameters
    ----------
    sample
        All rows.
    targets
        Theirs.
    learnt, scored
        Which rows are learnt from, and which are compared on.
    """

    def __init__(
        self, sample: FormSample, targets: SampleTargets, learnt: Rows, scored: Rows
    ) -> None:
        self._sample, self._targets = sample, targets
        self._learnt, self._scored = learnt, scored

    def with_pairs(self, curved: EncodedForm, tried: Tried, bins: VariablesInCells) -> PairsTried:
        """Return what pairs come to next to curves, for as long as any are significant."""
        first, looked_at = self.chosen(curved, tried, (), bins)
        second: list[PairTable] = []
        came_to: dict[str, Tried] = {}
        if first:
            paired = EncodedForm.of(self._sample.recipe(first), self._sample.cells)
            came_to[PAIRS] = self.tried(paired)
            if self._sample.rules.rounds > 1:
                second, _ = self.chosen(paired, came_to[PAIRS], first, bins)
        if second:
            both = self._sample.recipe(both_rounds(first, second))
            came_to[SECOND] = self.tried(EncodedForm.of(both, self._sample.cells))
        return PairsTried(came_to, (first, second), looked_at)

    def names(self, curved: EncodedForm, tried: Tried, wanted: Sequence[str]) -> list[str]:
        """Return the columns of whole numbers whose values differ beyond their curves.

        Not those that somebody named, `wanted`.
        """
        sample = self._sample
        may = [
            one
            for one in numbers_that_may_name(sample.today, sample.variables, self._learnt)
            if one[0] not in wanted
        ]
        if not may:
            return []
        g, h = self._left(curved, tried)
        return columns_of_names(may, g, h, phis_of(g, h, numbers=not self._targets.classes))

    def tried(self, form: EncodedForm, lams: tuple[float, ...] = ()) -> Tried:
        """Train a form for several lam, and sum the losses of the held-out rows."""
        rows, own = rows_of(form.table, self._learnt), self._targets.of(self._learnt)
        lams = lams or own.grid
        models = fitted_models(rows, form.d, own, lams, COARSE)
        X, theirs = form.seen(self._scored), self._targets.of(self._scored)
        losses = [theirs.losses(models.scores(k, X)) for k in range(len(lams))]
        return Tried(form.features, np.asarray(losses), models)

    def losses_without(self, form: EncodedForm, tried: Tried, own: slice) -> Floats:
        """Return the held-out rows' losses at the best lam, some features' weights taken as 0."""
        at = tried.models.models[tried.best]
        coef = at.coef.copy()
        coef[..., form.own(own.start, own.stop)] = 0.0
        models = SampleModels(tried.models.lams[:1], (at._replace(coef=coef),))
        scored = models.scores(0, form.seen(self._scored))
        return self._targets.of(self._scored).losses(scored)

    def _left(self, form: EncodedForm, tried: Tried) -> tuple[Floats, Floats]:
        """Return g and h of the rows that are learnt from, given a form at its best lam."""
        lam, own = tried.models.lams[tried.best], self._targets.of(self._learnt)
        model = fitted_models(rows_of(form.table, self._learnt), form.d, own, (lam,), FINE)
        return own.slopes(model.scores(0, form.seen(self._learnt)))

    def chosen(
        self, form: EncodedForm, tried: Tried, taken: Sequence[PairTable], bins: VariablesInCells
    ) -> tuple[list[PairTable], int]:
        """Return the pairs that most is left to be explained by, and how many were looked at.

        `bins` are the variables in cells, all rows.
        """
        rules, every = self._sample.rules, self._candidates(form, tried)
        if not rules.pairs or not every:
            return [], 0
        g, h = self._left(form, tried)
        cells = bins.some(self._learnt)
        numbers = not self._targets.classes
        phis = phis_of(g, h, numbers=numbers)
        before = [table.of for table in taken]
        again = [table.of for table in taken if self._sample.may_be_finer(table)]
        new = [pair for pair in every if pair not in before]
        measured = interactions(cells.usual, new, g, h, numbers=numbers)
        measured += interactions(cells.finer, again, g, h, numbers=numbers)
        holding = (
            one
            for one in ranked(measured)
            if holds(*cells.pair((one.a, one.b), finer=(one.a, one.b) in again), g, h, phis)
        )
        return self._sample.tables([*islice(holding, rules.pairs)], taken), len(every)

    def _candidates(self, form: EncodedForm, tried: Tried) -> list[tuple[Variable, Variable]]:
        """Return all pairs; of many columns those of the most important ones."""
        sample = self._sample
        every = pairs_of(sample.numbers, sample.categories)
        if len(every) <= MOST_LOOKED_AT:
            return every
        most = int(np.sqrt(2.0 * MOST_LOOKED_AT))
        variance = self._variance_by_column(form, tried)
        largest = {
            name for name, _ in sorted(variance.items(), key=lambda one: (-one[1], one[0]))[:most]
        }
        return [(a, b) for a, b in every if a.column in largest and b.column in largest][
            :MOST_LOOKED_AT
        ]

    def _variance_by_column(self, form: EncodedForm, tried: Tried) -> dict[str, float]:
        """Return the variance of what every column adds to the scores."""
        recipe, X = self._sample.recipe(), form.seen(self._learnt)
        coef = np.atleast_2d(tried.models.models[tried.best].coef)
        variance: dict[str, float] = {}
        start = 0
        for part in recipe.parts:
            own = form.own(start, start + part.width)
            name = getattr(part, "column", part.name)
            alone = np.zeros_like(coef)
            alone[:, own] = coef[:, own]
            added = sum(float(np.var(scores(w, 0.0, X))) for w in alone)
            variance[name] = variance.get(name, 0.0) + added
            start += part.width
        return variance
