"""The best constant of a problem: what the intercept is charged from, and F_0, its mean loss.

Of labels by their counts; of numbers by mean and variance where the loss is a square, by the mean
where it is a logarithm's, else by a sample.  Weights of rows count in means of all rows; of labels,
and in F_0, they count as the sample has them, which is all rows of labels and squares where
these are in memory or one chunk.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import numbers_per_row, unit_weights
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.solvers.estimates.spectrum import MOST_ROWS
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.constant_prediction import best_constants, some_of_each
from fewpass.solvers.losses.wide_loss import WideLoss
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Manifest, Values
from fewpass.storage.table import Table

Numbers = NDArray[np.float64]


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
        return _with_level(problem, loss.best_scores(some_of_each(own)), (constant,))
    y, weights = _as_read(problem, rule, dataset, sample, own)
    best = best_constants(loss, y, weights, intercept=intercept)
    constants = best.losses
    if rule.folds is not None and sample.offset is not None:  # of one constant added to offsets
        constants = tuple(float(weights.sum()) / float(weight.sum()) * one for one in constants)
    if loss.is_steep:
        return _with_level(problem, (_of_logs(problem, rule, manifest),), constants)
    if loss.is_quadratic and isinstance(targets, Values):
        mean = _of_squares(targets, manifest)
        return _with_level(problem, best.scores if mean is None else (mean,), constants)
    if not loss.takes_numbers:
        best = best_constants(loss, y, some_of_each(weights), intercept=intercept)
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


def rows_for_constants(problem: Problem, dataset: Dataset) -> Table:
    """Return rows to work the best constants out from.

    Labels and squares take one look at each row: at all in memory, or of the first chunk, which is
    read in any case.  The same rows have then the same b_0 however they come.  Other losses take
    many looks, at some rows.
    """
    labelled = isinstance(dataset.manifest.targets, Labels)
    most = dataset.n_rows if labelled or problem.loss.is_quadratic else MOST_ROWS
    return dataset.sample(most)


def _of_squares(targets: Values, manifest: Manifest) -> float | None:
    """Return the mean of all rows' targets, less their offsets, by row weights; None if unknown."""
    mean = targets.mean if manifest.weights is None else targets.weighted_mean
    if mean is None:
        return None
    return mean - (manifest.offsets.mean if manifest.offsets else 0.0)


def _of_logs(problem: Problem, rule: TargetRule, manifest: Manifest) -> float:
    """Return the logarithm of all rows' mean, over their mean exposure: events may be rare."""
    targets, offsets = manifest.targets, manifest.offsets
    mean = targets.weighted_mean if isinstance(targets, Values) else None
    mean = rule.mean(targets) if mean is None else mean
    log: Any = problem.loss.best_constant(np.array(mean))
    return float(log) - (math.log(offsets.mean_exp) if offsets else 0.0)


def _weight_of_each(
    targets: Labels, rule: TargetRule, sampled: Numbers, weight: Numbers
) -> Numbers:
    """Return the weight of all rows of each label."""
    codes, n = sampled.astype(np.int64), len(targets.labels)
    rows, total = np.bincount(codes, minlength=n), np.bincount(codes, weight, minlength=n)
    own = np.where(rows > 0, total / np.maximum(rows, 1), rule.weigh(np.arange(n, dtype=float)))
    return np.asarray(own * np.asarray(targets.counts, float))


def _of_moments(targets: Values) -> tuple[Numbers, Numbers]:
    """Return two targets with this mean and this variance."""
    deviation = math.sqrt(targets.variance)
    return np.array([targets.mean - deviation, targets.mean + deviation]), np.ones((1, 2))
