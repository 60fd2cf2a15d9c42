"""A strength of the penalty for every part of a form: a column, a curve, a pair.

One lam for all parts charges a curve that bends as much as one that is flat.  Of features that are
scaled part by part, with weights w at a common strength A, and H the curvature of the rows' losses,

    edf_g = trace_g((H + A)^-1 H)        A_g = phi edf_g / ||w_g||^2

are the degrees of freedom that part g uses, and the strength by which the marginal likelihood of
the targets grows (MacKay 1992; Wood and Fasiolo 2017, with phi 1 of labels, and of numbers their
dispersion, sum of g^2 / h over n - sum of edf).  The features of the part are multiplied by
sqrt(A / A_g), and so once more: the problem stays one of a single lam, convex and certified.  Of
several scores edf and ||w||^2 are sums over these.

No matrix is inverted for the traces (Hutchinson 1989): targets X z of random weights z of -1 and +1
are fitted at the same strength, and z_g' w_g is what the part recovers.  docs/methods.md,
section 12.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.paired_mean import PairedMean
from fewpass.pipeline.rows.amounts import AmountsAgainstNumbers, prediction_errors
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.tables.additive.form_sample import EncodedForm, FormSample, Part
from fewpass.pipeline.tables.additive.noise_columns import is_surely_less
from fewpass.pipeline.tables.additive.sample_fit import (
    SampleModels,
    SampleTargets,
    fitted_models,
    rows_of,
)
from fewpass.pipeline.tables.additive.trials import PAIRS, FormTrial
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.solvers.kernels.scores import scores
from fewpass.storage.table import SparseTable

#: Times that strengths are estimated, each with models at those before; with more, rows that are
#: not learnt from lose more.
STEPS = 2
LEAST, MOST = 2.0**-7, 2.0**5  # factors
PER_OCTAVE = 4  # factors are powers of 2 to a quarter: no digits of chance
#: Random weights that are fitted, over all scores; rows that strengths are estimated by, at most.
PROBES, MOST_ROWS = 5, 6_000
#: Lam that both ways are compared at, of the common one.
ABOUT = (10.0**0.5, 1.0, 10.0**-0.5)
#: Rows for each part, of which a strength is estimated.
ROWS_OF_EACH = 10
#: Values of the rows times scores up to which strengths are estimated, and by every part.
MOST_VALUES, VALUES_OF_EACH_PART = 4e6, 1e5
LEAST_FREEDOM, LEAST_CURVATURE = 0.02, 1e-9  # of a part; of a row, where labels are sure
TINY = 1e-300  # of what is divided by
LEAST_LEFT = 0.05  # of the rows, at least, are left for the dispersion
PROBE = 67  # what a random generator is for

Random = np.random.Generator


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
    encoded = sample.encoded(recipe)
    widths = [encoded.own(*ends) for ends in _ends_of(recipe)]
    values = encoded.table.nnz * max(1, sample.targets.classes - 1)
    if ROWS_OF_EACH * len(widths) > sample.n_rows or values > MOST_VALUES:
        return None
    if values > VALUES_OF_EACH_PART:
        sample = replace(sample, parts=sample.parts[:1])
    if sample.targets.as_amounts is not None:
        sample, lam = _as_predicted_best(sample, encoded, lam)
    tried = StrengthsTried.on(sample, encoded, widths, lam)
    if tried.lose_more or (tried.factors == 1.0).all():
        return None
    factors = tried.factors
    if len(sample.parts) > 1:
        factors = strengths(encoded.table, widths, sample.targets, lam)
    one, own = tried.losses.sum(axis=1).tolist()
    return OwnStrengths(with_factors(recipe, factors.tolist()), own / one)


def _ends_of(recipe: Recipe) -> Iterator[tuple[int, int]]:
    """Yield where the features of every part begin and end."""
    yield from itertools.pairwise(np.cumsum([0, *(one.width for one in recipe.parts)]).tolist())


class StrengthsTried(NamedTuple):
    """Strengths by some rows, and what others lose (2, n): by one for all, and by these.

    Both at the best of three lam, so that these are compared with the best single one.
    """

    factors: Floats  # by all rows but the first part that is held out
    losses: Floats

    @classmethod
    def on(
        cls, sample: FormSample, encoded: EncodedForm, widths: Sequence[slice], lam: float
    ) -> StrengthsTried:
        """Hold every part out in turn."""
        each = [_tried_on(part, encoded, widths, sample.targets, lam) for part in sample.parts]
        losses = np.concatenate([own for _, own in each], axis=-1)
        best = losses.sum(axis=-1).argmin(axis=1)
        return cls(each[0][0], losses[(0, 1), best])

    @property
    def lose_more(self) -> bool:
        """True if held-out rows surely lose more by own strengths."""
        return is_surely_less(*self.losses)


def _tried_on(
    part: Part, encoded: EncodedForm, widths: Sequence[slice], targets: SampleTargets, lam: float
) -> tuple[Floats, Floats]:
    """Return factors by some rows; and losses (2, 3, n) of others, without them and with."""
    learnt, scored = part
    own, X, seen = targets.of(learnt), rows_of(encoded.table, learnt), encoded.seen(scored)
    factors, others = strengths(X, widths, own, lam), targets.of(scored)
    lams, each = tuple(lam * times for times in ABOUT), np.ones((2, encoded.d))
    each[1] = _of_features(factors, widths, encoded.d)
    models = [_models(X, features, own, lams) for features in each]
    losses = [[others.losses(one.scores(k, seen)) for k in range(len(lams))] for one in models]
    return factors, np.array(losses)


def _as_predicted_best(
    sample: FormSample, encoded: EncodedForm, lam: float
) -> tuple[FormSample, float]:
    """Return a sample of amounts, where these are nearer to held-out rows, and the best lam."""
    amounts = replace(sample, given=sample.targets.as_amounts)
    best = FormTrial.of(PAIRS, amounts, encoded, sample.parts[:1]).lam
    y, rows = sample.targets.y, np.concatenate([scored for _, scored in sample.parts])
    y = sample.targets.predictions(y)
    errors, others = (
        prediction_errors(np.clip(predicted, y.min(), y.max()), y[rows], float(y.mean()))
        for predicted in (_predictions(sample, encoded, lam), _predictions(amounts, encoded, best))
    )
    weight = sample.targets.row_weight[rows]
    above, of_numbers = (PairedMean.of(one, weight) for one in (others - errors, errors))
    each = np.stack([above.mean, above.standard_error], axis=1)
    each = each / np.maximum(of_numbers.mean, TINY)[:, None]
    nearer = AmountsAgainstNumbers(*each.ravel().tolist()).are_nearer
    return (amounts, best) if nearer else (sample, lam)


def _predictions(sample: FormSample, encoded: EncodedForm, lam: float) -> Floats:
    """Return what is predicted of held-out rows, part after part."""
    trial = FormTrial.of(PAIRS, sample, encoded, sample.parts, (lam,))
    each = zip(trial.models, sample.parts, strict=True)
    parts = [model.scores(0, encoded.seen(scored)) for model, (_, scored) in each]
    return sample.targets.predictions(np.concatenate(parts))


def _of_features(each: Floats, widths: Sequence[slice], d: int) -> Floats:
    """Return the factors of parts for their features (d,)."""
    factors = np.ones(d)
    for factor, own in zip(each, widths, strict=True):
        factors[own] = factor
    return factors


def _models(
    X: SparseTable, factors: Floats, targets: SampleTargets, lams: tuple[float, ...]
) -> SampleModels:
    """Return models of rows whose features are multiplied by factors (d,), for plain ones."""
    models = fitted_models(_scaled(X, factors), len(factors), targets, lams).models
    plain = (model._replace(coef=model.coef * factors) for model in models)
    return SampleModels(lams, tuple(plain))


def _scaled(X: SparseTable, factors: Floats) -> SparseTable:
    return X._replace(data=(X.data * factors[X.indices]).astype(X.data.dtype))


def strengths(
    X: SparseTable, widths: Sequence[slice], targets: SampleTargets, lam: float,
    steps: int = STEPS, probes: int = PROBES,
) -> Floats:  # fmt: skip
    """Return the factor of every part's features, by some of the rows (n, d)."""
    rng, d = np.random.default_rng(PROBE), max(own.stop for own in widths)
    if X.n_rows > MOST_ROWS:
        some = np.sort(rng.choice(X.n_rows, MOST_ROWS, replace=False))
        X, targets = rows_of(X, some), targets.of(some)
    factors, rows = np.ones(len(widths)), row_view(X)
    for _ in range(steps):
        each = _of_features(factors, widths, d)
        at = _models(X, each, targets, (lam,))
        g, h = targets.slopes(at.scores(0, rows))
        times = -(-probes // len(h))
        scaled, recovered = _scaled(X, each), np.zeros(d)
        for one in np.repeat(h, times, axis=0):
            recovered += _recovered(scaled, d, one, lam, rng) / times
        squares = np.square(np.atleast_2d(at.models[0].coef) / each).sum(axis=0)
        edf = np.array([recovered[own].sum() for own in widths])
        sums = np.array([squares[own].sum() for own in widths])
        used = np.maximum(edf, LEAST_FREEDOM)
        phi = 1.0 if targets.classes else _dispersion(g[0], h[0], float(used.sum()))
        factors = factors * np.sqrt(lam * np.maximum(sums, TINY) / (phi * used))
        factors = np.clip(factors, LEAST, MOST)
    return np.exp2(np.round(PER_OCTAVE * np.log2(factors)) / PER_OCTAVE)


def _dispersion(g: Floats, h: Floats, used: float) -> float:
    """Return the variance of numbers about their predictions, by slopes and curvatures (n,)."""
    n = len(g)
    squares = float(np.sum(g * g / np.maximum(h, TINY)))
    return max(squares / max(n - 1.0 - used, LEAST_LEFT * n), TINY)


def _recovered(X: SparseTable, d: int, h: Floats, lam: float, rng: Random) -> Floats:
    """Return z w (d,), of random weights z and w that rows with curvatures h (n,) fit to X z."""
    z, h = rng.choice((-1.0, 1.0), d), np.maximum(h, LEAST_CURVATURE)
    y = scores(z, 0.0, row_view(X))
    targets = SampleTargets(y - np.average(y, weights=h), weight=h)
    (model,) = fitted_models(X, d, targets, (lam / float(h.mean()),)).models
    recovered: Floats = z * model.coef
    return recovered


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
