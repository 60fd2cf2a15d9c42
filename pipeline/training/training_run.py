"""A training run: a plan turned into sweeps, snapshots and a model.

A run is an iterator: it yields an event after every span, and the loop's body is the callback.
Here is decided when to certify, to save, to fall back and to stop; what goes over the data is in
`sweeping.py`.  After every snapshot training goes on from what storage holds, so going on after a
crash is what every training does all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.scoring.evaluate import evaluation_job
from pipeline.streaming.executor import Executor
from pipeline.streaming.resident import let_go
from pipeline.streaming.row_numbers import NumbersInMemory
from pipeline.streaming.span import Stopwatch
from pipeline.training.advice import warnings
from pipeline.training.choice import STRETCH, Mark, MethodChoice, far_behind
from pipeline.training.forecast import forecast
from pipeline.training.job import make_job, settle, solver_of
from pipeline.training.lease import Lease
from pipeline.training.model import weights_to_start_at
from pipeline.training.outcome import Event, TrainingResult, hinge_gap
from pipeline.training.plan import Storage, TrainingPlan, loss_name
from pipeline.training.run_folder import Cursor, RunFolder, RunRecord, Saved
from pipeline.training.saving import Saving
from pipeline.training.standing import Standing
from pipeline.training.sweeping import Sweeping
from solvers.protocol import Certificate, Diverged, Gather, Sweep, Walk, Weights
from storage.dataset import Dataset

MOST_RESTARTS = 30


class TrainingRun:
    """One training, new or continued; iterate over it, then ask for `result`."""

    def __init__(
        self,
        run: RunFolder,
        plan: TrainingPlan,
        dataset: Dataset,
        executor: Executor,
        methods: MethodChoice | None = None,
        storage_options: Storage = None,
    ) -> None:
        self.run, self.methods = run, methods
        self._asked, self._dataset = plan, dataset
        self._executor = executor
        self._standing = Standing(run)
        self._saving = Saving(run, plan, dataset, self._standing, storage_options)
        self._take_method(0)

    def _take_method(self, number: int) -> None:
        """Work with one of the methods that were chosen, or with the plan's own."""
        methods, asked = self.methods, self._asked
        self.plan = methods.plan(asked, number) if methods else asked
        job, numbers = make_job(self.plan, self._dataset), self.run.row_state
        stay = job.resident and self._executor.near
        self.job = job._replace(row_state=NumbersInMemory(numbers) if stay else numbers)
        self.solver = solver_of(self.plan, self.job.rule, self.job.facts.n)
        self._sweeps = Sweeping(self._executor, self._standing, self.job, self.solver)

    @classmethod
    def start(
        cls, plan: TrainingPlan, url: str, executor: Executor, storage_options: Storage = None
    ) -> TrainingRun:
        """Begin a run at `url`, or go on with the one that is there if its plan is the same.

        Raises PlanMismatch when another plan or other data lie there, BadInput when plan and data
        set do not fit, NotADataset when there is none (all are ValueErrors).
        """
        dataset = Dataset.open(plan.dataset, storage_options)
        judges = Dataset.open(plan.held_out, storage_options) if plan.held_out else None
        found = {"dataset": dataset.folder.url, "held_out": judges.folder.url if judges else None}
        plan = plan.model_copy(update=found)  # found from anywhere
        run = RunFolder(url, storage_options)
        # Refuses what does not fit before anything is written.
        made = cls(run, plan, dataset, executor, settle(plan, dataset), storage_options)
        foreseen = forecast(made.plan, made.job)
        record = RunRecord.of(plan, dataset.manifest, foreseen, made.methods)
        if judges:
            evaluation_job(record, judges)
        run.begin(record)
        begun = run.record().methods  # an older version may have chosen otherwise
        same_ones = begun == made.methods
        return made if same_ones else cls(run, plan, dataset, executor, begun, storage_options)

    @classmethod
    def resume(cls, url: str, executor: Executor, storage_options: Storage = None) -> TrainingRun:
        """Continue the run at `url` from its newest whole snapshot."""
        run = RunFolder(url, storage_options)
        record = run.record()
        dataset = Dataset.open(record.plan.dataset, storage_options)
        run.require_data(record, dataset.manifest.fingerprint)
        return cls(run, record.plan, dataset, executor, record.methods, storage_options)

    def __iter__(self) -> Iterator[Event]:
        with Lease(self.run.folder) as self._lease:
            try:
                yield from self._train()
            finally:
                self._executor.everywhere(let_go)

    def _train(self) -> Iterator[Event]:
        yield self._pick_up()
        if self._saving.newest is None and self.plan.start_from is not None:
            weights, rows = weights_to_start_at(self.plan.start_from, self.job)
            self._standing.advance(rows_before=rows)
            yield from self._begin_at(weights)
        while not self._saving.finished:
            program = self.solver.program(self.cursor.epoch)
            if self.cursor.sweep == len(program):
                yield from self._close_epoch()
                continue
            yield from self._sweep(program[self.cursor.sweep])
        yield self._event("finish", **self._outcome())

    @property
    def cursor(self) -> Cursor:
        """Where in the plan the run is, and what it took so far."""
        return self._standing.cursor

    @property
    def warnings(self) -> list[str]:
        """Why the training may not come to its end, in sentences."""
        return warnings(self.plan, self.job, forecast(self.plan, self.job))

    @property
    def result(self) -> TrainingResult:
        """What came out; the run must be finished."""
        saved = self._saved
        choice = saved.choice
        return TrainingResult(
            run=self.run.url,
            snapshot=saved.name,
            solver=self.solver.kind,
            loss=loss_name(self.job.problem.loss),
            lam=choice.lam if choice else self.job.problem.lam,
            classes=self.job.rule.n_classes or None,
            candidates=choice.told()["candidates"] if choice else [],
            passes=self.cursor.passes,
            rows_seen=self.cursor.rows_seen,
            seconds=self.cursor.seconds,
            bytes_read=self.cursor.bytes_read,
            peak_memory_bytes=self._standing.peak_memory,
            **self._outcome(),
        )

    # -- where the run stands ------------------------------------------------------------------

    def _pick_up(self) -> Event:
        newest, damaged = self.run.snapshots.latest()
        if newest is not None:
            self._saving.newest = Saved.of(newest)
            self._standing.continue_at(self._saving.newest.cursor)
            if self.cursor.method > 0:
                self._take_method(self.cursor.method)
        self._standing.since_sweep()  # what was prepared is no sweep's time
        self._saving.pick_up(self._sweeps)
        self._executor.announce(self.run.url)
        return self._event(
            "resume" if newest else "start",
            snapshot=newest.name if newest else None,
            damaged=damaged,
            dashboard=self._executor.dashboard,
            n_rows=self.job.facts.n,
            method=self.solver.kind,
            chosen=self.methods.reason if self.methods else None,
        )

    def _begin_at(self, weights: Weights) -> Iterator[Event]:
        """Begin with the method's first epoch at given weights, which only the snapshot keeps."""
        if self.job.problem.intercept == 0.0:
            weights = weights._replace(intercept=0.0 * weights.intercept)
        self._sweeps.begin_at(weights, self.cursor.rows_before)
        certified, cursor = None, self.cursor
        if self.solver.opening is not None:
            certified = self._absorb(self.solver.opening)
            self._standing.advance(passes=cursor.passes + 1.0, sweeps=cursor.sweeps + 1)
        self._standing.advance(epoch=self.solver.warm_epoch, sweep=0)
        yield self._save(certified, finished=self._is_enough(certified))
        if certified:
            yield self._certified(certified)

    @property
    def _saved(self) -> Saved:
        assert self._saving.newest is not None, "nothing was saved yet"
        return self._saving.newest

    def _outcome(self) -> dict[str, Any]:
        certified = self._saved.certified
        return {
            "objective": certified.objective if certified else None,
            "certificate": certified.gap if certified else None,
            "hinge_certificate": hinge_gap(self.job.problem, certified),
            "weights_sha256": self._saved.weights_sha256,
        }

    # -- sweeps --------------------------------------------------------------------------------

    def _sweep(self, sweep: Sweep) -> Iterator[Event]:
        """Do one sweep of the method's program."""
        if isinstance(sweep, Gather):
            certified = self._absorb(sweep)
            yield from self._end_sweep(1.0, certified)
            if certified:
                yield self._certified(certified)
            return
        while (end := (yield from self._sweeps.walk(sweep, self._is_due))) == "resting":
            yield self._save()
        if end == "diverged":
            yield self._restart(sweep)
        else:
            yield from self._end_sweep(self.cursor.rows_in_sweep / self.job.facts.n)

    def _absorb(self, sweep: Gather) -> Certificate | None:
        """Do a gather; where its sum is beyond all bounds, the state from before is saved."""
        try:
            return self._sweeps.absorb(sweep)
        except Diverged:
            self._save()
            raise

    def _end_sweep(self, passes: float, certified: Certificate | None = None) -> Iterator[Event]:
        """Count a sweep; take a snapshot if it is time for one, or the run has come to its end."""
        self._advance_sweep(passes)
        enough = self._is_enough(certified)
        if enough or self._is_due():
            yield self._save(certified, finished=enough)

    def _is_due(self) -> bool:
        return self._saving.is_due(self._sweeps)

    def _advance_sweep(self, passes: float) -> None:
        self._standing.advance(
            windows=(),
            rows_in_sweep=0,
            sweep=self.cursor.sweep + 1,
            sweeps=self.cursor.sweeps + 1,
            passes=self.cursor.passes + passes,
        )

    def _is_enough(self, certified: Certificate | None) -> bool:
        """Whether to stop at a state with this certificate."""
        spent = self.cursor.passes >= self.plan.passes
        return certified is not None and (spent or self._is_reached(certified))

    def _is_reached(self, certified: Certificate | None) -> bool:
        """Whether the tolerance is certified."""
        wanted = self.plan.tol
        return wanted is not None and certified is not None and certified.relative <= wanted

    def _restart(self, walk: Walk) -> Event:
        """Begin again from the state that the method gives after an explosion."""
        if self.cursor.restarts >= MOST_RESTARTS:
            raise Diverged(
                f"The loss of {self.run.url} exploded {MOST_RESTARTS + 1} times, the last time "
                f"after {self.cursor.rows_seen} rows. Scale the features (ingest --scale), or "
                "raise --lam."
            )
        metrics = self._sweeps.recover(walk)
        restarts, sweeps = self.cursor.restarts + 1, self.cursor.sweeps + 1
        self._standing.advance(epoch=0, sweep=0, sweeps=sweeps, restarts=restarts)
        self._standing.advance(windows=(), rows_in_sweep=0, passes=0.0)
        self._save()
        return self._event("restart", **metrics)

    # -- snapshots and the end -------------------------------------------------------------------

    def _close_epoch(self) -> Iterator[Event]:
        """Certify if that is due; then begin the next epoch or mark the run finished.

        A method whose program certifies by itself goes on until it does, beyond the last pass.
        """
        if not any(isinstance(sweep, Gather) for sweep in self.solver.program(self.cursor.epoch)):
            yield from self._judge()
        if why := self._why_fall_back():
            yield from self._fall_back(why)
        else:
            self._standing.advance(epoch=self.cursor.epoch + 1, sweep=0)

    def _why_fall_back(self) -> str | None:
        """Say why the other method that was chosen should go on, if it should."""
        chosen, tol = self.methods, self.plan.tol
        if chosen is None or tol is None or self._saving.finished:
            return None
        if self.cursor.method + 1 == len(chosen.methods) or not (found := self._sweeps.proven()):
            return None
        now = Mark.of(self.cursor.passes, found)
        before = Mark(self.cursor.marked_passes, self.cursor.marked_digits)
        if now.passes < STRETCH * before.passes:
            return None
        self._standing.advance(marked_passes=now.passes, marked_digits=now.digits)
        return far_behind(chosen, self.job.problem, self.job.facts, tol, before, now)

    def _fall_back(self, why: str) -> Iterator[Event]:
        """Go on with the other method, from the best weights."""
        at = self._sweeps.weights()
        self._standing.advance(method=self.cursor.method + 1)
        self._take_method(self.cursor.method)
        yield self._event("switch", method=self.solver.kind, why=why)
        yield from self._begin_at(at)

    def _judge(self) -> Iterator[Event]:
        spent = self.cursor.passes >= self.plan.passes
        if self.solver.audit is not None:
            certified = self._sweeps.proven()
            if spent and not self._is_reached(certified):
                certified = self._absorb(self.solver.audit)
        elif self.plan.tol is not None or (self.plan.certify and spent):
            certified = self._sweeps.certify()
        else:
            certified = None
        if certified:
            yield self._certified(certified)
        if spent or self._is_enough(certified):
            yield self._save(certified, finished=True)

    def _save(self, certified: Certificate | None = None, *, finished: bool = False) -> Event:
        """Take a snapshot, and go on from it."""
        self._lease.check()
        with (watch := Stopwatch()):
            saved = self._saving.save(self._sweeps, certified, finished=finished)
        return self._event("snapshot", name=saved.name, seconds=watch.seconds)

    def _certified(self, found: Certificate) -> Event:
        return self._event("certificate", objective=found.objective, gap=found.gap)

    def _event(self, kind: str, **facts: Any) -> Event:
        return self._standing.event(kind, **facts)
