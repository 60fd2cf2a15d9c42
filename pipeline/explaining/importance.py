"""Importance of every column: its share of the scores' variance, and the loss without it.

With contributions c_t (contributions.py), the score s = base + sum_t c_t, and rows weighted by r_i,

    share_t = cov(c_t, s) / var(s),      sum_t share_t = 1

A share is below 0 where a column takes back what others say.  Of several scores the sums over all
of them take the place of both.  The loss without a column is that of rows whose contributions of
the column are exchanged among themselves, at random and as often as their rows weigh (Breiman,
2001), minus the loss; the error of the difference is that of its mean over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.explaining.contributions import (
    TOGETHER,
    TermWeights,
    Vector,
    for_weights,
    term_weights,
)
from fewpass.pipeline.explaining.function_terms import StoredTerms, stored_terms
from fewpass.pipeline.explaining.score_terms import places_of_largest, terms_of
from fewpass.pipeline.paired_mean import PairedMean
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.passes.span import SpanReport
from fewpass.pipeline.rows.buffers import cut_rows
from fewpass.pipeline.runs.model import Model, require_same_columns
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.row_losses import losses_of_scores
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts, same
from fewpass.storage.dataset import Dataset

#: Terms at most; of more, those with the largest weights, and one of all others.
MOST_TERMS = 200
#: Rows whose columns are exchanged, of all: enough for the loss without each; of a piece of files.
EXCHANGED_ROWS, EXCHANGED_OF_PIECE = 50_000, 2_000
FEWEST_TOGETHER = 256  # rows, so that there are others to exchange with


class TermImportance(NamedTuple):
    """Importance of one term."""

    name: str
    share: float  # of the scores' variance; all shares add up to 1
    size: float  # mean of the contribution's absolute value
    loss_without: float  # how much the loss grows where it is exchanged among rows
    standard_error: float  # of loss_without


class Importance(NamedTuple):
    """Importance of the terms of a model's score on some rows."""

    rows: int
    exchanged_rows: int  # of them, for the loss without each term
    loss: float  # of these
    deviation: float  # standard deviation of the scores; of several scores of all together
    terms: tuple[TermImportance, ...]  # the largest share first


class ImportancePart(NamedTuple):
    """Sums over some rows; parts can be added."""

    rows: int
    weight: float
    score: Vector  # (K,) of contributions, all terms together
    square: Vector  # (K,)
    term: Vector  # (K, T)
    product: Vector  # (K, T) of terms and scores
    size: Vector  # (T,)
    exchanged: Exchanged


class Exchanged(NamedTuple):
    """Sums over the rows whose columns were exchanged."""

    rows: int
    loss: float
    more: PairedMean  # (T,) of the losses without each, minus the loss


def importance(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    on_report: Callable[[SpanReport], None] = lambda _: None,
    rules: Matching = BY_NAME,
) -> Importance:
    """Read a data set once, and return how important the terms of a model are on its rows.

    Raises BadInput when the data set's columns, scaling or labels are not the model's.
    """
    job = evaluation_job(model.record, dataset, model.lam, rules)
    matched = require_same_columns(model.record, dataset, rules)
    terms = terms_for(model)
    stored = terms.scaled.stored_as(matched, dataset.column_order)
    what = sum_of_importance(dataset.n_rows)
    handle = executor.submit("weights", same, stored)
    total = executor.result(reduce(executor, job, what, handle, on_report))
    return summary_of_terms(terms, total)


def terms_for(model: Model) -> StoredTerms:
    """Return the terms that are looked at: some, and all others as one, where they are many.

    Of an additive model its functions, as `fewpass explain` shows them.
    """
    stored = stored_terms(model) or _of_columns(model)
    squares = np.square(np.atleast_2d(model.weights.coef)).sum(axis=0)
    sizes = np.bincount(stored.terms.of, squares, len(stored.terms.names)).astype(np.float64)
    places = places_of_largest(sizes, MOST_TERMS)
    return stored if places is None else stored.merged(places)


def _of_columns(model: Model) -> StoredTerms:
    terms = terms_of(model)
    at = term_weights(model, terms)
    if model.shift is None:
        return StoredTerms(terms, at, at)
    return StoredTerms(terms, for_weights(at, model, model.unscaled), at)


def sum_of_importance(n_rows: int) -> Sum:
    """Return the sum for the importance of terms on n rows, or about as many."""
    share = min(1.0, EXCHANGED_ROWS / max(1, n_rows))
    return Sum("reduce-importance", _none, partial(add_importance, share, n_rows))


def sum_over_files(model: Model, terms: StoredTerms) -> Sum:
    """Return the sum for a model's rows as `on_one_scale` makes them, at the weights for these."""

    def zero(_at: Weights) -> ImportancePart:
        return _none(terms.raw)

    def add(
        problem: Problem, weights: Weights, block: Block, part: ImportancePart
    ) -> ImportancePart:
        own = terms.scaled if weights.coef is model.weights.coef else terms.raw
        return add_importance(1.0, EXCHANGED_OF_PIECE, problem, own, block, part)

    return Sum("importance", zero, add)


def _none(at: TermWeights) -> ImportancePart:
    K, T = at.means.shape
    exchanged = Exchanged(0, 0.0, PairedMean.none(T))
    sums = np.zeros(K), np.zeros(K), np.zeros((K, T)), np.zeros((K, T)), np.zeros(T)
    return ImportancePart(0, 0.0, *sums, exchanged)


def add_importance(
    share: float,
    most_rows: int,
    problem: Problem,
    at: TermWeights,
    block: Block,
    part: ImportancePart,
) -> ImportancePart:
    """Add a block; the columns of its first rows are exchanged: a share of all, or the most."""
    at = at._replace(
        weights=at.weights._replace(intercept=at.weights.intercept * problem.intercept)
    )
    most = max(2, min(most_rows, int(np.ceil(share * len(block.y)))))
    for own, c in _in_parts(at, block):
        if problem.loss.is_wide:  # what all scores have in common is no matter to it
            np.subtract(c, c.mean(axis=1, keepdims=True), out=c)
        part = _added(part, c, block.weight[own])
        if (first := own.start) < most:
            few = slice(first, min(own.stop, most))
            part = part._replace(
                exchanged=_with_exchanged(
                    part.exchanged, problem, at, block, few, c[: few.stop - first]
                )
            )
    return part


def _in_parts(at: TermWeights, block: Block) -> Iterator[tuple[slice, Vector]]:
    """Yield contributions (n, K, T) of a block's rows, some at a time."""
    n, step = len(block.y), max(FEWEST_TOGETHER, TOGETHER // at.means.size)
    for first in range(0, n, step):
        own = slice(first, min(first + step, n))
        yield own, at.contributions(cut_rows(block.rows, own.start, own.stop))


def _added(part: ImportancePart, c: Vector, weight: Vector) -> ImportancePart:
    s = c.sum(axis=2)
    weighted = weight[:, None] * s
    return part._replace(
        rows=part.rows + int(np.count_nonzero(weight)),
        weight=part.weight + float(weight.sum()),
        score=part.score + weighted.sum(axis=0),
        square=part.square + (weighted * s).sum(axis=0),
        term=part.term + np.einsum("i,ikt->kt", weight, c),
        product=part.product + np.einsum("ik,ikt->kt", weighted, c),
        size=part.size + weight @ np.abs(c).mean(axis=1),
    )


def _with_exchanged(
    part: Exchanged, problem: Problem, at: TermWeights, block: Block, own: slice, c: Vector
) -> Exchanged:
    """Add rows of a block, each column of which is exchanged among them."""
    y, weight = block.y[own], block.weight[own]
    offset = 0.0 if block.offset is None else block.offset[own, None]
    scores, order = c.sum(axis=2) + at.base + offset, _donors(weight)

    def losses(s: Vector) -> Vector:
        return losses_of_scores(problem.loss, s[:, 0] if s.shape[1] == 1 else s, y)

    loss, each = losses(scores), range(at.n_terms)
    more = np.stack([losses(scores + c[order, :, t] - c[:, :, t]) - loss for t in each])
    rows = int(np.count_nonzero(weight))
    added: Exchanged = add_parts(
        part, Exchanged(rows, float(weight @ loss), PairedMean.of(more, weight))
    )
    return added


def _donors(weight: Vector) -> NDArray[np.int64]:
    """Return the row (n,) whose cell each row gets: each as often as it weighs, in random order."""
    random, n = np.random.default_rng(len(weight)), len(weight)
    order = random.permutation(n)
    ends = np.cumsum(weight[order])
    if (weight == weight[0]).all() or not ends[-1] > 0.0:
        return order
    at = (np.arange(n) + random.random()) / n * ends[-1]
    drawn = np.minimum(np.searchsorted(ends, at, side="right"), n - 1)
    return order[random.permutation(drawn)]


def summary_of_terms(stored: StoredTerms, total: ImportancePart) -> Importance:
    """Return the figures from the sums over all rows."""
    C = total.weight
    variance = float((total.square / C - (total.score / C) ** 2).sum())
    together = (total.product / C - total.term * total.score[:, None] / C**2).sum(axis=0)
    shares = together / variance if variance > 0.0 else np.zeros(len(together))
    few = total.exchanged
    columns = (shares, total.size / C, few.more.mean, few.more.standard_error)
    each = [
        TermImportance(stored.terms.names[t], *(float(column[t]) for column in columns))
        for t in np.argsort(-shares, kind="stable").tolist()
    ]
    return Importance(
        total.rows,
        few.rows,
        few.loss / few.more.weight,
        float(np.sqrt(max(0.0, variance))),
        tuple(each),
    )
