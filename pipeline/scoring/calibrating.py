"""Calibration of a run's model on held-out rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.calibration import (
    BINS,
    Calibration,
    LogLoss,
    Method,
    ScoreCounts,
    fit_softmax,
    fit_two_classes,
    softmax_log_loss,
)
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.planning.problem import loss_of
from fewpass.pipeline.rows.targets import target_rule
from fewpass.pipeline.runs.model import require_same_columns, stored_weights
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.probabilities import scored_parts
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, same
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels

Vector = NDArray[np.float64]


def require_calibratable(record: RunRecord, dataset: Dataset) -> None:
    """Refuse plans without labels, and data sets that are unsuitable for calibration."""
    plan, loss = record.plan, loss_of(record.plan, record)
    if loss.takes_numbers and plan.positive is None:
        raise BadInput(
            "Numbers are predicted here, and have no probabilities. Leave `calibrate` out, or name "
            "the label that counts as +1 with `positive`."
        )
    classes = target_rule(record, loss, plan.positive).n_classes
    if classes and plan.calibrate != "platt":
        raise BadInput(
            f"`calibrate={plan.calibrate}` is for two classes, but there are {classes}. Take "
            "`calibrate=platt`, which fits a softmax to more."
        )
    sides = evaluation_job(record, dataset).rule.read(_codes_of(dataset))
    if len(np.unique(sides)) < 2:
        raise BadInput(
            f"All rows of {dataset.folder.url} are of one class, and probabilities are learnt from "
            "two. Hold out other rows (`held_out`)."
        )


def _codes_of(dataset: Dataset) -> Vector:
    """Return the stored targets of labels that occur."""
    targets = dataset.manifest.targets
    assert isinstance(targets, Labels), "evaluation_job refuses numbers where there are labels"
    return np.flatnonzero(targets.counts).astype(float)


def calibrate(
    record: RunRecord, dataset: Dataset, weights: Weights, method: Method, executor: Executor
) -> Calibration:
    """Fit the calibration of a model's scores on held-out rows.

    With two classes it takes one pass, with more one or more passes per Newton step.

    Parameters
    ----------
    record
        Of the model's run.
    dataset
        The held-out rows.
    weights
        The model; features in the source's order.
    """
    job = evaluation_job(record, dataset)
    at = stored_weights(weights, dataset, require_same_columns(record, dataset))
    head = executor.submit("weights", same, at)

    def total(what: Sum) -> Any:
        return executor.result(reduce(executor, job, what, head, lambda _report: None))

    if not job.rule.n_classes:
        return fit_two_classes(total(Sum("reduce-counts", _no_counts, _add_counts)), method)

    def log_loss(point: Vector) -> LogLoss:
        summed: LogLoss = total(Sum("reduce-softmax", _no_log_loss, partial(_add_log_loss, point)))
        return summed

    return fit_softmax(log_loss, job.rule.n_classes)


def _no_counts(_at: Weights) -> ScoreCounts:
    return ScoreCounts(*np.zeros((3, BINS)))


def _add_counts(problem: Problem, at: Weights, block: Block, part: ScoreCounts) -> ScoreCounts:
    for scored in scored_parts(problem, at, block):
        part = part + ScoreCounts.of(scored.scores, scored.y > 0.0, scored.weight)
    return part


def _no_log_loss(at: Weights) -> LogLoss:
    return LogLoss.none(len(at.coef))


def _add_log_loss(
    point: Vector, problem: Problem, at: Weights, block: Block, part: LogLoss
) -> LogLoss:
    for scored in scored_parts(problem, at, block):
        part = part + softmax_log_loss(point, (scored.scores, scored.classes, scored.weight))
    return part
