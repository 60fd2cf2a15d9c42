"""Cross-validation out of core: all folds trained side by side, in the same passes, each certified.

Chunks of a shuffled data set are dealt to F folds in turn (of fewer the rows).  The model of fold
f minimises

    (1/n) sum_i c_i phi(x_i . w, y_i) + lam penalty(w),     c_i = 0 in fold f, n / (n - n_f) else

which is the objective of the other rows alone, so a row costs one reading for all models, and what
is proven of each is proven of a training without its fold.  Then all rows are read once more, and
each is evaluated by the one model that has not learnt from it (Stone, 1974).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.planning.default_memory import with_memory
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.planning.planned_problem import PlannedProblem
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.rows.buffers import rows_taken
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.grid import certificate_of, weights_of
from fewpass.pipeline.runs.model import stored_weights
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.evaluation import Evaluation, figures_of
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.figure_sums import Measured, sum_of_rows
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.metric_registry import METRICS
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.training.defaults import with_defaults
from fewpass.pipeline.training.prepared import Prepared, prepare
from fewpass.pipeline.training.prepared import no_source as without_source
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, Sum, Weights
from fewpass.solvers.tasks import Task
from fewpass.storage.dataset import Dataset

MOST_FOLDS = 50


class Fold(NamedTuple):
    """The result of one fold."""

    fold: int  # from 0
    rows: int  # that were left out, and evaluated
    objective: float  # over the other rows
    gap: float  # of it to the optimum, at most
    relative_gap: float
    evaluation: Evaluation  # of the rows that were left out


class FoldMean(NamedTuple):
    """The mean of a figure over folds, and its standard error."""

    metric: str
    mean: float
    standard_error: float


class CrossValidated(NamedTuple):
    """The result of a cross-validation with one lam."""

    lam: float
    solver: str
    passes: float
    seconds: float
    folds: tuple[Fold, ...]
    means: tuple[FoldMean, ...]


class FoldPlanner(Planner):
    """Plans the models of all folds as tasks of one training."""

    def __init__(self, plan: TrainingPlan, dataset: Dataset, n_folds: int) -> None:
        super().__init__(plan, dataset)
        self._n_folds = n_folds

    @cached_property
    def problem(self) -> PlannedProblem:
        """The problem of models that each leave out a fold."""
        return PlannedProblem.of(self.plan, self.dataset).in_folds(self.plan, self._n_folds)


def cross_validate(
    plan: TrainingPlan,
    url: str,
    executor: Executor,
    n_folds: int = 5,
    on_event: Callable[[Event], None] = lambda _: None,
    lam: Lam | None = None,
) -> list[CrossValidated]:
    """Cross-validate a plan, with all lam in the same passes as far as the memory goes.

    Parameters
    ----------
    plan
        What is trained; where lam is open, held-out rows of a sample choose it first.
    url
        An empty folder for snapshots and numbers per row, which may go afterwards.
    n_folds
        Folds that chunks are dealt to, or rows where chunks are fewer.
    on_event
        Called after every span, reduction and certificate.
    lam
        In place of the plan's lam, which is one: may be several, or a path.

    Raises
    ------
    BadInput
        The rows are not shuffled, or fewer than folds; the plan has settings for rows of its own
        that are held out, or asks for no tolerance; the folder has another's snapshots.
    """
    dataset = Dataset.open(plan.dataset)
    _require_folds(plan, dataset, n_folds)
    if RunFolder(f"{url}/0").exists():
        raise BadInput(
            f"{url} has the snapshots of another cross-validation, and none goes on. Name an empty "
            "`folder`, or delete that one."
        )
    several = plan.model_copy(update={"lam": lam or plan.lam})
    lams = [*with_largest_lam(several, dataset).lam.each]
    results: list[CrossValidated] = []
    while lams:
        begins, own = _prepared(plan, lams, f"{url}/{len(results)}", executor, n_folds)
        results += _of_lams(begins, own, executor, n_folds, on_event)
        lams = lams[len(own) :]
    return results


def cross_validated(
    plan: CrossValidationPlan,
    executor: Executor,
    on_event: Callable[[Event], None] = lambda _event: None,
) -> list[CrossValidated]:
    """Cross-validate, in the folder of a plan or in one that goes at the end."""
    with ExitStack() as stack:
        url = plan.folder or stack.enter_context(TemporaryDirectory(prefix="fewpass-folds-"))
        own = with_defaults(plan.of_one_lam)
        return cross_validate(own, url, executor, plan.folds, on_event, plan.lam)


def _require_folds(plan: TrainingPlan, dataset: Dataset, n_folds: int) -> None:
    manifest = dataset.manifest
    if not 2 <= n_folds <= MOST_FOLDS:
        raise BadInput(f"folds is {n_folds}. Give 2 to {MOST_FOLDS}.")
    if manifest.shuffle.seed is None:
        raise BadInput(
            f"The rows of {plan.dataset} are not shuffled, and folds of them would not be alike. "
            "Ingest them again without `shuffle=false`."
        )
    if manifest.n_rows < n_folds:
        raise BadInput(
            f"{plan.dataset} has {counted(manifest.n_rows, 'row')}, of which {n_folds} folds "
            "cannot be made. Take fewer folds."
        )
    refused = {
        "held_out": plan.held_out, "early_stopping": plan.early_stopping,
        "calibrate": plan.calibrate, "start_from": plan.start_from, "source": plan.source,
        "streams": plan.streams > 1,
    }  # fmt: skip
    names = [name for name, is_given in refused.items() if is_given]
    if names:
        raise BadInput(
            f"Folds are what is held out here, and each begins anew: leave {', '.join(names)} out."
        )
    if plan.tol is None:
        raise BadInput("Every fold's model is certified: give `tol`, such as 1e-3.")


def _of_lams(
    begins: Prepared,
    lams: Sequence[Lam],
    executor: Executor,
    n_folds: int,
    on_event: Callable[[Event], None],
) -> Iterator[CrossValidated]:
    """Train all folds in the same passes with some lam, and evaluate all in another."""
    training = TrainingRun(begins, executor)
    one = begins.plan.model_copy(update={"lam": lams[0]})
    dataset = begins.dataset
    level, columns = training.problem.level, dataset.schema
    record = RunRecord.of(
        one, dataset.manifest, methods=begins.methods, columns=columns, level=level
    )
    training.run.begin(record)
    for event in training:
        on_event(event)
    result, saved = training.result, training.newest
    assert saved is not None, "it has come to its end"
    count = len(lams) * n_folds
    models = [weights_of(saved.weights, count, k) for k in range(count)]
    problem, numbers = begins.planner.problem, begins.plan.lam.values(dataset.n_rows)
    fold_rows = problem.rule.fold_rows
    totals = _scored(record, dataset, models, fold_rows, executor)
    for first, lam in zip(range(0, count, n_folds), numbers, strict=True):
        own, at_lam = range(first, first + n_folds), Task(lam=lam).problem(problem.problem)
        figures = [figures_of(at_lam, record, models[k], totals[k]) for k in own]
        proven = [_proven(saved.certificate, count, k) for k in own]
        folds = tuple(
            Fold(k, rows, *certified, one)
            for k, (rows, certified, one) in enumerate(zip(fold_rows, proven, figures, strict=True))
        )
        yield CrossValidated(
            lam, result.solver, result.passes, result.seconds, folds, _means(figures)
        )


def _scored(
    record: RunRecord,
    dataset: Dataset,
    models: Sequence[Weights],
    fold_rows: tuple[int, ...],
    executor: Executor,
) -> Sequence[Any]:
    """Return what every model comes to on the rows of its fold, all in one pass."""
    job = evaluation_job(record, dataset)
    measured = Measured.of_problem(job.problem, job.rule)
    job = job._replace(rule=job.rule._replace(fold_rows=fold_rows))
    what = sum_of_folds(sum_of_rows(measured), len(fold_rows))
    at = executor.submit("weights", _stored, tuple(models), dataset)
    totals: Sequence[Any] = executor.result(reduce(executor, job, what, at, lambda _report: None))
    return totals


def _prepared(
    plan: TrainingPlan, lams: Sequence[Lam], url: str, executor: Executor, n_folds: int
) -> tuple[Prepared, Sequence[Lam]]:
    """Prepare one training of all folds, with as many values of lam as fit; return both."""
    first = plan.model_copy(update={"lam": lams[0]})
    begins = prepare(first, url, None, without_source, near=executor.near)
    lams = (begins.plan.lam, *lams[1:])  # where it was open, it is chosen now
    planner = _planner(first, begins, lams, executor, n_folds)
    while len(lams) > 1 and not planner.fits(planner.plan.memory):
        lams = lams[: len(lams) // 2]
        planner = _planner(first, begins, lams, executor, n_folds)
    methods = planner.choice(planner.plan.memory)
    return begins._replace(plan=planner.plan, planner=planner, methods=methods), lams


def _planner(
    plan: TrainingPlan, begins: Prepared, lams: Sequence[Lam], executor: Executor, n_folds: int
) -> Planner:
    """Return what plans the models of all folds with some lam."""
    lam = Lam.of(",".join(str(lam) for lam in lams)) if len(lams) > 1 else lams[0]
    update = {"loss": begins.plan.loss, "lam": lam, "dataset": begins.plan.dataset}
    planner = FoldPlanner(plan.model_copy(update=update), begins.dataset, n_folds)
    if not executor.near:
        return planner
    return FoldPlanner(with_memory(planner), begins.dataset, n_folds)


def _stored(models: Sequence[Weights], dataset: Dataset) -> tuple[Weights, ...]:
    return tuple(stored_weights(one, dataset) for one in models)


def _proven(certified: Certificate | None, count: int, k: int) -> tuple[float, float, float]:
    """Return objective, gap and relative gap of model k: of classes the mean and the largest."""
    own = certificate_of(certified, count, k)
    assert own is not None, "a tolerance was asked for"
    return own.objective, own.gap, own.relative


def _means(figures: Sequence[Evaluation]) -> tuple[FoldMean, ...]:
    """Return means and standard errors over folds of all figures that every fold has.

    Folds are few and count the same: hence n - 1, and no PairedMean, which is of many rows.
    """
    means = []
    for name in METRICS:
        each = [one.figure(name) for one in figures]
        if all(value is not None for value in each):
            values = np.array(each, np.float64)
            error = float(values.std(ddof=1) / np.sqrt(len(values)))
            means.append(FoldMean(name, float(values.mean()), error))
    return tuple(means)


# -- sums over rows of which every fold has its own ------------------------------------------------


def sum_of_folds(what: Sum, n_folds: int) -> Sum:
    """Return the sum of every fold's models over its own rows; models of a lam are side by side."""
    return Sum(what.name, partial(_zeros, what), partial(_add, what, n_folds))


def _zeros(what: Sum, at: tuple[Weights, ...]) -> tuple[Any, ...]:
    return tuple(what.zero(own) for own in at)


def _add(
    what: Sum,
    n_folds: int,
    problem: Problem,
    at: tuple[Weights, ...],
    block: Block,
    parts: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Add the rows of a block to the sums of the folds that they are of."""
    assert block.folds is not None, "rows are dealt to folds"
    added = list(parts)
    for fold in np.unique(block.folds[block.folds >= 0]).tolist():
        own = rows_taken(block, np.flatnonzero(block.folds == fold))
        for k in range(fold, len(at), n_folds):
            added[k] = what.add(problem, at[k], own, added[k])
    return tuple(added)
