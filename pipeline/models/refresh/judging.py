"""What models make of a night's rows before these are learnt: one reading, however many models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.models.refresh.night_scores import Scores, ScoreSums
from fewpass.pipeline.rows.target_range import Bounds
from fewpass.pipeline.runs.model import Model, load_model, read_weights, require_same_columns
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.row_losses import row_losses
from fewpass.pipeline.training.spans.reduce import reduce
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.storage.dataset import Dataset


def scores_of(runs: Mapping[str, str], rows: Dataset, executor: Executor) -> Scores:
    """Return the losses of models on the same rows, and how they vary together.

    Parameters
    ----------
    runs
        Addresses of runs by the names of the models; one that has several names is read once.
    rows
        A data set with the columns of all of them.
    """
    distinct = list(dict.fromkeys(runs.values()))
    models = [load_model(RunFolder(run)) for run in distinct]
    return _sums_of(models, rows, executor).scores(distinct).renamed(runs)


def _sums_of(models: Sequence[Model], rows: Dataset, executor: Executor) -> ScoreSums:
    job = evaluation_job(models[0].record, rows, models[0].lam)
    handles = []
    for model in models:
        matched = require_same_columns(model.record, rows)
        handles.append(
            executor.submit("weights", read_weights, model.run, model.snapshot, rows, matched)
        )
    at = executor.submit("weights", _all_of, *handles)
    what = Sum("reduce-scores", _none, partial(_add, [model.bounds for model in models]))
    total: ScoreSums = executor.result(reduce(executor, job, what, at, lambda _report: None))
    return total


def _all_of(*each: Weights) -> tuple[Weights, ...]:
    return each


def _none(at: tuple[Weights, ...]) -> ScoreSums:
    return ScoreSums.of_rows(np.zeros((len(at), 0)), np.zeros(0))


def _add(
    bounds: Sequence[Bounds | None], problem: Problem, at: tuple[Weights, ...], block: Block,
    part: ScoreSums,
) -> ScoreSums:  # fmt: skip
    rows = row_losses(problem, block, at, bounds)
    total: ScoreSums = add_parts(part, ScoreSums.of_rows(rows.loss, rows.weight))
    return total
