"""Evaluation of a model on a data set: one reduction with sums and two histograms of scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import SpanReport
from fewpass.pipeline.rows.buffers import free_buffers
from fewpass.pipeline.rows.targets import Targeted, label_text
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluate_classes import ClassFigures, class_figures, r2_of_grades
from fewpass.pipeline.scoring.evaluation_job import scored
from fewpass.pipeline.scoring.figure_sums import USUAL, FigureSums, Measured, sum_of_rows
from fewpass.pipeline.scoring.reliability import Reliability, reliability
from fewpass.pipeline.scoring.row_metrics import MetricFigures, metrics_of
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.settings.prediction_plan import FigureOptions
from fewpass.solvers.losses import Loss, Problem, value
from fewpass.solvers.losses.quantile import Quantile
from fewpass.solvers.protocol import Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels


class Evaluation(NamedTuple):
    """Result of an evaluation, as in `fewpass evaluate --json`; None: undefined for the targets."""

    rows: int
    objective: float  # mean loss + (lam/2) ||w||^2 + (lam_b/2) (b - b_0)^2
    loss: float  # mean, weighted by row weights
    error: float | None = None  # weighted fraction of misclassified rows
    auc: float | None = None  # area under the ROC curve
    auc_within: float | None = None  # error bound of auc (scores are binned)
    mse: float | None = None
    r2: float | None = None  # also of labels that are grades
    deviance: float | None = None  # mean; of the Poisson and the gamma loss
    d2: float | None = None  # fraction of the deviance of the mean that is explained
    classes: tuple[ClassFigures, ...] | None = None  # of more than two classes
    metrics: MetricFigures = MetricFigures()  # the others
    left_out: tuple[str, ...] = ()  # columns that the model does not have
    slices: tuple[tuple[str, tuple[Any, ...]], ...] = ()  # by the columns that were asked for, the
    # slices of each (evaluated_slices.py: Slice)
    pinball: float | None = None  # mean; of the quantile loss, which is that
    skipped: int = 0  # bad rows of files that were left out
    notes: tuple[str, ...] = ()  # on cells of files that the model's columns were not made for
    reliability: Reliability | None = None  # whether probabilities come true, where there are some

    def figure(self, metric: str) -> float | None:
        """Return a metric by its name; None where it has no meaning."""
        figure: float | None = getattr(self if metric in self._fields else self.metrics, metric)
        return None if figure is None else float(figure)


def evaluate(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    on_report: Callable[[SpanReport], None] = lambda _: None,
    rules: Matching = BY_NAME,
    asked: FigureOptions = USUAL,
) -> Evaluation:
    """Evaluate a model in one pass over a data set; columns are matched by `rules`.

    Raises BadInput when the data set's columns, scaling or labels are not the model's, or when a
    threshold is asked of a model that has no probabilities of two labels.
    """
    measured = Measured.of(model, asked)
    what = sum_of_rows(measured)
    job, total, matched = scored(model, dataset, executor, what, on_report, rules)
    executor.everywhere(free_buffers)
    figures = figures_of(job.problem, model.record, model.weights, total, asked)
    return figures._replace(left_out=matched.left_out)


def figures_of(
    problem: Problem,
    trained: Targeted,
    at: Weights,
    total: FigureSums,
    asked: FigureOptions = USUAL,
) -> Evaluation:
    """Return the figures of a model from the sums over all rows."""
    loss = float(total.loss.mean)
    of_targets = _of_labels if len(total.confusion) else _of_numbers
    diagram = reliability(total.probabilities)
    return Evaluation(
        rows=total.rows,
        objective=loss + penalty(problem, at),
        loss=loss,
        metrics=metrics_of(total, diagram, asked),
        reliability=diagram,
        **of_targets(problem, trained, total),
    )


def _of_labels(_problem: Problem, trained: Targeted, total: FigureSums) -> dict[str, Any]:
    C, targets = total.confusion, trained.targets
    error = float(C.sum() - np.trace(C)) / total.weight
    if len(C) == 2:
        auc, within = area(total.positive, total.negative)
        return {"error": error, "auc": auc, "auc_within": within}
    assert isinstance(targets, Labels), "classes were trained on"
    classes = class_figures(total, [label_text(label) for label in targets.labels])
    return {"error": error, "r2": r2_of_grades(C, targets), "classes": classes}


def _of_numbers(problem: Problem, _trained: Targeted, total: FigureSums) -> dict[str, Any]:
    sums = total.numbers
    mse, mean = sums.square / total.weight, sums.away / total.weight
    variance = sums.away_square / total.weight - mean * mean
    figures: dict[str, Any] = {"mse": mse, "r2": 1.0 - mse / variance if variance > 0.0 else None}
    if problem.loss.is_steep:
        figures |= deviances(problem.loss, total)
    if problem.loss.name == Quantile.name:
        figures["pinball"] = float(total.loss.mean)
    return figures


def penalty(problem: Problem, at: Weights) -> float:
    """Return the regularisation term: of models against the rest its mean over the classes."""
    up = at.intercept - problem.level
    charged = np.array([problem.penalty.value(w) for w in np.atleast_2d(at.coef)])
    each = charged + 0.5 * problem.lam_b * up**2
    return float(each.sum() if problem.loss.is_wide else each.mean())


def deviances(loss: Loss, total: FigureSums) -> dict[str, float | None]:
    """Return the mean deviance, twice the loss, and D^2: the share that a constant leaves over.

    A loss is b(p) - y p, or y b(p) + p, and what does not depend on p: so the loss of any constant
    score differs from that of 0 by what it does at the mean target.
    """
    weight, y, at_zero = total.numbers.null.tolist()
    mean = y / weight
    p = loss.best_constant(np.array(mean))
    alone = at_zero + weight * float(value(loss, p, mean) - value(loss, 0.0, mean))
    explained = 1.0 - float(total.loss.total) / alone if alone > 0.0 else None
    return {"deviance": 2.0 * float(total.loss.mean), "d2": explained}


def area(
    positive: NDArray[np.float64], negative: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the area under the ROC curve of two histograms (ties count half), and its error."""
    pairs = float(positive.sum() * negative.sum())
    if pairs == 0.0:
        return None, None
    below = np.cumsum(negative) - negative
    tied = float(positive @ negative)
    return (float(positive @ below) + 0.5 * tied) / pairs, 0.5 * tied / pairs
