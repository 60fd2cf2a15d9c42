"""Models of several lam that learn from the same rows in memory.

They are only good to a percent: enough to choose among them.  Few columns are minimised by Newton's
method, from the largest lam down, each from the one before; any others by dual ascent, side by side
as far as the memory goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.planning.auto import FEW_COLUMNS
from fewpass.pipeline.planning.conditioning import conditioning
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.planning.method_choice import method
from fewpass.pipeline.planning.planned_problem import PlannedProblem
from fewpass.pipeline.planning.special_methods import has_few_weights
from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.settings.method_kinds import Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.batch.normal_equations import Moments, moments_of
from fewpass.solvers.drive import models_within
from fewpass.solvers.losses import Loss
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, Weights, as_sides
from fewpass.solvers.registry import DUAL, SECOND_ORDER, fit_for, method_class
from fewpass.solvers.tasks import Task
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import DenseTable

COARSE = 1e-2  # relative gap that is enough to choose by
MOST_PASSES = 20.0  # and of few values as many as are quick, as little lam takes hundreds
VALUES, ALL_PASSES = 5_000_000, 500.0
WORK = 2e7  # rows times squared weights: one model of all classes by Newton's method
MOST_LANES = 64  # models at once


#: Makes the models of a problem's tasks of a block.
Make = Callable[[PlannedProblem, Block], Iterator[Weights]]


class LearntRows:
    """Rows in memory, and models of several lam that learn from them.

    Parameters
    ----------
    rows
        Models are made of the columns that these have.
    again
        Whether models will be asked for again.
    """

    def __init__(self, rows: MemoryDataset, again: bool) -> None:
        self.rows, self._again = rows, again
        self._present, self._narrow = with_columns_present(rows)
        self._sums: dict[int, Moments] = {}  # of each class, for the squared loss
        self._trained: dict[tuple[Loss, Task], Weights] = {}

    def models(self, plan: TrainingPlan) -> tuple[PlannedProblem, Iterator[Weights]]:
        """Return a problem, and the model of every lam of a plan: (d,), or (K, d) of classes.

        Plans may differ in loss and lam.  Each model is made when it is asked for.
        """
        plan, narrow = with_largest_lam(plan, self.rows), self._narrow
        one_stream = plan.model_copy(update={"streams": 1})  # rows here are walked by this thread
        planned = PlannedProblem.of(one_stream, narrow)
        block = dataset_block(narrow.table, narrow, planned.rule)
        loss = planned.problem.loss
        # Of steep losses dual ascent gains little, however well the problem is conditioned.
        is_bounded = conditioning(planned.problem, planned.stats) is not None or loss.is_steep
        by_columns = (
            planned.stats.d <= FEW_COLUMNS
            and isinstance(planned.problem.penalty, L2)
            and loss.is_smooth
            and not loss.is_wide
            and is_bounded
        )
        make = self._by_newton if by_columns else partial(_side_by_side, plan)
        classes = planned.rule.n_classes if planned.rule.width == 1 else 0
        models = _stacked(self._made(make, planned, block), classes)
        whole = (_with_all_columns(one, self._present, self.rows.n_features) for one in models)
        return planned, whole

    def _made(self, make: Make, planned: PlannedProblem, block: Block) -> Iterator[Weights]:
        """Yield every task's model, made anew unless it was before."""
        loss, before = planned.problem.loss, dict(self._trained)
        new = tuple(task for task in planned.tasks if (loss, task) not in before)
        made = make(planned._replace(tasks=new), block)
        for task in planned.tasks:
            one = before[loss, task] if (loss, task) in before else next(made)
            if self._again:
                self._trained[loss, task] = one
            yield one

    def _by_newton(self, planned: PlannedProblem, block: Block) -> Iterator[Weights]:
        """Return every task's model: of each class from the largest lam down."""
        result: dict[Task, Weights] = {}
        last: dict[int, Weights] = {}
        for task in sorted(planned.tasks, key=lambda task: -task.lam):
            own = block._replace(y=as_sides(block.y, task.label))
            result[task] = self._minimum(planned, task, own, last.get(task.label))
            last[task.label] = result[task]
        return (result[task] for task in planned.tasks)

    def _minimum(
        self, planned: PlannedProblem, task: Task, block: Block, start: Weights | None
    ) -> Weights:
        """Return one task's model; of the squared loss by sums that all its lam have in common."""
        problem, sums = task.problem(planned.problem), None
        if problem.loss.is_quadratic:
            if task.label not in self._sums:
                self._sums[task.label] = moments_of(problem, planned.stats.d, block)
            sums = self._sums[task.label]
        stats = planned.stats._replace(constants=(task.constant,))
        return minimise(problem, stats, block, COARSE, MOST_PASSES, start, sums=sums).weights


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


def _side_by_side(plan: TrainingPlan, planned: PlannedProblem, block: Block) -> Iterator[Weights]:
    """Yield every task's model, as many in the same passes as the memory has space for."""
    width = planned.rule.width
    solver = fit_for(_solver(planned), width, smooth=planned.problem.penalty.is_smooth)
    stats = planned.stats
    each = max(1, solver.state_bytes(planned.tasks[0].problem(planned.problem), stats))
    each += 8 * solver.row_state_size(stats) * stats.n
    at_once = int(np.clip(plan.budget.lam_states // each, 1, MOST_LANES)) if width == 1 else 1
    tasks, most = planned.tasks, _most_passes(block)
    for first in range(0, len(tasks), at_once):
        group, problem = tasks[first : first + at_once], planned.problem
        yield from models_within(solver, group, problem, stats, block, COARSE, most)


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
