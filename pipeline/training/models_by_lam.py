"""The models of several lam on rows in memory, each only to a percent: to choose among them.

Few columns are minimised by Newton's method, from the largest lam down, each from the one before;
any others by dual ascent, side by side as far as the memory goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.planning.auto import FEW_COLUMNS
from fewpass.pipeline.planning.method_choice import method
from fewpass.pipeline.planning.planned_problem import PlannedProblem
from fewpass.pipeline.planning.special_methods import has_few_weights
from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.settings.method_kinds import Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.drive import AfterSweep, sweeps
from fewpass.solvers.estimates.expected_passes import conditioning
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, Solver, State, Weights, as_sides
from fewpass.solvers.registry import DUAL, SECOND_ORDER, fit_for, method_class
from fewpass.solvers.tasks import Task
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import DenseTable

COARSE = 1e-2  # relative gap that is enough to choose by
MOST_PASSES = 20.0  # and of few values as many as are quick, as little lam takes hundreds
VALUES, ALL_PASSES = 5_000_000, 500.0
WORK = 2e7  # rows times squared weights: one model of all classes by Newton's method
MOST_LANES = 64  # models at once


class ModelsByLam(NamedTuple):
    """Models in the order of the plan's lam, each made when it is asked for, and once."""

    planned: PlannedProblem
    models: Iterator[Weights]  # coefficients (d,), of several classes (K, d)


def models_by_lam(plan: TrainingPlan, dataset: MemoryDataset) -> ModelsByLam:
    """Return the model of every lam of a plan."""
    present, narrow = with_columns_present(dataset)
    one_stream = plan.model_copy(update={"streams": 1})  # rows in memory are walked by this thread
    planned = PlannedProblem.of(one_stream, narrow)
    block = dataset_block(narrow.table, narrow, planned.rule)
    by_columns = (
        planned.stats.d <= FEW_COLUMNS
        and isinstance(planned.problem.penalty, L2)
        and planned.problem.loss.is_smooth
        and not planned.problem.loss.is_wide
        and conditioning(planned.problem, planned.stats) is not None
    )
    trained = _by_newton(planned, block) if by_columns else _side_by_side(plan, planned, block)
    classes = planned.rule.n_classes if planned.rule.width == 1 else 0
    models = _stacked(trained, classes)
    whole = (_with_all_columns(one, present, dataset.n_features) for one in models)
    return ModelsByLam(planned, whole)


def with_columns_present(
    dataset: MemoryDataset,
) -> tuple[NDArray[np.int64] | None, MemoryDataset]:
    """Return the columns that rows have, and the rows with these alone; None: all are there."""
    table = dataset.table
    if isinstance(table, DenseTable):
        return None, dataset
    counts = np.bincount(table.indices, minlength=dataset.n_features)
    present = np.flatnonzero(counts)
    places = np.cumsum(counts > 0) - 1
    fewer = table._replace(indices=places[table.indices].astype(table.indices.dtype))
    width = max(1, len(present))
    groups = dataset.feature_groups
    groups = None if groups is None else groups[present]
    return present, MemoryDataset(fewer, width, dataset.manifest.targets, groups)


def _with_all_columns(model: Weights, present: NDArray[np.int64] | None, d: int) -> Weights:
    """Return a model of all d columns: those that no row has weigh nothing."""
    if present is None:
        return model
    coef = np.zeros((*model.coef.shape[:-1], d))
    coef[..., present] = model.coef[..., : len(present)]
    return model._replace(coef=coef)


def _stacked(trained: Iterator[Weights], classes: int) -> Iterator[Weights]:
    """Yield one model of all classes for each lam."""
    if not classes:
        yield from trained
        return
    while models := list(islice(trained, classes)):
        intercepts = np.array([one.intercept for one in models])
        yield Weights(np.array([one.coef for one in models]), intercepts)


def _by_newton(planned: PlannedProblem, block: Block) -> Iterator[Weights]:
    """Return every task's model: of each class from the largest lam down."""
    result: dict[Task, Weights] = {}
    last: dict[int, Weights] = {}
    for task in sorted(planned.tasks, key=lambda task: -task.lam):
        own = block._replace(y=as_sides(block.y, task.label))
        stats = planned.stats._replace(constants=(task.constant,))
        problem, start = task.problem(planned.problem), last.get(task.label)
        minimum = minimise(problem, stats, own, COARSE, MOST_PASSES, start)
        result[task] = last[task.label] = minimum.weights
    return (result[task] for task in planned.tasks)


def _side_by_side(plan: TrainingPlan, planned: PlannedProblem, block: Block) -> Iterator[Weights]:
    """Yield every task's model, as many in the same passes as the memory has space for."""
    width = planned.rule.width
    solver = fit_for(_solver(planned), width, smooth=planned.problem.penalty.is_smooth)
    stats = planned.stats
    each = max(1, solver.state_bytes(planned.tasks[0].problem(planned.problem), stats))
    each += 8 * solver.row_state_size(stats) * stats.n
    at_once = int(np.clip(plan.budget.lam_states // each, 1, MOST_LANES)) if width == 1 else 1
    tasks = planned.tasks
    for first in range(0, len(tasks), at_once):
        yield from _group(solver, tasks[first : first + at_once], planned, block)


def _group(
    solver: Solver, tasks: Sequence[Task], planned: PlannedProblem, block: Block
) -> list[Weights]:
    """Return the models of some tasks after the pass that certified all, or after the last one."""
    problem, stats, most = planned.problem, planned.stats, _most_passes(block)
    models = MultiModel(solver, tuple(tasks), COARSE)
    if len(tasks) == 1:
        own = block._replace(y=as_sides(block.y, tasks[0].label))
        after = sweeps(solver, tasks[0].problem(problem), stats, own)
        return [solver.weights(_last(after, lambda state: models.is_converged(0, state), most))]
    state = _last(
        sweeps(models, problem, stats, block),
        lambda state: all(models.is_converged(k, one) for k, one in enumerate(state.models)),
        most,
    )
    return [solver.weights(one) for one in state.models]


def _solver(planned: PlannedProblem) -> Method:
    """Return Newton's method for one model of all classes with little work, else dual ascent.

    Penalties of several columns together are Newton's, too.
    """
    problem, stats = planned.problem, planned.stats
    if not problem.penalty.by_column:
        return method(SECOND_ORDER)
    if has_few_weights(problem, stats):
        weights = problem.loss.width * (stats.d + 1)
        if stats.n * weights**2 <= WORK:
            return method(SECOND_ORDER)
    return method(DUAL, **method_class(DUAL).better.get(problem.loss.name, {}))


def _most_passes(block: Block) -> float:
    values = max(1, sum(part.nbytes for part in block.rows[:1]) // 4)
    return float(np.clip(VALUES / values, MOST_PASSES, ALL_PASSES))


def _last(after: Iterator[AfterSweep], is_enough: Callable[[State], bool], most: float) -> State:
    return next(one.state for one in after if one.passes >= most or is_enough(one.state))
