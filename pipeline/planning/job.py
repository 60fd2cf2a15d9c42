"""The job of a plan that names its method: windows, and how many models are trained at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput, TooLittleMemory
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.planned_problem import PlannedProblem, tasks_of
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.windows import WindowPlan, plan_windows, resident_bytes
from fewpass.pipeline.settings.method_kinds import Auto
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import ProblemStats, Solver, Walk
from fewpass.solvers.registry import fit_for, penalty_class

GROUPED_WITHOUT = (
    "Without `early_stopping`, and with `held_out` rows for several `lam`, models are trained in "
    "groups, one after the other, where memory is short."
)
GROUPED_OVR = (
    "One model tells all classes apart here; with `classes=ovr` each has its own, and these are "
    "trained in groups where memory is short."
)
_WHOLE = WindowPlan(1, 1, 1, 0)  # until windows are planned


def make_job(plan: TrainingPlan, planned: PlannedProblem, *, distributed: bool = False) -> Job:
    """Work out what spans need.

    Parameters
    ----------
    plan
        Names its method.
    planned
        Its problem on a data set.
    distributed
        Whether workers have the streams, and each has the memory to itself: where not all streams
        fit into one process, each has some.

    Raises
    ------
    BadInput
        When plan and data set do not fit: loss and targets, streams and chunks, memory
        (TooLittleMemory).
    """
    dataset, problem, stats, rule, tasks = planned
    method = method_for(plan, rule.width)
    method.init(tasks[0].problem(problem), stats)  # refuses settings that do not fit
    whole = Job(dataset, problem, stats, rule, _WHOLE, memory=plan.memory, all_models=len(tasks))
    refused: TooLittleMemory | None = None
    ways = [whole._replace(models=m) for m in numbers_at_once(plan, rule, len(tasks))]
    if may_be_in_place(plan, rule.width, len(tasks)):
        ways.append(whole._replace(in_place=True))
    if distributed:
        ways += [ways[0]._replace(streams_per_process=streams) for streams in halves(plan.streams)]
    for way in ways:
        try:
            return _with_windows(plan, way)
        except TooLittleMemory as error:
            refused = refused if way.streams_per_process else error
    assert refused is not None, "some number of models was tried"
    if rule.width > 1:
        raise TooLittleMemory(f"{refused} {GROUPED_OVR}")
    if len(tasks) > 1 and not may_be_grouped(plan, rule):
        raise TooLittleMemory(f"{refused} {GROUPED_WITHOUT}")
    raise refused


def halves(streams: int) -> Iterator[int]:
    """Yield a half of the streams, a quarter, ..., 1."""
    while streams > 1:
        streams = -(-streams // 2)
        yield streams


def is_distributed(job: Job) -> bool:
    """Say whether one process has not the memory for all streams."""
    return job.streams_per_process > 0


def streams_together(job: Job) -> int:
    """Return how many streams a process has the memory for."""
    return job.streams_per_process or job.stats.streams


def require_processes(job: Job, threads: Sequence[int]) -> None:
    """Refuse workers (the threads of each) that have not the memory for their share of streams."""
    if not is_distributed(job):
        return
    streams, most = job.stats.streams, job.streams_per_process
    needed = -(-streams // most)
    if len(threads) < needed or max(threads) > most:
        raise BadInput(
            f"A memory budget of {format_bytes(job.memory)} for each worker process holds "
            f"{most} of {streams} streams, and there are {len(threads)} processes of up to "
            f"{max(threads)} threads. Start {needed} or more, of {most} threads at most, "
            "use more `memory`, or fewer `streams`."
        )


def _with_windows(plan: TrainingPlan, job: Job) -> Job:
    """Return a job with the windows that the states of its models leave memory for, or BadInput."""
    manifest, stats, solver = job.dataset.manifest, job.stats, solver_of_job(plan, job)
    row_state_size = solver.row_state_size(stats)
    state_bytes = bytes_of_models(plan, job)
    windows = plan_windows(
        manifest,
        row_state_size=row_state_size,
        models=job.models,
        budget=plan.budget,
        state_bytes=state_bytes,
        streams=plan.streams,
        together=streams_together(job),
        seed=plan.seed,
        merges=stats.merges if merges_streams(solver) else 1,
    )
    rows_bytes = resident_bytes(manifest, windows, row_state_size)
    fits = rereads(plan) and rows_bytes + state_bytes <= plan.budget.rows
    return job._replace(
        windows=windows,
        row_state_size=row_state_size,
        sum_bytes=0 if job.in_place else spare_bytes(solver, job.problem, stats),
        resident=fits or job.dataset.in_memory,
    )


def training_memory(plan: TrainingPlan) -> int:
    """Return the bytes of a plan's memory that held-out rows leave for training."""
    return plan.memory - (plan.budget.held_out if plan.early_stopping else 0)


def rereads(plan: TrainingPlan) -> bool:
    """Say whether rows are read more than once: only then is it worth keeping them in memory."""
    return plan.passes > 1 or plan.certify or plan.tol is not None


def solver_of(plan: TrainingPlan, rule: TargetRule, stats: ProblemStats) -> Solver:
    """Return the plan's method, for as many models as there are classes and values of lam."""
    method, tasks = method_for(plan, rule.width), tasks_of(plan, rule, stats)
    if len(tasks) == 1:
        return method
    return MultiModel(method, tasks, plan.tol, rivals=plan.is_scored_by_its_pass)


def solver_of_job(plan: TrainingPlan, job: Job, group: int = 0) -> Solver:
    """Return the plan's method for the models that a job trains at once: all, or a group of them.

    Groups are consecutive models; all are as large as the first or one smaller.
    """
    solver = solver_of(plan, job.rule, job.stats)
    if not isinstance(solver, MultiModel):
        return solver
    own = groups_of(job)[group]
    return replace(solver, tasks=solver.tasks[own.start : own.stop])


def groups_of(job: Job) -> list[range]:
    """Return the groups of models that a job trains together: one range where all at once."""
    models, number = job.all_models, -(-job.all_models // job.models)
    ends = [models * k // number for k in range(number, -1, -1)]
    return [range(models - a, models - b) for a, b in pairwise(ends)]


def is_grouped(job: Job) -> bool:
    """Say whether a job trains its models in groups."""
    return job.models < job.all_models


def numbers_at_once(plan: TrainingPlan, rule: TargetRule, models: int) -> Iterator[int]:
    """Yield the numbers of models that may be trained at once, the most first."""
    yield models
    before = models
    for groups in range(2, models + 1 if may_be_grouped(plan, rule) else 0):
        if (size := -(-models // groups)) < before:
            yield size
            before = size


def may_be_grouped(plan: TrainingPlan, rule: TargetRule) -> bool:
    """Say whether models, of classes or lam, may be trained in groups, one after the other.

    Where rows end a training early they score all classes of a model together, after every pass.
    Several lam are compared at the end, on held-out rows; without some, the losses of the one pass
    compare them, and their states are there then.
    """
    if plan.early_stopping or rule.fold_rows or plan.source is not None:
        return False
    if len(plan.lam.factors) == 1:
        return rule.n_classes > 1 and rule.width == 1
    return plan.held_out is not None


def may_be_in_place(plan: TrainingPlan, width: int, models: int) -> bool:
    """Say whether the state of a plan may be stepped without any copy of it.

    That takes a method whose weights are read out by column, one model, one stream, and no use of
    weights before the end: no certificates, no held-out rows, no model to start from.
    """
    asks = plan.certify or plan.tol is not None or plan.held_out or plan.start_from
    return method_for(plan, width).by_column and plan.streams == 1 and models == 1 and not asks


def method_for(plan: TrainingPlan, width: int = 1) -> Solver:
    """Return the plan's method for models of that many scores a row.

    Raises BadInput when it is one that does not walk over windows.
    """
    if plan.solver.goal == "steps":
        raise BadInput(
            f"{plan.solver.kind} reads single rows and columns, not passes: there is nothing to "
            "predict, and nothing to spread over workers. Train with it, or choose sdca."
        )
    assert not isinstance(plan.solver, Auto), "auto has been replaced before"
    solver: Solver = fit_for(plan.solver, width, smooth=penalty_class(plan.charged).is_smooth)
    return solver


def bytes_of_models(plan: TrainingPlan, job: Job) -> int:
    """Bytes of the states of a job's models, and of the weights of classes that have none."""
    solver = solver_of_job(plan, job)
    if job.in_place:
        return Budget.in_place * solver.state_bytes(job.problem, job.stats)
    states = bytes_of_states(solver, job.problem, job.stats, streams_together(job))
    if is_distributed(job) and not joins_in_pairs(solver):
        states = max(states, (1 + job.stats.streams) * solver.state_bytes(job.problem, job.stats))
    if not is_grouped(job):
        return states
    return states + Budget.weights * 8 * job.all_models * max(1, job.rule.width) * job.stats.d


def merges_streams(solver: Solver) -> bool:
    """Say whether streams meet in the middle of a pass."""
    walks = (sweep for sweep in solver.program(solver.warm_epoch) if isinstance(sweep, Walk))
    return any(walk.merge is not None for walk in walks)


def joins_in_pairs(solver: Solver) -> bool:
    """Say whether no process takes the states of all streams at the end of a walk."""
    walks = (sweep for sweep in solver.program(solver.warm_epoch) if isinstance(sweep, Walk))
    return all(walk.pairs is not None for walk in walks)


def bytes_of_states(solver: Solver, problem: Problem, stats: ProblemStats, streams: int) -> int:
    """Bytes of the method's arrays with all their copies, where `streams` of them are together.

    Per stream what a span is given and its own copy; once what the method says of the rest.
    """
    given = Budget.states * streams * solver.state_bytes(problem, stats)
    return given + spare_bytes(solver, problem, stats)


def spare_bytes(solver: Solver, problem: Problem, stats: ProblemStats) -> int:
    """Bytes on top of the states of streams: of what is read out of them, and of sums."""
    return solver.spare_copies * solver.state_bytes(problem, stats)
