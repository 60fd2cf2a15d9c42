"""Metrics in common use, from sums over the rows: one pass, whatever the number of rows.

With weights of rows by label and by predicted label, C (K, K), the second of two labels positive,

    precision = C11 / (C01 + C11),  recall = C11 / (C10 + C11),  F1 = 2 C11 / (2 C11 + C01 + C10)

Of more labels F1 is the mean of all labels' (macro), and so is recall: the balanced accuracy.
Whatever has a base rate is given with it: the figure of a model that knows the shares of the labels
and no columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
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
from fewpass.pipeline.scoring.reliability import (
    Reliability,
    ReliabilityPart,
    add_reliability,
    no_reliability,
    reliability,
)
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights
from fewpass.storage.manifest import Labels, Values

Vector = NDArray[np.float64]


class AskedMetrics(NamedTuple):
    """What metrics depend on, besides rows and model."""

    threshold: float | None = None  # of the probability of the second of two labels
    top: float | None = None  # share of the rows with the highest scores, whose lift is measured


USUAL = AskedMetrics()
USUAL_TOP = 0.1


class MetricFigures(NamedTuple):
    """Metrics of some rows, weighted by row weights; None where one has no meaning.

    The names are scikit-learn's.
    """

    base_error: float | None = None  # of giving all rows the commonest label
    balanced_accuracy: float | None = None
    f1: float | None = None
    precision: float | None = None  # of two labels, as recall
    recall: float | None = None
    average_precision: float | None = None
    lift: float | None = None  # share of positive rows in the top rows, over that in all
    lift_top: float | None = None  # which share of the rows is the top
    log_loss: float | None = None  # of probabilities, as all below
    base_log_loss: float | None = None
    brier: float | None = None
    base_brier: float | None = None
    calibration_error: float | None = None
    mae: float | None = None  # mean absolute error of predicted numbers
    mape: float | None = None  # mean of |error / target|; None where a target is 0
    rmse: float | None = None
    base_precision: float | None = None  # of calling all rows positive
    base_mae: float | None = None  # of predicting the mean target of the rows learnt from
    base_rmse: float | None = None


class MetricPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    confusion: Vector  # (K, K) weight by label, then by predicted label; (0, 0) of numbers
    probabilities: ReliabilityPart
    weight: float  # of numbers, as all below
    absolute: float
    relative: float
    square: float
    zeros: float  # weight of targets that are 0
    base_absolute: float  # of the distance from the mean target of the rows learnt from
    base_square: float


class Measured(NamedTuple):
    """What a model makes of scores."""

    n_labels: int  # 0: it predicts numbers
    probabilities: Probabilities | None
    threshold: float | None
    bounds: Bounds | None
    mean: float | None  # of the targets learnt from; None of labels, and where it is unknown

    @classmethod
    def of(cls, model: Model, asked: AskedMetrics = USUAL) -> Measured:
        """Return what a model makes of scores.

        Raises BadInput for a threshold or a top that is no share, or is asked of other models than
        those of two labels.
        """
        if asked.threshold is not None:
            require_threshold(model, asked.threshold)
        if asked.top is not None:
            require_top(model, asked.top)
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

    def labels(self, scores: Vector) -> NDArray[np.intp]:
        """Return the numbers of the labels predicted (n,)."""
        p = None
        if self.threshold is not None and self.probabilities is not None:
            p = self.probabilities.of(scores)
        return predicted_labels(scores, p, self.threshold)


def require_top(model: Model, top: float) -> None:
    """Refuse a top that is no share of the rows, or that is asked where scores rank no label."""
    if not 0.0 < top <= 1.0:
        raise BadInput(f"top is {top}. Give a share of the rows, above 0 and at most 1: 0.1.")
    require_two_labels(model, "top")


def _mean_of(targets: Labels | Values) -> float | None:
    if not isinstance(targets, Values):
        return None
    return targets.mean if targets.weighted_mean is None else targets.weighted_mean


def sum_of_metrics(measured: Measured) -> Sum:
    """Return the sum for metrics."""
    return Sum("reduce-metrics", partial(_none, measured), partial(add_metrics, measured))


def _none(measured: Measured, _at: Weights) -> MetricPart:
    empty = np.zeros((measured.n_labels, measured.n_labels))
    return MetricPart(empty, no_reliability(), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def add_metrics(
    measured: Measured, problem: Problem, at: Weights, block: Block, part: MetricPart
) -> MetricPart:
    """Add a block."""
    if not measured.n_labels:
        return _with_numbers(measured, problem, at, block, part)
    confusion, came_true = part.confusion, part.probabilities
    for scores, classes, weight in scored_parts(problem, at, block):
        p = None if measured.probabilities is None else measured.probabilities.of(scores)
        if p is not None:
            came_true = add_reliability(p, classes, weight, came_true)
        best = predicted_labels(scores, p, measured.threshold)
        K = len(confusion)
        counts = np.bincount(classes * K + best, weight, K * K).reshape(K, K)
        confusion = confusion + counts
    return part._replace(confusion=confusion, probabilities=came_true)


def _with_numbers(
    measured: Measured, problem: Problem, at: Weights, block: Block, part: MetricPart
) -> MetricPart:
    y, weight = block.y, block.weight
    predicted = clipped(responses(problem.loss, block_scores(problem, at, block)), measured.bounds)
    error, size = np.abs(predicted - y), np.abs(y)
    zero = size == 0.0
    relative = np.divide(error, size, out=np.zeros(len(y)), where=~zero)
    base = np.abs(y - (math.nan if measured.mean is None else measured.mean))
    return part._replace(
        weight=part.weight + float(weight.sum()),
        absolute=part.absolute + float(weight @ error),
        relative=part.relative + float(weight @ relative),
        square=part.square + float(weight @ error**2),
        zeros=part.zeros + float(weight[zero].sum()),
        base_absolute=part.base_absolute + float(weight @ base),
        base_square=part.base_square + float(weight @ base**2),
    )


def metrics_of(
    total: MetricPart, sides: tuple[Vector, Vector] | None, asked: AskedMetrics = USUAL
) -> MetricFigures:
    """Return the metrics from the sums over all rows.

    Parameters
    ----------
    sides
        Weights of positive and of negative rows by ascending score; None of more than two labels.
    """
    if not len(total.confusion):
        return _of_numbers(total)
    C = total.confusion
    metrics = _of_labels(C)._replace(**_of_probabilities(reliability(total.probabilities), C))
    if len(C) != 2 or sides is None or not C.sum(axis=1).all():
        return metrics
    top = USUAL_TOP if asked.top is None else asked.top
    lift, average = lift_in_top(*sides, top), average_precision(*sides)
    return metrics._replace(average_precision=average, lift=lift, lift_top=top)


def _of_numbers(total: MetricPart) -> MetricFigures:
    relative = total.relative / total.weight if total.zeros == 0.0 else None
    figures = MetricFigures(
        mae=total.absolute / total.weight,
        mape=relative,
        rmse=float(np.sqrt(total.square / total.weight)),
    )
    if math.isnan(total.base_absolute):
        return figures
    return figures._replace(
        base_mae=total.base_absolute / total.weight,
        base_rmse=float(np.sqrt(total.base_square / total.weight)),
    )


def _of_labels(C: Vector) -> MetricFigures:
    given, called, right = C.sum(axis=1), C.sum(axis=0), np.diagonal(C)
    base = float(1.0 - given.max() / given.sum())
    there, either = given > 0.0, given + called > 0.0
    balanced = float((right[there] / given[there]).mean())
    f1 = 2.0 * right[either] / (given + called)[either]
    if len(C) != 2:
        return MetricFigures(base, balanced, float(f1.mean()))
    of_positive = float(2.0 * right[1] / (given[1] + called[1])) if either[1] else None
    precision = float(right[1] / called[1]) if called[1] else None
    recall = float(right[1] / given[1]) if given[1] else None
    return MetricFigures(
        base, balanced, of_positive, precision, recall,
        base_precision=float(given[1] / given.sum()),
    )  # fmt: skip


def _of_probabilities(figures: Reliability | None, C: Vector) -> dict[str, float]:
    if figures is None:
        return {}
    shares = C.sum(axis=1) / C.sum()
    some = shares[shares > 0.0]
    square = float(shares @ shares)
    return {
        "log_loss": figures.log_loss,
        "base_log_loss": 0.0 - float(some @ np.log(some)),
        "brier": figures.brier,
        "base_brier": float(shares[0] * shares[1]) if len(shares) == 2 else 1.0 - square,
        "calibration_error": figures.calibration_error,
    }


def lift_in_top(positive: Vector, negative: Vector, top: float) -> float:
    """Return the share of positive rows among the highest scores over that among all.

    Of a bin that the boundary goes through its rows count in proportion.
    """
    both = (positive + negative)[::-1]
    share = top * both.sum()
    before = np.cumsum(both) - both
    taken = np.clip(
        np.divide(share - before, both, where=both > 0.0, out=np.zeros(len(both))), 0, 1
    )
    return float(positive[::-1] @ taken / share / (positive.sum() / both.sum()))


def average_precision(positive: Vector, negative: Vector) -> float:
    """Return the sum of precisions times what recall gains, from the highest score down."""
    used = np.flatnonzero(positive + negative)[::-1]
    right = np.cumsum(positive[used])
    precision = right / (right + np.cumsum(negative[used]))
    return float(positive[used] @ precision / right[-1])


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
