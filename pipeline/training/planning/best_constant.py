"""F_0 of a problem: the mean loss of the best constant, for every class's model.

Of labels by their counts; of numbers by mean and variance where the loss is a square, else by a
sample.  Weights of rows, and their offsets, count as the sample has them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import numbers_per_row, unit_weights
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.constant_prediction import constant_losses
from fewpass.solvers.losses.wide_loss import WideLoss
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.table import Table

Numbers = NDArray[np.float64]


def best_constants(
    problem: Problem, rule: TargetRule, dataset: Dataset, sample: Table
) -> tuple[float, ...]:
    """Return F_0 of each class's model, or of the one model that there is.

    Parameters
    ----------
    problem
        Its loss, and whether it has an intercept.
    rule
        How stored targets are read.
    dataset
        Its counts or moments of targets.
    sample
        Some of its rows, with their targets and weights.
    """
    targets = dataset.manifest.targets
    weight = unit_weights(sample, dataset, rule)
    if isinstance(targets, Labels) and isinstance(problem.loss, WideLoss):
        own = _weight_of_each(targets, rule, sample.target, weight)
        shares = own / own.sum()
        return (problem.loss.constant_loss(shares, intercept=problem.intercept != 0.0),)
    if isinstance(targets, Labels):
        y, shares = _of_labels(targets, rule, sample.target, weight)
    elif rule.folds is not None and sample.offset is not None:
        return _with_offsets(problem, rule, dataset, sample, weight)
    elif problem.loss.is_quadratic and sample.weight is None:
        y, shares = _of_moments(targets)
    else:
        y, shares = rule.read(sample.target), weight[None, :]
    return constant_losses(problem.loss, y, shares, intercept=problem.intercept != 0.0)


def _with_offsets(
    problem: Problem, rule: TargetRule, dataset: Dataset, sample: Table, weight: Numbers
) -> tuple[float, ...]:
    """Return F_0 of rows with offsets: of one constant added to those."""
    y, weights, _ = numbers_per_row(sample, dataset, rule)
    intercept = problem.intercept != 0.0
    (each,) = constant_losses(problem.loss, y, weights[None, :], intercept=intercept)
    return (each * float(weights.sum()) / float(weight.sum()),)


def _of_labels(
    targets: Labels, rule: TargetRule, sampled: Numbers, weight: Numbers
) -> tuple[Numbers, Numbers]:
    """Return targets, and their weights in each class's model."""
    own = _weight_of_each(targets, rule, sampled, weight)
    if not rule.n_classes:
        return rule.read(np.arange(len(own), dtype=float)), own[None, :]
    return np.array([-1.0, 1.0]), np.stack([own.sum() - own, own], axis=1)


def _weight_of_each(
    targets: Labels, rule: TargetRule, sampled: Numbers, weight: Numbers
) -> Numbers:
    """Return the weight of all rows of each label."""
    codes = np.arange(len(targets.labels), dtype=float)
    own = np.array([_mean_weight(weight[sampled == code]) for code in codes])
    own = np.where(np.isnan(own), rule.weigh(codes), own)
    return np.asarray(own * np.asarray(targets.counts, float))


def _mean_weight(weight: Numbers) -> float:
    return float(weight.mean()) if len(weight) else math.nan


def _of_moments(targets: Values) -> tuple[Numbers, Numbers]:
    """Return two targets with this mean and this variance."""
    deviation = math.sqrt(targets.variance)
    return np.array([targets.mean - deviation, targets.mean + deviation]), np.ones((1, 2))
