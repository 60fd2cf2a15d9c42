"""What several lam come to on rows that their models did not learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.targets import Targeted, TargetRule
from fewpass.pipeline.runs.model import require_same_columns, sourced_weights, stored_weights
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.evaluation import full_figures, full_sum
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.metric import Metric
from fewpass.pipeline.scoring.row_losses import (
    RowLosses,
    losses_of_all_rows,
    mean_over_times,
    row_losses,
)
from fewpass.pipeline.scoring.row_metrics import Measured
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.lam_sample import in_memory, sample_of
from fewpass.pipeline.training.models_by_lam import ModelsByLam, models_by_lam
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table, take

FEW_ROWS, FOLDS = 10_000, 5
VERY_FEW_ROWS, TIMES = 500, 4  # are held out so many times, as the folds decide much
HELD_OUT_SHARE, MOST_HELD_OUT = 5, 20_000  # a fifth of the sample, at most
PARTS = 44  # what a random generator is for


class LamComparison(NamedTuple):
    """How several lam are compared."""

    losses: Callable[[TrainingPlan], RowLosses]  # of the models of a plan's lam
    rows: int  # that each model learns from
    held_out_rows: int
    folds: int = 1
    times: int = 1

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The numbers of it."""
        return self.rows, self.held_out_rows, self.folds, self.times

    @classmethod
    def on(cls, plan: TrainingPlan, dataset: Dataset, held_out: Dataset | None) -> LamComparison:
        """Compare by given held-out rows, else by some of the sample, or by folds of few rows."""
        table = sample_of(plan, dataset)
        if held_out is not None:
            rest = sample_of(plan, held_out)
            by_given = partial(_on_given, dataset=dataset, table=table, others=held_out, rest=rest)
            return cls(by_given, table.n_rows, rest.n_rows)
        times = TIMES if table.n_rows < VERY_FEW_ROWS else 1
        each = [_parts(plan, table, number) for number in range(times)]
        learnt = table.n_rows - max(len(part) for part in each[0])
        scored, folds = sum(len(part) for part in each[0]), len(each[0])
        return cls(partial(_on_all, dataset, table, each), learnt, scored, folds, times)


def _parts(plan: TrainingPlan, table: Table, number: int) -> list[np.ndarray]:
    """Return the rows that are held out, one part after the other; the same for a number."""
    n = table.n_rows
    order = np.random.default_rng([plan.seed, PARTS, *[number] * (number > 0)]).permutation(n)
    if n < FEW_ROWS:
        return [np.sort(part) for part in np.array_split(order, FOLDS)]
    return [np.sort(order[: min(n // HELD_OUT_SHARE, MOST_HELD_OUT)])]


def _on_all(
    dataset: Dataset, table: Table, each: list[list[np.ndarray]], plan: TrainingPlan
) -> RowLosses:
    """Hold out the parts of each number in turn; a row's loss is its mean over all of them."""
    scored = [_on_parts(dataset, table, parts, plan) for parts in each]
    return mean_over_times(scored, [np.argsort(np.concatenate(parts)) for parts in each])


def _on_parts(
    dataset: Dataset, table: Table, parts: list[np.ndarray], plan: TrainingPlan
) -> RowLosses:
    """Hold out each part in turn, and learn from all other rows."""
    scored = []
    for part in parts:
        others = np.setdiff1d(np.arange(table.n_rows), part, assume_unique=True)
        rows = in_memory(dataset, take(table, others))
        trained = _trained(plan, rows)
        block = dataset_block(take(table, part), rows, trained.planned.rule)
        problem, rule = trained.planned.problem, trained.planned.rule
        scored.append(_scored(plan, dataset.manifest, problem, rule, block, trained.models))
    return losses_of_all_rows(scored)


def _on_given(
    plan: TrainingPlan, dataset: Dataset, table: Table, others: Dataset, rest: Table
) -> RowLosses:
    """Learn from rows of one data set, and compare on those of another."""
    trained = _trained(plan, in_memory(dataset, table))
    if isinstance(others, MemoryDataset):  # made of the same rows
        block = dataset_block(rest, others, trained.planned.rule)
        planned = trained.planned
        return _scored(plan, dataset.manifest, planned.problem, planned.rule, block, trained.models)
    one = plan.model_copy(update={"lam": Lam.of("1/n")})
    level = trained.planned.problem.level
    record = RunRecord.of(one, dataset.manifest, None, None, dataset.schema, level=level)
    matched = require_same_columns(record, others)
    job = evaluation_job(record, others)
    models = (
        stored_weights(sourced_weights(one, dataset), others, matched) for one in trained.models
    )
    block = dataset_block(rest, others, job.rule)
    return _scored(plan, dataset.manifest, job.problem, job.rule, block, models)


def _scored(
    plan: TrainingPlan,
    data: Targeted,
    problem: Problem,
    rule: TargetRule,
    block: Block,
    models: Iterable[Weights],
) -> RowLosses:
    """Return the losses of rows under several models, and the costs of the metric asked for."""
    if plan.metric == "loss":
        return row_losses(problem, block, models)
    metric = Metric(plan.metric)
    metric.require_defined(problem, rule)
    what, costs = full_sum(Measured.of_problem(problem, rule), rule), []

    def measured() -> Iterator[Weights]:  # one model is there at a time
        for at in models:
            total = what.add(problem, at, block, what.zero(at))
            costs.append(metric.cost(full_figures(problem, data, at, total)))
            yield at

    losses = row_losses(problem, block, measured())
    return losses._replace(costs=np.array(costs))


def _trained(plan: TrainingPlan, rows: MemoryDataset) -> ModelsByLam:
    return models_by_lam(with_largest_lam(plan, rows), rows)
