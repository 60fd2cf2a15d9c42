"""The states of a training: of which method, and how they are begun, restored and saved."""

from __future__ import annotations

from fewpass.pipeline.runs.engine import Training
from fewpass.pipeline.runs.model import weights_shape
from fewpass.pipeline.runs.run_snapshots import read_records
from fewpass.pipeline.runs.saved import Cursor, Saved, StoredState, require_array
from fewpass.pipeline.training.certifying import Certifier
from fewpass.pipeline.training.class_groups import ModelGroups
from fewpass.pipeline.training.early_stopping import EarlyStopping
from fewpass.pipeline.training.method_at_work import MethodAtWork
from fewpass.pipeline.training.planning.advice import warnings
from fewpass.pipeline.training.planning.forecast import Forecast, forecast
from fewpass.pipeline.training.planning.job import groups_of, is_grouped
from fewpass.pipeline.training.planning.source_job import source_warnings
from fewpass.pipeline.training.position import require_method, require_position
from fewpass.pipeline.training.spans.span import Job
from fewpass.pipeline.training.trained_models import held_out_rows
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, ProblemStats, State
from fewpass.storage.snapshot import Snapshot


class TrainingStates:
    """What a driver works on: a method's states over windows of rows, group by group.

    The public names are those of `engine.Engine`.
    """

    least_wait = 0.0  # a snapshot asks nothing of the method
    features = None

    def __init__(self, training: Training) -> None:
        self._training = training
        self._progress, self._checkpoints = training.progress, training.checkpoints
        self._early: EarlyStopping | None = None
        if training.plan.early_stopping:
            self._early = EarlyStopping(training, held_out_rows(training))
        self._is_new = False  # the state is the method's first one
        self._beginning = False  # a method at given weights: no snapshot can stand for that yet
        self._groups: ModelGroups | None = None
        self._take_method(0)
        if is_grouped(self._job):
            lams, width = len(training.plan.lam.factors), max(1, self._job.rule.width)
            groups = groups_of(self._job)
            self._groups = ModelGroups(groups, self._job.stats.d, lams, width)

    def _take_method(self, number: int) -> None:
        """Work with one of the methods that were chosen, or with the plan's own."""
        work = MethodAtWork.of(self._training, number, self._group)
        self.plan, self._solver, self._sweeps, self._models, self._once = work
        self._certifier = Certifier(work, self._progress)

    @property
    def _job(self) -> Job:
        return self._sweeps.job

    @property
    def problem(self) -> Problem:
        """Loss, lam and intercept."""
        return self._job.problem

    @property
    def stats(self) -> ProblemStats:
        """The data in numbers."""
        return self._job.stats

    @property
    def classes(self) -> int | None:
        """How many classes have a model of their own."""
        return (self._job.rule.n_classes if self._job.rule.width == 1 else 0) or None

    @property
    def forecast(self) -> Forecast | None:
        """What the training is going to take; None where a source is read once."""
        return None if self._once else forecast(self.plan, self._job)

    @property
    def warnings(self) -> list[str]:
        """Why the training may not come to its end, in sentences."""
        if self._training.source is not None:
            return source_warnings(self.plan, self._job, self._training.source)
        return warnings(
            self._training.planner, self.plan, self._job, forecast(self.plan, self._job)
        )

    @property
    def _cursor(self) -> Cursor:
        return self._progress.cursor

    @property
    def _group(self) -> int:
        """Number of the current group of models."""
        return self._groups.number if self._groups else 0

    @property
    def _passes_before(self) -> float:
        """Passes made for other groups of models."""
        return self._groups.passes_before if self._groups else 0.0

    @property
    def _spent(self) -> float:
        """Passes made for these models."""
        return self._cursor.passes - self._passes_before

    @property
    def _is_spent(self) -> bool:
        """Whether no pass is left for them."""
        return self._spent >= self.plan.passes

    @property
    def _is_over(self) -> bool:
        """Whether these models are trained."""
        return self._checkpoints.finished or (self._groups is not None and self._groups.is_over)

    # -- beginning, restoring, saving ------------------------------------------------------------

    def begin(self) -> None:
        """Take the method's first state."""
        self._progress.since_sweep()  # preparing is no sweep's time
        self._sweeps.begin()
        self._is_new = True

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the states of another session; BadInput unless they are such of this plan."""
        if self._once is not None:
            self._once.restore(snapshot, saved)
            self._sweeps.job = self._job.with_columns(self._once.position.room_for)
        else:
            require_array(snapshot, "coef", weights_shape(self._job))
        methods = self._training.methods
        require_method(snapshot, saved, len(methods.methods) if methods else 1)
        if self._groups:
            self._groups.restore(snapshot, saved)
        if saved.cursor.method > 0 or self._groups:
            self._take_method(saved.cursor.method)
        require_position(snapshot, saved, self._solver, self._job)
        self._sweeps.records = read_records(snapshot, self._job.windows.n_chunks)
        self._progress.since_sweep()
        if self._early:
            self._early.restore(saved)
        snapshot.arrays.clear()  # states are read again where they are needed: one copy at a time
        self.go_on_from(saved)
        self._sweeps.adopt()

    def go_on_from(self, saved: Saved) -> None:
        """Take the states that a snapshot holds, read where they are needed."""
        self._sweeps.read(self._training.run, saved.name, saved.streams)

    @property
    def keeps_on_disk(self) -> bool:
        """Whether every sweep may leave numbers per row on disk."""
        return self._sweeps.keeps_on_disk

    def content(self, certified: Certificate | None, *, finished: bool) -> Saved:
        """Fetch the newest states, and the rest of a snapshot of them.

        Several on workers are written there instead.
        """
        name, stored, states = "", list[StoredState](), list[State]()
        if self._sweeps.are_distributed:
            name = self._training.run.snapshots.next_name()
            stored = self._sweeps.write(self._training.run.snapshots, name)
        else:
            states = self._sweeps.states()
        certified = certified or self._sweeps.own_certificate()
        self._sweeps.flush_numbers(states)
        model = self._models.of_snapshot(
            states, certified, self._early, self._groups, finished=finished
        )
        return Saved(
            **model, cursor=self._cursor, finished=finished, states=states, name=name,
            stored=stored, records=self._sweeps.records,
        )  # fmt: skip
