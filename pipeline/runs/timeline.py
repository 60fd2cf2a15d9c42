"""A training as its events tell it: every display draws one `Timeline`.

It hears events one by one, while a training runs or from the log, and answers how far the training
is, how its loss went, what is certified, how fast it is and where its time went.  What a crash had
done again counts once.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from math import fsum
from typing import Any, Self

from fewpass.pipeline.planning.rate import RECENT, SMALLEST
from fewpass.pipeline.runs.events import (
    Certification,
    Compiled,
    Event,
    HeldOut,
    Learners,
    Span,
    Start,
    Summed,
    Switch,
    Work,
)
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.timeline_points import (
    NEWEST,
    Certified,
    Point,
    Silence,
    WorkDone,
    Worker,
    silence,
)

RECENT_SECONDS = 10.0  # what the speed of a live display looks back on
REDUCTIONS = -1  # the stream of all reductions
STEPS = ("step", "h", "gamma0")  # the names of a step size in the metrics of methods

LossSums = dict[int, tuple[float, float]]  # stream -> sum of losses, rows whose loss was taken


class Timeline:
    """A training so far.

    Parameters
    ----------
    passes
        Allowed by the plan, to each group of classes.
    tol
        The plan's tolerance.
    clock
        Seconds, for a live display, which needs only the newest point and the speed of late.  By
        default the times of the events count, and everything is retained.
    """

    def __init__(
        self, passes: int = 1, tol: float | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self.tol, self._allowed, self._clock = tol, passes, clock
        newest = 1 if clock else None
        self.n_rows, self.method, self.finished = 1, "", False
        self.passes, self.rows_seen = 0.0, 0
        self.certifying = 0.0  # share of the rows read for a certificate, which is no pass
        self.restarts = self.resumed = 0
        self.learners: tuple[Any, ...] = ()
        self.compiling_s = 0.0
        self.proven: Certification | None = None  # of the classes that are being trained
        self.held_out: HeldOut | None = None
        self.points: deque[Point] = deque(maxlen=newest)
        self.certificates: deque[Certified] = deque(maxlen=newest)
        self.marks: deque[WorkDone] = deque()
        self.workers: dict[str, Worker] = {}
        self.loss_sums: LossSums = {}
        self._sums_at: deque[LossSums] = deque(maxlen=newest)  # of each point
        self._summed = 0  # rows of the reduction under way
        self._groups, self._trained, self._began = 1, 0, 0.0  # passes before the group at work
        self._proven_at: tuple[float, float] | None = None  # passes: first and last certificate
        self._spans = 0
        self.last, self._seconds = 0.0, 0.0
        self._silences: deque[float] = deque(maxlen=NEWEST)  # between events, of this session

    @classmethod
    def of(cls, run: RunFolder, passes: int = 1) -> Self:
        """Read a run's log; `passes` are those of its plan."""
        made = cls(passes)
        for line in run.events():
            if (event := Event.read(line)) is not None:
                made.hear(event)
        return made

    # -- hearing ---------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Take an event."""
        facts = event.facts
        self._tick(event)
        self._move(event)
        self.finished = event.kind == "finish"
        match facts:
            case Work():
                self._work(facts)
            case HeldOut():
                self.held_out = facts
            case Learners():
                self.learners = tuple(facts.models)
            case Switch():
                self.method = facts.method
            case Compiled():
                self.compiling_s += facts.seconds
        if hear := getattr(self, f"_hear_{event.kind}", None):
            hear(event, facts)

    def _tick(self, event: Event) -> None:
        """Count the time since the event before; between two sessions it is nobody's."""
        if isinstance(event.facts, Start):
            self._silences.clear()
        else:
            self._silences.append(event.time - self.last)
            self._seconds += max(0.0, event.time - self.last)
        self.last = event.time

    @property
    def seconds(self) -> float:
        """Seconds of work so far."""
        return self._clock() if self._clock else self._seconds

    def _move(self, event: Event) -> None:
        """Find out how far the training is: whole sweeps, and the rows of the one under way."""
        facts, cursor = event.facts, event.cursor
        if isinstance(facts, Start):
            self.n_rows, self.method = facts.n_rows, facts.method
        if isinstance(facts, Summed):
            read = facts.rows / self.n_rows
            self._summed += facts.rows * facts.counts
            self.certifying += 0.0 if facts.counts else read
        elif event.kind != "sweep":
            self._summed, self.certifying = 0, 0.0
        self.rows_seen = cursor.rows_seen
        self.passes = cursor.passes + (cursor.rows_in_sweep + self._summed) / self.n_rows

    def _work(self, work: Work) -> None:
        """Count what a span took, and the process that did it."""
        before = self.marks[-1] if self.marks else WorkDone()
        took = (work.rows, work.bytes_read, work.seconds, work.wait_s)
        so_far = (then + now for then, now in zip(before[2:], took, strict=True))
        self._mark(WorkDone(self.seconds, self.passes, *so_far))
        if int(before.passes) != int(self.passes):
            self.workers = {name: each._replace(rows=0) for name, each in self.workers.items()}
        name = work.worker or "one process"
        before_it = self.workers.get(name, Worker())
        most = max(before_it.memory, work.peak_memory)
        self.workers[name] = Worker(before_it.rows + work.rows, most, self.seconds)

    def _mark(self, mark: WorkDone | None = None) -> None:
        """Note the amounts so far; a live display forgets the old ones."""
        before = self.marks[-1] if self.marks else WorkDone()
        self.marks.append(mark or before._replace(seconds=self.seconds, passes=self.passes))
        if self._clock:
            marks = self.marks
            while len(marks) > 2 and marks[-1].seconds - marks[1].seconds > RECENT_SECONDS:
                marks.popleft()

    def _hear_start(self, _event: Event, facts: Start) -> None:
        self._groups, self._trained = facts.groups, facts.groups_trained
        self._began = facts.passes_before
        self._mark()
        if not facts.finished:  # nothing goes on then
            self._cut()

    def _hear_resume(self, event: Event, facts: Start) -> None:
        self._hear_start(event, facts)
        self.resumed += not facts.finished

    def _hear_restart(self, _event: Event, _facts: Any) -> None:
        self.restarts += 1
        self.points.clear()
        self._cut()

    def _cut(self) -> None:
        """Forget the points that are going to be made again."""
        while self.points and self.points[-1].passes > self.passes:
            self.points.pop()
        while len(self._sums_at) > len(self.points):
            self._sums_at.pop()
        self.loss_sums = self._sums_at[-1] if self._sums_at else {}

    def _hear_certificate(self, _event: Event, facts: Certification) -> None:
        now = Certified(self.passes, facts.objective, facts.gap, self.seconds, facts.relative_gap)
        while self.certificates and self.certificates[-1].passes >= now.passes:
            self.certificates.pop()
        self.certificates.append(now)
        self.proven = facts
        self._proven_at = (self._proven_at or (now.passes,))[0], now.passes
        self._mark()

    def _hear_group(self, _event: Event, _facts: Any) -> None:
        self._trained, self._began = self._trained + 1, self.passes
        self.proven = self._proven_at = None

    def _hear_span(self, event: Event, span: Span) -> None:
        self._spans += 1
        if self._spans == 2 and self._clock:
            self.marks.popleft()  # the first span compiles, on workers as well
        began, metrics = event.cursor.rows_in_sweep - span.rows, span.metrics
        step = step_in(metrics)
        for rows, n, loss in span.losses:
            if rows < span.rows:
                self._point(event, began + rows, {span.stream: (loss, n)}, step)
        has_loss = "loss_sum" in metrics
        end = {span.stream: (metrics["loss_sum"], metrics["n_monitored"])} if has_loss else {}
        self._point(event, began + span.rows, end, step)

    def _hear_reduce(self, event: Event, part: Summed) -> None:
        """Add the losses of rows under the weights that a reduction was made for."""
        loss_before, n_before = self.loss_sums.get(REDUCTIONS, (0.0, 0))
        began = self._summed - part.rows
        for rows, n, loss in part.losses if part.counts else ():
            self._point(event, began + rows, {REDUCTIONS: (loss_before + loss, n_before + n)})

    def _point(self, event: Event, rows: int, sums: LossSums, step: float | None = None) -> None:
        before, self.loss_sums = self.loss_sums, self.loss_sums | sums
        passes = event.cursor.passes + rows / self.n_rows
        average, since = self.loss_since({}), self.loss_since(before)
        self.points.append(Point(passes, average, since, self.seconds, step))
        self._sums_at.append(self.loss_sums)

    # -- what displays ask -----------------------------------------------------------------------

    def loss_since(self, before: LossSums) -> float | None:
        """Return the mean loss of the rows monitored since then, of all streams together."""
        now = self.loss_sums
        loss = fsum(loss - before.get(stream, (0.0, 0))[0] for stream, (loss, _) in now.items())
        rows = sum(rows - before.get(stream, (0.0, 0))[1] for stream, (_, rows) in now.items())
        return loss / rows if rows > 0 else None

    @property
    def losses(self) -> list[Point]:
        """The points with a loss."""
        return [point for point in self.points if point.average is not None]

    @property
    def lately(self) -> WorkDone:
        """The amounts of the last seconds, of a live display."""
        return self.marks[-1].since(self.marks[0]) if self.marks else WorkDone()

    @property
    def most_passes(self) -> float:
        """The passes allowed in all, with those that the groups so far have taken."""
        return self._began + self._allowed * (self._groups - self._trained)

    @property
    def fraction(self) -> float:
        """The share done, by passes or by digits of the tolerance: whichever is nearer."""
        nearer = 0.0
        if self.proven and self.tol:
            nearer = digits(self.proven.relative_gap) / (digits(self.tol) or 1.0)
        of_group = min(1.0, max((self.passes - self._began) / self._allowed, nearer))
        return min(1.0, (self._trained + of_group) / self._groups)

    @property
    def left_s(self) -> float | None:
        """Seconds left at the present speed; None while that is unknown, 0 at the end."""
        lately, left = self.lately, self._began + self._allowed - self.passes
        speed = lately.per_second(lately.passes)
        if self.finished or speed <= 0.0:
            return 0.0 if self.finished else None
        first, last = self._proven_at or (self.passes, self.passes)
        if self.proven and self.proven.left_passes is not None:
            left = min(left, self.proven.left_passes - (self.passes - last))
        elif self.tol and self.passes - first < RECENT:
            return None  # how fast the certificate falls is not known yet
        after = self._allowed * max(0, self._groups - self._trained - 1)
        return (max(0.0, left) + after) / speed

    def silence(self, now: float | None = None) -> Silence | None:
        """Say how long the training has been silent; None while its pace is not known."""
        return silence(list(self._silences), (time.time() if now is None else now) - self.last)


def step_in(metrics: Mapping[str, Any]) -> float | None:
    """Return the step size in a method's metrics; None where it has none."""
    return next((metrics[name] for name in STEPS if name in metrics), None)


def digits(relative: float) -> float:
    """Return a relative gap's digits: 3 for 1e-3, none of a gap of 1 or more."""
    return -math.log10(min(1.0, max(relative, SMALLEST)))
