"""A training run: a plan turned into sweeps, snapshots and a model.

A run is an iterator: it yields an event after every span, and the loop's body is the callback.
Every walk starts from a state read out of storage (or from the method's own first state), so
going on after a crash is what every training does all the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.errors import Diverged
from pipeline.memory import peak_memory_bytes
from pipeline.streaming.executor import Executor
from pipeline.streaming.sweeps import (
    GatherReport,
    Job,
    PartFunction,
    Position,
    SpanReport,
    WalkDriver,
    gather,
)
from pipeline.training.job import make_job
from pipeline.training.model import read_weights, weights_digest
from pipeline.training.plan import TrainingPlan, loss_name
from pipeline.training.run_folder import (
    Cursor,
    RunFolder,
    Saved,
    read_state,
    read_states,
    save,
)
from solvers.gradient import Certificate, certificate, gradient_part
from solvers.protocol import Gather, Part, Solver, State, Walk, Weights, copy_state
from storage.dataset import Dataset

MOST_RESTARTS = 30

Storage = dict[str, Any] | None  # what fsspec needs beyond the address


@dataclass(frozen=True)
class Event:
    """What just happened.

    `kind` is start, resume, span, snapshot, restart, certificate or finish.
    """

    kind: str
    cursor: Cursor
    facts: dict[str, Any]


@dataclass(frozen=True)
class TrainingResult:
    """What a finished run hands on; the fields that `fewpass train --json` prints."""

    run: str
    snapshot: str
    solver: str
    loss: str
    lam: float
    passes: int
    rows_seen: int
    objective: float | None  # mean loss + (lam/2) ||w||^2 over all rows, if a pass was paid for it
    certificate: float | None  # at most this far above the optimum
    weights_sha256: str
    seconds: float
    bytes_read: int
    peak_memory_bytes: int  # of the largest process that took part


class TrainingRun:
    """One training, new or continued; iterate over it, then ask for `result`."""

    def __init__(self, run: RunFolder, plan: TrainingPlan, job: Job, executor: Executor) -> None:
        self.run, self.plan, self.job = run, plan, job
        self.solver: Solver = plan.solver
        self.cursor = Cursor()
        self._executor = executor
        self._saved: Saved | None = None
        self._state_kind: type = type(self.solver.init(self.job.problem, self.job.facts))
        self._began = time.perf_counter()
        self._seconds_before = 0.0
        self._peak_memory = 0

    @classmethod
    def start(
        cls, plan: TrainingPlan, url: str, executor: Executor, storage_options: Storage = None
    ) -> TrainingRun:
        """Begin a run at `url`, or go on with the one that is there if its plan is the same.

        Raises PlanMismatch when another plan or other data lie there, BadInput when plan and data
        set do not fit, NotADataset when there is none (all are ValueErrors).
        """
        dataset = Dataset.open(plan.dataset, storage_options)
        plan = plan.model_copy(update={"dataset": dataset.folder.url})  # found from anywhere
        run = RunFolder(url, storage_options)
        job = make_job(plan, dataset)  # refuses what does not fit before anything is written
        run.begin(plan, dataset.manifest)
        return cls(run, plan, job, executor)

    @classmethod
    def resume(cls, url: str, executor: Executor, storage_options: Storage = None) -> TrainingRun:
        """Continue the run at `url` from its newest whole snapshot."""
        run = RunFolder(url, storage_options)
        record = run.record()
        dataset = Dataset.open(record.plan.dataset, storage_options)
        run.require_data(record, dataset.manifest.fingerprint)
        return cls(run, record.plan, make_job(record.plan, dataset), executor)

    def __iter__(self) -> Iterator[Event]:
        yield self._pick_up()
        while not self._finished():
            program = self.solver.program(self.cursor.epoch)
            if self.cursor.sweep == len(program):
                yield from self._close_epoch()
                continue
            sweep = program[self.cursor.sweep]
            yield from self._walk(sweep) if isinstance(sweep, Walk) else self._gather(sweep)
        yield self._event("finish", **self._outcome())

    @property
    def result(self) -> TrainingResult:
        """What came out; the run must be finished."""
        assert self._saved is not None
        return TrainingResult(
            run=self.run.url,
            snapshot=self._saved.name,
            solver=self.solver.kind,
            loss=loss_name(self.job.problem.loss),
            lam=self.job.problem.lam,
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
        return self._event(
            "resume" if newest else "start",
            snapshot=newest.name if newest else None,
            damaged=damaged,
            dashboard=self._executor.dashboard,
            n_rows=self.job.facts.n,
        )

    def _finished(self) -> bool:
        return self._saved is not None and self._saved.finished

    def _outcome(self) -> dict[str, Any]:
        assert self._saved is not None
        certified = self._saved.certified
        return {
            "objective": certified.objective if certified else None,
            "certificate": certified.gap if certified else None,
            "weights_sha256": weights_digest(self._saved.weights),
        }

    # -- sweeps --------------------------------------------------------------------------------

    def _walk(self, walk: Walk) -> Iterator[Event]:
        while True:
            driver = WalkDriver(self._executor, self.job, walk, self._sweep(), self._heads())
            since = time.perf_counter()
            for report in driver:
                yield self._count_span(report)
                if report.diverged:
                    yield self._restart(walk, driver.positions[report.stream])
                    return
                if time.perf_counter() - since >= self.plan.snapshot_every:
                    driver.rest()
            states = [self._executor.result(p.state) for p in driver.positions]
            if driver.finished:
                break
            self._advance(windows=tuple(p.windows for p in driver.positions))
            yield self._save(states)
        self._advance(windows=(), sweep=self.cursor.sweep + 1, passes=self.cursor.passes + 1)
        yield self._save([walk.join(states)])

    def _gather(self, sweep: Gather) -> Iterator[Event]:
        if self._saved is None:
            yield self._save([self.solver.init(self.job.problem, self.job.facts)])
        head = self._heads()[0].state
        total = self._add_up(sweep.name, sweep.part, head)
        state = sweep.absorb(self.job.problem, self.job.facts, self._executor.result(head), total)
        self._advance(sweep=self.cursor.sweep + 1, passes=self.cursor.passes + 1)
        yield self._save([state])

    def _add_up(self, name: str, part: PartFunction, at: Any) -> Part:
        def count(report: GatherReport) -> None:
            self._peak_memory = max(self._peak_memory, report.peak_memory)
            self._advance(bytes_read=self.cursor.bytes_read + report.bytes_read)

        return gather(self._executor, self.job, name, part, at, count)

    def _sweep(self) -> int:
        """Number of this sweep among all of the run: what its order is drawn from."""
        return self.cursor.epoch * len(self.solver.program(0)) + self.cursor.sweep

    def _heads(self) -> list[Position]:
        """Where every stream goes on: the newest snapshot, or the method's first state."""
        submit, heads = self._executor.submit, []
        for stream in range(self.plan.streams):
            if self._saved is None:
                head = submit("state", self.solver.init, self.job.problem, self.job.facts)
            else:
                kept = min(stream, self._saved.streams - 1)  # after a join there is one for all
                head = submit(
                    "state", read_state, self.run, self._saved.name, self._state_kind, kept
                )
            done = self.cursor.windows[stream] if self.cursor.windows else 0
            heads.append(Position(head, done))
        return heads

    def _count_span(self, report: SpanReport) -> Event:
        self._peak_memory = max(self._peak_memory, report.peak_memory)
        self._advance(
            rows_seen=self.cursor.rows_seen + report.rows,
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
        self._advance(epoch=0, sweep=0, windows=(), passes=0, restarts=self.cursor.restarts + 1)
        self._save([state])
        return self._event("restart", **walk.metrics(state))

    # -- snapshots and the end -------------------------------------------------------------------

    def _close_epoch(self) -> Iterator[Event]:
        """Certify if that is due; then begin the next epoch or mark the run finished."""
        assert self._saved is not None
        spent = self.cursor.passes >= self.plan.passes
        certified = None
        if self.plan.tol is not None or (self.plan.certify and spent):
            certified = self._certify(self._saved)
            yield self._event("certificate", objective=certified.objective, gap=certified.gap)
        reached = certified is not None and certified.relative <= (self.plan.tol or 0.0)
        if certified or spent:
            states = read_states(self.run, self._saved.name, self._state_kind)
            yield self._save(states, certified, finished=spent or reached)
        self._advance(epoch=self.cursor.epoch + 1, sweep=0)

    def _certify(self, newest: Saved) -> Certificate:
        """Pay a gather for objective and certificate of a snapshot's weights."""
        at = self._executor.submit("weights", read_weights, self.run, newest.name)
        total = self._add_up("gather-gradient", gradient_part, at)
        return certificate(self.job.problem, newest.weights, total)

    def _save(
        self, states: list[State], certified: Certificate | None = None, *, finished: bool = False
    ) -> Event:
        weights = self._read_out(states)
        self._saved = save(
            self.run, self.job.dataset, self.cursor, states, weights, certified, finished
        )
        return self._event("snapshot", name=self._saved.name)

    def _read_out(self, states: list[State]) -> Weights:
        if len(states) == 1:
            return self.solver.weights(states[0])
        walk = self.solver.program(self.cursor.epoch)[self.cursor.sweep]
        assert isinstance(walk, Walk), "only a walk has several states"
        return self.solver.weights(walk.join([copy_state(s) for s in states]))

    def _advance(self, **changes: Any) -> None:
        seconds = self._seconds_before + time.perf_counter() - self._began
        self.cursor = self.cursor._replace(**changes, seconds=seconds)

    def _event(self, kind: str, **facts: Any) -> Event:
        self.run.log(kind, passes=self.cursor.passes, rows_seen=self.cursor.rows_seen, **facts)
        return Event(kind, self.cursor, facts)
