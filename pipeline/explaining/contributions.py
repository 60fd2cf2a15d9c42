"""Contributions of each term to the scores of rows.

With weights w, intercept b, mean features m of the rows that were learnt from, and J_t the features
of term t,

    score(x) = base + sum_t c_t(x),    c_t(x) = sum_{j in J_t} w_j (x_j - m_j),    base = b + w . m

so the base is the mean score, and a term says how far its column takes a row from that.  Which of
several weights of a category is zero does not matter for it, as it does for the weights.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.score_terms import Places, ScoreTerms
from fewpass.pipeline.matching import Matched
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.predictor import on_one_scale
from fewpass.solvers.kernels.rows import DenseRows, Rows
from fewpass.solvers.protocol import Weights
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from fewpass.storage.table import Table

Vector = NDArray[np.float64]
#: Contributions that are in memory at once.
TOGETHER = 1 << 21


class TermWeights(NamedTuple):
    """A model's scores as sums of terms; features in the order of the rows that it is for."""

    weights: Weights
    of: Places  # (d,)
    means: Vector  # (K, T) that are taken off, K = 1 for one score
    #: What features are worth to terms besides, (K, d) and (d,): of pairs to their columns.
    more: tuple[tuple[Vector, Places], ...] = ()

    @property
    def n_terms(self) -> int:
        """T."""
        return int(self.means.shape[1])

    @property
    def base(self) -> Vector:
        """Return the mean scores (K,)."""
        base: Vector = np.atleast_1d(self.weights.intercept) + self.means.sum(axis=1)
        return base

    def stored_as(self, matched: Matched, order: ColumnOrder) -> TermWeights:
        """Return the same for rows of a data set whose columns are matched to these features."""

        def own(coef: Vector, of: Places) -> tuple[Vector, Places]:
            if matched.places is not None:
                coef, of = matched.numbers(coef), of[np.maximum(matched.places, 0)]
            return order.stored(coef), of if order.source is None else of[order.source]

        coef, of = own(self.weights.coef, self.of)
        weights = self.weights._replace(coef=coef)
        return self._replace(weights=weights, of=of, more=tuple(own(*each) for each in self.more))

    def merged(self, places: Places) -> TermWeights:
        """Return terms of which each of these, at `places` (T,), is one or a part."""
        means = np.stack([np.bincount(places, one).astype(np.float64) for one in self.means])
        more = tuple((coef, places[of]) for coef, of in self.more)
        return TermWeights(self.weights, places[self.of], means, more)

    def contributions(self, rows: Rows) -> Vector:
        """Return what terms contribute to the scores of rows, (n, K, T)."""
        total = -self.means
        for coef, of in ((np.atleast_2d(self.weights.coef), self.of), *self.more):
            sums = [_sums_by_term(w, of, self.n_terms, rows) for w in coef]
            total = total + np.stack(sums, axis=1)
        return total


def _sums_by_term(w: Vector, of: Places, n_terms: int, rows: Rows) -> Vector:
    """Return sum_{j in J_t} w_j x_ij, (n, T)."""
    if isinstance(rows, DenseRows):
        order = np.argsort(of, kind="stable")
        present, starts = np.unique(of[order], return_index=True)
        out = np.zeros((len(rows.X), n_terms))
        out[:, present] = np.add.reduceat(rows.X[:, order] * w[order], starts, axis=1)
        return out
    n = len(rows.indptr) - 1
    stored = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
    columns = rows.indices[stored].astype(np.int64)
    place = np.repeat(np.arange(n), np.diff(rows.indptr)) * n_terms + of[columns]
    sums = np.bincount(place, rows.data[stored] * w[columns], n * n_terms)
    return sums.astype(np.float64).reshape(n, n_terms)


def term_weights(model: Model, terms: ScoreTerms) -> TermWeights:
    """Return a model's score as a sum of terms, for scaled rows, features in the source's order."""
    means = mean_features(model)
    taken = [_of_means(w, terms, means) for w in np.atleast_2d(model.weights.coef)]
    return TermWeights(model.weights, terms.of, np.array(taken))


def _of_means(w: Vector, terms: ScoreTerms, means: Vector) -> Vector:
    return np.bincount(terms.of, w * means, len(terms.names)).astype(np.float64)


def contributions_of(at: TermWeights, model: Model, table: Table) -> Vector:
    """Return what terms contribute to the scores of raw rows, (n, K, T)."""
    weights, rows = on_one_scale(at.weights, model.scaler, table)
    return for_weights(at, model, weights).contributions(row_view(rows))


def for_weights(at: TermWeights, model: Model, weights: Weights) -> TermWeights:
    """Return the same terms for weights of rows that no shift was taken off, or for its own."""
    if weights.coef is at.weights.coef:
        return at
    assert model.shift is not None, "sparse rows are scaled, if they are not shifted"
    of_shift = [
        np.bincount(at.of, w * model.shift, at.n_terms) for w in np.atleast_2d(weights.coef)
    ]
    return TermWeights(weights, at.of, at.means + np.array(of_shift))


def mean_features(model: Model) -> Vector:
    """Return the mean features (d,) of the rows that a model learnt from, as they were stored.

    0 where rows were read once, and nobody measured them.

    Raises
    ------
    BadInput
        If they are gone.
    """
    if model.record.plan.source is not None:
        return np.zeros(model.record.n_features)
    stored = model.run.snapshots.load(model.snapshot, "mean".__eq__).arrays.get("mean")
    if stored is not None:
        return np.asarray(stored, np.float64)
    record = model.record
    with suppress(OSError, ValueError, KeyError, Damaged):
        dataset = Dataset.open(record.plan.dataset)
        if dataset.manifest.fingerprint == record.dataset_fingerprint:
            return dataset.column("mean")
    raise BadInput(
        f"What features are on average is not known any more: {record.plan.dataset} is gone, or "
        "another data set. Train again."
    )
