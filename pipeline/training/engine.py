"""The surroundings of an engine: a store that it writes to, and snapshots.

An engine is the driver (driver.py), or makes single steps (feature_steps.py): `begin` and `restore`
take the first state or a snapshot's, `go_on` trains and yields events, `rest` takes a snapshot.

A run's folder stores snapshots, numbers per row and events (run_snapshots.py: `TrainedFolder`); a
training of rows in memory has a store that retains the model alone (training/in_memory.py).  An
engine does not know which: it carries states over the data, and asks when a snapshot is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fewpass.pipeline.lease import Lease
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.planning.method_choice import MethodChoice
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.rows.from_source import OpenedSource
from fewpass.pipeline.runs.events import Event, SnapshotTaken
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, ProblemStats, Solver, State, Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.snapshot import Snapshot

MOST_VERSIONS = 16  # of numbers kept per row between two snapshots, which delete the old ones


class Stopped(Exception):  # noqa: N818  it goes no further than the run
    """A reduction that was given up because the training is to stop."""


class RunStore(Protocol):
    """The store of the snapshots and numbers per row of a training."""

    snapshots: Any  # where these are written; None where the newest states alone are retained
    row_state: Any  # reads and writes numbers per row, version by version

    @property
    def url(self) -> str:
        """Return its name in messages."""

    def record(self) -> RunRecord:
        """Return the plan, and the layout, columns and targets of the data."""

    def save(self, dataset: Dataset, new: Saved) -> Saved:
        """Write a snapshot; return the part of it that is retained in memory."""

    def read_state(
        self, source: str | Snapshot, solver: Solver, problem: Problem, stats: ProblemStats,
        stream: int,
    ) -> State:  # fmt: skip
        """Read one stream's state of a snapshot, by its name or in memory."""


class Restorable(Protocol):
    """States of a training, as snapshots are taken of them."""

    @property
    def keeps_on_disk(self) -> bool:
        """Return whether sweeps may leave numbers per row on disk, which a snapshot clears away."""

    @property
    def least_wait(self) -> float:
        """Seconds between two snapshots at least, as each costs so much."""

    def content(self, certified: Certificate | None, *, finished: bool) -> Saved:
        """Return a snapshot of the newest states, to be written."""

    def go_on_from(self, saved: Saved) -> None:
        """Take the states of a snapshot, read from the store."""


class Checkpoints:
    """Takes a training's snapshots, and has it go on from the stored states.

    Attributes
    ----------
    newest : Saved or None
        The newest whole snapshot, if there is one.
    lease : Lease or None
        Of a run's folder, while the run is under way.
    """

    def __init__(self, store: RunStore, dataset: Dataset, progress: Progress, every: float) -> None:
        self.newest: Saved | None = None
        self.lease: Lease | None = None
        self._store, self._dataset, self._progress, self._every = store, dataset, progress, every
        self._last = (time.perf_counter(), 0)  # when, and how many sweeps had been done

    @property
    def finished(self) -> bool:
        """Return whether the newest snapshot is the last one."""
        return self.newest is not None and self.newest.finished

    @property
    def is_current(self) -> bool:
        """Return whether the newest snapshot is of where the training stands."""
        return self.newest is not None and self.newest.cursor == self._progress.cursor

    def is_due(self, states: Restorable) -> bool:
        """Return whether it is time for a snapshot."""
        when, done = self._last
        versions = self._progress.cursor.sweeps - done if states.keeps_on_disk else 0
        late = time.perf_counter() - when >= max(self._every, states.least_wait)
        return late or versions >= MOST_VERSIONS

    def save(
        self,
        states: Restorable,
        certified: Certificate | None = None,
        *,
        finished: bool = False,
    ) -> Event:
        """Take a snapshot, and go on from it unless it is the last one."""
        if self.lease is not None:
            self.lease.check()
        began = time.perf_counter()
        new = states.content(certified, finished=finished)
        self.newest = self._store.save(self._dataset, new)
        self._last = (time.perf_counter(), new.cursor.sweeps)
        del new  # nothing holds on to states that are read again
        if not finished:
            self.newest = self.newest.without_weights()  # the state has them
            states.go_on_from(self.newest)
        return self._progress.event(SnapshotTaken(self.newest.name, time.perf_counter() - began))


@dataclass(frozen=True)
class Training:
    """The job of an engine: a store, a plan and its data, and where events and snapshots go."""

    run: RunStore
    plan: TrainingPlan
    dataset: Dataset
    planner: Planner
    executor: Executor
    methods: MethodChoice | None  # in place of `auto`
    progress: Progress
    checkpoints: Checkpoints
    is_stopping: Callable[[], bool]
    start_at: tuple[Weights, int] | None = None  # a model and the rows that it learnt from
    held_out: Dataset | None = None  # the rows that the plan names as held out, if it names any
    source: OpenedSource | None = None  # that is read once, in place of the data set
