"""The states of a training: of which method and models, how far they are, and snapshots of them."""

from __future__ import annotations

from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.job import groups_of, is_grouped
from fewpass.pipeline.rows.windows import windows_per_turn
from fewpass.pipeline.runs.model import weights_shape
from fewpass.pipeline.runs.run_snapshots import read_records
from fewpass.pipeline.runs.saved import Cursor, Saved, StoredState, require_array, unfit
from fewpass.pipeline.training.class_groups import ModelGroups
from fewpass.pipeline.training.early_stopping import EarlyStopping
from fewpass.pipeline.training.engine import Training
from fewpass.pipeline.training.method_at_work import MethodAtWork
from fewpass.pipeline.training.trained_models import held_out_rows
from fewpass.solvers.protocol import Certificate, Solver, State, Walk
from fewpass.storage.snapshot import Snapshot


class TrainingStates:
    """The states of a training, group by group of its models; snapshots are of them.

    Attributes
    ----------
    work : MethodAtWork
        On the current group.
    early : EarlyStopping or None
        Where held-out rows end the training.
    groups : ModelGroups or None
        Where models are trained one group after the other.
    """

    least_wait = 0.0  # seconds: a snapshot costs the method nothing

    def __init__(self, training: Training) -> None:
        self._training, self._progress = training, training.progress
        self.early: EarlyStopping | None = None
        if training.plan.early_stopping:
            self.early = EarlyStopping(training, held_out_rows(training))
        self.groups: ModelGroups | None = None
        self.take_method(0)
        if is_grouped(self.job):
            lams, width = len(training.plan.lam.factors), max(1, self.job.rule.width)
            self.groups = ModelGroups(groups_of(self.job), self.job.stats.d, lams, width)

    def take_method(self, number: int) -> None:
        """Work with one of the methods that were chosen, or with the plan's own."""
        group = self.groups.number if self.groups else 0
        self.work = MethodAtWork.of(self._training, number, group)

    @property
    def job(self) -> Job:
        """The data and the problem, as spans need them."""
        return self.work.sweeps.job

    # -- how far the models are ------------------------------------------------------------------

    @property
    def passes_before(self) -> float:
        """Passes made for other groups of models."""
        return self.groups.passes_before if self.groups else 0.0

    @property
    def _spent(self) -> float:
        """Passes made for these models."""
        return self._progress.cursor.passes - self.passes_before

    @property
    def is_spent(self) -> bool:
        """Return whether no pass is left for them."""
        return self._spent >= self.work.plan.passes

    @property
    def are_trained(self) -> bool:
        """Return whether these models are trained."""
        whole = self._training.checkpoints.finished
        return whole or (self.groups is not None and self.groups.is_over)

    def note(self, certified: Certificate | None) -> None:
        """Remember a certificate of them, for the rate at which it falls."""
        self.work.note(certified, self._spent)

    def is_enough(self, certified: Certificate | None) -> bool:
        """Return whether to stop at a state with this certificate."""
        return certified is not None and (self.is_spent or self.work.is_reached(certified))

    # -- groups of models ------------------------------------------------------------------------

    def end_group(self, groups: ModelGroups, certified: Certificate | None) -> Certificate | None:
        """Retain the weights and the certificate of the current group of models."""
        states = self.work.sweeps.states()
        certified = certified or self.work.sweeps.own_certificate()
        groups.put(self.work.models.all_weights(states))
        groups.end(certified, self._progress.cursor.passes)
        return certified

    def take_next_group(self) -> None:
        """Go to the next group of models, which begins with the plan's first method."""
        assert self.groups is not None, "models are trained in groups"
        self._progress.advance(epoch=0, sweep=0, windows=(), rows_in_sweep=0, method=0, marks=())
        self.groups.number += 1
        self.take_method(0)

    # -- snapshots -------------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the states of another session; BadInput unless they are such of this plan."""
        if self.work.reading is not None:
            self.work.reading.restore(snapshot, saved)
            self.work.sweeps.job = self.job.with_columns(self.work.reading.position.room_for)
        else:
            require_array(snapshot, "coef", weights_shape(self.job))
        chosen, number = self._training.methods, saved.cursor.method
        methods = len(chosen.methods) if chosen else 1
        if number >= methods:
            raise unfit(snapshot, f"cursor.method is {number}, of {methods} methods")
        if self.groups:
            self.groups.restore(snapshot, saved)
        if number > 0 or self.groups:
            self.take_method(number)
        require_position(snapshot, saved, self.work.solver, self.job)
        self.work.sweeps.records = read_records(snapshot, self.job.windows.n_chunks)
        self._progress.since_sweep()
        if self.early:
            self.early.restore(saved)
        if self._training.executor.together is None:
            self.work.sweeps.read(self._training.run, snapshot, saved.streams)
            snapshot.arrays.clear()
        else:  # workers read the states, each its own
            snapshot.arrays.clear()
            self.go_on_from(saved)
        self.work.sweeps.adopt()

    def go_on_from(self, saved: Saved) -> None:
        """Take the states that a snapshot holds, read where they are needed."""
        self.work.sweeps.read(self._training.run, saved.name, saved.streams)

    @property
    def keeps_on_disk(self) -> bool:
        """Return whether every sweep may leave numbers per row on disk."""
        return self.work.sweeps.keeps_on_disk

    def content(self, certified: Certificate | None, *, finished: bool) -> Saved:
        """Fetch the newest states, and the rest of a snapshot of them.

        Several on workers are written there instead.
        """
        name, stored, states = "", list[StoredState](), list[State]()
        if self.work.sweeps.are_distributed:
            name = self._training.run.snapshots.next_name()
            stored = self.work.sweeps.write(self._training.run.snapshots, name)
        else:
            states = self.work.sweeps.states()
        certified = certified or self.work.sweeps.own_certificate()
        self.work.sweeps.flush_numbers(states)
        model = self.work.models.of_snapshot(
            states, certified, self.early, self.groups, finished=finished
        )
        return Saved(
            **model, cursor=self._progress.cursor, finished=finished, states=states, name=name,
            stored=stored, records=self.work.sweeps.records,
        )  # fmt: skip


def require_position(snapshot: Snapshot, saved: Saved, solver: Solver, job: Job) -> None:
    """Refuse a cursor that is at no place in the method's program and the windows; BadInput."""
    cursor, program, plan = saved.cursor, solver.program(saved.cursor.epoch), job.windows
    if cursor.sweep > len(program):
        raise unfit(snapshot, f"cursor.sweep is {cursor.sweep}, of {len(program)} in an epoch")
    streams = plan.streams if cursor.windows else 1
    if saved.streams != streams or len(cursor.windows) not in (0, streams):
        raise unfit(
            snapshot,
            f"it has {saved.streams} states at the windows {cursor.windows}, where {streams} of "
            "each were expected",
        )
    if cursor.windows:
        sweep = program[cursor.sweep] if cursor.sweep < len(program) else None
        if not isinstance(sweep, Walk) or _is_beyond(cursor, sweep, job):
            raise unfit(
                snapshot, f"cursor.windows is {cursor.windows} in sweep {cursor.sweep}, which has "
                "not so many",
            )  # fmt: skip


def _is_beyond(cursor: Cursor, walk: Walk, job: Job) -> bool:
    """Return whether more windows were visited than a walk has, where it has a last one."""
    if walk.rows is not None or job.source_rows is not None:
        return False
    plan = job.windows
    lengths = [windows_per_turn(plan, stream) for stream in range(plan.streams)]
    each = zip(cursor.windows, lengths, strict=True)
    return any(done > length for done, length in each)
