"""Sums over scored rows, made once: all figures of an evaluation follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.calibration import BITS, score_bins
from fewpass.pipeline.paired_mean import PairedMean
from fewpass.pipeline.rows.targets import Bounds, TargetRule, clipped
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.probabilities import (
    OfScores,
    ScoredRows,
    predicted_labels,
    probabilities_if_any,
    require_threshold,
    require_two_labels,
    responses,
    scored_parts,
)
from fewpass.pipeline.scoring.reliability import ReliabilityPart
from fewpass.pipeline.scoring.row_losses import losses_of_scores
from fewpass.pipeline.settings.prediction_plan import FigureOptions
from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.losses.loss import losses_by_row
from fewpass.solvers.losses.wide_loss import WideLoss
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.solvers.softmax_of_scores import softmax_and_losses
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
    loss: PairedMean  # of several models against the rest the mean of theirs
    confusion: Vector  # (K, K) weight by label, then by predicted label; (0, 0) of numbers
    probabilities: ReliabilityPart
    positive: Vector  # (2^bits,) weight of rows of the second of two labels, by score; else (0,)
    negative: Vector  # likewise, of the first
    numbers: NumberSums

    @property
    def weight(self) -> float:
        """The weight of all rows."""
        return self.loss.weight


class Measured(NamedTuple):
    """Rules by which a model's scores become predictions."""

    n_labels: int  # 0: it predicts numbers
    probabilities: OfScores | None
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
        made = problem.loss if has_any else None
        return cls(n_labels, made, None, None, None)


def _mean_of(targets: Labels | Values) -> float | None:
    if not isinstance(targets, Values):
        return None
    return targets.mean if targets.weighted_mean is None else targets.weighted_mean


class RowPredictions(NamedTuple):
    """Rows with all that a model makes of them: figures of rows, and sums of these, follow."""

    rows: ScoredRows
    predicted: NDArray[Any]  # (n,) numbers of labels, or numbers within their bounds
    p: Vector | None  # (n,) or (n, K) probabilities
    losses: Vector  # (n,) of numbers those of unclipped predictions


def row_predictions(
    measured: Measured, problem: Problem, at: Weights, block: Block
) -> Iterator[RowPredictions]:
    """Yield the rows of a block with what a model makes of them, each scored once."""
    made, loss = measured.probabilities, problem.loss
    for rows in scored_parts(problem, at, block):
        p: Vector | None
        if isinstance(made, WideLoss):
            p, losses = softmax_and_losses(rows.scores, rows.classes)
        else:
            p = None if made is None else made.probabilities(rows.scores)
            losses = losses_of_scores(loss, rows.scores, rows.y, losses_by_row)
        if measured.n_labels:
            predicted: Any = predicted_labels(rows.scores, p, measured.threshold)
        else:
            predicted = clipped(responses(loss, rows.scores), measured.bounds)
        yield RowPredictions(rows, predicted, p, losses)


def sum_of_rows(measured: Measured, bits: int = BITS) -> Sum:
    """Return the sum of an evaluation; scores of two labels are counted by their first `bits`."""
    add = partial(_add_block, measured, bits)
    return Sum("reduce-scores", partial(_no_rows, measured.n_labels, bits), add)


def _no_rows(n_labels: int, bits: int, _at: Weights) -> FigureSums:
    bins, confusion = (1 << bits if n_labels == 2 else 0), np.zeros((n_labels, n_labels))
    numbers = NumberSums(np.zeros(3), *(0.0,) * 8)
    return FigureSums(
        0,
        PairedMean.none(),
        confusion,
        ReliabilityPart.none(),
        np.zeros(bins),
        np.zeros(bins),
        numbers,
    )


def _add_block(
    measured: Measured, bits: int, problem: Problem, at: Weights, block: Block, part: FigureSums
) -> FigureSums:
    for one in row_predictions(measured, problem, at, block):
        part = with_rows(measured, problem, one, part, bits)
    return part


def with_rows(
    measured: Measured, problem: Problem, one: RowPredictions, part: FigureSums, bits: int = BITS
) -> FigureSums:
    """Return the sums with those of rows; arrays of labels are added to in place."""
    weight = one.rows.weight
    rows = part.rows + int(np.count_nonzero(weight))
    part = part._replace(rows=rows, loss=add_parts(part.loss, PairedMean.of(one.losses, weight)))
    if measured.n_labels:
        return _with_labels(bits, one, part)
    return part._replace(numbers=add_parts(part.numbers, _of_numbers(measured, problem, one)))


def _with_labels(bits: int, one: RowPredictions, part: FigureSums) -> FigureSums:
    scores, classes, weight = one.rows.scores, one.rows.classes, one.rows.weight
    K = len(part.confusion)
    part.confusion[:] += np.bincount(classes * K + one.predicted, weight, K * K).reshape(K, K)
    if scores.ndim == 1:
        bins = score_bins(scores, bits)
        for side, own in ((part.positive, classes == 1), (part.negative, classes != 1)):
            side[:] += np.bincount(bins[own], weight[own], len(side))
    if one.p is None:
        return part
    came_true = ReliabilityPart.of(one.p, classes, weight)
    return part._replace(probabilities=add_parts(part.probabilities, came_true))


def _of_numbers(measured: Measured, problem: Problem, one: RowPredictions) -> NumberSums:
    y, weight = one.rows.y, one.rows.weight
    error, size, away = np.abs(one.predicted - y), np.abs(y), y - problem.target_level
    relative = np.divide(error, size, out=np.zeros(len(y)), where=size > 0.0)
    base = np.abs(y - (math.nan if measured.mean is None else measured.mean))
    sums = (error**2, error, relative, size == 0.0, away, away**2, base, base**2)
    null = _null_sums(problem.loss, one.rows) if problem.loss.is_steep else np.zeros(3)
    return NumberSums(null, *(float(weight @ column) for column in sums))


def _null_sums(loss: Loss, rows: ScoredRows) -> NDArray[np.float64]:
    """Return the sums that the loss of the best constant score follows from."""
    y, weight = rows.y, rows.weight
    if rows.offset is not None:
        taken = loss.at_offset(y, rows.offset)
        y, weight = taken.y, weight * taken.weight
    at_zero = losses_by_row(loss, np.zeros(len(y)), y)
    return np.array([weight.sum(), weight @ y, weight @ at_zero])


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
