"""The sweeps of a training: walks and gathers, and the states that they carry on.

States stay on the workers; here are handles: a state per stream inside a walk, else one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal

from pipeline.streaming.executor import Executor
from pipeline.streaming.gather import GatherReport, gather
from pipeline.streaming.row_numbers import NumbersInMemory
from pipeline.streaming.span import Job, Stopwatch
from pipeline.streaming.walk import Position, SpanReport, WalkDriver
from pipeline.training.outcome import Event
from pipeline.training.run_folder import RunFolder, read_state
from pipeline.training.standing import Standing
from pipeline.training.state_tasks import absorb_sum, join_own_streams, join_streams
from solvers.protocol import (
    Certificate,
    Gather,
    Solver,
    State,
    Sum,
    Walk,
    Weights,
    copy_state,
    row_versions,
    same,
)
from solvers.together import appraisal
from storage.row_state import NOTHING_YET

#: How a walk came to rest: with all rows visited, before that, or because the loss exploded.
End = Literal["whole", "resting", "diverged"]


class Sweeping:
    """Carries a method's states over a job's data, and counts what it did.

    Attributes
    ----------
    executor, job, solver
        Where, on what and by what method.
    heads : list
        Handles on the newest states.
    """

    def __init__(self, executor: Executor, standing: Standing, job: Job, solver: Solver) -> None:
        self.job, self.solver = job, solver
        self.executor, self._standing = executor, standing
        self.heads: list[Any] = []
        self._paces: dict[str, int] = {}  # windows per span, as the last walk of a name found
        self._between = Stopwatch()  # of joining, absorbing and certifying

    # -- states ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take the method's first state."""
        job = self.job
        self.heads = [self._do("state", self.solver.init, job.problem, job.facts)]

    def begin_at(self, weights: Weights, rows_before: int) -> None:
        """Take the method's state at given weights, which have learnt from so many rows."""
        job = self.job
        self.put(self.solver.start_at(job.problem, job.facts, weights, rows_before))

    def read(self, run: RunFolder, snapshot: str, streams: int) -> None:
        """Take the states of a snapshot, read where they are needed."""
        self.heads = [
            self.executor.submit("state", read_state, run, snapshot, self.solver.states, stream)
            for stream in range(streams)
        ]

    def put(self, state: State) -> None:
        """Take a state for all streams."""
        self.heads = [self._do("state", same, state)]

    def states(self) -> list[State]:
        """Wait for the newest states, and fetch them."""
        return [self.executor.result(head) for head in self.heads]

    def ask(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return function(*args) of handles, worked out on a worker."""
        with self._between:
            return self.executor.result(self.executor.submit_small(name, function, *args))

    def _do(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return a handle on function(*args) of handles."""
        with self._between:
            return self.executor.submit_small(name, function, *args)

    def weights(self) -> Weights:
        """Read the model out of the state after a sweep."""
        found: Weights = self.ask("weights", self.solver.weights, self.heads[0])
        return found

    def weights_of(self, states: list[State]) -> Weights:
        """Read the model out of one state, or of several inside a walk as if it ended there."""
        if len(states) == 1:
            return self.solver.weights(states[0])
        cursor = self._standing.cursor
        walk = self.solver.program(cursor.epoch)[cursor.sweep]
        assert isinstance(walk, Walk), "only a walk has several states"
        copies = [copy_state(s) for s in states]
        return self.solver.weights(walk.join(self.job.problem, self.job.facts, copies))

    # -- walks -----------------------------------------------------------------------------------

    def walk(self, walk: Walk, is_due: Callable[[], bool]) -> Generator[Event, None, End]:
        """Go on with a walk until it is over, or to where every stream rests as a snapshot is due.

        Yields an event per span; returns how it ended.
        """
        number = self._standing.cursor.sweeps
        pace = self._paces.get(walk.name, 1)
        driver = WalkDriver(self.executor, self.job, walk, number, self._positions(), pace)
        for report in driver:
            yield self._count_span(report)
            if report.diverged:
                self.heads = [driver.positions[report.stream].state]
                self._tell(walk.name, driver.watch)
                return "diverged"
            if is_due():
                driver.rest()
        self.heads = [p.state for p in driver.positions]
        self._paces[walk.name] = driver.span_windows
        if not driver.finished:
            self._standing.advance(windows=tuple(p.windows for p in driver.positions))
            return "resting"
        version = number if walk.row_state == "update" else NOTHING_YET
        # in this process a task runs once, and what the walk left is nobody else's
        join = join_own_streams if self.executor.near else join_streams
        self.heads = [self._do("join", join, self.job, walk, version, *self.heads)]
        self._drop_numbers()
        self._tell(walk.name, driver.watch)
        return "whole"

    def _positions(self) -> list[Position]:
        """Where every stream goes on; after a join there is one state for all."""
        windows = self._standing.cursor.windows or (0,) * self.job.windows.streams
        last = len(self.heads) - 1
        return [Position(self.heads[min(k, last)], done) for k, done in enumerate(windows)]

    def _count_span(self, report: SpanReport) -> Event:
        cursor = self._standing.cursor
        self._standing.count(
            report,
            rows_seen=cursor.rows_seen + report.rows,
            rows_in_sweep=cursor.rows_in_sweep + report.rows,
        )
        return self._standing.event("span", **report._asdict())

    def recover(self, walk: Walk) -> dict[str, float]:
        """Take the state that the method gives after an explosion; return its metrics."""
        (lost,) = self.states()
        state = walk.recover(self.job.problem, self.job.facts, lost)
        self.put(state)
        return walk.metrics(state)

    # -- gathers ---------------------------------------------------------------------------------

    def absorb(self, sweep: Gather) -> Certificate | None:
        """Add up over all rows, give it to the state, and return what is proven then.

        Raises Diverged, and keeps the state from before, when the sum is beyond all bounds.
        """
        submit, number = self._do, self._standing.cursor.sweeps
        head = self.heads[0]
        versions = self.ask("version", row_versions, head)
        total = self._add_up(sweep.sum, submit("weights", sweep.at, head), versions)
        absorbed = submit("absorb", absorb_sum, self.job, sweep, head, total, number)
        certified: Certificate | None = self.ask("certificate", self.solver.certificate, absorbed)
        self.heads = [absorbed]
        self._drop_numbers()
        self._tell(sweep.sum.name, self._adding)
        return certified

    def proven(self) -> Certificate | None:
        """Return what the method itself has proven."""
        found: Certificate | None = self.ask("certificate", self.solver.certificate, self.heads[0])
        return found

    def certify(self) -> Certificate:
        """Pay a gather for objective and certificate of the newest weights."""
        what, point, prove = appraisal(self.solver)
        at = self._do("weights", point, self.heads[0])
        total = self._add_up(what, at)
        found: Certificate = self.ask("certificate", prove, self.job.problem, at, total)
        self._tell(f"{what.name}, to certify", self._adding)
        return found

    # -- numbers per row ---------------------------------------------------------------------------

    @property
    def keeps_on_disk(self) -> bool:
        """Whether every sweep may leave numbers per row on disk."""
        return not isinstance(self.job.row_state, NumbersInMemory)

    def flush_numbers(self, states: list[State]) -> None:
        """Have on disk what goes with states: their versions, and what this sweep visited."""
        if isinstance(self.job.row_state, NumbersInMemory):
            versions = {version for state in states for version in row_versions(state)}
            self.job.row_state.flush(versions | {self._standing.cursor.sweeps})

    def _drop_numbers(self) -> None:
        """Let go of what no state after a sweep goes with."""
        if isinstance(self.job.row_state, NumbersInMemory):
            self.job.row_state.keep_only(self.ask("version", row_versions, self.heads[0]))

    def _add_up(self, what: Sum, at: Any, versions: tuple[int, ...] = ()) -> Any:
        """Return a handle on the sum."""

        def count(report: GatherReport) -> None:
            self._standing.count(report)
            self._standing.event("gather", **report._asdict())

        number, self._adding = self._standing.cursor.sweeps, Stopwatch()
        with self._adding:
            return gather(self.executor, self.job, what, at, count, number, versions)

    def _tell(self, name: str, asking: Stopwatch) -> None:
        """Log where the driver's time went since the sweep before; see time_table.py."""
        self._standing.event(
            "sweep",
            name=name,
            seconds=self._standing.since_sweep(),
            spans_s=asking.seconds,
            between_s=self._between.seconds,
        )
        self._between = Stopwatch()
