"""The figures of held-out rows: ROC, precision and recall, confusion, actual and predicted numbers.

Fawcett (2006) for ROC curves; Davis and Goadrich (2006) for those of precision and recall.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.importance import Importance, importance
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import SpanReport
from fewpass.pipeline.rows.targets import Bounds, clipped, label_text
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluation import Evaluation, figures_of
from fewpass.pipeline.scoring.evaluation_job import scored
from fewpass.pipeline.scoring.figure_sums import Measured, side_by_side, sum_of_rows
from fewpass.pipeline.scoring.predictor import label_names
from fewpass.pipeline.scoring.probabilities import responses, scored_parts
from fewpass.pipeline.scoring.reliability import Reliability
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Values

Vector = NDArray[np.float64]

CELLS = 40  # a side of the picture of predicted against actual numbers


class Curves(NamedTuple):
    """Shares at every threshold, from the highest down; each starts where nothing is called +1."""

    false_positive_rate: Vector
    recall: Vector  # the true positive rate
    precision: Vector  # of what is called +1; 1 where that is nothing


class Cells(NamedTuple):
    """Weight of rows by target and prediction, (CELLS, CELLS) on equal ranges of both."""

    low: float
    high: float
    counts: Vector


class Quality(NamedTuple):
    """Everything that the page shows of held-out rows; None without a meaning."""

    dataset: str
    figures: Evaluation
    labels: tuple[str, ...]  # negative and positive, or the classes; () for numbers
    curves: Curves | None  # of two classes
    confusion: Vector | None  # (K, K) weight of rows by label, then by the label given
    reliability: Reliability | None  # of models with probabilities
    cells: Cells | None  # of numbers
    importance: Importance | None = None  # of columns; None where mean features are gone


def quality(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    on_report: Callable[[SpanReport], None] = lambda _: None,
) -> Quality:
    """Read a data set twice, and return the figures of a model.

    `on_report` gets the reports of the spans of the first reading.

    Raises BadInput when the data set's columns, scaling or labels are not the model's.
    """
    sums, ends = [sum_of_rows(Measured.of(model))], _ends(dataset) if model.predicts_numbers else ()
    if ends:
        sums.append(Sum("reduce-cells", _no_cells, partial(_add_cells, model.bounds, *ends)))
    job, (total, *counts), _ = scored(model, dataset, executor, side_by_side(sums), on_report)
    figures = figures_of(job.problem, model.record, model.weights, total)
    labels = () if ends else tuple(label_text(name) for name in label_names(model))
    return Quality(
        dataset=dataset.folder.url,
        figures=figures,
        labels=labels,
        curves=curves(total.positive, total.negative) if len(total.positive) else None,
        confusion=None if ends else total.confusion,
        reliability=figures.reliability,
        cells=Cells(*ends, *counts[0]) if ends else None,
        importance=_importance(model, dataset, executor),
    )


def curves(positive: Vector, negative: Vector) -> Curves | None:
    """Return the curves of two histograms of scores, lowest bin first; None without both sides."""
    if not (positive.any() and negative.any()):
        return None
    used = np.flatnonzero(positive + negative)[::-1]
    positives = np.append(0.0, np.cumsum(positive[used]))
    false = np.append(0.0, np.cumsum(negative[used]))
    called = positives + false
    precision = np.divide(positives, called, where=called > 0.0, out=np.ones(len(called)))
    return Curves(false / false[-1], positives / positives[-1], precision)


def _importance(model: Model, dataset: Dataset, executor: Executor) -> Importance | None:
    try:
        return importance(model, dataset, executor)
    except BadInput:  # the data set is gone, and has more columns than a run keeps means of
        return None


def _ends(dataset: Dataset) -> tuple[float, float]:
    """Return the range of targets that rows are counted in."""
    targets = dataset.manifest.targets
    ends = [targets.minimum, targets.maximum] if isinstance(targets, Values) else targets.labels
    low, high = float(min(ends)), float(max(ends))
    return low, high if high > low else low + max(1.0, abs(low))  # more than a last digit


def _no_cells(_at: Weights) -> tuple[Vector]:
    return (np.zeros((CELLS, CELLS)),)


def _add_cells(
    bounds: Bounds | None, low: float, high: float, problem: Problem, at: Weights, block: Block,
    part: tuple[Vector],
) -> tuple[Vector]:  # fmt: skip
    """Add a block's rows; predictions outside the targets' range count at its ends."""

    def cell(values: Vector) -> NDArray[np.intp]:
        place = CELLS * (np.clip(values, low, high) - low) / (high - low)
        return np.minimum(place.astype(np.intp), CELLS - 1)

    for rows in scored_parts(problem, at, block):
        p = clipped(responses(problem.loss, rows.scores), bounds)
        both = np.bincount(cell(rows.y) * CELLS + cell(p), rows.weight, CELLS * CELLS)
        part[0][:] += both.reshape(CELLS, CELLS)
    return part
