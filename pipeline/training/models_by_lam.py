"""The models of several lam on rows in memory, each only to a percent: to choose among them.

Few columns are minimised by Newton's method, from the largest lam down, each from the one before;
any others by dual ascent, side by side as far as the memory goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.planning.auto import FEW_COLUMNS, method
from fewpass.pipeline.training.planning.planned_problem import PlannedProblem
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
MOST_PASSES = 20.0
MOST_LANES = 64  # models at once
SHARE = 4  # of the memory, a quarter is for their states


class ModelsByLam(NamedTuple):
    """Models in the order of the plan's lam."""

    planned: PlannedProblem
    models: list[Weights]  # coefficients (d,), of several classes (K, d)


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
    trained = [_with_all_columns(one, present, dataset.n_features) for one in trained]
    classes = planned.rule.n_classes if planned.rule.width == 1 else 0
    models = [
        _stacked(trained[first : first + max(classes, 1)], classes)
        for first in range(0, len(trained), max(classes, 1))
    ]
    return ModelsByLam(planned, models)


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


def _stacked(models: Sequence[Weights], classes: int) -> Weights:
    if not classes:
        return models[0]
    intercepts = np.array([one.intercept for one in models])
    return Weights(np.array([one.coef for one in models]), intercepts)


def _by_newton(planned: PlannedProblem, block: Block) -> list[Weights]:
    """Return every task's model: of each class from the largest lam down."""
    result: dict[Task, Weights] = {}
    last: dict[int, Weights] = {}
    for task in sorted(planned.tasks, key=lambda task: -task.lam):
        own = block._replace(y=as_sides(block.y, task.label))
        stats = planned.stats._replace(constants=(task.constant,))
        problem, start = task.problem(planned.problem), last.get(task.label)
        minimum = minimise(problem, stats, own, COARSE, MOST_PASSES, start)
        result[task] = last[task.label] = minimum.weights
    return [result[task] for task in planned.tasks]


def _side_by_side(plan: TrainingPlan, planned: PlannedProblem, block: Block) -> list[Weights]:
    """Return every task's model, as many in the same passes as the memory has space for."""
    word = planned.problem.loss.name
    width = planned.rule.width
    kind = DUAL if planned.problem.penalty.by_column else SECOND_ORDER
    solver = fit_for(method(kind, **method_class(kind).better.get(word, {})), width)
    each = max(1, solver.state_bytes(planned.problem, planned.stats))
    at_once = int(np.clip(plan.memory // SHARE // each, 1, MOST_LANES)) if width == 1 else 1
    tasks = planned.tasks
    groups = [tasks[first : first + at_once] for first in range(0, len(tasks), at_once)]
    return [weights for group in groups for weights in _group(solver, group, planned, block)]


def _group(
    solver: Solver, tasks: Sequence[Task], planned: PlannedProblem, block: Block
) -> list[Weights]:
    """Return the models of some tasks after the pass that certified all, or after the last one."""
    problem, stats = planned.problem, planned.stats
    models = MultiModel(solver, tuple(tasks), COARSE)
    if len(tasks) == 1:
        own = block._replace(y=as_sides(block.y, tasks[0].label))
        after = sweeps(solver, tasks[0].problem(problem), stats, own)
        return [solver.weights(_last(after, lambda state: models.is_converged(0, state)))]
    state = _last(
        sweeps(models, problem, stats, block),
        lambda state: all(models.is_converged(k, one) for k, one in enumerate(state.models)),
    )
    return [solver.weights(one) for one in state.models]


def _last(after: Iterator[AfterSweep], is_enough: Callable[[State], bool]) -> State:
    return next(one.state for one in after if one.passes >= MOST_PASSES or is_enough(one.state))
