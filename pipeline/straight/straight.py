"""An engine that goes straight through a source: every row is stepped once, and stored nowhere.

    for each buffer of rows, in the order of the source
        room is made for columns that are new; what is known of all columns is brought up to date
        the rows of the buffer are visited in one random order

Everything else, such as lease, snapshots, log and result, is that of any run (training_run.py).  A
snapshot holds how many pieces of the source were read, and going on reads over these.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.rows.buffers import row_view, unit_weights
from fewpass.pipeline.rows.units import remedy, unlike_rows
from fewpass.pipeline.rows.windows import Window, WindowPlan, row_order
from fewpass.pipeline.runs.engine import Training
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.grid import Choice, weights_of
from fewpass.pipeline.runs.model import read_out
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.packing import unpack_state
from fewpass.pipeline.runs.saved import Content, Saved, SourcePosition, require_array, unfit
from fewpass.pipeline.runs.state_shapes import examples_of, misfit
from fewpass.pipeline.scoring.calibrating import calibrate
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.straight.first_rows import FirstRows, require_seekable
from fewpass.pipeline.straight.judging import choose, judges_of, record_of
from fewpass.pipeline.straight.known import Known, require_room
from fewpass.pipeline.straight.moments import GROWTH, moments_of, with_room
from fewpass.pipeline.straight.reading import Buffer, Position, ReadAhead
from fewpass.pipeline.training.planning.ill_conditioned import Columns, ill_conditioned
from fewpass.pipeline.training.planning.mixing import LossDrift, drift_sentence, sorted_sentence
from fewpass.pipeline.training.span import Stopwatch, this_worker, told
from fewpass.pipeline.training.walk import SpanReport
from fewpass.solvers.protocol import (
    Block,
    Certificate,
    ColumnMoments,
    Diverged,
    State,
    Walk,
    same,
)
from fewpass.solvers.registry import method_class
from fewpass.storage.dataset import Dataset
from fewpass.storage.snapshot import Snapshot

MOST_RESTARTS = 30


def _columns_of(first: FirstRows) -> Columns:
    """Return what is known of the columns, of which the first rows tell."""
    rows = first.first.table
    kind = remedy(first.source.layout)
    return Columns(lambda: unlike_rows(rows), kind, "Say")


class Straight:
    """An engine whose unit of work is a buffer of a source's rows; see `engine.Engine`."""

    keeps_on_disk = False  # nothing is kept per row
    least_wait = 0.0
    forecast = None

    def __init__(self, training: Training, first: FirstRows) -> None:
        self._training, self._first = training, first
        self._progress, self._checkpoints = training.progress, training.checkpoints
        methods = training.methods
        self.plan: TrainingPlan = methods.plan(training.plan) if methods else training.plan
        self._known = known = Known(self.plan, first)
        self.problem, self.stats = known.problem, known.stats
        self._solver = known.solver(self.plan.solver)  # type: ignore[arg-type]
        self._solver.init(self.problem, self.stats)  # refuses settings that do not fit
        self._room = require_room(known, self._solver)
        self._position = Position()
        self._width = first.dataset.n_features
        self._state: State = None
        self._inside = False  # the walk: whether the state is as its steps want it
        self._goes_by_columns = method_class(self._solver.kind).uses_moments
        self._moments: ColumnMoments | None = None  # as they were last
        self._rows, self._sums = 0, None if not self._goes_by_columns else first.count_columns()
        self._drift, self._warned = LossDrift(), set[str]()
        self._spans_s = 0.0  # of buffers, waiting for them included
        self.warnings = ill_conditioned(
            self.problem, self.stats, self.plan.solver.kind, 1, _columns_of(first)
        )

    @property
    def classes(self) -> int | None:
        """How many classes have a model of their own."""
        return self._known.rule.n_classes or None

    @property
    def _walk(self) -> Walk:
        walk = self._solver.program(0)[0]
        assert isinstance(walk, Walk), "a method of one pass walks"
        return walk

    # -- where it begins, and what is kept -------------------------------------------------------

    def begin(self) -> None:
        """Take the method's first state."""
        self._progress.since_sweep()
        self._state = self._solver.init(self.problem, self.stats)

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the state of another session; BadInput unless it is one of this plan."""
        if not saved.finished:
            require_seekable(self.plan)
        at = saved.source
        if at is None or saved.streams != 1:
            raise unfit(snapshot, "it tells no place in a source")
        self._make_room(at.room_for)
        self._rows, self._width = at.rows, at.n_features
        if self._goes_by_columns:
            self._sums = require_array(snapshot, "moments", (at.room_for, 2))
            self._first.go_on_counting(self._sums)
        state = unpack_state(self._solver.states, snapshot, 0)
        kind = snapshot.attributes["state"]
        examples = examples_of(self._solver, self.problem, self.stats, kind)
        if found := misfit(state, examples):
            raise unfit(snapshot, f"of the state, {found}")
        self._state = state
        self._position = Position(at.pieces, at.windows, at.of_pieces, at.of_windows, at.left_out)
        self._drift = at.drift
        self._progress.since_sweep()

    def go_on_from(self, saved: Saved) -> None:
        """Go on with the state that is here: nothing but a step changes it."""

    def content(self, certified: Certificate | None, *, finished: bool) -> Content:
        """Return the state, and what else a snapshot of it holds."""
        known, at = self._known, self._position
        weights = read_out(self._solver, self._state, self._training.dataset)
        weights = weights._replace(coef=weights.coef[..., : self._width])
        lams = self.plan.lam.values(known.n)
        judges = judges_of(self._training, self._first, self._width) if finished else None
        choice = self._choose(lams, judges)
        k = lams.index(choice.lam) if choice else 0
        weights = weights_of(weights, len(lams), k)
        position = SourcePosition(
            at.pieces, at.windows, self._rows, self._width, self.stats.d,
            at.pieces_mixing, at.windows_mixing, self._drift, at.left_out,
        )  # fmt: skip
        calibration = None
        if self.plan.calibrate and judges is not None:
            record = record_of(self._training, self._width)
            calibration = calibrate(
                record, judges, weights, self.plan.calibrate, self._training.executor
            )
        return Content(
            [self._state], weights, certified or self._solver.certificate(self._state), choice,
            calibration=calibration, source=position, moments=self._sums,
        )  # fmt: skip

    def _choose(self, lams: tuple[float, ...], judges: Dataset | None) -> Choice | None:
        if judges is None:
            return Choice(lams[0]) if len(lams) > 1 else None
        found = self._solver.certificate(self._state)
        return choose(self._training, judges, self._width, lams, self._solver, self._state, found)

    def result(self, shared: dict[str, Any]) -> TrainingResult:
        """Return what came out."""
        return TrainingResult(**shared)

    # -- the pass --------------------------------------------------------------------------------

    def go_on(self) -> Iterator[Event]:
        """Step buffer after buffer until the source ends, or the run is to stop."""
        if self._checkpoints.finished:
            self._first.close()
            return
        start = self._position if self._position.windows else self._first.first.position
        with ReadAhead(self._first.buffers(start, self._room)) as ahead:
            if not self._position.windows:
                yield from self._take(self._first.first, 0.0)
            self._first.let_go()
            while not self._training.is_stopping():
                found, waited = ahead.next()
                if found is None:
                    yield from self._end()
                    return
                yield from self._take(found, waited)
                del found

    def rest(self) -> Iterator[Event]:
        """Take a snapshot of where the training stands."""
        if not self._checkpoints.is_current:
            yield self._checkpoints.save(self)

    def _take(self, buffer: Buffer, waited: float) -> Iterator[Event]:
        """Step one buffer, and take a snapshot if one is due."""
        began, stepping = time.perf_counter(), Stopwatch()
        if buffer.max_index >= self._width:
            self._width = buffer.max_index + 1
        if self._width > self.stats.d:
            self._make_room(max(self._width, int(GROWTH * self.stats.d)))
        executor = self._training.executor
        with stepping:
            work = executor.submit("walk", self._step, buffer)
            restarts, metrics = executor.result(work)
        self._position = buffer.position
        rows, cursor = buffer.table.n_rows, self._progress.cursor
        report = SpanReport(
            stream=0, windows=1, rows=rows, bytes_read=buffer.bytes_read,
            seconds=waited + time.perf_counter() - began, read_s=buffer.read_s, wait_s=waited,
            peak_memory=peak_memory_bytes(), metrics=metrics, worker=this_worker(),
            step_s=stepping.seconds, ahead=True,
        )  # fmt: skip
        self._spans_s += report.seconds
        self._progress.count(
            report, rows_seen=cursor.rows_seen + rows, rows_in_sweep=cursor.rows_in_sweep + rows,
            windows=(buffer.position.windows,), restarts=cursor.restarts + len(restarts),
        )  # fmt: skip
        for told_of in restarts:
            yield self._progress.event("restart", metrics=told_of)
        yield self._progress.event("span", **told(report))
        yield from self._watch(metrics)
        if self._checkpoints.is_due(self):
            yield self._checkpoints.save(self)

    def _step(self, buffer: Buffer) -> tuple[list[dict[str, float]], dict[str, float]]:
        """Visit the rows of a buffer; where the loss explodes, again with half the step."""
        walk, state = self._walk, self._state
        self._rows = buffer.rows
        if buffer.sums is not None:
            self._sums = with_room(buffer.sums, self.stats.d)
            self._moments = moments_of(self._sums, self._rows, self._moments)
            state = self._solver.remeasured(state, self._moments)
        block, restarts = self._block(buffer), list[dict[str, float]]()
        state = self._stepped(walk, state, block)
        while walk.diverged(state):
            if len(restarts) == MOST_RESTARTS:
                raise Diverged(
                    f"The loss of {self._training.run.url} exploded whatever the step. Scale the "
                    "features (`scale`), or raise `lam`."
                )
            self._inside = False
            state = walk.recover(self.problem, self.stats, state)
            restarts.append(walk.metrics(state))
            state = self._stepped(walk, state, block)
        self._state = state
        return restarts, walk.metrics(state)

    def _stepped(self, walk: Walk, state: State, block: Block) -> State:
        """Step the rows of a block; one model's state stays inside the walk from then on."""
        if not self._inside:
            state = walk.enter(state)
        state = walk.step(self.problem, self.stats, state, block)
        self._inside = walk.leave is same
        return walk.leave(state)

    def _block(self, buffer: Buffer) -> Block:
        """See a buffer as kernels do, its rows in a random order that its number decides on."""
        table, rule = buffer.table, self._known.rule
        window = Window((buffer.number,), "random", 0, 0)
        order = row_order(WindowPlan(1, 1, 1, self.plan.seed), window, np.arange(table.n_rows))
        y: NDArray[np.float64] = np.ascontiguousarray(rule.read(table.target))
        weight = unit_weights(table, self._training.dataset, rule)
        return Block(row_view(table), y, weight, order, np.empty(0))

    def _make_room(self, d: int) -> None:
        """Make room for d columns in the state, and in what is known of them."""
        if d == self.stats.d:
            return
        if self._state is not None:
            try:
                self._state = self._solver.widened(self.problem, self._state, d)
            except ValueError as error:
                raise BadInput(str(error)) from error
            self._inside = False
        self.stats = self._known.stats = self.stats._replace(d=d)
        taken = self._known.taken(self._solver)
        if taken > self.plan.memory:
            raise BadInput(
                f"The rows have {self._width:,} columns by now, for which {self.plan.solver.kind} "
                f"takes {format_bytes(taken)}, more than the memory has room for. Use "
                f"`memory={-(-taken // 10**6) + 100}MB` or more, or `solver=asgd`."
            )

    def _end(self) -> Iterator[Event]:
        """Close the pass, and take the last snapshot."""
        walk, cursor = self._walk, self._progress.cursor
        self._state = walk.join(self.problem, self.stats, [self._state])
        self._progress.event(
            "sweep", name=walk.name, seconds=self._progress.since_sweep(), spans_s=self._spans_s,
            between_s=0.0,
        )  # fmt: skip
        self._progress.advance(
            windows=(), rows_in_sweep=0, sweep=1, sweeps=1, passes=cursor.passes + 1.0
        )
        if found := self._solver.learners(self._state):
            yield self._progress.event("learners", models=[one._asdict() for one in found])
        left_out = self._first.intake.left_out
        self._position = self._position._replace(left_out=left_out)  # no rows may come after them
        if left_out.rows:
            listed = list(left_out.listed)
            yield self._progress.event("skipped", rows=left_out.rows, reasons=listed)
        yield self._checkpoints.save(self, finished=True)

    # -- whether buffers are alike ---------------------------------------------------------------

    def _watch(self, metrics: dict[str, float]) -> Iterator[Event]:
        """Warn, once each, where buffers differ in their targets or rows become harder."""
        memory, cursor = format_bytes(self.plan.memory), self._progress.cursor
        n_monitored, loss = int(metrics.get("n_monitored", 0)), metrics.get("loss_sum", 0.0)
        before = self._drift
        own = loss - before.loss, n_monitored - before.n_monitored
        if before.rises(*own) and cursor.rows_seen > 0:
            mean, now = before.loss / before.n_monitored, own[0] / own[1]
            yield from self._warn("harder", drift_sentence(mean, now, memory))
        self._drift = LossDrift(loss, n_monitored)
        found = self._position.windows_mixing
        if found.sorted:
            yield from self._warn("sorted", sorted_sentence(found, memory))

    def _warn(self, what: str, sentence: str) -> Iterator[Event]:
        if what not in self._warned:
            self._warned.add(what)
            yield self._progress.event("warning", what=what, sentence=sentence)
