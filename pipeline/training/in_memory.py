"""A training of rows in memory: the same engine, with no folder, no snapshots and no log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.executors.calling_thread import CallingThread
from fewpass.pipeline.runs.checkpoints import Checkpoints, Keeper
from fewpass.pipeline.runs.engine import Training
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import Trained
from fewpass.pipeline.runs.progress import Progress
from fewpass.pipeline.runs.run_folder import RunFolder, RunRecord
from fewpass.pipeline.runs.saved import Content
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.few_columns import train_few_columns
from fewpass.pipeline.training.passes import Passes
from fewpass.pipeline.training.planning.planner import Planner
from fewpass.solvers.protocol import Certificate, Weights
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.objects import StoredObject
from fewpass.storage.row_state_store import NOTHING_YET

NO_MEMORY_LIMIT = 1 << 62  # rows in memory are the caller's, and the state is what it is


def train_in_memory(
    plan: TrainingPlan,
    dataset: MemoryDataset,
    start_at: tuple[Weights, int] | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    judges: MemoryDataset | None = None,
    on_event: Callable[[Event], None] = lambda _: None,
) -> Trained:
    """Train in the calling thread, which should not be the main one: see `execution/threads.py`.

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
    judges
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
    if found := train_few_columns(plan, dataset, start_at, is_stopping, on_event):
        return found
    plan = plan.model_copy(update={"memory": NO_MEMORY_LIMIT})
    run = _NoFolder(plan, dataset)
    progress = Progress(run)
    checkpoints = _LastOne(run, dataset, progress, plan.snapshot_every)
    planner = Planner(plan, dataset)
    engine = Passes(
        Training(
            run, plan, dataset, planner, CallingThread(), planner.choice(plan.memory), None,
            progress, checkpoints, is_stopping, start_at, judges,
        )
    )  # fmt: skip
    engine.begin()
    on_event(progress.event("start", n_rows=dataset.n_rows, method=engine.plan.solver.kind))
    for event in engine.go_on():
        on_event(event)
    on_event(progress.event("finish"))
    saved = checkpoints.newest
    if saved is None or not saved.finished:
        raise InterruptedError("The training was given up before its end.")
    return Trained.of(saved, engine)


class _NoFolder(RunFolder):
    """Stands where a run's folder does: nothing is kept of the way there."""

    def __init__(self, plan: TrainingPlan, dataset: MemoryDataset) -> None:
        super().__init__("memory://fit")
        self.row_state: Any = _NoRowState()
        self._plan, self._manifest = plan, dataset.manifest

    def record(self) -> RunRecord:
        """Return what held-out rows are read by."""
        known = self._manifest
        return RunRecord.model_construct(
            plan=self._plan, layout=known.layout, n_rows=known.n_rows, n_features=known.n_features,
            targets=known.targets, scaling=known.scaling, columns=None,
        )  # fmt: skip

    def log(self, event: str, **facts: Any) -> None:
        """Keep no log."""


class _NoRowState:
    """A store of numbers per row before any were written: they stay in `RowStateInMemory`."""

    def write(self, _version: int, _chunk: int, _values: NDArray[np.float64]) -> StoredObject:
        """Write nothing: no snapshot goes with them."""
        return StoredObject(0, 0)

    def read_into(
        self, version: int, _chunk: int, out: NDArray[np.float64], _stored: StoredObject | None
    ) -> int:
        """Fill `out` with zeros."""
        assert version == NOTHING_YET, "every later version is in memory"
        out[:] = 0.0
        return 0


class _LastOne(Checkpoints):
    """Keeps the model that a training ends with, and nothing before."""

    def is_due(self, _keeper: Keeper) -> bool:
        """Say that no snapshot is due."""
        return False

    def save(
        self, keeper: Keeper, certified: Certificate | None = None, *, finished: bool = False
    ) -> Event:
        """Read the model out of the last state."""
        cursor, content = self._progress.cursor, Content([], Weights(np.empty(0), 0.0), certified)
        if finished:
            content = keeper.content(certified, finished=True)
        self.newest = content.saved("", cursor, finished=finished)
        return Event.of("snapshot", cursor, name="")
