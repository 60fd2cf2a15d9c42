"""A plan's problem on a data set: what does not depend on the method or on the memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.planning.best_constant import levelled, rows_for_constants
from fewpass.pipeline.planning.column_groups import with_groups
from fewpass.pipeline.planning.in_streams import meetings_of
from fewpass.pipeline.planning.problem import problem_of, training_rule
from fewpass.pipeline.rows.buffers import row_view, unit_weights
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.targets import TargetRule, folds_in
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.estimates.spectrum import MOST_ROWS, SAMPLED_TOO_LOW, sigma_square
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ColumnMoments, ProblemStats
from fewpass.solvers.tasks import Task
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Manifest
from fewpass.storage.memory_dataset import MemoryDataset

STATISTICS = ("count", "mean", "variance")
MOST_STORED = 1 << 20  # columns, up to which their moments (16 bytes each) stay with the data set


class PlannedProblem(NamedTuple):
    """The problem of a plan on a data set, made once for all methods and memories."""

    dataset: Dataset
    problem: Problem
    stats: ProblemStats
    rule: TargetRule
    tasks: tuple[Task, ...]

    def in_folds(self, plan: TrainingPlan, n_folds: int) -> PlannedProblem:
        """Return the problem of models that each leave out a fold."""
        counts, manifest = np.zeros(n_folds, np.int64), self.dataset.manifest
        for chunk in range(self.dataset.n_chunks):
            counts += np.bincount(folds_in(manifest, chunk, n_folds), minlength=n_folds)
        fold_rows = tuple(counts.tolist())
        rule = self.rule._replace(fold_rows=fold_rows)
        larger = self.stats.n / (self.stats.n - max(fold_rows))  # the weight of the other rows
        stats = self.stats._replace(
            max_weight=larger * self.stats.max_weight,
            sigma_square=larger * self.stats.sigma_square,
        )
        tasks = tasks_of(plan, rule, stats)
        return self._replace(rule=rule, stats=stats, tasks=tasks)

    @classmethod
    def of(cls, plan: TrainingPlan, dataset: Dataset) -> PlannedProblem:
        """Work out the problem; BadInput when loss and targets do not fit."""
        return_freed_memory(plan.memory)
        manifest = dataset.manifest
        problem = problem_of(plan, manifest)
        problem = with_groups(problem, dataset.feature_groups)
        rule = training_rule(plan, manifest, problem.loss)
        problem, constants = levelled(problem, rule, dataset, rows_for_constants(problem, dataset))
        stats = stats_of(
            manifest, rule, problem, streams=plan.streams, seed=plan.seed,
            sigma_square=sampled_sigma_square(dataset, rule),
        )  # fmt: skip
        stats = stats._replace(columns=moments_reader(dataset), constants=constants)
        return cls(dataset, problem, stats, rule, tasks_of(plan, rule, stats))


def tasks_of(plan: TrainingPlan, rule: TargetRule, stats: ProblemStats) -> tuple[Task, ...]:
    """Return the tasks of a plan's models: for every lam, every class, or all of them at once."""
    labels = range(rule.n_classes) if rule.n_classes and rule.width == 1 else (-1,)
    given = len(stats.constants) == len(labels)
    constants = stats.constants if given else (0.0,) * len(labels)
    each = [*zip(labels, constants, strict=True)]
    lams = plan.lam.values(stats.n)
    if not rule.fold_rows:
        return tuple(Task(k, lam, f0) for lam in lams for k, f0 in each)
    scales = [stats.n / (stats.n - rows) for rows in rule.fold_rows]
    return tuple(
        Task(k, lam, f0, fold, scale)
        for lam in lams
        for fold, scale in enumerate(scales)
        for k, f0 in each
    )


def stats_of(
    manifest: Manifest,
    rule: TargetRule,
    problem: Problem,
    *,
    streams: int = 1,
    seed: int = 0,
    sigma_square: float | None = None,
) -> ProblemStats:
    """Return the measurements of ingest as step sizes need them; sigma^2 is max ||x||^2 at most."""
    weights, n, norms = manifest.weights, manifest.n_rows, manifest.norms
    max_weight = weights.maximum * n / weights.total if weights else 1.0
    return ProblemStats(
        n=n,
        d=manifest.n_features,
        rows_kind=DenseRows if manifest.layout == "dense" else SparseRows,
        mean_square=norms.mean_square,
        max_square=norms.max_square,
        max_weight=max_weight * max(rule.class_weight, default=1.0),
        stream_rows=n // streams,
        shuffled=manifest.is_shuffled,
        target_square=rule.mean_square(manifest.targets, problem.target_level),
        sigma_square=norms.max_square if sigma_square is None else sigma_square,
        streams=streams,
        seed=seed,
        target_mean=rule.mean(manifest.targets),
        merges=meetings_of(manifest, streams),
    )


def sampled_sigma_square(dataset: Dataset, rule: TargetRule) -> float:
    """Estimate the largest eigenvalue of mean x x^T from above, on a sample of the rows; once."""
    estimates = _estimates.setdefault(dataset, {})
    if rule not in estimates:
        estimates[rule] = _estimated_sigma_square(dataset, rule)
    return estimates[rule]


_estimates: WeakKeyDictionary[Dataset, dict[TargetRule, float]] = WeakKeyDictionary()


def _estimated_sigma_square(dataset: Dataset, rule: TargetRule) -> float:
    table = dataset.column_order.sourced_rows(dataset.sample(MOST_ROWS))
    weight = unit_weights(table, dataset, rule)
    norms = dataset.manifest.norms
    order, d = np.arange(table.n_rows), dataset.manifest.n_features
    sampled = sigma_square(row_view(table), weight, d, order)
    return min(SAMPLED_TOO_LOW * sampled, norms.max_square)


def moments_reader(dataset: Dataset) -> Callable[[], ColumnMoments] | None:
    """Return a function that reads the moments of columns; None where nobody measured them."""
    measured = dataset.in_memory or dataset.manifest.columns.keys() >= set(STATISTICS)
    read = column_moments if dataset.n_features > MOST_STORED else _stored_moments
    return partial(read, dataset) if measured else None


def _stored_moments(dataset: Dataset) -> ColumnMoments:
    if dataset not in _moments:
        _moments[dataset] = column_moments(dataset)
    return _moments[dataset]


_moments: WeakKeyDictionary[Dataset, ColumnMoments] = WeakKeyDictionary()


def column_moments(dataset: Dataset) -> ColumnMoments:
    """Return share and mean square of the values of every column, in stored order.

    With c values other than 0 among n rows, mean m and variance v over all of these, the mean
    square of the values is (v + m^2) n / c.

    Raises
    ------
    Damaged
        When the statistics are not intact.
    """
    n = dataset.n_rows
    if isinstance(dataset, MemoryDataset):
        measured = ColumnStatistics(dataset.manifest.layout, dataset.n_features)
        measured.add(dataset.table)
        statistics = measured.columns(dataset.n_features)
    else:
        statistics = {name: dataset.column(name) for name in STATISTICS}
    count, mean, variance = (dataset.column_order.stored(statistics[name]) for name in STATISTICS)
    return ColumnMoments(count / n, (variance + mean * mean) * (n / np.maximum(count, 1.0)))
