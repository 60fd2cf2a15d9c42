"""A training by single features: the run folder of any other training, without windows and passes.

Steps are made in stretches, whose random numbers follow from the seed and the stretch's number; a
snapshot is taken between two stretches, by the clock.  So a run that was stopped goes on to the
same bits.  Everything happens in this process: a step is far too short to be sent anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.memory import peak_memory_bytes
from pipeline.training.feature_data import FeatureData, feature_data, find_nu
from pipeline.training.lease import Lease
from pipeline.training.outcome import Event, TrainingResult
from pipeline.training.plan import ByFeatures, Storage, TrainingPlan, loss_name
from pipeline.training.run_folder import Cursor, RunFolder, RunRecord, Saved, read_state, save
from solvers.simba import (
    STRETCH,
    SimbaState,
    dense_stretch,
    first_state,
    mean_of,
    uniforms,
)
from solvers.simba_lazy import (
    LazyState,
    SparseCopies,
    first_lazy_state,
    lazy_mean_of,
    lazy_stretch,
)
from solvers.soft_margin import Found, SoftMargin, judge
from storage.columns import copy_bytes
from storage.dataset import Dataset

POSITION_BYTES = 16  # where a row or a column begins and ends
JUDGING = 3  # passes: margins, and two combinations of rows
JUDGED_SHARE = 0.1  # of the time at most: large data are judged less often


@dataclass(frozen=True)
class FeatureResult(TrainingResult):
    """What such a run hands on besides."""

    nu: float
    margin: float  # gamma
    margin_bound: float  # no w, b and slack have a larger one
    iterations: int
    accesses: int  # values of the data that the method read, each as often as it did
    pilot_accesses: int  # values read to find nu
    mapped: bool  # whether rows and columns are mapped from files


class FeatureRun:
    """One training, new or continued; iterate over it, then ask for `result`."""

    def __init__(self, run: RunFolder, plan: TrainingPlan, data: FeatureData) -> None:
        assert isinstance(plan.solver, ByFeatures), "chosen by the plan's method"
        self.run, self.plan, self.solver, self.data = run, plan, plan.solver, data
        self.cursor = Cursor(bytes_read=copy_bytes(data.dataset))
        self.found: Found | None = None
        self._saved: Saved | None = None
        self._state: Any = None
        self._last_save = self._began = time.perf_counter()
        self._judging_s = 0.0  # what the last one took
        self._seconds_before = 0.0

    @classmethod
    def start(cls, plan: TrainingPlan, url: str, storage_options: Storage = None) -> FeatureRun:
        """Begin a run at `url`, or go on with the one that is there if its plan is the same.

        Raises as `TrainingRun.start` and `feature_data` do.
        """
        dataset = Dataset.open(plan.dataset, storage_options)
        plan = plan.model_copy(update={"dataset": dataset.folder.url})
        run = RunFolder(url, storage_options)
        data = feature_data(plan, dataset)
        run.begin(RunRecord.of(plan, dataset.manifest, None))
        return cls(run, plan, data)

    @classmethod
    def resume(cls, url: str, storage_options: Storage = None) -> FeatureRun:
        """Continue the run at `url` from its newest whole snapshot."""
        run = RunFolder(url, storage_options)
        record = run.record()
        dataset = Dataset.open(record.plan.dataset, storage_options)
        run.require_data(record, dataset.manifest.fingerprint)
        return cls(run, record.plan, feature_data(record.plan, dataset))

    def __iter__(self) -> Iterator[Event]:
        with Lease(self.run.folder) as lease:
            yield self._pick_up()
            while not (self._saved and self._saved.finished):
                yield self._step()
                done = self._state.t >= self.of.iterations
                if done or self._is_time():
                    lease.check()
                    yield from self._save(finished=done)
            self.found = self.found or self._judge()
            yield self._event("finish", **self._outcome())

    @property
    def result(self) -> FeatureResult:
        """What came out; the run must be finished."""
        assert self._saved is not None
        assert self.found is not None
        state = self._state
        return FeatureResult(
            run=self.run.url,
            snapshot=self._saved.name,
            solver=self.solver.kind,
            loss=loss_name(self.data.problem.loss),
            lam=self.data.problem.lam,
            classes=None,
            candidates=[],
            passes=self.cursor.passes,
            rows_seen=self.cursor.rows_seen,
            seconds=self.cursor.seconds,
            bytes_read=self.cursor.bytes_read,
            peak_memory_bytes=peak_memory_bytes(),
            nu=state.nu,
            margin=self.found.gamma,
            margin_bound=self.found.bound,
            iterations=state.t,
            accesses=state.accesses,
            pilot_accesses=state.before,
            mapped=self.data.mapped,
            **self._outcome(),
        )

    # -- steps -----------------------------------------------------------------------------------

    def _pick_up(self) -> Event:
        newest, damaged = self.run.snapshots.latest()
        if newest is None:
            self._begin()
        else:
            self._saved = Saved.of(newest)
            self._state = read_state(self.run, newest.name, (SimbaState, LazyState), 0)
            opened = self._saved.cursor.bytes_read + self.cursor.bytes_read
            self.cursor = self._saved.cursor._replace(bytes_read=opened)
            self._seconds_before = self.cursor.seconds
        self.of = self._problem(self._state.nu)
        return self._event(
            "resume" if newest else "start",
            snapshot=newest.name if newest else None,
            damaged=damaged,
            dashboard=None,
            n_rows=self.data.facts.n,
        )

    def _begin(self) -> None:
        """Find nu where it is not given, and make the first state."""
        before, nu = 0, self.solver.nu
        if nu is None:
            nu, before = find_nu(self.data, self.solver.pilot_passes)
            self._read(before)
        of = self._problem(nu)
        sparse = isinstance(self.data.copies, SparseCopies)
        self._state = (
            first_lazy_state(of, self.data.y, before) if sparse else first_state(of, before)
        )

    def _problem(self, nu: float) -> SoftMargin:
        facts = self.data.facts
        return SoftMargin(
            n=facts.n, d=facts.d, nu=nu, unit=facts.max_square**-0.5,
            biased=self.plan.intercept != "none", iterations=self.solver.steps(facts.n),
        )  # fmt: skip

    def _step(self) -> Event:
        """Make one stretch of steps."""
        began, before, read = time.perf_counter(), self._state, self.cursor.bytes_read
        steps = min(STRETCH, self.of.iterations - before.t)
        u = uniforms(self.plan.seed, self.cursor.epoch, steps)
        data = self.data
        if isinstance(data.copies, SparseCopies):
            self._state, _ = lazy_stretch(self.solver, self.of, data.copies, data.y, before, u)
        else:
            self._state, _ = dense_stretch(self.solver, self.of, data.copies, data.y, before, u)
        self._read(self._state.accesses - before.accesses, 2 * steps)
        self._advance(
            epoch=self.cursor.epoch + 1,
            rows_seen=self._state.t,
            passes=self._state.accesses / max(1, data.values),
        )
        return self._event(
            "span", stream=0, windows=0, rows=steps, bytes_read=self.cursor.bytes_read - read,
            seconds=time.perf_counter() - began, read_s=0.0, wait_s=0.0,
            peak_memory=peak_memory_bytes(), diverged=False, arrived=False,
            metrics={"steps": self._state.t, "accesses": self._state.accesses},
        )  # fmt: skip

    def _is_time(self) -> bool:
        wait = max(self.plan.snapshot_every, self._judging_s / JUDGED_SHARE)
        return time.perf_counter() - self._last_save >= wait

    def _save(self, *, finished: bool) -> Iterator[Event]:
        began = time.perf_counter()
        found = self.found = self._judge()
        self._judging_s = time.perf_counter() - began
        self._read(JUDGING * self.data.values)
        self._advance()
        yield self._event(
            "certificate", objective=found.certificate.objective, gap=found.certificate.gap,
            margin=found.gamma, margin_bound=found.bound,
        )  # fmt: skip
        self._saved = save(
            self.run, self.data.dataset, self.cursor, [self._state], found.weights,
            found.certificate, finished,
        )  # fmt: skip
        self._last_save = time.perf_counter()
        yield self._event("snapshot", name=self._saved.name)

    def _judge(self) -> Found:
        lazy = isinstance(self._state, LazyState)
        mean = lazy_mean_of(self._state) if lazy else mean_of(self._state)
        return judge(self.of, self.data.problem, self.data.rows, self.data.y, mean)

    # -- counting --------------------------------------------------------------------------------

    def _read(self, values: int, positions: int = 0) -> None:
        """Count bytes: values with their positions, and where rows and columns lie."""
        size = values * self.data.value_bytes + positions * POSITION_BYTES
        self._advance(bytes_read=self.cursor.bytes_read + size)

    def _advance(self, **changes: Any) -> None:
        seconds = self._seconds_before + time.perf_counter() - self._began
        self.cursor = self.cursor._replace(**changes, seconds=seconds)

    def _outcome(self) -> dict[str, Any]:
        assert self._saved is not None
        certified = self._saved.certified
        return {
            "objective": certified.objective if certified else None,
            "certificate": certified.gap if certified else None,
            "hinge_certificate": None,
            "weights_sha256": self._saved.weights_sha256,
        }

    def _event(self, kind: str, **facts: Any) -> Event:
        self.run.log(kind, passes=self.cursor.passes, rows_seen=self.cursor.rows_seen, **facts)
        return Event(kind, self.cursor, facts)
