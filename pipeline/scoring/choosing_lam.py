"""Choice among several models by held-out rows, and how sure these are, out of core.

Which model is the best is known once all rows are read: their joint means (paired_mean.py) tell by
then how sure the distance of each from it is.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from fewpass.pipeline.matching import Matched
from fewpass.pipeline.paired_mean import JointMeans
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.runs.grid import (
    Candidate,
    Choice,
    best_of,
    certificate_of,
    finite,
    weights_of,
)
from fewpass.pipeline.runs.model import require_same_columns, sourced_weights, stored_weights
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.evaluation import Evaluation, figures_of
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.figure_sums import Measured, side_by_side, sum_of_rows
from fewpass.pipeline.scoring.metric import cost_of
from fewpass.pipeline.scoring.row_losses import row_losses
from fewpass.solvers.each_model import sum_each
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, State, Sum, Weights, add_parts
from fewpass.solvers.tasks import Task
from fewpass.storage.dataset import Dataset


class ReadsWeights(Protocol):
    """Something that reads a model out of a state, features in stored order, such as a method."""

    def weights(self, state: State) -> Weights:
        """Return coef (d,) or (models, d), and the intercepts."""


class AsRead:
    """The same for a state that consists of weights."""

    @staticmethod
    def weights(state: State) -> Weights:
        weights: Weights = state
        return weights


class ModelsToScore(NamedTuple):
    """Models of one state, one for every lam, and the rows that they are scored on."""

    record: RunRecord
    trained: Dataset  # that the state was trained on
    held_out: Dataset
    solver: ReadsWeights
    head: Any  # a handle on the state


class ComparedFigures(NamedTuple):
    """A model's figures, and under an l1 penalty how they compare with those of the others."""

    figures: Evaluation
    standard_error: float | None = None  # of how far the loss is above the least
    nonzeros: int | None = None


def held_out_figures(models: ModelsToScore, n: int, executor: Executor) -> list[ComparedFigures]:
    """Evaluate the models of all n lams in one pass for all.

    Raises BadInput when columns, scaling or labels are not those that were trained on.
    """
    job, at = _models_at(models, n, executor)
    each = sum_each(_scoring_sum(models.record, job), (Task(),) * n)
    what = side_by_side((each, JOINT_LOSSES)) if n > 1 and models.record.plan.l1_share else each
    total = reduce(executor, job, what, at, lambda _report: None)
    read = _figures if what is each else _compared
    made: list[ComparedFigures] = executor.result(
        executor.submit("figures", partial(read, job, models.record), at, total)
    )
    return made


def _figures(
    job: Job, record: RunRecord, at: tuple[Weights, ...], totals: tuple[Any, ...]
) -> list[ComparedFigures]:
    pairs = zip(at, totals, strict=True)
    return [ComparedFigures(figures_of(job.problem, record, *own)) for own in pairs]


def _compared(
    job: Job, record: RunRecord, at: tuple[Weights, ...], total: tuple[Any, JointMeans]
) -> list[ComparedFigures]:
    figures, losses = _figures(job, record, at, total[0]), total[1]
    errors = map(finite, losses.errors_from(int(np.argmin(losses.mean))).tolist())
    counts = (int(np.count_nonzero(one.coef)) for one in at)
    each = zip(figures, errors, counts, strict=True)
    return [one._replace(standard_error=e, nonzeros=n) for one, e, n in each]


def _scoring_sum(record: RunRecord, job: Job) -> Sum:
    """Return the sum that a model is evaluated by; a loss alone needs no probabilities."""
    measured = Measured.of_problem(job.problem, job.rule)
    if record.plan.metric == "loss":
        measured = measured._replace(probabilities=None)
    return sum_of_rows(measured)


def _models_at(models: ModelsToScore, n: int, executor: Executor) -> tuple[Job, Any]:
    """Return the job that reads the held-out rows, and a handle on the models of all n lams."""
    record, trained, held_out, solver, head = models
    matched = require_same_columns(record, held_out)
    read = partial(weights_of_each, solver, n, trained, held_out, matched)
    return evaluation_job(record, held_out), executor.submit("weights", read, head)


def choose_lam(
    models: ModelsToScore,
    lams: tuple[float, ...],
    certified: Certificate | None,
    executor: Executor,
) -> Choice:
    """Return the lam with the best model on held-out rows; `certified` is the joint certificate."""
    n, record = len(lams), models.record
    each = held_out_figures(models, n, executor)
    candidates = []
    for k, (lam, (figures, *compared)) in enumerate(zip(lams, each, strict=True)):
        own = certificate_of(certified, n, k)
        proven = (own.objective, own.gap) if own else (None, None)
        made = Candidate(lam, finite(figures.loss), figures.error, *proven, *compared)
        candidates.append(made._replace(cost=cost_of(record.plan.metric, figures)))
    return best_of(candidates)


def weights_of_each(
    solver: ReadsWeights,
    lams: int,
    trained: Dataset,
    dataset: Dataset,
    matched: Matched,
    state: State,
) -> tuple[Weights, ...]:
    """Return the model of every lam in a state, for the stored rows of the held-out data set."""
    weights = stored_weights(sourced_weights(solver.weights(state), trained), dataset, matched)
    return tuple(weights_of(weights, lams, k) for k in range(lams))


def _no_means(at: tuple[Weights, ...]) -> JointMeans:
    return JointMeans.of(np.zeros((len(at), 0)), np.zeros(0))


def _add_means(
    problem: Problem, at: tuple[Weights, ...], block: Block, part: JointMeans
) -> JointMeans:
    added: JointMeans = add_parts(
        part, JointMeans.of(row_losses(problem, block, at).loss, block.weight)
    )
    return added


#: The losses of several models, and how they vary together.
JOINT_LOSSES = Sum("reduce-losses", _no_means, _add_means)
