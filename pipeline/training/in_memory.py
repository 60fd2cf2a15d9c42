"""A training of rows in memory: the same engine, without a folder, snapshots or a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fewpass.pipeline.passes.threads import CallingThread
from fewpass.pipeline.planning.auto import FEW_COLUMNS
from fewpass.pipeline.planning.best_constant import levelled, rows_for_constants
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.planning.problem import problem_of, training_rule
from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.runs.events import Certification, Event, Finish, Start
from fewpass.pipeline.runs.outcome import Convergence, Trained
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.runs.run_record import OF_DATA_SET, RunRecord
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.driver import Driver
from fewpass.pipeline.training.engine import Checkpoints, Training
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.certified_minimum import AfterReading, Minimum, Sizes
from fewpass.solvers.dual.ascent_in_memory import ascend
from fewpass.solvers.estimates.smoothness import columns_are_few
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, ProblemStats, Solver, State, Weights
from fewpass.solvers.registry import DUAL, SECOND_ORDER, method_class
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table, take

GIVEN_UP = "The training was given up before its end."
NO_MEMORY_LIMIT = 1 << 62  # rows in memory are the caller's, and the state is what it is


def train_in_memory(
    plan: TrainingPlan,
    dataset: MemoryDataset,
    start_at: tuple[Weights, int] | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    held_out: MemoryDataset | None = None,
    on_event: Callable[[Event], None] = lambda _: None,
) -> Trained:
    """Train in the calling thread; where Ctrl-C is to be heard, `interruptible.py` has another.

    Parameters
    ----------
    plan
        Its `dataset`, `memory`, `snapshot_every` and `start_from` are not looked at.
    dataset
        The rows.
    start_at
        A model to start from, and the number of rows that it has learnt from.
    is_stopping
        Asked after every sweep; where it says so the training is given up.
    held_out
        Rows that the best of several lam is chosen by, or that end a training early; the plan's
        `held_out` names them.
    on_event
        Called after every span, reduction and certificate.

    Raises
    ------
    BadInput
        When plan and rows do not fit.
    Diverged
        When the loss explodes whatever the step.
    """
    plan = with_largest_lam(plan, dataset)
    if trained := train_at_once(plan, dataset, start_at, is_stopping, on_event):
        return trained
    plan = plan.model_copy(update={"memory": NO_MEMORY_LIMIT})
    store = MemoryStore(plan, dataset)
    progress = Progress(no_log)
    checkpoints = Checkpoints(store, dataset, progress, math.inf)
    planner = Planner(plan, dataset)
    engine = Driver(
        Training(
            store, plan, dataset, planner, CallingThread(), planner.choice(plan.memory),
            progress, checkpoints, is_stopping, start_at, held_out,
        )
    )  # fmt: skip
    engine.begin()
    on_event(progress.event(Start(dataset.n_rows, engine.plan.solver.kind)))
    for event in engine.go_on():
        on_event(event)
    on_event(progress.event(Finish()))
    saved = checkpoints.newest
    if saved is None or not saved.finished:
        raise InterruptedError(GIVEN_UP)
    return Trained.of(saved, engine.plan, engine.problem)


class MemoryStore:
    """The store of a training that retains its newest states and model alone (`RunStore`)."""

    url = "this fit"
    snapshots = None
    row_state = None  # all numbers per row stay in memory

    def __init__(self, plan: TrainingPlan, dataset: MemoryDataset) -> None:
        self._plan, self._manifest = plan, dataset.manifest
        self._states: Sequence[State] = ()

    def record(self) -> RunRecord:
        """Return the record by which held-out rows are read."""
        data = self._manifest
        return RunRecord.model_construct(
            plan=self._plan, columns=None, **{name: getattr(data, name) for name in OF_DATA_SET}
        )

    def save(self, _dataset: Dataset, new: Saved) -> Saved:
        """Retain the states."""
        self._states = new.states
        return new.written("")

    def read_state(
        self, _source: Any, _solver: Solver, _problem: Problem, _stats: ProblemStats, stream: int
    ) -> State:
        """Return a stream's state."""
        return self._states[stream]


# -- one model at once, without an engine ----------------------------------------------------------
#
# Newton's method where columns are few, dual ascent where they are many or the loss has a kink.
# Such a fit takes milliseconds; choosing a method and cutting windows would take as long again.
# Where the tolerance is not reached, and for all other plans, the engine trains.

LEAST_PASSES, MOST_PASSES = 10, 60  # that are allowed; that are tried
MOST_VISITS = 100  # of a row by dual ascent, on average, that are tried
MOST_VALUES = 1 << 24  # of rows that dual ascent visits in random order: beyond, in windows


def train_at_once(
    plan: TrainingPlan,
    dataset: MemoryDataset,
    start_at: tuple[Weights, int] | None,
    is_stopping: Callable[[], bool],
    on_event: Callable[[Event], None],
) -> Trained | None:
    """Return a model whose certificate is as small as the plan asks for; None where it is not.

    InterruptedError when it is to stop.
    """
    tol = plan.tol
    if tol is None or not _is_for_one_model(plan):
        return None
    manifest, problem = dataset.manifest, problem_of(plan, dataset.manifest)
    rule = training_rule(plan, manifest, problem.loss)
    start, before = start_at or (None, 0)
    word = None if rule.n_classes else _method(plan, problem, dataset, start)
    if word is None:
        return None
    if start is not None and not problem.intercept:
        start = start._replace(intercept=0.0)
    problem, constants = levelled(problem, rule, dataset, _sample(problem, dataset))
    sizes = Sizes(dataset.table.n_rows, dataset.n_features, constants)
    block = dataset_block(dataset.table, dataset, rule)
    progress = Progress(no_log)
    progress.advance(rows_before=before)
    on_event(progress.event(Start(sizes.n, word)))
    count = _counting(progress, sizes, is_stopping, on_event)
    weights, certified, passes = _fitted(word, plan, problem, sizes, block, start, count)
    if not certified.relative <= tol:
        return None
    progress.advance(passes=passes, rows_seen=round(passes * sizes.n))
    on_event(progress.event(Finish()))
    return Trained(
        weights, progress.cursor, word, problem.loss.name, problem.lam, None, None, certified,
        Convergence.of(tol, certified, finished=True).converged,
    )  # fmt: skip


def _counting(
    progress: Progress, sizes: Sizes, is_stopping: Callable[[], bool],
    on_event: Callable[[Event], None],
) -> AfterReading:  # fmt: skip
    """Return what counts a reading of the rows, reports what it proved, and stops where asked."""

    def count(passes: float, certified: Certificate | None) -> None:
        if is_stopping():
            raise InterruptedError(GIVEN_UP)
        progress.advance(passes=passes, rows_seen=round(passes * sizes.n))
        if certified:
            relative = certified.with_constants(sizes.constants).relative
            facts = Certification(certified.objective, certified.gap, relative)
            on_event(progress.event(facts))

    return count


def no_log(_event: str, **_facts: Any) -> None:
    """Keep no log."""


def _fitted(
    word: str,
    plan: TrainingPlan,
    problem: Problem,
    sizes: Sizes,
    block: Block,
    start: Weights | None,
    after_reading: AfterReading,
) -> Minimum:
    """Fit by a method; return the weights, their certificate, and the passes that it took."""
    assert plan.tol is not None, "it is trained to a tolerance"
    with np.errstate(over="ignore", invalid="ignore"):  # of rows so long that nothing is proven
        if word == SECOND_ORDER:
            most = min(plan.passes, MOST_PASSES)
            return minimise(problem, sizes, block, plan.tol, most, start, after_reading)
        most = min(plan.passes, MOST_VISITS)
        return ascend(problem, sizes, block, plan.tol, most, plan.seed, after_reading)


def _sample(problem: Problem, dataset: MemoryDataset) -> Table:
    """Return rows for the best constants; any one where the targets' sums tell them."""
    table, labelled = dataset.table, isinstance(dataset.manifest.targets, Labels)
    if table.weight is None and table.offset is None and (labelled or problem.loss.is_quadratic):
        return take(table, np.arange(min(1, table.n_rows)))
    return rows_for_constants(problem, dataset)


def _is_for_one_model(plan: TrainingPlan) -> bool:
    """Return whether the plan is for one model, by as many passes as it takes."""
    more = plan.early_stopping or plan.held_out or plan.streams > 1
    return plan.passes >= LEAST_PASSES and not more


def _method(
    plan: TrainingPlan, problem: Problem, dataset: MemoryDataset, start: Weights | None
) -> str | None:
    """Return the method that trains at once, None where none does."""
    kind, loss, d = plan.solver.kind, problem.loss, dataset.n_features
    if not problem.penalty.is_smooth or problem.lam == 0.0:
        return None
    if kind in ("auto", SECOND_ORDER) and loss.is_smooth and d <= FEW_COLUMNS:
        return SECOND_ORDER
    if start is not None or loss.is_steep or columns_are_few(dataset.n_rows, d):
        return None
    usual = kind == "auto" or _has_usual_settings(plan, loss.name)
    return DUAL if usual and dataset.table.nnz <= MOST_VALUES else None


def _has_usual_settings(plan: TrainingPlan, loss: str) -> bool:
    """Return whether the plan asks for dual ascent with the settings that a loss's default has."""
    kind = method_class(DUAL)
    return plan.solver in (kind(), kind(**kind.better.get(loss, {})))
