"""A strength of the penalty for every part of a form: a column, a curve, a pair.

One lam for all parts charges a curve that bends as much as one that is flat.  Of features that are
scaled part by part, with weights w at a common strength A, and H the curvature of the rows' losses,

    edf_g = d_g - A trace_g((H + A)^-1)        A_g = phi edf_g / ||w_g||^2

are the degrees of freedom that part g uses, and the strength by which the marginal likelihood of
the targets grows (MacKay 1992; Wood and Fasiolo 2017, with phi 1 of labels, and of numbers their
dispersion, sum of g^2 / h over n - sum of edf).  The features of the part are multiplied by
sqrt(A / A_g), and so once more: the problem stays one of a single lam, convex and certified.  Of
several scores edf and ||w||^2 are sums over these.  docs/methods.md, section 12.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.rows.amounts import AmountsAgainstNumbers, prediction_errors
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.tables.additive.form_sample import EncodedForm, FormSample, Part, Rows
from fewpass.pipeline.tables.additive.noise_columns import is_surely_less
from fewpass.pipeline.tables.additive.sample_fit import (
    FREE,
    MOST_SOLVED,
    SampleModels,
    SampleTargets,
    fitted_models,
    rows_of,
)
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.solvers.batch.normal_equations import moments_of
from fewpass.solvers.drive import NO_ROW_STATE
from fewpass.solvers.losses import Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block
from fewpass.solvers.registry import LOSS_OF_NUMBERS, loss_class
from fewpass.storage.table import SparseTable

#: Times that strengths are estimated, each with models at those before; more gain little, and
#: lose where the rows are unlike what is predicted.
STEPS = 3
LEAST, MOST = 2.0**-7, 2.0**5  # factors
PER_OCTAVE = 4  # factors are powers of 2 to a quarter: no digits of chance
#: Rows for each part, of which a strength is estimated.
ROWS_OF_EACH = 10
#: Scores times the cube of features up to which strengths are estimated, and by every part.
MOST_WORK, WORK_OF_EACH_PART = 1e10, 3e8
LEAST_FREEDOM, TINY = 1e-8, 1e-300  # of a part; of what is divided by
LEAST_LEFT = 0.05  # of the rows, at least, are left for the dispersion
WHOLE = 64  # columns whose triangle is inverted at once


class OwnStrengths(NamedTuple):
    """A recipe whose parts have strengths of their own."""

    recipe: Recipe
    share: float  # what held-out rows lose, of what they do by one strength for all


def smoothed(recipe: Recipe, sample: FormSample, lam: float) -> OwnStrengths | None:
    """Return a recipe with strengths for its parts; None where held-out rows surely lose more.

    None also where there are few rows, or many features.  Where numbers are predicted better as
    amounts (rows/amounts.py), as `train` will find, strengths are those of amounts.

    Parameters
    ----------
    recipe
        Of the sample's columns, whose features have no factors yet.
    sample
        Rows with targets, and parts of them that are held out.
    lam
        Common strength, of 1/n.
    """
    encoded, targets = sample.encoded(recipe), sample.targets
    work = max(1, targets.classes - 1) * float(encoded.d) ** 3
    if work > MOST_WORK or ROWS_OF_EACH * len(recipe.parts) > sample.n_rows:
        return None
    widths = [encoded.own(*ends) for ends in _ends_of(recipe)]
    parts = sample.parts if work <= WORK_OF_EACH_PART else sample.parts[:1]
    tried = StrengthsTried.on(parts, encoded, widths, targets, lam)
    amounts = targets.as_amounts
    if amounts is not None:
        multiplied = StrengthsTried.on(parts, encoded, widths, amounts, None)
        y, rows = targets.predictions(targets.y), np.concatenate([scored for _, scored in parts])
        if _above(tried, multiplied, y, rows).are_nearer:
            tried = multiplied
    if tried.lose_more or (tried.factors == 1.0).all():
        return None
    factors = tried.factors
    if len(parts) > 1:
        factors = strengths(encoded.table, widths, tried.targets, tried.lam)
    one, own = tried.losses.sum(axis=1).tolist()
    return OwnStrengths(with_factors(recipe, factors.tolist()), own / one)


def _ends_of(recipe: Recipe) -> Iterator[tuple[int, int]]:
    """Yield where the features of every part begin and end."""
    yield from itertools.pairwise(np.cumsum([0, *(one.width for one in recipe.parts)]).tolist())


class StrengthsTried(NamedTuple):
    """Strengths by some rows, and what others lose (2, n): by one for all, and by these."""

    targets: SampleTargets
    lam: float
    factors: Floats  # by all rows but the first part that is held out
    losses: Floats
    scores: Floats  # (2, ..., n)

    @classmethod
    def on(
        cls, parts: Sequence[Part], encoded: EncodedForm, widths: Sequence[slice],
        targets: SampleTargets, lam: float | None,
    ) -> StrengthsTried:  # fmt: skip
        """Hold every part out; lam None: the best one by one strength for all."""
        if lam is None:
            lam = _best_lam(parts, encoded, targets)
        each = [_tried_on(part, encoded, widths, targets, lam) for part in parts]
        losses, scores = (np.concatenate([one[k] for one in each], axis=-1) for k in (1, 2))
        return cls(targets, lam, each[0][0], losses, scores)

    @property
    def lose_more(self) -> bool:
        """Whether held-out rows surely lose more by own strengths."""
        return is_surely_less(*self.losses)

    @property
    def predictions(self) -> Floats:
        """The numbers (n,) that are predicted of held-out rows."""
        return self.targets.predictions(self.scores[0 if self.lose_more else 1])


def _tried_on(
    part: Part, encoded: EncodedForm, widths: Sequence[slice], targets: SampleTargets, lam: float
) -> tuple[Floats, Floats, Floats]:
    """Return factors by some rows; losses (2, n) and scores of others, without them and with."""
    learnt, scored = part
    own, X, seen = targets.of(learnt), rows_of(encoded.table, learnt), encoded.seen(scored)
    factors, others = strengths(X, widths, own, lam), targets.of(scored)
    one = each = _model(X, np.ones(encoded.d), own, lam).scores(0, seen)
    if (factors != 1.0).any():
        each = _model(X, _of_features(factors, widths, encoded.d), own, lam).scores(0, seen)
    return factors, np.array([others.losses(one), others.losses(each)]), np.array([one, each])


def _best_lam(parts: Sequence[Part], encoded: EncodedForm, targets: SampleTargets) -> float:
    """Return the lam of the grid that held-out rows lose least by."""
    losses = np.zeros(len(targets.grid))
    for learnt, scored in parts:
        X, own, others = rows_of(encoded.table, learnt), targets.of(learnt), targets.of(scored)
        models, seen = fitted_models(X, encoded.d, own, targets.grid), encoded.seen(scored)
        losses += [others.losses(models.scores(k, seen)).sum() for k in range(len(losses))]
    return targets.grid[int(np.argmin(losses))]


def _above(
    numbers: StrengthsTried, amounts: StrengthsTried, y: Floats, rows: Rows
) -> AmountsAgainstNumbers:
    """Return the errors of both's predictions of some rows, whose targets are y (n,) of all."""
    errors, others = (
        prediction_errors(np.clip(one.predictions, y.min(), y.max()), y[rows], float(y.mean()))
        for one in (numbers, amounts)
    )
    above, means = others - errors, np.maximum(errors.mean(axis=1), TINY)
    shares = above.mean(axis=1) / means
    deviations = above.std(axis=1) / np.sqrt(len(rows)) / means
    return AmountsAgainstNumbers(*np.stack([shares, deviations], axis=1).ravel().tolist())


def _of_features(each: Floats, widths: Sequence[slice], d: int) -> Floats:
    """Return the factors of parts for their features (d,)."""
    factors = np.ones(d)
    for factor, own in zip(each, widths, strict=True):
        factors[own] = factor
    return factors


def _model(X: SparseTable, factors: Floats, targets: SampleTargets, lam: float) -> SampleModels:
    """Return the model of rows whose features are multiplied by factors (d,), for plain ones."""
    (model,) = fitted_models(_scaled(X, factors), len(factors), targets, (lam,)).models
    return SampleModels((lam,), (model._replace(coef=model.coef * factors),))


def _scaled(X: SparseTable, factors: Floats) -> SparseTable:
    return X._replace(data=(X.data * factors[X.indices]).astype(X.data.dtype))


def strengths(
    X: SparseTable, widths: Sequence[slice], targets: SampleTargets, lam: float
) -> Floats:
    """Return the factor of every part's features, by rows (n, d)."""
    d, rows = max(own.stop for own in widths), row_view(X)
    factors = np.ones(len(widths))
    for _ in range(STEPS if d <= MOST_SOLVED or not targets.multiply else 0):
        each = _of_features(factors, widths, d)
        at = _model(X, each, targets, lam)
        g, h = targets.slopes(at.scores(0, rows))
        free = np.sum([_diagonal(X, each, one, lam) for one in h], axis=0)
        edf = [len(h) * (own.stop - own.start) - lam * free[own].sum() for own in widths]
        used = np.maximum(edf, LEAST_FREEDOM)
        squares = np.square(np.atleast_2d(at.models[0].coef) / each).sum(axis=0)
        sums = np.array([squares[own].sum() for own in widths])
        phi = 1.0 if targets.classes else _dispersion(g[0], h[0], float(used.sum()))
        factors = factors * np.sqrt(lam * np.maximum(sums, TINY) / (phi * used))
        factors = np.clip(factors, LEAST, MOST)
    return np.exp2(np.round(PER_OCTAVE * np.log2(factors)) / PER_OCTAVE)


def _dispersion(g: Floats, h: Floats, used: float) -> float:
    """Return the variance of numbers about their predictions, by slopes and curvatures (n,)."""
    n = len(g)
    squares = float(np.sum(g * g / np.maximum(h, TINY)))
    return max(squares / max(n - 1.0 - used, LEAST_LEFT * n), TINY)


def _diagonal(X: SparseTable, factors: Floats, h: Floats, lam: float) -> Floats:
    """Return the diagonal of (sum of h x x' + lam)^-1, (d,), of scaled features."""
    n, d = X.n_rows, len(factors)
    problem = Problem(loss_class(LOSS_OF_NUMBERS)(), L2(lam), 1.0, FREE * lam, 0.0)
    block = Block(row_view(_scaled(X, factors)), np.zeros(n), h, np.arange(n), NO_ROW_STATE)
    H = moments_of(problem, d, block).S
    H[np.diag_indices_from(H)] += np.append(np.full(d, lam), FREE * lam)
    inverse = _inverse_of(np.asarray(np.linalg.cholesky(H), np.float64))
    diagonal: Floats = np.square(inverse).sum(axis=0)[:-1]
    return diagonal


def _inverse_of(L: Floats) -> Floats:
    """Return the inverse of a lower triangle, half by half: a third of the work of any matrix's."""
    n = len(L)
    if n <= WHOLE:
        return np.tril(np.linalg.inv(L))
    half = n // 2
    inverse = np.zeros_like(L)
    inverse[:half, :half] = first = _inverse_of(L[:half, :half])
    inverse[half:, half:] = second = _inverse_of(L[half:, half:])
    inverse[half:, :half] = -second @ (L[half:, :half] @ first)
    return inverse


def with_factors(recipe: Recipe, factors: Sequence[float]) -> Recipe:
    """Return a recipe whose parts' features are multiplied by factors."""
    assert recipe.additive is not None, "it has curves"
    each = iter(factors)

    def scaled(parts: Sequence[object]) -> tuple[object, ...]:
        return tuple(part.model_copy(update={"factor": next(each)}) for part in parts)  # type: ignore[attr-defined]

    columns = scaled(recipe.columns)
    crosses = tuple(
        cross.model_copy(update={"pairs": pairs})
        for cross, pairs in zip(
            recipe.crosses, scaled([c.pairs for c in recipe.crosses]), strict=True
        )
    )
    own = {"splines": scaled(recipe.additive.splines), "pairs": scaled(recipe.additive.pairs)}
    additive = recipe.additive.model_copy(update=own)
    return recipe.model_copy(update={"columns": columns, "crosses": crosses, "additive": additive})
