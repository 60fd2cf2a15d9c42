"""A method's program over windows of rows, epoch by epoch.

The driver decides when to certify, to save, to restart and to fall back on another method;
`sweeps.py` carries states over the data.  After every snapshot training goes on from the stored
states, so every training resumes all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from fewpass.pipeline.planning.advice import warnings
from fewpass.pipeline.planning.falling_back import far_behind
from fewpass.pipeline.planning.forecast import Forecast
from fewpass.pipeline.planning.source_job import source_warnings
from fewpass.pipeline.runs.events import Event, GroupTrained, Learners, Restart, Switch, Warned
from fewpass.pipeline.runs.model import stored_weights, weights_to_start_at
from fewpass.pipeline.runs.saved import Cursor, Saved
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.against_constant import worse_by_certificate
from fewpass.pipeline.training.engine import Training
from fewpass.pipeline.training.method_at_work import MethodAtWork
from fewpass.pipeline.training.training_states import TrainingStates
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import (
    Certificate,
    Diverged,
    Outgrown,
    ProblemStats,
    Reduce,
    Sweep,
    Walk,
    Weights,
)
from fewpass.storage.snapshot import Snapshot

MOST_RESTARTS = 30  # of every model


class Driver:
    """An engine whose unit of work is a walk or a reduction over windows."""

    features = None

    def __init__(self, training: Training) -> None:
        self._training = training
        self._progress, self._checkpoints = training.progress, training.checkpoints
        self._states = TrainingStates(training)
        self._is_new = False  # the state is the method's first one
        self._beginning = False  # a warm start that has no snapshot yet

    # -- what is trained -------------------------------------------------------------------------

    @property
    def plan(self) -> TrainingPlan:
        """The plan, with the current method."""
        return self._work.plan

    @property
    def problem(self) -> Problem:
        """Loss, lam and intercept."""
        return self._states.job.problem

    @property
    def stats(self) -> ProblemStats:
        """The data in numbers."""
        return self._states.job.stats

    @property
    def classes(self) -> int | None:
        """Return the number of classes that have a model of their own."""
        rule = self._states.job.rule
        return (rule.n_classes if rule.width == 1 else 0) or None

    @property
    def forecast(self) -> Forecast | None:
        """Return the forecast of the training; None where a source is read once."""
        return None if self._work.reading else self._work.forecast

    @property
    def warnings(self) -> list[str]:
        """Reasons for which the training may not come to its end, in sentences."""
        training, job = self._training, self._states.job
        if training.source is not None:
            return source_warnings(self.plan, job, training.source)
        return warnings(training.planner, self.plan, job, self._work.forecast)

    # -- beginning, going on, resting ------------------------------------------------------------

    def begin(self) -> None:
        """Take the method's first state."""
        self._progress.since_sweep()  # preparing is no sweep's time
        self._work.sweeps.begin()
        self._is_new = True

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the states of another session; BadInput unless they are such of this plan."""
        self._states.restore(snapshot, saved)

    def go_on(self) -> Iterator[Event]:
        """Train until the last snapshot is taken, or until the run is to stop."""
        with self._states.job.source_rows or nullcontext():  # a source is read on until here
            yield from self._train()
        while self._states.are_trained and not self._checkpoints.finished:
            self._states.take_next_group()
            self.begin()
            yield from self._train()

    def _train(self) -> Iterator[Event]:
        """Train these models to their end, or until the run is to stop."""
        if self._is_new and self._starts_elsewhere():
            yield from self._begin()
        self._is_new = False
        while not (self._states.are_trained or self._training.is_stopping()):
            program = self._work.solver.program(self._cursor.epoch)
            if self._cursor.sweep == len(program):
                yield from self._close_epoch()
                continue
            yield from self._sweep(program[self._cursor.sweep])

    def rest(self) -> Iterator[Event]:
        """Take a snapshot of where the training stands, if it stands where one can be taken."""
        stands = self._work.sweeps.heads and not self._beginning
        if stands and not self._checkpoints.is_current:
            yield self._save()

    def _start(self) -> tuple[Weights, int] | None:
        """Return the model to start from, if there is one, and the rows that it learnt from."""
        groups = self._states.groups
        if groups and self._work.solver.warm_start_pass is None:
            before = groups.before()
            if before is not None:
                return stored_weights(before, self._training.dataset), self._cursor.rows_before
        if self.plan.start_from is not None:
            return weights_to_start_at(self.plan.start_from, self._states.job)
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
        if self.problem.intercept == 0.0:
            weights = weights._replace(intercept=0.0 * weights.intercept)
        self._beginning = True
        self._work.sweeps.begin_at(weights, self._cursor.rows_before)

    def _begin(self) -> Iterator[Event]:
        """Begin with the method's first epoch, now that it has its state at given weights."""
        certified, cursor, solver = None, self._cursor, self._work.solver
        if solver.warm_start_pass is not None:
            certified = self._absorb(solver.warm_start_pass)
            self._progress.advance(passes=cursor.passes + 1.0, sweeps=cursor.sweeps + 1)
            self._states.note(certified)
        self._progress.advance(epoch=solver.warm_epoch, sweep=0)
        self._beginning = False
        yield self._save(certified, finished=self._states.is_enough(certified))
        if certified:
            yield self._work.event(certified)

    def _close_epoch(self) -> Iterator[Event]:
        """Certify if that is due; then begin the next epoch or mark the run finished.

        A method whose program certifies by itself goes on until it does, beyond the last pass.
        """
        program, early = self._work.solver.program(self._cursor.epoch), self._states.early
        by_itself = any(isinstance(sweep, Reduce) for sweep in program)
        if early and (by_itself or not self._states.is_spent):
            if event := early.evaluate(self._work.sweeps):
                yield event
            if early.is_over:
                yield self._save(finished=True)
                return
        if not by_itself:
            yield from self._evaluate()
        if why := self._why_fall_back():
            yield from self._fall_back(why)
        else:
            self._progress.advance(epoch=self._cursor.epoch + 1, sweep=0)

    def _evaluate(self) -> Iterator[Event]:
        states, is_spent = self._states, self._states.is_spent
        certified = self._work.proof(self._absorb, spent=is_spent)
        states.note(certified)
        if certified:
            yield self._work.event(certified)
        if states.early and (event := states.early.evaluate(self._work.sweeps)):
            yield event  # of the last epoch, whose certificate may be of other weights
        if is_spent or states.is_enough(certified):
            yield from self._finish(certified)

    def _finish(self, certified: Certificate | None) -> Iterator[Event]:
        """Take the last snapshot of these models, and report what is known only now."""
        if learners := self._work.sweeps.learners():
            yield self._progress.event(Learners([learner._asdict() for learner in learners]))
        reading = self._work.reading
        if reading is not None and (left_out := reading.finish()):
            yield self._progress.event(left_out)
        yield self._save(certified, finished=True)
        if worse := self._worse_than_constant(certified):
            yield self._progress.event(worse)

    def _worse_than_constant(self, certified: Certificate | None) -> Warned | None:
        """Warn of a model that a constant would have been better than.

        The best constant and its loss may be those of a sample: a pass over all rows tells.
        """
        newest, reading = self._checkpoints.newest, self._work.reading
        if reading is not None and newest is not None:
            return reading.worse_than_constant(self._states.job, newest.weights)
        worse = worse_by_certificate(certified)
        if certified is None or worse is None or not self.problem.loss.has_level:
            return worse
        constants = tuple(one.objective for one in self._work.sweeps.of_constant().each)
        return worse_by_certificate(certified.with_constants(constants))

    # -- another method --------------------------------------------------------------------------

    @property
    def _has_another(self) -> bool:
        """Return whether another method was chosen to go on where this one cannot."""
        chosen = self._training.methods
        return chosen is not None and self._cursor.method + 1 < len(chosen.methods)

    def _why_fall_back(self) -> str | None:
        """Say why the other method that was chosen should go on, if it should."""
        chosen, tol = self._training.methods, self.plan.tol
        if chosen is None or tol is None or self._states.are_trained or not self._has_another:
            return None
        most, marks = self.plan.passes, self._cursor.marks
        return far_behind(chosen, self.problem, self.stats, tol, marks, most)

    def _fall_back(self, why: str) -> Iterator[Event]:
        """Go on with the other method, from the best weights."""
        at = self._work.sweeps.weights()
        self._progress.advance(method=self._cursor.method + 1, marks=())
        self._states.take_method(self._cursor.method)
        self._take_weights(at)
        del at  # the state has them
        yield self._progress.event(Switch(self._work.solver.kind, why))
        yield from self._begin()

    # -- sweeps ----------------------------------------------------------------------------------

    def _sweep(self, sweep: Sweep) -> Iterator[Event]:
        """Do one sweep of the method's program."""
        if isinstance(sweep, Reduce):
            yield from self._reduction(sweep)
        elif not self._cursor.windows and self._work.sweeps.skips(sweep):
            self._progress.advance(sweep=self._cursor.sweep + 1)
        else:
            yield from self._walk(sweep)

    def _walk(self, walk: Walk) -> Iterator[Event]:
        """Do a walk, from where it rests on."""
        sweeps = self._work.sweeps
        while (end := (yield from sweeps.walk(walk, self._is_rest_due))) == "resting":
            if self._training.is_stopping():
                return
            yield self._save()
        if end == "diverged":
            yield self._restart(walk)
        else:
            passes = 1.0 if self._work.reading else self._cursor.rows_in_sweep / self.stats.n
            yield from self._end_sweep(passes)

    def _reduction(self, sweep: Reduce) -> Iterator[Event]:
        """Do a reduction; where its method cannot go on, have another one do so."""
        certified, why = None, ""
        try:
            certified = self._absorb(sweep)
        except Outgrown as grown:  # which has the sum and the state, so it goes first
            if not self._has_another:
                raise
            why = f"{self._work.solver.kind} cannot go on. {grown}"
        if why:
            yield from self._fall_back(why)
            return
        yield from self._end_sweep(1.0, certified)
        if certified:
            yield self._work.event(certified)

    def _absorb(self, sweep: Reduce) -> Certificate | None:
        """Do a reduction; where its sum is beyond all bounds, the state from before is saved."""
        try:
            return self._work.sweeps.absorb(sweep)
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
        self._states.note(certified)
        enough = self._states.is_enough(certified)
        if enough or self._checkpoints.is_due(self._states):
            yield self._save(certified, finished=enough)

    def _is_rest_due(self) -> bool:
        return self._training.is_stopping() or self._checkpoints.is_due(self._states)

    def _restart(self, walk: Walk) -> Event:
        """Begin again from the state that the method gives after an explosion."""
        cursor, states = self._cursor, self._states
        solver = self._work.solver
        models = len(solver.tasks) if isinstance(solver, MultiModel) else 1
        if cursor.restarts >= MOST_RESTARTS * models:
            raise Diverged(
                f"The loss of {self._training.run.url} exploded {cursor.restarts + 1} times, the "
                f"last time after {cursor.rows_seen} rows. Scale the features (`scale` of an "
                "ingest), or raise `lam`."
            )
        metrics = self._work.sweeps.recover(walk)
        if states.early:
            states.early.begin_again()
        self._progress.advance(
            epoch=0, sweep=0, sweeps=cursor.sweeps + 1, restarts=cursor.restarts + 1, windows=(),
            rows_in_sweep=0, passes=states.passes_before, marks=(),
        )  # fmt: skip
        self._save()
        return self._progress.event(Restart(metrics))

    # -- snapshots -------------------------------------------------------------------------------

    @property
    def _cursor(self) -> Cursor:
        return self._progress.cursor

    @property
    def _work(self) -> MethodAtWork:
        return self._states.work

    def _save(self, certified: Certificate | None = None, *, finished: bool = False) -> Event:
        """Take a snapshot; where a group of models but the last one is finished, count it alone."""
        groups = self._states.groups
        if finished and groups:
            certified = self._states.end_group(groups, certified)
            if not groups.are_over:
                return self._group_ended(groups.current, certified)
        return self._checkpoints.save(self._states, certified, finished=finished)

    def _group_ended(self, trained: range, certified: Certificate | None) -> Event:
        of, gap = self._states.job.all_models, certified.gap if certified else None
        return self._progress.event(GroupTrained(trained.start, len(trained), of, gap))
