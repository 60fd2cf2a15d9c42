"""The best constant of a problem: what the intercept is charged from, and F_0, its mean loss.

Of labels by their counts; of numbers by mean and variance where the loss is a square, by the mean
where it is a logarithm's, else by a sample.  Weights of rows, and their offsets, count as the
sample has them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import numbers_per_row, unit_weights
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.constant_prediction import best_constants
from fewpass.solvers.losses.wide_loss import WideLoss
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Manifest, Values
from fewpass.storage.table import Table

Numbers = NDArray[np.float64]
LEAST_ROWS = 0.5  # that a class without rows counts as: its log odds would have no end


class Levelled(NamedTuple):
    """A problem that charges the intercept from the best constant."""

    problem: Problem
    constants: tuple[float, ...]  # F_0 of each class's model, or of the one model that there is


def levelled(problem: Problem, rule: TargetRule, dataset: Dataset, sample: Table) -> Levelled:
    """Work out the best constant of each class's model, or of the one model that there is.

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
    manifest, loss, intercept = dataset.manifest, problem.loss, problem.intercept != 0.0
    targets, weight = manifest.targets, unit_weights(sample, dataset, rule)
    own = weight
    if isinstance(targets, Labels):
        own = _weight_of_each(targets, rule, sample.target, weight)
    if isinstance(loss, WideLoss):
        constant = loss.constant_loss(own / own.sum(), intercept=intercept)
        return _with_level(problem, loss.best_scores(_some(own)), (constant,))
    y, weights = _as_read(problem, rule, dataset, sample, own)
    best = best_constants(loss, y, weights, intercept=intercept)
    constants = best.losses
    if rule.folds is not None and sample.offset is not None:  # of one constant added to offsets
        constants = tuple(float(weights.sum()) / float(weight.sum()) * one for one in constants)
    if loss.is_steep:
        return _with_level(problem, (_of_logs(problem, rule, manifest),), constants)
    if not loss.takes_numbers:
        best = best_constants(loss, y, _some(weights), intercept=intercept)
    return _with_level(problem, best.scores, constants)


def _with_level(
    problem: Problem, each: tuple[float, ...], constants: tuple[float, ...]
) -> Levelled:
    if not problem.intercept or not problem.loss.has_level:
        return Levelled(problem, constants)
    return Levelled(problem._replace(level=each if len(each) > 1 else each[0]), constants)


def _as_read(
    problem: Problem, rule: TargetRule, dataset: Dataset, sample: Table, own: Numbers
) -> tuple[Numbers, Numbers]:
    """Return targets (m,), and their weights in each class's model (K, m)."""
    targets = dataset.manifest.targets
    if isinstance(targets, Labels):
        if rule.values and not rule.n_classes:
            return np.asarray(rule.values), own[None, :]
        ours = own if rule.n_classes else own[[rule.positive]]
        return np.array([-1.0, 1.0]), np.stack([own.sum() - ours, ours], axis=1)
    if problem.loss.is_quadratic and sample.weight is None and sample.offset is None:
        return _of_moments(targets)
    y, weight, _ = numbers_per_row(sample, dataset, rule)
    return y, weight[None, :]


def _of_logs(problem: Problem, rule: TargetRule, manifest: Manifest) -> float:
    """Return the logarithm of all rows' mean, over their mean exposure: events may be rare."""
    targets, offsets = manifest.targets, manifest.offsets
    mean = targets.weighted_mean if isinstance(targets, Values) else None
    mean = rule.mean(targets) if mean is None else mean
    log: Any = problem.loss.best_constant(np.array(mean))
    return float(log) - (math.log(offsets.mean_exp) if offsets else 0.0)


def _some(own: Numbers) -> Numbers:
    """Return weights of labels, none of which is 0."""
    return np.maximum(own, LEAST_ROWS)


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
