"""The loss of every held-out row under several models, so that these can be compared row by row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.paired_mean import PairedMean
from fewpass.pipeline.rows.targets import Bounds
from fewpass.pipeline.scoring.probabilities import predicted_labels, scored_parts
from fewpass.solvers.losses import Loss, Problem, value
from fewpass.solvers.losses.wide_loss import WideLoss
from fewpass.solvers.protocol import Block, Weights, as_sides

Vector = NDArray[np.float64]


class RowLosses(NamedTuple):
    """Losses of n rows under each of M models."""

    loss: NDArray[np.float64]  # (M, n); of several classes their mean
    wrong: NDArray[Any] | None  # (M, n), or the share of times; None for numbers
    weight: NDArray[np.float64]  # (n,)
    #: (P, M) of the metric asked for in each of P parts of the rows, lower is better, infinite
    #: where it has no meaning; None: no metric was asked for
    costs: NDArray[np.float64] | None = None
    part_weight: NDArray[np.float64] | None = None  # (P,) of the rows of each part

    def criterion(self) -> NDArray[np.float64]:
        """Return what models are compared by, (M,): the lower the better."""
        costs = self.mean_costs()
        return self.mean() if costs is None else costs

    def mean_costs(self) -> NDArray[np.float64] | None:
        """Return the mean cost of every model, (M,); None where no metric was asked for.

        Parts in which it has no meaning for any model, such as rows of one label, do not count;
        None, too, where all are such.
        """
        if self.costs is None or self.part_weight is None:
            return None
        counts = np.isfinite(self.costs).any(axis=1)
        if not counts.any():
            return None
        weights = self.part_weight[counts]
        return np.asarray(np.average(self.costs[counts], axis=0, weights=weights), np.float64)

    def mean(self) -> NDArray[np.float64]:
        """Return the mean loss of every model, (M,)."""
        means: NDArray[np.float64] = self.loss @ self.weight / self.weight.sum()
        return means

    def errors(self) -> list[float | None]:
        """Return the share of wrong rows of every model."""
        if self.wrong is None:
            return [None] * len(self.loss)
        shares: list[float | None] = (self.wrong @ self.weight / self.weight.sum()).tolist()
        return shares

    def standard_errors(self, best: int) -> NDArray[np.float64]:
        """Return the standard errors of the mean distances from one model, (M,), row by row."""
        with np.errstate(invalid="ignore"):  # of infinite losses
            difference = self.loss - self.loss[best]
        return PairedMean.of(difference, self.weight).standard_error

    def with_models(self, others: RowLosses) -> RowLosses:
        """Return the same rows under these models and others."""
        wrong = None
        if self.wrong is not None and others.wrong is not None:
            wrong = np.concatenate([self.wrong, others.wrong])
        costs = None
        if self.costs is not None and others.costs is not None:
            costs = np.concatenate([self.costs, others.costs], axis=1)
        loss = np.concatenate([self.loss, others.loss])
        return RowLosses(loss, wrong, self.weight, costs, self.part_weight)


def row_losses(
    problem: Problem,
    block: Block,
    models: Iterable[Weights],
    bounds: Iterable[Bounds | None] = itertools.repeat(None),
) -> RowLosses:
    """Score the rows of a block; the coefficients are (d,), or (K, d) for classes 0 to K - 1.

    `bounds` are those that each model's predicted numbers are clipped to; by default none are.
    """
    pairs = zip(models, bounds, strict=False)
    each = [_of_model(problem, block, model, own) for model, own in pairs]
    wrong = None if problem.loss.takes_numbers else np.array([one for _, one in each])
    return RowLosses(np.array([loss for loss, _ in each]), wrong, block.weight)


def _of_model(
    problem: Problem, block: Block, model: Weights, bounds: Bounds | None
) -> tuple[Vector, NDArray[np.bool_]]:
    loss, wrong = np.zeros(len(block.y)), np.zeros(len(block.y), np.bool_)
    first = 0
    for scored in scored_parts(problem, model, block):
        own, s = slice(first, first + len(scored.y)), scored.scores
        s = s if bounds is None else clipped_scores(problem.loss, s, bounds)
        loss[own] = losses_of_scores(problem.loss, s, scored.y)
        wrong[own] = predicted_labels(s) != scored.classes
        first = own.stop
    return loss, wrong


def clipped_scores(loss: Loss, p: Vector, bounds: Bounds) -> Vector:
    """Return the scores (n,) whose predictions are within bounds."""
    if loss.response is None:
        return np.clip(p, *bounds)
    return np.minimum(p, np.log(bounds[1])) if bounds[1] > 0.0 else p  # of a logarithm


def losses_of_scores(
    loss: Loss, scores: Vector, y: Vector, of: Callable[..., Any] = value
) -> Vector:
    """Return the losses (n,) of rows with scores (n,), or (n, K) of one of all classes.

    Of classes each against the rest it is the mean.  `of` is the loss of one score, compiled
    (losses_by_row) where rows are many.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # losses may be infinite
        if isinstance(loss, WideLoss):
            return loss.losses(scores, y)
        if scores.ndim == 1:
            return np.asarray(of(loss, scores, y), np.float64)
        columns = enumerate(np.ascontiguousarray(scores.T))
        each = [of(loss, p, as_sides(y, k)) for k, p in columns]
        return np.asarray(np.mean(each, axis=0), np.float64)


def losses_of_all_rows(parts: Sequence[RowLosses]) -> RowLosses:
    """Return the losses of all rows, of models that correspond."""
    wrong = [one.wrong for one in parts if one.wrong is not None]
    return RowLosses(
        np.concatenate([one.loss for one in parts], axis=1),
        np.concatenate(wrong, axis=1) if wrong else None,
        np.concatenate([one.weight for one in parts]),
        *_costs_of_all(parts),
    )


def _costs_of_all(
    several: Sequence[RowLosses],
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return the costs in the parts of all, and the weights of these."""
    costs = [one.costs for one in several if one.costs is not None]
    weights = [one.part_weight for one in several if one.part_weight is not None]
    if len(costs) < len(several):
        return None, None
    return np.concatenate(costs), np.concatenate(weights)


def mean_over_times(times: Sequence[RowLosses], orders: Sequence[NDArray[np.int64]]) -> RowLosses:
    """Return the means of the same rows under models that correspond, each in an order of theirs.

    The loss of a row that was scored several times is one number for a standard error.
    """
    if len(times) == 1:
        return times[0]
    pairs = list(zip(times, orders, strict=True))
    wrong = [one.wrong[:, order] for one, order in pairs if one.wrong is not None]
    return RowLosses(
        np.mean([one.loss[:, order] for one, order in pairs], axis=0),
        np.mean(wrong, axis=0) if wrong else None,
        times[0].weight[orders[0]],
        *_costs_of_all(times),
    )
