"""Losses of several lam on rows that their models (models_by_lam.py) did not learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.targets import Targeted, TargetRule
from fewpass.pipeline.runs.model import require_same_columns, sourced_weights, stored_weights
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.evaluation import figures_of
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.figure_sums import Measured, sum_of_rows
from fewpass.pipeline.scoring.metric import cost_of, require_defined
from fewpass.pipeline.scoring.row_losses import (
    RowLosses,
    losses_of_all_rows,
    mean_over_times,
    row_losses,
)
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.lam_sample import in_memory, sample_of
from fewpass.pipeline.training.models_by_lam import LearntRows
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table, n_bytes, take

FEW_ROWS, FOLDS = 10_000, 5
VERY_FEW_ROWS, TIMES = 500, 4  # are held out so many times, as the folds decide much
HELD_OUT_SHARE, MOST_HELD_OUT = 5, 20_000  # a fifth of the sample, at most
PARTS = 44  # what a random generator is for


class LamComparison(NamedTuple):
    """The rules by which several lam are compared."""

    #: Of the models of a plan's lam; scored as given second, by default as the plan asks.
    losses: Callable[..., RowLosses]
    rows: int  # that each model learns from
    held_out_rows: int
    folds: int = 1
    times: int = 1

    @classmethod
    def on(
        cls, plan: TrainingPlan, dataset: Dataset, held_out: Dataset | None, *, again: bool = False
    ) -> LamComparison:
        """Compare by given held-out rows, else by some of the sample, or by folds of few rows.

        `again`: models that were scored will be scored otherwise.
        """
        table = sample_of(plan, dataset)
        if held_out is not None:
            rest, rows = sample_of(plan, held_out), LearntRows(in_memory(dataset, table), again)
            by_given = partial(_on_given, rows=rows, dataset=dataset, others=held_out, rest=rest)
            return cls(by_given, table.n_rows, rest.n_rows)
        times = TIMES if table.n_rows < VERY_FEW_ROWS else 1
        each = [_parts(plan, table, number) for number in range(times)]
        learnt = table.n_rows - max(len(part) for part in each[0])
        scored, folds = sum(len(part) for part in each[0]), len(each[0])
        cut: Callable[[int, int], Cut] = partial(_cut, dataset, table, each, again)
        if n_bytes(table) * folds * times <= plan.budget.lam_rows:
            cut = cache(cut)
        return cls(partial(_on_all, dataset, each, cut), learnt, scored, folds, times)


def _parts(plan: TrainingPlan, table: Table, number: int) -> list[np.ndarray]:
    """Return the rows that are held out, one part after the other; the same for a number."""
    n = table.n_rows
    order = np.random.default_rng([plan.seed, PARTS, *[number] * (number > 0)]).permutation(n)
    if n < FEW_ROWS:
        return [np.sort(part) for part in np.array_split(order, FOLDS)]
    return [np.sort(order[: min(n // HELD_OUT_SHARE, MOST_HELD_OUT)])]


def scored(
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
    require_defined(plan.metric, problem, rule)
    what, costs = sum_of_rows(Measured.of_problem(problem, rule)), []

    def measured() -> Iterator[Weights]:  # one model is there at a time
        for at in models:
            total = what.add(problem, at, block, what.zero(at))
            cost = cost_of(plan.metric, figures_of(problem, data, at, total))
            costs.append(np.inf if cost is None else cost)
            yield at

    losses = row_losses(problem, block, measured())
    return losses._replace(costs=np.array([costs]), part_weight=block.weight.sum(keepdims=True))


#: Returns what models make of a block; parameters as of `scored`.
Score = Callable[..., RowLosses]


def _on_all(
    dataset: Dataset, each: list[list[np.ndarray]], cut: Callable[[int, int], Cut],
    plan: TrainingPlan, score: Score = scored,
) -> RowLosses:  # fmt: skip
    """Hold out the parts of each number in turn; a row's loss is its mean over all of them."""
    several = []
    for number, parts in enumerate(each):
        cuts = (cut(number, k) for k in range(len(parts)))
        several.append(losses_of_all_rows([_on_cut(dataset, one, plan, score) for one in cuts]))
    return mean_over_times(several, [np.argsort(np.concatenate(parts)) for parts in each])


class Cut(NamedTuple):
    """Rows that models learn from, and those that they are compared on."""

    learnt: LearntRows
    held_out: Table


def _cut(
    dataset: Dataset, table: Table, each: list[list[np.ndarray]], again: bool, number: int, k: int
) -> Cut:
    """Hold out the k-th part of a number, and learn from all other rows."""
    part = each[number][k]
    others = np.setdiff1d(np.arange(table.n_rows), part, assume_unique=True)
    learnt = LearntRows(in_memory(dataset, take(table, others)), again)
    return Cut(learnt, take(table, part))


def _on_cut(dataset: Dataset, cut: Cut, plan: TrainingPlan, score: Score) -> RowLosses:
    planned, models = cut.learnt.models(plan)
    problem, rule = planned.problem, planned.rule
    block = dataset_block(cut.held_out, cut.learnt.rows, rule)
    return score(plan, dataset.manifest, problem, rule, block, models)


def _on_given(
    plan: TrainingPlan,
    score: Score = scored,
    *,
    rows: LearntRows,
    dataset: Dataset,
    others: Dataset,
    rest: Table,
) -> RowLosses:
    """Learn from rows of one data set, and compare on those of another."""
    planned, models = rows.models(plan)
    problem, rule = planned.problem, planned.rule
    if isinstance(others, MemoryDataset):  # made of the same rows
        block = dataset_block(rest, others, rule)
        return score(plan, dataset.manifest, problem, rule, block, models)
    one = plan.model_copy(update={"lam": Lam.of("1/n")})
    level = problem.level
    record = RunRecord.of(one, dataset.manifest, columns=dataset.schema, level=level)
    matched = require_same_columns(record, others)
    job = evaluation_job(record, others)
    models = (stored_weights(sourced_weights(one, dataset), others, matched) for one in models)
    block = dataset_block(rest, others, job.rule)
    return score(plan, dataset.manifest, job.problem, job.rule, block, models)
