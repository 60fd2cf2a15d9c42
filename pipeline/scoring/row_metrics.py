"""Metrics in common use, from sums over the rows: one pass, whatever the number of rows.

With weights of rows by label and by predicted label, C (K, K), the second of two labels positive,

    precision = C11 / (C01 + C11),  recall = C11 / (C10 + C11),  F1 = 2 C11 / (2 C11 + C01 + C10)

Of more labels F1 is the mean of all labels' (macro), and so is recall: the balanced accuracy.
Whatever has a base rate is given with it: the figure of a model that knows the shares of the labels
and no columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.scoring.figure_sums import USUAL, FigureSums
from fewpass.pipeline.scoring.reliability import Reliability
from fewpass.pipeline.settings.prediction_plan import FigureOptions

Vector = NDArray[np.float64]

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


def metrics_of(
    total: FigureSums, diagram: Reliability | None, asked: FigureOptions = USUAL
) -> MetricFigures:
    """Return the metrics from the sums over all rows."""
    C, sides = total.confusion, (total.positive, total.negative)
    if not len(C):
        return _of_numbers(total)
    metrics = _of_labels(C)._replace(**_of_probabilities(diagram, C))
    if len(C) != 2 or not C.sum(axis=1).all():
        return metrics
    top = USUAL_TOP if asked.lift_at is None else asked.lift_at
    lift, average = lift_in_top(*sides, top), average_precision(*sides)
    return metrics._replace(average_precision=average, lift=lift, lift_top=top)


def _of_numbers(total: FigureSums) -> MetricFigures:
    C, sums = total.weight, total.numbers
    figures = MetricFigures(
        mae=sums.absolute / C,
        mape=sums.relative / C if sums.zeros == 0.0 else None,
        rmse=math.sqrt(sums.square / C),
    )
    if math.isnan(sums.base_absolute):
        return figures
    return figures._replace(
        base_mae=sums.base_absolute / C, base_rmse=math.sqrt(sums.base_square / C)
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
