"""What a training run asks of an engine: to carry states over the data to where the plan ends.

There are two.  Passes (passes.py) has windows of rows go through a method's walks and reductions;
bursts (bursts.py) has a method read single rows and columns.  Lease, clock, log, snapshots, signals
and the result are the run's (training_run.py), the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.rows.from_source import OpenedSource
from fewpass.pipeline.runs.checkpoints import Checkpoints, Keeper
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.progress import Progress
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.settings.training_plan import StorageOptions, TrainingPlan
from fewpass.pipeline.training.planning.auto import MethodChoice
from fewpass.pipeline.training.planning.forecast import Forecast
from fewpass.pipeline.training.planning.planner import Planner
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats, Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.snapshot import Snapshot


class Stopped(Exception):  # noqa: N818  it goes no further than the run
    """A reduction that was given up because the training is to stop."""


@dataclass(frozen=True)
class Training:
    """What an engine works for: a run, its plan and data, and where it tells what it did."""

    run: RunFolder
    plan: TrainingPlan
    dataset: Dataset
    planner: Planner
    executor: Executor
    methods: MethodChoice | None  # in place of `auto`
    storage_options: StorageOptions
    progress: Progress
    checkpoints: Checkpoints
    is_stopping: Callable[[], bool]
    start_at: tuple[Weights, int] | None = None  # a model and the rows that it learnt from
    judges: Dataset | None = None  # held-out rows; None: the plan names them, if there are any
    source: OpenedSource | None = None  # that is read once, in place of the data set


class Engine(Keeper, Protocol):
    """Carries a method's states over the data."""

    @property
    def plan(self) -> TrainingPlan:
        """As asked for, with the method that is at work."""

    @property
    def problem(self) -> Problem:
        """Loss, lam and intercept."""

    @property
    def stats(self) -> ProblemStats:
        """The data in numbers."""

    @property
    def classes(self) -> int | None:
        """How many classes have a model of their own; None where there are two, or numbers."""

    @property
    def forecast(self) -> Forecast | None:
        """What the training is going to take, where that can be told."""

    @property
    def warnings(self) -> list[str]:
        """Why it may not come to its end, in sentences."""

    def begin(self) -> None:
        """Take the method's first state."""

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the states of another session; BadInput unless they are such of this plan."""

    def go_on(self) -> Iterator[Event]:
        """Train until the last snapshot is taken, or until the run is to stop.

        Raises Stopped where work was given up for that.
        """

    def rest(self) -> Iterator[Event]:
        """Take a snapshot of where the training stands, if it stands where one can be taken."""

    def result(self, shared: dict[str, Any]) -> TrainingResult:
        """Return what came out; `shared` are the fields of TrainingResult."""
