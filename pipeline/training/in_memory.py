"""A training of rows in memory: the same engine, without a folder, snapshots or a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fewpass.pipeline.passes.calling_thread import CallingThread
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.runs.events import Event, Finish, Start
from fewpass.pipeline.runs.outcome import Trained
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.at_once import train_at_once
from fewpass.pipeline.training.driver import Driver
from fewpass.pipeline.training.engine import Checkpoints, Training
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats, Solver, State, Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.memory_dataset import MemoryDataset

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
    progress = Progress(store)
    checkpoints = Checkpoints(store, dataset, progress, math.inf)
    planner = Planner(plan, dataset)
    engine = Driver(
        Training(
            store, plan, dataset, planner, CallingThread(), planner.choice(plan.memory), None,
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
        raise InterruptedError("The training was given up before its end.")
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
            plan=self._plan, layout=data.layout, n_rows=data.n_rows, n_features=data.n_features,
            targets=data.targets, scaling=data.scaling, columns=None, offsets=data.offsets,
        )  # fmt: skip

    def log(self, event: str, **facts: Any) -> None:
        """Keep no log."""

    def save(self, _dataset: Dataset, new: Saved) -> Saved:
        """Retain the states."""
        self._states = new.states
        return new.written("")

    def read_state(
        self, _source: Any, _solver: Solver, _problem: Problem, _stats: ProblemStats, stream: int
    ) -> State:
        """Return a stream's state."""
        return self._states[stream]
