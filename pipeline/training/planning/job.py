"""What a plan means on a data set: the problem, the stats, the windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.rows.buffers import row_view, unit_weights
from fewpass.pipeline.rows.targets import TargetRule, target_rule
from fewpass.pipeline.rows.windows import (
    OVERHEAD_BYTES,
    WindowPlan,
    plan_windows,
    resident_bytes,
)
from fewpass.pipeline.settings.methods import Auto, Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.planning.auto import MethodChoice, choose
from fewpass.pipeline.training.planning.clustering import clustering_warning
from fewpass.pipeline.training.planning.column_moments import known_moments
from fewpass.pipeline.training.planning.problem import problem_of
from fewpass.pipeline.training.span import Job
from fewpass.solvers.estimates.spectrum import MOST_ROWS, SAMPLED_TOO_LOW, sigma_square
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import ProblemStats, Solver
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.solvers.tasks import Task
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Manifest

IN_PLACE = 2  # states' worth: itself, and the weights in a snapshot with the order of columns
COPIES_OF_WEIGHTS = 4  # of all classes, where groups are trained: kept, in a snapshot, its bytes
GROUPED_WITHOUT = (
    "With one `lam`, and without `early_stopping`, classes are trained in groups, one after the "
    "other, where memory is short."
)
_WHOLE = WindowPlan(1, 1, 1, 0)  # until windows are planned


def make_job(plan: TrainingPlan, dataset: Dataset) -> Job:
    """Work out what spans need.

    Raises
    ------
    BadInput
        When plan and data set do not fit: loss and targets, streams and chunks, memory.
    """
    plan = with_method_chosen(plan, dataset)
    method = streaming(plan)
    return_freed_memory(plan.memory)
    manifest = dataset.manifest
    problem = problem_of(plan, manifest)
    rule = target_rule(manifest, problem.loss, plan.positive, plan.class_weight)
    sampled = sampled_sigma_square(dataset, rule)
    stats = stats_of(manifest, rule, streams=plan.streams, seed=plan.seed, sigma_square=sampled)
    stats = stats._replace(columns=known_moments(dataset))
    method.init(problem, stats)  # refuses settings that do not fit
    whole = Job(dataset, problem, stats, rule, _WHOLE, memory=plan.memory)
    refused: BadInput | None = None
    ways = [whole._replace(models=m) for m in numbers_at_once(plan, rule, manifest.n_rows)]
    if may_be_in_place(plan, rule, manifest.n_rows):
        ways.append(whole._replace(in_place=True))
    for way in ways:
        try:
            return _with_windows(plan, way)
        except BadInput as error:
            refused = error
    assert refused is not None, "some number of models was tried"
    if rule.n_classes and not may_be_grouped(plan, rule):
        raise BadInput(f"{refused} {GROUPED_WITHOUT}")
    raise refused


def _with_windows(plan: TrainingPlan, job: Job) -> Job:
    """Return a job with windows that leave room for the states of its models; BadInput if none."""
    manifest, stats, solver = job.dataset.manifest, job.stats, solver_of_job(plan, job)
    row_state_size = solver.row_state_size(stats)
    state_bytes = bytes_of_models(plan, job)
    windows = plan_windows(
        manifest,
        row_state_size=row_state_size,
        models=job.models,
        memory=plan.memory,
        state_bytes=state_bytes,
        streams=plan.streams,
        seed=plan.seed,
    )
    rows_bytes = resident_bytes(manifest, windows, row_state_size)
    fits = rereads(plan) and rows_bytes + state_bytes + OVERHEAD_BYTES <= plan.memory
    return job._replace(
        windows=windows,
        row_state_size=row_state_size,
        sum_bytes=0 if job.in_place else spare_bytes(solver, job.problem, stats),
        resident=fits or job.dataset.in_memory,
    )


def rereads(plan: TrainingPlan) -> bool:
    """Say whether rows are read more than once: only then is it worth keeping them in memory."""
    return plan.passes > 1 or plan.certify or plan.tol is not None


def solver_of(plan: TrainingPlan, rule: TargetRule, n_rows: int) -> Solver:
    """Return the plan's method, for as many models as there are classes and values of lam."""
    method, tasks = streaming(plan), tasks_of(plan, rule, n_rows)
    return MultiModel(method, tasks, plan.tol) if len(tasks) > 1 else method


def solver_of_job(plan: TrainingPlan, job: Job, group: int = 0) -> Solver:
    """Return the plan's method for the models that a job trains at once: all, or a group of them.

    Groups are consecutive classes; all are as large as the first or one smaller.
    """
    solver = solver_of(plan, job.rule, job.stats.n)
    if not isinstance(solver, MultiModel):
        return solver
    own = groups_of(job, len(solver.tasks))[group]
    return replace(solver, tasks=solver.tasks[own.start : own.stop])


def groups_of(job: Job, models: int) -> list[range]:
    """Return which of so many models a job trains together: one range where all at once."""
    number = -(-models // job.models)
    ends = [models * k // number for k in range(number, -1, -1)]
    return [range(models - a, models - b) for a, b in pairwise(ends)]


def is_grouped(plan: TrainingPlan, job: Job) -> bool:
    """Say whether a job trains its classes in groups."""
    return job.models < len(tasks_of(plan, job.rule, job.stats.n))


def numbers_at_once(plan: TrainingPlan, rule: TargetRule, n_rows: int) -> Iterator[int]:
    """Yield how many models may be trained at once, the most first."""
    models = before = len(tasks_of(plan, rule, n_rows))
    yield models
    for groups in range(2, models + 1 if may_be_grouped(plan, rule) else 0):
        if (size := -(-models // groups)) < before:
            yield size
            before = size


def may_be_grouped(plan: TrainingPlan, rule: TargetRule) -> bool:
    """Say whether classes may be trained in groups, one after the other.

    Where rows end a training early, or choose a lam, they judge all classes of a model together.
    """
    return rule.n_classes > 1 and len(plan.lam.factors) == 1 and not plan.early_stopping


def may_be_in_place(plan: TrainingPlan, rule: TargetRule, n_rows: int) -> bool:
    """Say whether the state of a plan may be stepped as it is, without any copy.

    That takes a method whose weights are read out by column, one model and one stream, and nobody
    who asks for weights on the way: neither certificates nor held-out rows, nor another model.
    """
    asks = plan.certify or plan.tol is not None or plan.held_out or plan.start_from
    method = streaming(plan)
    return (
        method.by_column
        and plan.streams == 1
        and len(tasks_of(plan, rule, n_rows)) == 1
        and not asks
    )


def tasks_of(plan: TrainingPlan, rule: TargetRule, n_rows: int) -> tuple[Task, ...]:
    """Return what each model is of: for every lam, every class."""
    labels = range(rule.n_classes) if rule.n_classes else (-1,)
    return tuple(Task(k, lam) for lam in plan.lam.values(n_rows) for k in labels)


def streaming(plan: TrainingPlan) -> Solver:
    """Return the plan's method; BadInput when it is one that does not walk over windows."""
    if plan.solver.goal == "steps":
        raise BadInput(
            f"{plan.solver.kind} reads single rows and columns, not passes: there is nothing to "
            "foresee or to sampled over workers. Train with `solver=simba`, or "
            "choose sdca."
        )
    assert not isinstance(plan.solver, Auto), "auto has been replaced before"
    return plan.solver


def choice_of(plan: TrainingPlan, dataset: Dataset) -> MethodChoice | None:
    """Choose the method of a plan that leaves it to us; None where it names one."""
    if not isinstance(plan.solver, Auto):
        return None

    def with_method(method: Method) -> TrainingPlan:
        return plan.model_copy(update={"solver": method})

    def fits(method: Method, *, in_groups: bool = False) -> bool:
        try:
            found = make_job(with_method(method), dataset)
        except BadInput:
            return False
        return in_groups or not is_grouped(with_method(method), found)

    job = make_job(with_method(Asgd()), dataset)  # the smallest state
    sorted_rows = clustering_warning(dataset.manifest, job.windows) is not None
    return choose(
        plan,
        job.problem,
        job.stats,
        sorted_rows=sorted_rows,
        resident=job.resident,
        fits=fits,
        fits_in_groups=partial(fits, in_groups=True),
        models=len(tasks_of(plan, job.rule, dataset.n_rows)),
    )


def with_method_chosen(plan: TrainingPlan, dataset: Dataset) -> TrainingPlan:
    """Return the plan with the method that is chosen for it, if it names none."""
    choice = choice_of(plan, dataset)
    return choice.plan(plan) if choice else plan


def bytes_of_models(plan: TrainingPlan, job: Job) -> int:
    """Bytes of the states of a job's models, and of the weights of classes that have none."""
    solver = solver_of_job(plan, job)
    if job.in_place:
        return IN_PLACE * solver.state_bytes(job.problem, job.stats)
    states = bytes_of_states(solver, job.problem, job.stats)
    if not is_grouped(plan, job):
        return states
    return states + COPIES_OF_WEIGHTS * 8 * job.rule.n_classes * job.stats.d


def bytes_of_states(solver: Solver, problem: Problem, stats: ProblemStats) -> int:
    """Bytes of the method's arrays with all their copies.

    Per stream what a span is given and its own copy; once what the method says of the rest.
    """
    given = 2 * stats.streams * solver.state_bytes(problem, stats)
    return given + spare_bytes(solver, problem, stats)


def spare_bytes(solver: Solver, problem: Problem, stats: ProblemStats) -> int:
    """Bytes beside the states of streams: of what is read out of them, and of sums."""
    return solver.spare_copies * solver.state_bytes(problem, stats)


def stats_of(
    manifest: Manifest,
    rule: TargetRule,
    *,
    streams: int = 1,
    seed: int = 0,
    sigma_square: float | None = None,
) -> ProblemStats:
    """Return what ingest measured, as step sizes need it; sigma^2 is max ||x||^2 at most."""
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
        shuffled=manifest.shuffle.seed is not None,
        target_square=rule.mean_square(manifest.targets),
        sigma_square=norms.max_square if sigma_square is None else sigma_square,
        streams=streams,
        seed=seed,
    )


def sampled_sigma_square(dataset: Dataset, rule: TargetRule) -> float:
    """Return the estimate of a data set's rows, made once: a plan is looked at several times."""
    known = _spreads.setdefault(dataset, {})
    if rule not in known:
        known[rule] = estimated_sigma_square(dataset, rule)
    return known[rule]


_spreads: WeakKeyDictionary[Dataset, dict[TargetRule, float]] = WeakKeyDictionary()


def estimated_sigma_square(dataset: Dataset, rule: TargetRule) -> float:
    """Estimate the largest eigenvalue of mean x x^T from above, on a sample of the rows."""
    table = dataset.column_order.sourced_rows(dataset.sample(MOST_ROWS))
    weight = unit_weights(table, dataset, rule)
    norms = dataset.manifest.norms
    order, d = np.arange(table.n_rows), dataset.manifest.n_features
    found = sigma_square(row_view(table), weight, d, order)
    return min(SAMPLED_TOO_LOW * found, norms.max_square)
