"""The registry of metrics: which models have each, which way is better, and how it is written.

Formulas hang on the names: they are fields of an Evaluation and of its MetricFigures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

#: Models that have a metric: all, those of labels, of two labels, with probabilities, of numbers,
#: of amounts and counts (with a deviance), of quantiles.
Kind = Literal["any", "labels", "two labels", "probabilities", "numbers", "amounts", "quantiles"]


class Metric(NamedTuple):
    """Properties of a metric, wherever it is computed, chosen by or shown."""

    of: Kind
    words: str
    form: str = ".5g"  # in pages and cards
    higher: bool = False  # whether higher is better
    base: str | None = None  # the same of a model that knows no columns, in MetricFigures
    chooses: bool = True  # whether models may be chosen by it
    brief: bool = False  # whether it is shown where there is space for few


METRICS = {
    "loss": Metric("any", "mean loss", ".6g", brief=True),
    "objective": Metric("any", "objective", ".6g", chooses=False),
    "error": Metric("labels", "error", ".3%", base="base_error", brief=True),
    "auc": Metric("two labels", "area under the ROC curve", ".5f", higher=True, brief=True),
    "f1": Metric("labels", "F1", higher=True),
    "balanced_accuracy": Metric("labels", "balanced accuracy", higher=True),
    "precision": Metric("two labels", "precision", higher=True, base="base_precision"),
    "recall": Metric("two labels", "recall", higher=True),
    "average_precision": Metric(
        "two labels", "average precision", higher=True, base="base_precision"
    ),
    "log_loss": Metric("probabilities", "log loss", base="base_log_loss"),
    "brier": Metric("probabilities", "Brier score", base="base_brier"),
    "calibration_error": Metric("probabilities", "calibration error"),
    "mse": Metric("numbers", "mean squared error", ".6g"),
    "rmse": Metric("numbers", "root of the mean squared error", base="base_rmse"),
    "mae": Metric("numbers", "mean absolute error", base="base_mae", brief=True),
    "mape": Metric("numbers", "mean absolute percentage error"),
    "r2": Metric("numbers", "R squared", ".5f", higher=True, brief=True),
    "deviance": Metric("amounts", "mean deviance", ".6g"),
    "d2": Metric("amounts", "D squared", ".5f", higher=True),
    "pinball": Metric("quantiles", "mean pinball loss", ".6g", chooses=False),
    "lift": Metric("two labels", "lift", ".3f", higher=True, chooses=False),
}

if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[tuple(name for name, metric in METRICS.items() if metric.chooses)]


def capitalised(name: str) -> str:
    """Return the words of a metric as a title."""
    words = METRICS[name].words
    return words[0].upper() + words[1:]
