"""The memory of a training whose plan names none: a gibibyte, or what the job needs.

More is taken only where rows then stay in memory from pass to pass, or where the method's state
asks for it, and never more than half of what this process may use.  Rows that are stored as codes
become ten times their size: where all take over twice the usual memory, each pass expands them
anew.  Classes are trained in groups, one after the other, where reading the rows once for each
group costs less than the memory that their states would take together.  What was taken is part of
the run's plan: going on anywhere else means the same bits.
"""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.budget import DEFAULT_PART, PROGRAM_BYTES, Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import usable_memory_bytes
from fewpass.pipeline.planning.forecast import memory_of
from fewpass.pipeline.planning.job import (
    groups_of,
    is_grouped,
    may_be_grouped,
    rereads,
)
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.rows.windows import rows_bytes
from fewpass.pipeline.settings.method_kinds import Auto
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.registry import SEVERAL_LEARNERS
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels

ROUND = 10**6  # what is needed is rounded up to megabytes
READING = 8  # bytes of memory worth spending to avoid re-reading one byte
CANDIDATES = 8  # budgets that are compared
EXPANDED = 2  # times the usual memory, at most, for rows of codes that stay expanded


def with_memory(planner: Planner, most: int | None = None) -> TrainingPlan:
    """Return the plan with the memory that its job needs, where none was given.

    Parameters
    ----------
    planner
        Of the plan as asked for; a memory that it gives is not changed.
    most
        Bytes at most; by default half of what this process may use.
    """
    plan = planner.plan
    most = usable_memory_bytes() // DEFAULT_PART if most is None else most
    if "memory" in plan.model_fields_set or plan.solver.goal == "steps" or most <= plan.memory:
        return plan
    return plan.model_copy(update={"memory": _memory_for(planner, plan.memory, most)})


def most_by_default(plan: TrainingPlan) -> int:
    """Return the bytes that a plan may take at most: those that it gives, if it does."""
    given = "memory" in plan.model_fields_set
    return plan.memory if given else max(plan.memory, usable_memory_bytes() // DEFAULT_PART)


def fits_for_sure(plan: TrainingPlan, dataset: Dataset) -> bool:
    """Say whether one model of all classes is so small that nothing has to be planned for it."""
    targets = dataset.manifest.targets
    classes = len(targets.labels) if isinstance(targets, Labels) else 1
    numbers = dataset.n_features * Budget.wide_weight + dataset.n_rows * Budget.wide_row
    return classes * numbers <= plan.budget.sure_to_fit


def require_memory(plan: TrainingPlan, dataset: Dataset, *, near: bool) -> None:
    """Refuse a plan without lam that does not fit into its memory, whatever lam will be."""
    if fits_for_sure(plan, dataset):
        return
    planner = Planner(plan.model_copy(update={"lam": Lam.of("1/n")}), dataset, distributed=not near)
    planner.job((with_memory(planner) if near else plan).memory)


def _memory_for(planner: Planner, usual: int, most: int) -> int:
    if memory := _for_its_learners(planner, usual, most):
        return memory
    if _suffices(planner, usual):
        return usual
    needed = _needed(planner, usual, most)
    if needed is None:  # rows do not stay in memory
        wider = usual if planner.fits(usual) else _for_all_states(planner, usual, most)
    else:
        wider = needed if needed < most and _suffices(planner, needed) else most
    return _with_groups(planner, usual, wider)


def _for_its_learners(planner: Planner, usual: int, most: int) -> int | None:
    """Return the memory that one pass of several learners takes; None for others.

    The memory of rows stays the same: windows are no larger than without.
    """
    plan = planner.plan
    if not isinstance(plan.solver, Auto) or (plan.tol is not None and plan.passes > 1):
        return None
    if _are_several(planner, usual) or not _are_several(planner, most):
        return None
    enough = _with_states(planner, usual, most)
    return enough if enough <= most else None


def _are_several(planner: Planner, memory: int) -> bool:
    """Say whether several learners are chosen with this much memory."""
    try:
        return planner.method(memory).kind == SEVERAL_LEARNERS
    except BadInput:
        return False


def _for_all_states(planner: Planner, usual: int, most: int) -> int:
    """Return the memory that the states of all models take, next to what rows have."""
    try:
        enough = _with_states(planner, usual, most)
    except BadInput:
        return most
    return enough if enough < most and planner.fits(enough) else most


def _with_states(planner: Planner, usual: int, most: int) -> int:
    """Return the usual memory and, on top, what the states take that fit into the most."""
    job = planner.job(most)
    state: int = memory_of(planner.named(most), job)["state_bytes"]
    return usual + -(-state // ROUND) * ROUND


def _with_groups(planner: Planner, usual: int, wider: int) -> int:
    """Return the memory that training classes in groups takes, where that is the better way.

    That is where the memory, and the bytes read anew for every group, are least together.
    """
    if planner.fits(usual) or not _may_be_grouped(planner, wider):
        return wider
    sizes = np.geomspace(usual, wider, CANDIDATES).tolist()
    tried = [usual, *(-(-int(size) // ROUND) * ROUND for size in sizes[1:-1]), wider]
    costs = [_cost(planner, memory) for memory in tried]
    least = min(costs)
    return wider if least == np.inf else tried[costs.index(least)]


def _may_be_grouped(planner: Planner, memory: int) -> bool:
    try:
        job = planner.job(memory)
    except BadInput:
        return False
    # of several lam all go together where they fit: passes are made for all of them
    together = len(planner.plan.lam.factors) > 1 and not is_grouped(job)
    return may_be_grouped(planner.plan, job.rule) and not together


def _cost(planner: Planner, memory: int) -> float:
    """Return a memory and the bytes read with it; infinite where it is too small."""
    try:
        job = planner.job(memory)
    except BadInput:
        return np.inf
    passes = 1 if job.resident else planner.plan.passes
    return memory + READING * len(groups_of(job)) * passes * rows_bytes(job.dataset.manifest)


def _suffices(planner: Planner, memory: int) -> bool:
    """Say whether more memory would change nothing."""
    try:
        job = planner.job(memory)
    except BadInput:
        return False
    return not is_grouped(job) and (job.resident or not rereads(planner.plan))


def _needed(planner: Planner, usual: int, most: int) -> int | None:
    """Return the bytes of a job whose rows stay in memory; None where they had better not."""
    try:
        job = planner.job(most)
    except BadInput:
        return None
    if not job.resident:
        return None
    parts = memory_of(planner.named(most), job)
    if job.dataset.manifest.coded and parts["window_bytes"] > EXPANDED * usual:
        return None
    exact: int = parts["state_bytes"] + parts["window_bytes"] + PROGRAM_BYTES
    return -(-exact // ROUND) * ROUND
