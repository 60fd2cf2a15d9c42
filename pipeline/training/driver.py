"""A method's program over windows of rows, epoch by epoch.

The driver decides when to certify, to save, to restart and to fall back on another method;
`sweeps.py` carries states over the data.  After every snapshot training goes on from the stored
states, so every training resumes all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from fewpass.pipeline.runs.events import Event, GroupTrained, Learners, Restart, Switch, Warned
from fewpass.pipeline.runs.model import stored_weights, weights_to_start_at
from fewpass.pipeline.training.against_constant import worse_by_certificate
from fewpass.pipeline.training.class_groups import ModelGroups
from fewpass.pipeline.training.planning.auto import far_behind
from fewpass.pipeline.training.training_states import TrainingStates
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import (
    Certificate,
    Diverged,
    Outgrown,
    Reduce,
    Solver,
    Sweep,
    Walk,
    Weights,
)

MOST_RESTARTS = 30  # of every model


def models_of(solver: Solver) -> int:
    """Count the models that are trained together."""
    return len(solver.tasks) if isinstance(solver, MultiModel) else 1


class Driver(TrainingStates):
    """An engine whose unit of work is a walk or a reduction over windows; see `engine.Engine`."""

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
            self._certifier.note(certified, self._spent)
        self._progress.advance(epoch=self._solver.warm_epoch, sweep=0)
        self._beginning = False
        enough = self._certifier.is_enough(certified, spent=self._is_spent)
        yield self._save(certified, finished=enough)
        if certified:
            yield self._certifier.event(certified)

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
        spent = self._is_spent
        certified = self._certifier.proof(self._absorb, spent=spent)
        self._certifier.note(certified, self._spent)
        if certified:
            yield self._certifier.event(certified)
        if spent or self._certifier.is_enough(certified, spent=spent):
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
            yield from self._reduction(sweep)
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

    def _reduction(self, sweep: Reduce) -> Iterator[Event]:
        """Do a reduction; where its method cannot go on, have another one do so."""
        certified, why = None, ""
        try:
            certified = self._absorb(sweep)
        except Outgrown as grown:  # which has the sum and the state, so it goes first
            if not self._has_another:
                raise
            why = f"{self._solver.kind} cannot go on. {grown}"
        if why:
            yield from self._fall_back(why)
            return
        yield from self._end_sweep(1.0, certified)
        if certified:
            yield self._certifier.event(certified)

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
        self._certifier.note(certified, self._spent)
        enough = self._certifier.is_enough(certified, spent=self._is_spent)
        if enough or self._checkpoints.is_due(self):
            yield self._save(certified, finished=enough)

    def _is_rest_due(self) -> bool:
        return self._training.is_stopping() or self._checkpoints.is_due(self)

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
        certified = certified or self._sweeps.own_certificate()
        groups.put(self._models.all_weights(states))
        groups.end(certified, self._cursor.passes)
        return certified

    def _group_ended(self, groups: ModelGroups, certified: Certificate | None) -> Event:
        trained, of = groups.current, self._job.all_models
        gap = certified.gap if certified else None
        return self._progress.event(GroupTrained(trained.start, len(trained), of, gap))
