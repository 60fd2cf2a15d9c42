"""A training run: a plan turned into sweeps, snapshots and a model.

A run is an iterator: it yields an event after every span, and the loop's body is the callback.
States stay on the workers, the driver holds handles.  After every snapshot training goes on from
what storage holds, so going on after a crash is what every training does all the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pipeline.memory import peak_memory_bytes
from pipeline.scoring.evaluate import evaluation_job
from pipeline.scoring.held_out import choose_lam
from pipeline.streaming.executor import Executor
from pipeline.streaming.sweeps import (
    GatherReport,
    Position,
    SpanReport,
    WalkDriver,
    gather,
)
from pipeline.training.advice import warnings
from pipeline.training.choice import STRETCH, Mark, MethodChoice, far_behind
from pipeline.training.forecast import forecast
from pipeline.training.grid import Choice, certificate_of, weights_of
from pipeline.training.job import make_job, settle, solver_of
from pipeline.training.lease import Lease
from pipeline.training.model import weights_digest, weights_to_start_at
from pipeline.training.outcome import Event, TrainingResult, hinge_gap
from pipeline.training.plan import TrainingPlan, loss_name, regularisations
from pipeline.training.run_folder import (
    Cursor,
    RunFolder,
    RunRecord,
    Saved,
    read_state,
    save,
)
from pipeline.training.state_tasks import absorb_sum, join_streams
from solvers.protocol import (
    Certificate,
    Diverged,
    Gather,
    State,
    Sum,
    Walk,
    Weights,
    copy_state,
    row_versions,
    same,
)
from solvers.together import appraisal
from storage.dataset import Dataset
from storage.row_state import NOTHING_YET

MOST_RESTARTS = 30
MOST_VERSIONS = 16  # of numbers kept per row between two snapshots, which let the old ones go

Storage = dict[str, Any] | None  # what fsspec needs beyond the address


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
        self._asked, self._dataset, self._storage = plan, dataset, storage_options
        self._take_method(0)
        self._lams = regularisations(plan.lam, self.job.facts.n)
        self.cursor = Cursor()
        self._executor = executor
        self._saved: Saved | None = None
        self._heads: list[Any] = []  # handles: a state per stream inside a walk, else one for all
        self._last_save = (time.perf_counter(), 0)  # when, and how many sweeps had been done
        self._began = time.perf_counter()
        self._seconds_before = 0.0
        self._peak_memory = 0

    def _take_method(self, number: int) -> None:
        """Work with one of the methods that were chosen, or with the plan's own."""
        methods, asked = self.methods, self._asked
        self.plan = methods.plan(asked, number) if methods else asked
        self.job = make_job(self.plan, self._dataset)._replace(row_state=self.run.row_state)
        self.solver = solver_of(self.plan, self.job.rule, self.job.facts.n)

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
            yield from self._train()

    def _train(self) -> Iterator[Event]:
        yield self._pick_up()
        if self._saved is None and self.plan.start_from is not None:
            weights, rows = weights_to_start_at(self.plan.start_from, self.job)
            self._advance(rows_before=rows)
            yield from self._begin_at(weights)
        while not self._finished():
            program = self.solver.program(self.cursor.epoch)
            if self.cursor.sweep == len(program):
                yield from self._close_epoch()
                continue
            sweep = program[self.cursor.sweep]
            yield from self._walk(sweep) if isinstance(sweep, Walk) else self._gather(sweep)
        yield self._event("finish", **self._outcome())

    @property
    def warnings(self) -> list[str]:
        """Why the training may not come to its end, in sentences."""
        return warnings(self.plan, self.job, forecast(self.plan, self.job))

    @property
    def result(self) -> TrainingResult:
        """What came out; the run must be finished."""
        assert self._saved is not None
        choice = self._saved.choice
        return TrainingResult(
            run=self.run.url,
            snapshot=self._saved.name,
            solver=self.solver.kind,
            loss=loss_name(self.job.problem.loss),
            lam=choice.lam if choice else self.job.problem.lam,
            classes=self.job.rule.n_classes or None,
            candidates=choice.told()["candidates"] if choice else [],
            passes=self.cursor.passes,
            rows_seen=self.cursor.rows_seen,
            seconds=self.cursor.seconds,
            bytes_read=self.cursor.bytes_read,
            peak_memory_bytes=max(self._peak_memory, peak_memory_bytes()),
            **self._outcome(),
        )

    # -- where the run stands ------------------------------------------------------------------

    def _pick_up(self) -> Event:
        newest, damaged = self.run.snapshots.latest()
        if newest is not None:
            self._saved = Saved.of(newest)
            self.cursor = self._saved.cursor
            self._seconds_before = self.cursor.seconds
            if self.cursor.method > 0:
                self._take_method(self.cursor.method)
        self._set_heads()
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
        state = self.solver.start_at(
            self.job.problem, self.job.facts, weights, self.cursor.rows_before
        )
        self._heads = [self._executor.submit("state", same, state)]
        certified, cursor = None, self.cursor
        if self.solver.opening is not None:
            certified = self._absorb(self.solver.opening)
            self._advance(passes=cursor.passes + 1.0, sweeps=cursor.sweeps + 1)
        self._advance(epoch=self.solver.warm_epoch, sweep=0)
        yield self._save(certified, finished=self._is_enough(certified))
        if certified:
            yield self._event("certificate", objective=certified.objective, gap=certified.gap)

    def _finished(self) -> bool:
        return self._saved is not None and self._saved.finished

    def _outcome(self) -> dict[str, Any]:
        assert self._saved is not None
        certified = self._saved.certified
        return {
            "objective": certified.objective if certified else None,
            "certificate": certified.gap if certified else None,
            "hinge_certificate": hinge_gap(self.job.problem, certified),
            "weights_sha256": weights_digest(self._saved.weights),
        }

    def _set_heads(self) -> None:
        """Take the states from the newest snapshot, or the method's first one."""
        submit, saved = self._executor.submit, self._saved
        if saved is None:
            self._heads = [submit("state", self.solver.init, self.job.problem, self.job.facts)]
        else:
            self._heads = [
                submit("state", read_state, self.run, saved.name, self.solver.states, stream)
                for stream in range(saved.streams)
            ]

    # -- sweeps --------------------------------------------------------------------------------

    def _walk(self, walk: Walk) -> Iterator[Event]:
        while True:
            driver = WalkDriver(
                self._executor, self.job, walk, self.cursor.sweeps, self._positions()
            )
            for report in driver:
                yield self._count_span(report)
                if report.diverged:
                    yield self._restart(walk, driver.positions[report.stream])
                    return
                if self._is_time():
                    driver.rest()
            self._heads = [p.state for p in driver.positions]
            if driver.finished:
                break
            self._advance(windows=tuple(p.windows for p in driver.positions))
            yield self._save()
        version = self.cursor.sweeps if walk.row_state == "update" else NOTHING_YET
        self._heads = [
            self._executor.submit("join", join_streams, self.job, walk, version, *self._heads)
        ]
        yield from self._end_sweep(self.cursor.rows_in_sweep / self.job.facts.n)

    def _positions(self) -> list[Position]:
        """Where every stream goes on; after a join there is one state for all."""
        windows = self.cursor.windows or (0,) * self.plan.streams
        last = len(self._heads) - 1
        return [Position(self._heads[min(k, last)], done) for k, done in enumerate(windows)]

    def _gather(self, sweep: Gather) -> Iterator[Event]:
        certified = self._absorb(sweep)
        yield from self._end_sweep(1.0, certified)
        if certified:
            yield self._event("certificate", objective=certified.objective, gap=certified.gap)

    def _absorb(self, sweep: Gather) -> Certificate | None:
        """Add up over all rows, give it to the state, and return what is proven then."""
        submit, result = self._executor.submit, self._executor.result
        head, number = self._heads[0], self.cursor.sweeps
        versions = result(submit("version", row_versions, head))
        total = self._add_up(sweep.sum, submit("weights", sweep.at, head), versions)
        try:
            absorbed = submit("absorb", absorb_sum, self.job, sweep, head, total, number)
            certified: Certificate | None = result(
                submit("certificate", self.solver.certificate, absorbed)
            )
        except Diverged:
            self._save()  # of the state from before, whose weights are good
            raise
        self._heads = [absorbed]
        return certified

    def _proven(self) -> Certificate | None:
        """Return what the method itself has proven."""
        certificate = self._executor.submit("certificate", self.solver.certificate, self._heads[0])
        found: Certificate | None = self._executor.result(certificate)
        return found

    def _end_sweep(self, passes: float, certified: Certificate | None = None) -> Iterator[Event]:
        """Count a sweep; take a snapshot if it is time for one, or the run has come to its end."""
        self._advance_sweep(passes)
        enough = self._is_enough(certified)
        if enough or self._is_time():
            yield self._save(certified, finished=enough)

    def _is_time(self) -> bool:
        when, sweeps = self._last_save
        versions = self.cursor.sweeps - sweeps
        return time.perf_counter() - when >= self.plan.snapshot_every or versions >= MOST_VERSIONS

    def _advance_sweep(self, passes: float) -> None:
        self._advance(
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

    def _add_up(self, what: Sum, at: Any, versions: tuple[int, ...] = ()) -> Any:
        """Return a handle on the sum."""

        def count(report: GatherReport) -> None:
            self._peak_memory = max(self._peak_memory, report.peak_memory)
            self._advance(bytes_read=self.cursor.bytes_read + report.bytes_read)
            self._event("gather", **report._asdict())

        return gather(self._executor, self.job, what, at, count, self.cursor.sweeps, versions)

    def _count_span(self, report: SpanReport) -> Event:
        self._peak_memory = max(self._peak_memory, report.peak_memory)
        self._advance(
            rows_seen=self.cursor.rows_seen + report.rows,
            rows_in_sweep=self.cursor.rows_in_sweep + report.rows,
            bytes_read=self.cursor.bytes_read + report.bytes_read,
        )
        return self._event("span", **report._asdict())

    def _restart(self, walk: Walk, position: Position) -> Event:
        """Begin again from the state that the method gives after an explosion."""
        if self.cursor.restarts >= MOST_RESTARTS:
            raise Diverged(
                f"The loss of {self.run.url} exploded {MOST_RESTARTS + 1} times, the last time "
                f"after {self.cursor.rows_seen} rows. Scale the features (ingest --scale), or "
                "raise --lam."
            )
        lost: State = self._executor.result(position.state)
        state = walk.recover(self.job.problem, self.job.facts, lost)
        self._heads = [self._executor.submit("state", same, state)]
        restarts, sweeps = self.cursor.restarts + 1, self.cursor.sweeps + 1
        self._advance(epoch=0, sweep=0, sweeps=sweeps, restarts=restarts)
        self._advance(windows=(), rows_in_sweep=0, passes=0.0)
        self._save()
        return self._event("restart", **walk.metrics(state))

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
            self._advance(epoch=self.cursor.epoch + 1, sweep=0)

    def _why_fall_back(self) -> str | None:
        """Say why the other method that was chosen should go on, if it should."""
        chosen, tol = self.methods, self.plan.tol
        if chosen is None or tol is None or self._finished():
            return None
        if self.cursor.method + 1 == len(chosen.methods) or not (found := self._proven()):
            return None
        now = Mark.of(self.cursor.passes, found)
        before = Mark(self.cursor.marked_passes, self.cursor.marked_digits)
        if now.passes < STRETCH * before.passes:
            return None
        self._advance(marked_passes=now.passes, marked_digits=now.digits)
        return far_behind(chosen, self.job.problem, self.job.facts, tol, before, now)

    def _fall_back(self, why: str) -> Iterator[Event]:
        """Go on with the other method, from the best weights."""
        at: Weights = self._executor.result(
            self._executor.submit("weights", self.solver.weights, self._heads[0])
        )
        self._advance(method=self.cursor.method + 1)
        self._take_method(self.cursor.method)
        yield self._event("switch", method=self.solver.kind, why=why)
        yield from self._begin_at(at)

    def _judge(self) -> Iterator[Event]:
        spent = self.cursor.passes >= self.plan.passes
        if self.solver.audit is not None:
            certified = self._proven()
            if spent and not self._is_reached(certified):
                certified = self._absorb(self.solver.audit)
        elif self.plan.tol is not None or (self.plan.certify and spent):
            certified = self._certify()
        else:
            certified = None
        if certified:
            yield self._event("certificate", objective=certified.objective, gap=certified.gap)
        if spent or self._is_enough(certified):
            yield self._save(certified, finished=True)

    def _certify(self) -> Certificate:
        """Pay a gather for objective and certificate of the newest weights."""
        what, point, prove = appraisal(self.solver)
        at = self._executor.submit("weights", point, self._heads[0])
        total = self._add_up(what, at)
        found = self._executor.submit("certificate", prove, self.job.problem, at, total)
        certified: Certificate = self._executor.result(found)
        return certified

    def _save(self, certified: Certificate | None = None, *, finished: bool = False) -> Event:
        """Take a snapshot, and go on from it."""
        self._lease.check()
        states = [self._executor.result(head) for head in self._heads]
        certified = certified or self.solver.certificate(states[0])
        choice = self._choose(certified, finished)
        k = self._lams.index(choice.lam) if choice else 0
        weights = weights_of(self._read_out(states), len(self._lams), k)
        self._saved = save(
            self.run, self.job.dataset, self.cursor, states, weights,
            certificate_of(certified, len(self._lams), k), finished, choice,
        )  # fmt: skip
        self._last_save = (time.perf_counter(), self.cursor.sweeps)
        self._set_heads()
        return self._event("snapshot", name=self._saved.name)

    def _choose(self, certified: Certificate | None, finished: bool) -> Choice | None:
        """Say which lam's model is handed on: the best on held-out rows, before the end any."""
        lams = self._lams
        if not (finished and self.plan.held_out):
            return Choice(lams[0]) if len(lams) > 1 else None
        judges = Dataset.open(self.plan.held_out, self._storage)
        return choose_lam(
            self.run.record(), judges, self.solver, lams, self._heads[0], certified, self._executor
        )

    def _read_out(self, states: list[State]) -> Weights:
        if len(states) == 1:
            return self.solver.weights(states[0])
        walk = self.solver.program(self.cursor.epoch)[self.cursor.sweep]
        assert isinstance(walk, Walk), "only a walk has several states"
        copies = [copy_state(s) for s in states]
        return self.solver.weights(walk.join(self.job.problem, self.job.facts, copies))

    def _advance(self, **changes: Any) -> None:
        seconds = self._seconds_before + time.perf_counter() - self._began
        self.cursor = self.cursor._replace(**changes, seconds=seconds)

    def _event(self, kind: str, **facts: Any) -> Event:
        self.run.log(kind, passes=self.cursor.passes, rows_seen=self.cursor.rows_seen, **facts)
        return Event(kind, self.cursor, facts)
