"""A method's program over windows of rows, epoch by epoch.

The driver decides when to certify, to save, to restart and to fall back on another method;
`sweeps.py` carries states over the data.  After every snapshot training goes on from the stored
states, so every training resumes all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.resident import rows_in_memory
from fewpass.pipeline.rows.row_state import RowStateInMemory
from fewpass.pipeline.runs.engine import Training
from fewpass.pipeline.runs.events import (
    Certification,
    Event,
    GroupTrained,
    Learners,
    Restart,
    Switch,
    Warned,
)
from fewpass.pipeline.runs.model import (
    stored_weights,
    weights_shape,
    weights_to_start_at,
)
from fewpass.pipeline.runs.run_snapshots import read_records
from fewpass.pipeline.runs.saved import Cursor, Saved, require_array
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.training.against_constant import worse_by_certificate
from fewpass.pipeline.training.class_groups import ModelGroups
from fewpass.pipeline.training.early_stopping import EarlyStopping
from fewpass.pipeline.training.one_reading import OneReading
from fewpass.pipeline.training.planning.advice import warnings
from fewpass.pipeline.training.planning.auto import far_behind
from fewpass.pipeline.training.planning.forecast import Forecast, forecast
from fewpass.pipeline.training.planning.job import (
    groups_of,
    is_grouped,
    require_processes,
    solver_of_job,
    training_memory,
)
from fewpass.pipeline.training.planning.rate import Mark, left_passes, noted
from fewpass.pipeline.training.planning.source_job import source_job, source_warnings
from fewpass.pipeline.training.position import require_method, require_position
from fewpass.pipeline.training.spans.span import Job
from fewpass.pipeline.training.sweeps import Sweeps
from fewpass.pipeline.training.trained_models import TrainedModels, held_out_rows
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import (
    Certificate,
    Diverged,
    Outgrown,
    ProblemStats,
    Reduce,
    Solver,
    Sweep,
    Walk,
    Weights,
)
from fewpass.storage.snapshot import Snapshot

MOST_RESTARTS = 30  # of every model


def models_of(solver: Solver) -> int:
    """Count the models that are trained together."""
    return len(solver.tasks) if isinstance(solver, MultiModel) else 1


class Driver:
    """An engine whose unit of work is a walk or a reduction over windows; see `engine.Engine`."""

    least_wait = 0.0  # a snapshot asks nothing of the method
    features = None

    def __init__(self, training: Training) -> None:
        self._training = training
        self._progress, self._checkpoints = training.progress, training.checkpoints
        self._early: EarlyStopping | None = None
        if training.plan.early_stopping:
            self._early = EarlyStopping(training, held_out_rows(training))
        self._once: OneReading | None = None
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
        training, methods = self._training, self._training.methods
        self.plan: TrainingPlan = methods.plan(training.plan, number) if methods else training.plan
        if training.source is not None:
            if not training.executor.near:
                raise BadInput(
                    "A source is read by this process, not by workers. Leave `scheduler` and "
                    "`workers` out, or train on a data set (`keep`)."
                )
            job, self._solver = source_job(self.plan, training.source)
            assert job.once is not None, "the rows of a source come once"
            self._once = OneReading(training, job.once, self._solver)
        else:
            job = self._job_on_data_set()
            self._solver = solver_of_job(self.plan, job, self._group)
        self._sweeps = Sweeps(
            training.executor, self._progress, job, self._solver, training.is_stopping, self._once
        )
        self._models = TrainedModels(training, self.plan, self._sweeps, self._once)

    def _job_on_data_set(self) -> Job:
        """Return the job of spans, with the store of numbers per row."""
        training = self._training
        job = training.planner.job(training_memory(self.plan), self.plan.solver)
        numbers = training.run.row_state
        if job.in_place and not training.executor.near:
            raise BadInput(
                f"A memory budget of {format_bytes(self.plan.memory)} is too small for copies of "
                f"the state of {job.stats.d:,} columns, which tasks on workers need. Use more "
                "`memory`, or train in this process (leave `scheduler` and `workers` out)."
            )
        if training.executor.together is not None:
            require_processes(job, training.executor.together.threads())
        stay = job.resident and training.executor.near
        solver = solver_of_job(self.plan, job, self._group)
        return job._replace(
            row_state_size=solver.row_state_size(job.stats),
            row_state=RowStateInMemory(numbers) if stay else numbers,
            rows=rows_in_memory(training.dataset, job.rule),
        )

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
        """Fetch the newest states, and the rest of a snapshot of them."""
        states = self._sweeps.states()
        certified = certified or self._sweeps.certificate_of(states[0])
        self._sweeps.flush_numbers(states)
        if self._early:
            model = self._models.best(self._early, states, certified, finished=finished)
        elif self._groups:
            model = self._models.of_groups(self._groups, states, finished=finished)
        else:
            model = self._models.chosen(states, certified, finished=finished)
        return Saved(
            **model, cursor=self._cursor, finished=finished, states=states,
            records=self._sweeps.records,
        )  # fmt: skip

    # -- epochs ----------------------------------------------------------------------------------

    def go_on(self) -> Iterator[Event]:
        """Train until the last snapshot is taken, or until the run is to stop."""
        with self._job.once or nullcontext():  # a source is read on until here
            yield from self._train()
        while self._is_over and not self._checkpoints.finished:
            self._take_next_group()
            yield from self._train()

    def _take_next_group(self) -> None:
        """Go on with the next group of models, from its first state."""
        assert self._groups is not None, "models are trained in groups"
        self._progress.advance(epoch=0, sweep=0, windows=(), rows_in_sweep=0, method=0, marks=())
        self._groups.number += 1
        self._take_method(0)
        self.begin()

    def _train(self) -> Iterator[Event]:
        """Train these models to their end, or until the run is to stop."""
        if self._is_new and self._starts_elsewhere():
            yield from self._begin()
        self._is_new = False
        while not (self._is_over or self._training.is_stopping()):
            program = self._solver.program(self._cursor.epoch)
            if self._cursor.sweep == len(program):
                yield from self._close_epoch()
                continue
            yield from self._sweep(program[self._cursor.sweep])

    def rest(self) -> Iterator[Event]:
        """Take a snapshot of where the training stands, if it stands where one can be taken."""
        if not self._beginning and not self._checkpoints.is_current:
            yield self._save()

    def _start(self) -> tuple[Weights, int] | None:
        """Return the model to start from, if there is one, and the rows that it learnt from."""
        if self._groups and self._solver.warm_start_pass is None:
            before = self._groups.before()
            if before is not None:
                return stored_weights(before, self._training.dataset), self._cursor.rows_before
        if self.plan.start_from is not None:
            return weights_to_start_at(self.plan.start_from, self._job)
        return self._training.start_at

    def _starts_elsewhere(self) -> bool:
        """Take the state at the model to start from; say whether there is one."""
        start = self._start()
        if start is None:
            return False
        weights, rows_before = start
        self._progress.advance(rows_before=rows_before)
        self._take_weights(weights)
        return True

    def _take_weights(self, weights: Weights) -> None:
        """Take the method's state at given weights, which are not part of a snapshot yet."""
        if self._job.problem.intercept == 0.0:
            weights = weights._replace(intercept=0.0 * weights.intercept)
        self._beginning = True
        self._sweeps.begin_at(weights, self._cursor.rows_before)

    def _begin(self) -> Iterator[Event]:
        """Begin with the method's first epoch, now that it has its state at given weights."""
        certified, cursor = None, self._cursor
        if self._solver.warm_start_pass is not None:
            certified = self._absorb(self._solver.warm_start_pass)
            self._progress.advance(passes=cursor.passes + 1.0, sweeps=cursor.sweeps + 1)
            self._note(certified)
        self._progress.advance(epoch=self._solver.warm_epoch, sweep=0)
        self._beginning = False
        yield self._save(certified, finished=self._is_enough(certified))
        if certified:
            yield self._certified(certified)

    def _close_epoch(self) -> Iterator[Event]:
        """Certify if that is due; then begin the next epoch or mark the run finished.

        A method whose program certifies by itself goes on until it does, beyond the last pass.
        """
        program = self._solver.program(self._cursor.epoch)
        if self._early:
            if event := self._early.judge(self._sweeps):
                yield event
            if self._early.is_over:
                yield self._save(finished=True)
                return
        if not any(isinstance(sweep, Reduce) for sweep in program):
            yield from self._judge()
        if why := self._why_fall_back():
            yield from self._fall_back(why)
        else:
            self._progress.advance(epoch=self._cursor.epoch + 1, sweep=0)

    def _judge(self) -> Iterator[Event]:
        spent = self._spent >= self.plan.passes
        certified = self._proof(spent=spent)
        self._note(certified)
        if certified:
            yield self._certified(certified)
        if spent or self._is_enough(certified):
            if learners := self._sweeps.learners():
                models = [learner._asdict() for learner in learners]
                yield self._progress.event(Learners(models))
            if self._once is not None and (left_out := self._once.finish()):
                yield self._progress.event(left_out)
            yield self._save(certified, finished=True)
            if worse := self._worse_than_constant(certified):
                yield self._progress.event(worse)

    def _worse_than_constant(self, certified: Certificate | None) -> Warned | None:
        """Warn of a model that a constant would have been better than."""
        newest = self._checkpoints.newest
        if self._once is None or newest is None:
            return worse_by_certificate(certified)
        return self._once.worse_than_constant(self._job, newest.weights)

    def _proof(self, *, spent: bool) -> Certificate | None:
        """Certify the newest weights, if that is due after this epoch."""
        if self._once is not None:
            return None  # its rows do not come again
        if self._solver.certify_pass is not None:
            certified = self._sweeps.proven()
            if spent and not self._is_reached(certified):
                certified = self._absorb(self._solver.certify_pass)
            return certified
        if self.plan.tol is not None or (self.plan.certify and spent):
            return self._sweeps.certify()
        return None

    @property
    def _has_another(self) -> bool:
        """Whether another method was chosen to go on where this one cannot."""
        chosen = self._training.methods
        return chosen is not None and self._cursor.method + 1 < len(chosen.methods)

    def _why_fall_back(self) -> str | None:
        """Say why the other method that was chosen should go on, if it should."""
        chosen, tol = self._training.methods, self.plan.tol
        if chosen is None or tol is None or self._is_over or not self._has_another:
            return None
        most, marks = self.plan.passes, self._cursor.marks
        return far_behind(chosen, self._job.problem, self._job.stats, tol, marks, most)

    def _fall_back(self, why: str) -> Iterator[Event]:
        """Go on with the other method, from the best weights."""
        at = self._sweeps.weights()
        self._progress.advance(method=self._cursor.method + 1, marks=())
        self._take_method(self._cursor.method)
        self._take_weights(at)
        del at  # the state has them
        yield self._progress.event(Switch(self._solver.kind, why))
        yield from self._begin()

    # -- sweeps ----------------------------------------------------------------------------------

    def _sweep(self, sweep: Sweep) -> Iterator[Event]:
        """Do one sweep of the method's program."""
        if isinstance(sweep, Walk) and not self._cursor.windows and self._sweeps.skips(sweep):
            self._progress.advance(sweep=self._cursor.sweep + 1)
            return
        if isinstance(sweep, Reduce):
            try:
                certified = self._absorb(sweep)
            except Outgrown as grown:
                if not self._has_another:
                    raise
                yield from self._fall_back(f"{self._solver.kind} cannot go on. {grown}")
                return
            yield from self._end_sweep(1.0, certified)
            if certified:
                yield self._certified(certified)
            return
        while (end := (yield from self._sweeps.walk(sweep, self._is_rest_due))) == "resting":
            if self._training.is_stopping():
                return
            yield self._save()
        if end == "diverged":
            yield self._restart(sweep)
        else:
            passes = 1.0 if self._once else self._cursor.rows_in_sweep / self._job.stats.n
            yield from self._end_sweep(passes)

    def _absorb(self, sweep: Reduce) -> Certificate | None:
        """Do a reduction; where its sum is beyond all bounds, the state from before is saved."""
        try:
            return self._sweeps.absorb(sweep)
        except Diverged:
            self._save()
            raise

    def _end_sweep(self, passes: float, certified: Certificate | None = None) -> Iterator[Event]:
        """Count a sweep; take a snapshot if it is time for one, or the run has come to its end."""
        cursor = self._cursor
        self._progress.advance(
            windows=(), rows_in_sweep=0, sweep=cursor.sweep + 1, sweeps=cursor.sweeps + 1,
            passes=cursor.passes + passes,
        )  # fmt: skip
        self._note(certified)
        enough = self._is_enough(certified)
        if enough or self._checkpoints.is_due(self):
            yield self._save(certified, finished=enough)

    def _is_rest_due(self) -> bool:
        return self._training.is_stopping() or self._checkpoints.is_due(self)

    def _is_enough(self, certified: Certificate | None) -> bool:
        """Whether to stop at a state with this certificate."""
        spent = self._spent >= self.plan.passes
        return certified is not None and (spent or self._is_reached(certified))

    def _is_reached(self, certified: Certificate | None) -> bool:
        """Whether the tolerance is certified."""
        wanted = self.plan.tol
        return wanted is not None and certified is not None and certified.relative <= wanted

    def _restart(self, walk: Walk) -> Event:
        """Begin again from the state that the method gives after an explosion."""
        cursor = self._cursor
        if cursor.restarts >= MOST_RESTARTS * models_of(self._solver):
            raise Diverged(
                f"The loss of {self._training.run.url} exploded {cursor.restarts + 1} times, the "
                f"last time after {cursor.rows_seen} rows. Scale the features (`scale` of an "
                "ingest), or raise `lam`."
            )
        metrics = self._sweeps.recover(walk)
        if self._early:
            self._early.begin_again()
        self._progress.advance(
            epoch=0, sweep=0, sweeps=cursor.sweeps + 1, restarts=cursor.restarts + 1, windows=(),
            rows_in_sweep=0, passes=self._passes_before, marks=(),
        )  # fmt: skip
        self._save()
        return self._progress.event(Restart(metrics))

    def _save(self, certified: Certificate | None = None, *, finished: bool = False) -> Event:
        if finished and self._groups:
            certified = self._end_group(self._groups, certified)
            if not self._groups.are_over:
                return self._group_ended(self._groups, certified)
        return self._checkpoints.save(self, certified, finished=finished)

    def _end_group(self, groups: ModelGroups, certified: Certificate | None) -> Certificate | None:
        """Retain the weights and the certificate of the current group of models."""
        states = self._sweeps.states()
        certified = certified or self._sweeps.certificate_of(states[0])
        groups.put(self._models.all_weights(states))
        groups.end(certified, self._cursor.passes)
        return certified

    def _group_ended(self, groups: ModelGroups, certified: Certificate | None) -> Event:
        trained, of = groups.current, self._job.all_models
        gap = certified.gap if certified else None
        return self._progress.event(GroupTrained(trained.start, len(trained), of, gap))

    def _note(self, certified: Certificate | None) -> None:
        """Remember a certificate with its passes, for the rate at which it falls."""
        if certified:
            now = Mark.of(self._spent, certified)
            self._progress.advance(marks=noted(self._cursor.marks, now))

    def _certified(self, certified: Certificate) -> Event:
        tol = self.plan.tol
        left = None if tol is None else left_passes(self._cursor.marks, tol)
        facts = Certification(
            certified.objective, certified.gap, left, relative_gap=certified.relative
        )
        return self._progress.event(facts)
