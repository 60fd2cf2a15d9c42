"""The states of a training: of which method and models, how far they are, and snapshots of them."""

from __future__ import annotations

from collections.abc import Callable

from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.job import groups_of, is_grouped
from fewpass.pipeline.planning.rate import Mark, left_passes, noted
from fewpass.pipeline.rows.windows import windows_per_turn
from fewpass.pipeline.runs.events import Certification, Event
from fewpass.pipeline.runs.model import weights_shape
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.runs.run_snapshots import read_records
from fewpass.pipeline.runs.saved import Cursor, Saved, StoredState, require_array, unfit
from fewpass.pipeline.training.class_groups import ModelGroups
from fewpass.pipeline.training.early_stopping import EarlyStopping
from fewpass.pipeline.training.engine import Training
from fewpass.pipeline.training.method_at_work import MethodAtWork
from fewpass.pipeline.training.trained_models import held_out_rows
from fewpass.solvers.protocol import Certificate, Reduce, Solver, State, Walk
from fewpass.storage.snapshot import Snapshot


class Certifier:
    """Certifies the weights of a method at work."""

    def __init__(self, work: MethodAtWork, progress: Progress) -> None:
        self._plan, self._solver, self._sweeps = work.plan, work.solver, work.sweeps
        self._is_of_source = work.once is not None
        self._progress = progress

    def proof(
        self, absorb: Callable[[Reduce], Certificate | None], *, spent: bool
    ) -> Certificate | None:
        """Certify the newest weights, if that is due after this epoch.

        Parameters
        ----------
        absorb
            Does a reduction of the method.
        spent
            Whether this was the last epoch.
        """
        if self._is_of_source:
            return None  # its rows do not come again
        if self._solver.certify_pass is not None:
            certified = self._sweeps.proven()
            if spent and not self.is_reached(certified):
                certified = absorb(self._solver.certify_pass)
            return certified
        if self._plan.tol is not None or (self._plan.certify and spent):
            return self._sweeps.certify()
        return None

    def is_enough(self, certified: Certificate | None, *, spent: bool) -> bool:
        """Whether to stop at a state with this certificate."""
        return certified is not None and (spent or self.is_reached(certified))

    def is_reached(self, certified: Certificate | None) -> bool:
        """Whether the tolerance is certified."""
        wanted = self._plan.tol
        return wanted is not None and certified is not None and certified.relative <= wanted

    def note(self, certified: Certificate | None, passes: float) -> None:
        """Remember a certificate with its passes, for the rate at which it falls."""
        if certified:
            now = Mark.of(passes, certified)
            self._progress.advance(marks=noted(self._progress.cursor.marks, now))

    def event(self, certified: Certificate) -> Event:
        """Return a certificate as an event, with the passes that are left at this rate."""
        tol = self._plan.tol
        left = None if tol is None else left_passes(self._progress.cursor.marks, tol)
        facts = Certification(
            certified.objective, certified.gap, left, relative_gap=certified.relative
        )
        return self._progress.event(facts)


class TrainingStates:
    """The states of a training, group by group of its models; snapshots are of them.

    Attributes
    ----------
    plan, solver, sweeps, models, once
        The method at work on the current group; see `MethodAtWork`.
    certifier : Certifier
        Of this method's weights.
    early : EarlyStopping or None
        Where held-out rows end the training.
    groups : ModelGroups or None
        Where models are trained one group after the other.
    """

    least_wait = 0.0  # a snapshot asks nothing of the method

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
        work = MethodAtWork.of(self._training, number, group)
        self.plan, self.solver, self.sweeps, self.models, self.once = work
        self.certifier = Certifier(work, self._progress)

    @property
    def job(self) -> Job:
        """The data and the problem, as spans need them."""
        return self.sweeps.job

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
        """Whether no pass is left for them."""
        return self._spent >= self.plan.passes

    @property
    def are_trained(self) -> bool:
        """Whether these models are trained."""
        whole = self._training.checkpoints.finished
        return whole or (self.groups is not None and self.groups.is_over)

    def note(self, certified: Certificate | None) -> None:
        """Remember a certificate of them, for the rate at which it falls."""
        self.certifier.note(certified, self._spent)

    def is_enough(self, certified: Certificate | None) -> bool:
        """Whether to stop at a state with this certificate."""
        return self.certifier.is_enough(certified, spent=self.is_spent)

    # -- groups of models ------------------------------------------------------------------------

    def end_group(self, groups: ModelGroups, certified: Certificate | None) -> Certificate | None:
        """Retain the weights and the certificate of the current group of models."""
        states = self.sweeps.states()
        certified = certified or self.sweeps.own_certificate()
        groups.put(self.models.all_weights(states))
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
        if self.once is not None:
            self.once.restore(snapshot, saved)
            self.sweeps.job = self.job.with_columns(self.once.position.room_for)
        else:
            require_array(snapshot, "coef", weights_shape(self.job))
        methods = self._training.methods
        require_method(snapshot, saved, len(methods.methods) if methods else 1)
        if self.groups:
            self.groups.restore(snapshot, saved)
        if saved.cursor.method > 0 or self.groups:
            self.take_method(saved.cursor.method)
        require_position(snapshot, saved, self.solver, self.job)
        self.sweeps.records = read_records(snapshot, self.job.windows.n_chunks)
        self._progress.since_sweep()
        if self.early:
            self.early.restore(saved)
        if self._training.executor.together is None:
            self.sweeps.read(self._training.run, snapshot, saved.streams)
            snapshot.arrays.clear()
        else:  # workers read the states, each its own
            snapshot.arrays.clear()
            self.go_on_from(saved)
        self.sweeps.adopt()

    def go_on_from(self, saved: Saved) -> None:
        """Take the states that a snapshot holds, read where they are needed."""
        self.sweeps.read(self._training.run, saved.name, saved.streams)

    @property
    def keeps_on_disk(self) -> bool:
        """Whether every sweep may leave numbers per row on disk."""
        return self.sweeps.keeps_on_disk

    def content(self, certified: Certificate | None, *, finished: bool) -> Saved:
        """Fetch the newest states, and the rest of a snapshot of them.

        Several on workers are written there instead.
        """
        name, stored, states = "", list[StoredState](), list[State]()
        if self.sweeps.are_distributed:
            name = self._training.run.snapshots.next_name()
            stored = self.sweeps.write(self._training.run.snapshots, name)
        else:
            states = self.sweeps.states()
        certified = certified or self.sweeps.own_certificate()
        self.sweeps.flush_numbers(states)
        model = self.models.of_snapshot(
            states, certified, self.early, self.groups, finished=finished
        )
        return Saved(
            **model, cursor=self._progress.cursor, finished=finished, states=states, name=name,
            stored=stored, records=self.sweeps.records,
        )  # fmt: skip


def require_method(snapshot: Snapshot, saved: Saved, methods: int) -> None:
    """Refuse a snapshot of a method after the last one; BadInput."""
    if saved.cursor.method >= methods:
        raise unfit(snapshot, f"cursor.method is {saved.cursor.method}, of {methods} methods")


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
    """Whether more windows were visited than a walk has, where it has a last one."""
    if walk.rows is not None or job.once is not None:
        return False
    plan = job.windows
    lengths = [windows_per_turn(plan, stream) for stream in range(plan.streams)]
    each = zip(cursor.windows, lengths, strict=True)
    return any(done > length for done, length in each)
