"""The memory of a training where nobody said how much: a gibibyte, or what the job needs.

More is taken only where rows then stay in memory from pass to pass, or where the method's state
asks for it, and never more than half of what this process may use.  Classes are trained in groups,
one after the other, where reading the rows once for each group costs less than the memory that
their states would take together.  What was taken is part of the
run's plan: going on anywhere else means the same bits.
"""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import usable_memory_bytes
from fewpass.pipeline.rows.windows import OVERHEAD_BYTES, rows_bytes
from fewpass.pipeline.settings.methods import Auto, Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.planning.forecast import memory_of
from fewpass.pipeline.training.planning.job import (
    groups_of,
    is_grouped,
    make_job,
    may_be_grouped,
    rereads,
    tasks_of,
    with_method_chosen,
)
from fewpass.solvers.registry import SEVERAL_LEARNERS
from fewpass.storage.dataset import Dataset

SHARE = 2  # of what a process may use, a half is taken at most
ROUND = 10**6  # what is needed is told in megabytes
READING = 8  # bytes of memory that a byte is worth which is not read and decoded once more
CANDIDATES = 8  # budgets that are compared


def with_memory(plan: TrainingPlan, dataset: Dataset, most: int | None = None) -> TrainingPlan:
    """Return a plan whose memory was not given with what its job needs.

    Parameters
    ----------
    plan
        As it was asked for; where it says how much memory there is, nothing is changed.
    dataset
        What is trained on.
    most
        Bytes at most; by default half of what this process may use.
    """
    most = usable_memory_bytes() // SHARE if most is None else most
    if "memory" in plan.model_fields_set or plan.solver.goal == "steps" or most <= plan.memory:
        return plan
    widest = plan.model_copy(update={"memory": most})
    if isinstance(plan.solver, Auto) and (wider := _for_its_learners(plan, widest, dataset)):
        return wider
    if _suffices(plan, dataset):
        return plan
    needed = _needed(widest, dataset)
    if needed is None:  # rows do not stay in memory, whatever is given
        wider = plan if _fits(plan, dataset) else _for_all_states(plan, widest, dataset)
    else:
        enough = plan.model_copy(update={"memory": needed})
        wider = enough if needed < most and _suffices(enough, dataset) else widest
    return _with_groups(plan, wider, dataset)


def _for_its_learners(
    plan: TrainingPlan, widest: TrainingPlan, dataset: Dataset
) -> TrainingPlan | None:
    """Return the plan with the memory that one pass of several learners takes; None for others.

    What rows have is left as it was: windows are no larger than without.
    """
    try:
        wanted = with_method_chosen(widest, dataset)
        if wanted.solver.kind != SEVERAL_LEARNERS or _method(plan, dataset) == wanted.solver:
            return None
        state = memory_of(wanted, make_job(wanted, dataset))["state_bytes"]
    except BadInput:
        return None
    enough = plan.memory + -(-state // ROUND) * ROUND
    return plan.model_copy(update={"memory": enough}) if enough <= widest.memory else None


def _for_all_states(plan: TrainingPlan, widest: TrainingPlan, dataset: Dataset) -> TrainingPlan:
    """Return the plan with the memory that the states of all models take, beside what rows have."""
    try:
        chosen = with_method_chosen(widest, dataset)
        state = memory_of(chosen, make_job(chosen, dataset))["state_bytes"]
    except BadInput:
        return widest
    enough = plan.model_copy(update={"memory": plan.memory + -(-state // ROUND) * ROUND})
    return enough if enough.memory < widest.memory and _fits(enough, dataset) else widest


def _with_groups(plan: TrainingPlan, wider: TrainingPlan, dataset: Dataset) -> TrainingPlan:
    """Return the plan with what training classes in groups takes, where that is the better way.

    It is where the memory, and what is read anew for every group, are least together.
    """
    if _fits(plan, dataset) or not _may_be_grouped(wider, dataset):
        return wider
    sizes = np.geomspace(plan.memory, wider.memory, CANDIDATES).tolist()
    tried = [plan.model_copy(update={"memory": -(-int(size) // ROUND) * ROUND}) for size in sizes]
    costs = [_cost(candidate, dataset) for candidate in (plan, *tried[1:-1], wider)]
    least = min(cost for cost in costs)
    return wider if least == np.inf else (plan, *tried[1:-1], wider)[costs.index(least)]


def _may_be_grouped(plan: TrainingPlan, dataset: Dataset) -> bool:
    try:
        plan = with_method_chosen(plan, dataset)
        return may_be_grouped(plan, make_job(plan, dataset).rule)
    except BadInput:
        return False


def _cost(plan: TrainingPlan, dataset: Dataset) -> float:
    """Return the memory of a plan and what it reads, in bytes; infinite where it does not fit."""
    try:
        plan = with_method_chosen(plan, dataset)
        job = make_job(plan, dataset)
    except BadInput:
        return np.inf
    groups = len(groups_of(job, len(tasks_of(plan, job.rule, job.stats.n))))
    passes = 1 if job.resident else plan.passes
    return plan.memory + READING * groups * passes * rows_bytes(dataset.manifest)


def _method(plan: TrainingPlan, dataset: Dataset) -> Method | Auto | None:
    """Return the method that is chosen with this much memory; None where there is none."""
    try:
        return with_method_chosen(plan, dataset).solver
    except BadInput:
        return None


def _suffices(plan: TrainingPlan, dataset: Dataset) -> bool:
    """Say whether more memory would change nothing."""
    try:
        plan = with_method_chosen(plan, dataset)
        job = make_job(plan, dataset)
    except BadInput:
        return False
    return not is_grouped(plan, job) and (job.resident or not rereads(plan))


def _fits(plan: TrainingPlan, dataset: Dataset) -> bool:
    try:
        plan = with_method_chosen(plan, dataset)
        return not is_grouped(plan, make_job(plan, dataset))
    except BadInput:
        return False


def _needed(plan: TrainingPlan, dataset: Dataset) -> int | None:
    """Return the bytes of a job whose rows stay in memory; None where they do not."""
    try:
        plan = with_method_chosen(plan, dataset)
        job = make_job(plan, dataset)
    except BadInput:
        return None
    if not job.resident:
        return None
    parts = memory_of(plan, job)
    exact: int = parts["state_bytes"] + parts["window_bytes"] + OVERHEAD_BYTES
    return -(-exact // ROUND) * ROUND
