"""Choice among several models by held-out rows."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.matching import Matched
from fewpass.pipeline.runs.grid import Candidate, Choice, best_of, certificate_of, weights_of
from fewpass.pipeline.runs.model import require_same_columns, sourced_weights, stored_weights
from fewpass.pipeline.runs.run_folder import RunRecord
from fewpass.pipeline.scoring.evaluation import Evaluation, evaluation_job, figures_of, sum_of
from fewpass.pipeline.training.spans.reduce import reduce
from fewpass.pipeline.training.spans.span import Job
from fewpass.solvers.each_model import sum_each
from fewpass.solvers.protocol import Certificate, State, Weights
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


def held_out_figures(
    record: RunRecord,
    trained: Dataset,
    dataset: Dataset,
    solver: ReadsWeights,
    lams: int,
    head: Any,
    executor: Executor,
) -> list[Evaluation]:
    """Evaluate the models of all lams, in a state given as a handle, in one pass for all.

    Raises BadInput when columns, scaling or labels are not those that were trained on.
    """
    job = evaluation_job(record, dataset)
    matched = require_same_columns(record, dataset)
    read = partial(weights_of_each, solver, lams, trained, dataset, matched)
    at = executor.submit("weights", read, head)
    total = reduce(
        executor, job, sum_each(sum_of(job.rule), (Task(),) * lams), at, lambda _report: None
    )
    figures_of_lams: list[Evaluation] = executor.result(
        executor.submit("figures", partial(figures_of_each, job, record), at, total)
    )
    return figures_of_lams


def choose_lam(
    record: RunRecord,
    trained: Dataset,
    dataset: Dataset,
    solver: ReadsWeights,
    lams: tuple[float, ...],
    head: Any,
    certified: Certificate | None,
    executor: Executor,
) -> Choice:
    """Return the lam with the best model on a data set; `certified` is the joint certificate.

    `head` is a handle on the state that was trained on the data set `trained`.
    """
    figures_of_lams = held_out_figures(record, trained, dataset, solver, len(lams), head, executor)
    candidates = []
    for k, (lam, figures) in enumerate(zip(lams, figures_of_lams, strict=True)):
        own = certificate_of(certified, len(lams), k)
        proven = (own.objective, own.gap) if own else ()
        candidates.append(Candidate(lam, figures.loss, figures.error, *proven))
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


def figures_of_each(
    job: Job, record: RunRecord, at: tuple[Weights, ...], totals: tuple[Any, ...]
) -> list[Evaluation]:
    """Return every model's figures from its sums."""
    return [figures_of(job.problem, record, *own) for own in zip(at, totals, strict=True)]
