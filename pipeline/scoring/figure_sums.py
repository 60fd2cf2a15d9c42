"""What is summed of scored rows, once: all figures of an evaluation follow from these sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.calibration import BITS, score_bins
from fewpass.pipeline.rows.targets import Bounds, TargetRule, clipped
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.calibrating import scored_parts
from fewpass.pipeline.scoring.probabilities import (
    Probabilities,
    block_scores,
    predicted_labels,
    probabilities_if_any,
    require_threshold,
    require_two_labels,
    responses,
)
from fewpass.pipeline.scoring.reliability import ReliabilityPart, add_reliability, no_reliability
from fewpass.pipeline.settings.prediction_plan import FigureOptions
from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.losses.loss import loss_sum
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.solvers.wide_gradient import losses_and_ranks
from fewpass.storage.manifest import Labels, Values

Vector = NDArray[np.float64]

USUAL = FigureOptions.usual()


class NumberSums(NamedTuple):
    """Sums over rows whose targets y and predictions are numbers."""

    null: Vector  # (3,) of rows without offsets: weight, y, losses of zero scores
    square: float  # of the error
    absolute: float
    relative: float  # of the error over the target, where that is not 0
    zeros: float  # weight of targets that are 0
    away: float  # of y from the level that the intercept is charged from
    away_square: float
    base_absolute: float  # of the distance from the mean target of the rows learnt from
    base_square: float


class FigureSums(NamedTuple):
    """Sums over some rows; parts can be added."""

    rows: int
    weight: float
    loss: float  # of several models against the rest the mean of theirs
    confusion: Vector  # (K, K) weight by label, then by predicted label; (0, 0) of numbers
    probabilities: ReliabilityPart
    positive: Vector  # (2^bits,) weight of rows of the second of two labels, by score; else (0,)
    negative: Vector  # likewise, of the first
    numbers: NumberSums


class Measured(NamedTuple):
    """What a model makes of scores."""

    n_labels: int  # 0: it predicts numbers
    probabilities: Probabilities | None
    threshold: float | None
    bounds: Bounds | None
    mean: float | None  # of the targets learnt from; None of labels, and where it is unknown

    @classmethod
    def of(cls, model: Model, asked: FigureOptions = USUAL) -> Measured:
        """Return what a model makes of scores.

        Raises BadInput for a threshold or lift of other models than those of two labels.
        """
        if asked.threshold is not None:
            require_threshold(model, asked.threshold)
        if asked.lift_at is not None:
            require_two_labels(model, "lift_at")
        n_labels = len(model.weights.coef) if model.weights.coef.ndim == 2 else 2
        made = probabilities_if_any(model)
        if not model.predicts_numbers:
            return cls(n_labels, made, asked.threshold, model.bounds, None)
        return cls(0, made, asked.threshold, model.bounds, _mean_of(model.record.targets))

    @classmethod
    def of_problem(cls, problem: Problem, rule: TargetRule) -> Measured:
        """Return what models of a problem make of scores, without a calibration and unclipped."""
        n_labels = rule.n_classes or (2 if rule.positive >= 0 else 0)
        has_any = bool(n_labels) and problem.loss.link is not None
        made = Probabilities(None, problem.loss) if has_any else None
        return cls(n_labels, made, None, None, None)


def _mean_of(targets: Labels | Values) -> float | None:
    if not isinstance(targets, Values):
        return None
    return targets.mean if targets.weighted_mean is None else targets.weighted_mean


def sum_of_rows(measured: Measured, bits: int = BITS) -> Sum:
    """Return the sum of an evaluation; scores of two labels are counted by their first `bits`."""
    add = partial(_add_rows, measured, bits)
    return Sum("reduce-scores", partial(_no_rows, measured.n_labels, bits), add)


def _no_rows(n_labels: int, bits: int, _at: Weights) -> FigureSums:
    bins, confusion = (1 << bits if n_labels == 2 else 0), np.zeros((n_labels, n_labels))
    numbers = NumberSums(np.zeros(3), *(0.0,) * 8)
    return FigureSums(
        0, 0.0, 0.0, confusion, no_reliability(), np.zeros(bins), np.zeros(bins), numbers
    )


def _add_rows(
    measured: Measured, bits: int, problem: Problem, at: Weights, block: Block, part: FigureSums
) -> FigureSums:
    weight = block.weight
    rows = part.rows + int(np.count_nonzero(weight))
    part = part._replace(rows=rows, weight=part.weight + float(weight.sum()))
    if not measured.n_labels:
        return _with_numbers(measured, problem, at, block, part)
    if problem.loss.is_wide:
        part = part._replace(loss=part.loss + losses_and_ranks(problem, at, block)[0])
    for scored in scored_parts(problem, at, block):
        part = _with_labels(measured, bits, problem.loss, *scored, part)
    return part


def _with_labels(
    measured: Measured, bits: int, loss: Loss, scores: Vector, classes: NDArray[np.intp],
    weight: Vector, part: FigureSums,
) -> FigureSums:  # fmt: skip
    """Add rows of labels; arrays of the part are added to in place."""
    p = None if measured.probabilities is None else measured.probabilities.of(scores)
    best, K = predicted_labels(scores, p, measured.threshold), measured.n_labels
    part.confusion[:] += np.bincount(classes * K + best, weight, K * K).reshape(K, K)
    if scores.ndim == 1:
        bins = score_bins(scores, bits)
        for side, own in ((part.positive, classes == 1), (part.negative, classes != 1)):
            side[:] += np.bincount(bins[own], weight[own], len(side))
    came_true = part.probabilities
    if p is not None:
        came_true = add_reliability(p, classes, weight, came_true)
    more = 0.0 if loss.is_wide else _loss_of_each(loss, scores, classes, weight)
    return part._replace(loss=part.loss + more, probabilities=came_true)


def _loss_of_each(loss: Loss, scores: Vector, classes: NDArray[np.intp], weight: Vector) -> float:
    """Return the loss of scores (n,), or the mean of that of several (n, K) against the rest."""
    if scores.ndim == 1:
        return loss_sum(loss, scores, np.where(classes == 1, 1.0, -1.0), weight)
    every = np.ascontiguousarray(scores.T)
    sides = (np.where(classes == k, 1.0, -1.0) for k in range(len(every)))
    each = [loss_sum(loss, p, y, weight) for p, y in zip(every, sides, strict=True)]
    return sum(each) / len(each)


def _with_numbers(
    measured: Measured, problem: Problem, at: Weights, block: Block, part: FigureSums
) -> FigureSums:
    """Add rows of numbers; their loss is that of unclipped predictions."""
    p, y, weight = block_scores(problem, at, block), block.y, block.weight
    error = np.abs(clipped(responses(problem.loss, p), measured.bounds) - y)
    size, away = np.abs(y), y - problem.target_level
    relative = np.divide(error, size, out=np.zeros(len(y)), where=size > 0.0)
    base = np.abs(y - (math.nan if measured.mean is None else measured.mean))
    sums = (error**2, error, relative, size == 0.0, away, away**2, base, base**2)
    null = _null_sums(problem.loss, block) if problem.loss.is_steep else np.zeros(3)
    own = NumberSums(null, *(float(weight @ one) for one in sums))
    loss = part.loss + loss_sum(problem.loss, p, y, weight)
    return part._replace(loss=loss, numbers=add_parts(part.numbers, own))


def _null_sums(loss: Loss, block: Block) -> NDArray[np.float64]:
    """Return the sums that the loss of the best constant score follows from."""
    y, weight = block.y, block.weight
    if block.offset is not None:
        taken = loss.at_offset(y, block.offset)
        y, weight = taken.y, weight * taken.weight
    at_zero = loss_sum(loss, np.zeros(len(y)), y, weight)
    return np.array([weight.sum(), weight @ y, at_zero])


def side_by_side(sums: Sequence[Sum]) -> Sum:
    """Return several sums as one, whose parts are tuples."""
    name = sums[0].name
    return Sum(name, partial(_zeros, tuple(sums)), partial(_add_each, tuple(sums)))


def _zeros(sums: tuple[Sum, ...], at: Any) -> tuple[Any, ...]:
    return tuple(what.zero(at) for what in sums)


def _add_each(
    sums: tuple[Sum, ...], problem: Problem, at: Any, block: Block, parts: tuple[Any, ...]
) -> tuple[Any, ...]:
    return tuple(what.add(problem, at, block, part) for what, part in zip(sums, parts, strict=True))
