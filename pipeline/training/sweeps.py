"""The sweeps of a training: walks and reductions, and the states that they carry on.

States stay on the workers; here are handles: a state per stream inside a walk, else one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from operator import lt
from typing import Any, Literal, TypeVar

import numpy as np

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce import absorb_sum, reduce
from fewpass.pipeline.passes.span import Job, SpanReport
from fewpass.pipeline.rows.row_state import RowStateInMemory
from fewpass.pipeline.rows.windows import meetings
from fewpass.pipeline.runs.events import Event, Restart, Span, Summed, SweepEnd
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.runs.run_snapshots import write_state
from fewpass.pipeline.runs.saved import StoredState
from fewpass.pipeline.training.engine import RunStore, Stopped
from fewpass.pipeline.training.one_reading import OneReading
from fewpass.pipeline.training.walk import StreamPosition, WalkDriver, added, joined
from fewpass.solvers.multi_model import appraisal, constants_of
from fewpass.solvers.protocol import (
    Certificate,
    ChosenLearner,
    Diverged,
    Reduce,
    Solver,
    State,
    Sum,
    Walk,
    Weights,
    row_versions,
    same,
)
from fewpass.storage.row_state_store import NOTHING_YET, Records, RowRecords
from fewpass.storage.snapshot import Snapshot, SnapshotStore

T = TypeVar("T")
#: How a walk came to rest: with all rows visited, before that, or because the loss exploded.
End = Literal["whole", "resting", "diverged"]


def require_finite(certified: Certificate | None) -> None:
    """Raise Diverged where an objective or a gap is no number: then nothing is proven."""
    if certified is None:
        return
    if not np.isfinite([*certified[:2], *np.ravel(certified.models)]).all():
        raise Diverged(
            "The objective or its gap left the range of numbers. Scale the "
            "features (`scale` of an ingest), or choose a `lam` neither so small nor so large."
        )


class Sweeps:
    """Carries a method's states over a job's data, and counts spans and sweeps.

    Attributes
    ----------
    executor, job, solver
        Place, data and method of the training.
    heads : list
        Handles on the newest states.
    records : RowRecords
        Of the numbers per row on disk that the states go with.
    """

    def __init__(
        self, executor: Executor, progress: Progress, job: Job, solver: Solver,
        is_stopping: Callable[[], bool], reading: OneReading | None = None,
    ) -> None:  # fmt: skip
        self.job, self.solver, self._source_reading = job, solver, reading
        self._is_stopping = is_stopping
        self.executor, self._progress = executor, progress
        self.heads: list[Any] = []
        self.records = RowRecords(job.windows.n_chunks)
        self._versions: tuple[int, ...] | None = None  # of the states; None: to be asked
        self._paces: dict[str, int] = {}  # windows per span of the last walk of a name

    # -- states ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take the method's first state."""
        job = self.job
        self._take([self._do("state", self.solver.init, job.problem, job.stats)])

    def begin_at(self, weights: Weights, rows_before: int) -> None:
        """Take the method's state at given weights, which have learnt from `rows_before` rows."""
        job = self.job
        self.put(self.solver.start_at(job.problem, job.stats, weights, rows_before))

    def read(self, run: RunStore, snapshot: str | Snapshot, streams: int) -> None:
        """Take the states of a snapshot, read where they are needed; those before are freed.

        Of one in memory its arrays become theirs.
        """
        self.heads = []
        given = (snapshot, self.solver, self.job.problem, self.job.stats)
        submit = partial(self.executor.submit, "state", run.read_state, *given)
        self._take([submit(stream) for stream in range(streams)])
        if isinstance(snapshot, Snapshot):
            self.states()

    def adopt(self) -> None:
        """Tell the method that another process left the states that were read."""
        midway = bool(self._progress.cursor.windows)
        adopted = partial(self.solver.adopted, midway=midway)
        self._take([self._do("state", adopted, head) for head in self.heads], self._versions)

    def put(self, state: State) -> None:
        """Take a state for all streams."""
        self._take([self._do("state", same, state)])

    def _take(self, heads: list[Any], versions: tuple[int, ...] | None = None) -> None:
        """Take states, and the versions of their numbers per row; None: unknown yet."""
        self.heads, self._versions = heads, versions

    def states(self) -> list[State]:
        """Wait for the newest states, and fetch them."""
        return [self.executor.result(head) for head in self.heads]

    @property
    def are_distributed(self) -> bool:
        """Return whether several states are on workers: no process has the memory for all."""
        return self.executor.together is not None and len(self.heads) > 1

    def write(self, snapshots: SnapshotStore, name: str) -> list[StoredState]:
        """Write the newest states for a snapshot, each where it is."""
        submit = partial(self.executor.submit, "snapshot", write_state, snapshots, name)
        return [self.executor.result(w) for w in [submit(k, h) for k, h in enumerate(self.heads)]]

    def ask(self, name: str, function: Callable[..., T], *args: Any) -> T:
        """Return function(*args) of handles, worked out on a worker."""
        answer: T = self.executor.result(self._do(name, function, *args))
        return answer

    def _do(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return a handle on function(*args) of handles."""
        return self.executor.submit_small(name, function, *args)

    def weights(self) -> Weights:
        """Read the model out of the state after a sweep."""
        return self.ask("weights", self.solver.weights, self.heads[0])

    def weights_of(self, states: list[State]) -> Weights:
        """Read the model out of the newest state, or of several inside a walk as if it ended there.

        Several are joined where they are.
        """
        if len(states) == 1:
            return self.solver.weights(states[0])
        cursor = self._progress.cursor
        walk = self.solver.program(cursor.epoch)[cursor.sweep]
        assert isinstance(walk, Walk), "only a walk has several states"
        one = joined(self.executor, self.job, walk, NOTHING_YET, self.heads, are_over=False)
        return self.ask("weights", self.solver.weights, one)

    # -- walks -----------------------------------------------------------------------------------

    def walk(self, walk: Walk, is_due: Callable[[], bool]) -> Generator[Event, None, End]:
        """Go on with a walk until it is over, or to where every stream rests as a snapshot is due.

        Yields an event per span; returns how it ended.
        """
        number = self._progress.cursor.sweeps
        if self.executor.together is not None and len(self.heads) < self.job.windows.streams:
            self.executor.together.broadcast(self.heads[0], 16 * self.job.stats.d)
        positions, rounds, total = self._positions(), self._rounds_left(walk), None
        for k, ends in enumerate(rounds):
            begun = [at.windows for at in positions]
            end, positions = yield from self._drive(walk, positions, ends, total, is_due)
            if end != "whole":
                return end
            if k + 1 < len(rounds):
                if begun != ends and is_due():
                    return self._rest(positions)
                assert walk.merge is not None, "streams meet"
                total = added(self.executor, self.job, walk.merge, [p.state for p in positions])
        self._take([p.state for p in positions], self._versions)
        version = number if walk.row_state == "update" else NOTHING_YET
        versions = self._versions if version == NOTHING_YET else (version,)
        self._take([joined(self.executor, self.job, walk, version, self.heads)], versions)
        self._drop_numbers()
        self._log_sweep(walk.name)
        return "whole"

    def _drive(
        self, walk: Walk, positions: list[StreamPosition], ends: list[int] | None, total: Any,
        is_due: Callable[[], bool],
    ) -> Generator[Event, None, tuple[End, list[StreamPosition]]]:  # fmt: skip
        """Go on with a walk until streams meet; return how it ended, and where they are.

        They first take the `total` of where they met before.
        """
        number, pace = self._progress.cursor.sweeps, self._paces.get(walk.name, 1)
        reading = self._reading(walk)
        driver = WalkDriver(
            self.executor, self.job, walk, number, positions, pace, reading, ends, total
        )  # fmt: skip
        positions.clear()
        self.heads = []  # the driver has them, and lets go of a state when the next one is there
        for report in driver:
            self.job = driver.job
            self.records.note(number, report.row_state)
            if report.windows or self._source_reading is None:
                yield from self._counted(report)
            if driver.exploded:
                if self._is_stopping() and not driver.finished:
                    raise Stopped  # where no snapshot can be taken
            elif is_due():
                driver.rest()
        if driver.exploded:
            self._take([driver.positions[min(driver.exploded)].state])
            self._log_sweep(walk.name)
            return "diverged", []
        self._paces[walk.name] = driver.span_windows
        if driver.finished:
            return "whole", driver.positions
        return self._rest(driver.positions), []

    def _rest(self, positions: list[StreamPosition]) -> End:
        """Take the states of streams in the middle of a walk."""
        self._take([p.state for p in positions], self._versions)
        self._progress.advance(windows=tuple(p.windows for p in positions))
        return "resting"

    def _rounds_left(self, walk: Walk) -> list[list[int] | None]:
        """Return after which windows streams still meet; None: at the end of the walk.

        Streams that rest where they meet have not met yet.
        """
        if walk.merge is None or self.job.stats.streams == 1:
            return [None]
        done = self._progress.cursor.windows or (0,) * self.job.windows.streams
        rounds = meetings(self.job.windows, self.job.stats.merges)
        return [ends for ends in rounds if any(map(lt, done, ends)) or [*done] == ends]

    def skips(self, walk: Walk) -> bool:
        """Return whether the state needs no such walk."""
        return walk.skips is not None and self.ask("skips", walk.skips, self.heads[0])

    def _positions(self) -> list[StreamPosition]:
        """Return the state that every stream goes on from; after a join there is one for all."""
        windows = self._progress.cursor.windows or (0,) * self.job.windows.streams
        last = len(self.heads) - 1
        return [StreamPosition(self.heads[min(k, last)], done) for k, done in enumerate(windows)]

    def _counted(self, report: SpanReport) -> Iterator[Event]:
        """Count a span; yield its events."""
        cursor = self._progress.cursor
        self._progress.count(
            report,
            rows_seen=cursor.rows_seen + report.rows,
            rows_in_sweep=cursor.rows_in_sweep + report.rows,
            restarts=cursor.restarts + len(report.restarts),
        )
        for metrics in report.restarts:
            yield self._progress.event(Restart(metrics))
        yield self._progress.event(Span.of(report))
        if self._source_reading is not None:
            for warned in self._source_reading.follow(report):
                yield self._progress.event(warned)

    def recover(self, walk: Walk) -> dict[str, float]:
        """Take the state that the method gives after an explosion; return its metrics."""
        (lost,) = self.states()
        state = walk.recover(self.job.problem, self.job.stats, lost)
        self.put(state)
        return walk.metrics(state)

    # -- reductions ----------------------------------------------------------------------------

    def absorb(self, sweep: Reduce) -> Certificate | None:
        """Add up over all rows, give the sum to the state, and return its certificate.

        Raises Diverged when the sum is beyond all bounds, and Stopped when the training is to stop;
        both leave the state as it is.
        """
        submit, number = self._do, self._progress.cursor.sweeps
        head = self.heads[0]
        total = self._add_up(sweep.sum, submit("weights", sweep.at, head))
        absorbed = submit("absorb", absorb_sum, self.job, sweep, head, total, number)
        certified = self._certificate_of(absorbed)
        require_finite(certified)
        self._take([absorbed])
        self._drop_numbers()
        self._log_sweep(sweep.sum.name)
        return certified

    def proven(self) -> Certificate | None:
        """Return the certificate of the method itself, if it has one."""
        certified = self.own_certificate()
        require_finite(certified)
        return certified

    def own_certificate(self) -> Certificate | None:
        """Return the method's certificate of the first state, finite or not."""
        return self._certificate_of(self.heads[0])

    def _certificate_of(self, head: Any) -> Certificate | None:
        certified = self.ask("certificate", self.solver.certificate, head)
        return certified and certified.with_constants(constants_of(self.solver, self.job.stats))

    def learners(self) -> tuple[ChosenLearner, ...]:
        """Return the learners chosen by a method that runs several."""
        return self.ask("learners", self.solver.learners, self.heads[0])

    def certify(self, weights: Weights | None = None) -> Certificate:
        """Pay a reduction for objective and certificate: of the newest weights, or of these.

        They are as the rows are stored.
        """
        _, point, _, given = appraisal(self.solver)
        if weights is None:
            return self._certified_at(self._do("weights", point, self.heads[0]))
        return self._certified_at(self._do("weights", given, weights))

    def of_constant(self) -> Certificate:
        """Pay a reduction for the same of the first state, which is a constant."""
        first = self._do("state", self.solver.init, self.job.problem, self.job.stats)
        at = self._do("weights", appraisal(self.solver).at, first)
        del first  # as large as the state
        return self._certified_at(at)

    def _certified_at(self, at: Any) -> Certificate:
        what, _, prove, _ = appraisal(self.solver)
        total = self._add_up(what, at, counts=False)
        certified: Certificate = self.ask("certificate", prove, self.job.problem, at, total)
        require_finite(certified)
        self._log_sweep(f"{what.name}, to certify")
        return certified.with_constants(constants_of(self.solver, self.job.stats))

    # -- numbers per row ---------------------------------------------------------------------------

    @property
    def keeps_on_disk(self) -> bool:
        """Return whether every sweep may leave numbers per row on disk."""
        return not isinstance(self.job.row_state, RowStateInMemory)

    def flush_numbers(self, states: list[State]) -> None:
        """Write the numbers per row of states: their versions, and that of this sweep."""
        if isinstance(self.job.row_state, RowStateInMemory):
            versions = {version for state in states for version in row_versions(state)}
            for version in versions | {self._progress.cursor.sweeps}:
                self.records.note(version, self.job.row_state.flush(version))

    def _drop_numbers(self) -> None:
        """Delete the numbers per row that the state after a sweep does not use."""
        if self.records.is_empty and self.keeps_on_disk:
            return
        versions = self._versions_read()
        self.records.keep_only(versions)
        if isinstance(self.job.row_state, RowStateInMemory):
            self.job.row_state.keep_only(versions)

    def _versions_read(self) -> tuple[int, ...]:
        """Return the versions of the numbers per row that the newest states go with."""
        if self._versions is None:
            self._versions = self.ask("version", row_versions, self.heads[0])
        return self._versions

    def _reading(self, walk: Walk) -> Callable[[Iterable[int]], Records] | None:
        """Return the function of the records that a walk reads; None where it reads none."""
        if walk.row_state == "none":
            return None
        versions = self._versions_read()
        recorded = any(self.records.has(version) for version in versions)
        return partial(self.records.of, versions) if recorded else None

    def _add_up(self, what: Sum, at: Any, *, counts: bool = True) -> Any:
        """Return a handle on the sum; `counts`: as a pass."""
        number = self._progress.cursor.sweeps
        if not counts:  # a look at weights that are done is no part of how they learnt
            what = what._replace(reports=False)
        versions = self._versions_read() if what.row_state == "read" else ()

        def count(report: SpanReport) -> None:
            self._progress.count(report)
            self._progress.on_reduce(self._progress.event(Summed.of(report, counts=counts)))
            self.records.note(number, report.row_state)

        def check() -> None:
            # Spans under way go on during a snapshot, which must not need their numbers per row.
            if self._is_stopping() and what.row_state != "write":
                raise Stopped

        return reduce(
            self.executor, self.job, what, at, count, number, versions, self.records, check,
            f"pass {number + 1}, {what.name}",
        )  # fmt: skip

    def _log_sweep(self, name: str) -> None:
        self._progress.event(SweepEnd(name, self._progress.since_sweep()))
