"""Displays of work under way: redrawn on a terminal, lines at growing intervals elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import psutil  # type: ignore[import-untyped]
from rich.console import Group
from rich.live import Live
from rich.table import Table

from fewpass.flows.display.bars import ShowWork, bar, line, work_display
from fewpass.flows.display.console import Terminal
from fewpass.flows.display.log_lines import Every, GrowingIntervals
from fewpass.pipeline.runs.events import Event, Start
from fewpass.pipeline.runs.timeline import LossSums, Timeline
from fewpass.pipeline.runs.timeline_points import NO_BOUND
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import as_fixed, format_bytes, format_seconds, or_dash
from fewpass.solvers.kernels.compiling import working_seconds

if TYPE_CHECKING:
    from fewpass.solvers.simba.simba import Simba
from fewpass.flows.display.seldom_sentences import engine_line, seldom_sentences

LEARNING = ("rows", "passes", "average", "since last", "rows/s", "MB/s", "memory", "left")
TO_TOL = "passes to tol"  # at the rate of the last three passes
PROVING = ("passes", "objective", "above optimum", TO_TOL, "rows/s", "MB/s", "memory", "left")
#: All columns of either table take 80 letters: as many as what a pipe leads to is taken to have.
WIDTHS = {
    "rows": 13, "passes": 7, "average": 11, "since last": 11, "objective": 11, "rows/s": 11,
    "MB/s": 7, "memory": 8, "left": 8,
}  # fmt: skip
WIDTH = 14  # of the others
SPARED = ("MB/s", "memory", "since last", "rows", "left", "rows/s", TO_TOL)  # in this order
REDRAWN, OFTEN = ("start", "resume", "certificate", "finish"), ("span", "reduce")  # events
USEFUL = 1.0  # a relative gap from here on says nothing
REDRAW_S = 0.1  # there are thousands of spans a second in small trainings

Show = Callable[[Event], None]


@contextmanager
def training_display(terminal: Terminal, plan: TrainingPlan) -> Iterator[Show]:
    """Show a training's events; yields what takes them."""
    if plan.solver.goal == "steps":
        with work_display(terminal, f"Steps of {plan.solver.kind}") as show_work:
            yield _StepLines(terminal, plan, show_work).show
        return
    timeline = live_timeline(plan.passes, plan.tol)
    proves = plan.tol is not None or plan.solver.goal == "tolerance"
    columns = fitting(PROVING if proves else LEARNING, terminal.err.width)
    if terminal.live:
        columns = tuple(column for column in columns if column != "left")  # it is next to the bar
        live = Live(console=terminal.err, refresh_per_second=4, transient=False)
        try:
            yield _Panel(terminal, timeline, columns, live).show
        finally:
            live.stop()
    else:
        yield _Lines(terminal, timeline, columns).show


def live_timeline(passes: int, tol: float | None) -> Timeline:
    """Return what a live display draws; its speed does not count compiling, done once."""
    working_seconds()  # starts the clock
    return Timeline(passes, tol, clock=working_seconds)


class LossReader:
    """Reads the loss of the rows since it was last read."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline, self._before = timeline, LossSums()

    def read(self) -> float | None:
        """Return the mean loss; None where no row was monitored."""
        restarted = not self._timeline.loss_sums.keys() >= self._before.keys()
        mean = self._timeline.loss_since({} if restarted else self._before)
        self._before = self._timeline.loss_sums
        return mean


class _Panel:
    """A small table and a bar, redrawn."""

    def __init__(
        self, terminal: Terminal, timeline: Timeline, columns: tuple[str, ...], live: Live
    ) -> None:
        self._terminal, self._timeline, self._columns = terminal, timeline, columns
        self._live, self._often, self._loss = live, Every(REDRAW_S), LossReader(timeline)

    def show(self, event: Event) -> None:
        self._timeline.hear(event)
        if isinstance(event.facts, Start) and _begin(self._terminal, event.facts):
            self._live.start()
        redrawn = event.kind in REDRAWN or (event.kind in OFTEN and self._often.due())
        if self._live.is_started and redrawn:
            self._live.update(self._draw())
        _say_seldom(self._terminal, event)

    def _draw(self) -> Group:
        timeline = self._timeline
        table = Table(box=None, padding=(0, 1, 0, 0))
        for name in self._columns:
            table.add_column(name, justify="right", header_style="dim", no_wrap=True)
        table.add_row(*cells(self._columns, timeline, self._loss.read()))
        drawn = bar(1.0) if timeline.finished else bar(timeline.fraction, timeline.left_s)
        certified = certificate_line(timeline)
        return Group(table, drawn, *([line(certified, "dim")] if certified else []))


class _Lines:
    """A growing table of plain text, as Vowpal Wabbit prints it."""

    def __init__(self, terminal: Terminal, timeline: Timeline, columns: tuple[str, ...]) -> None:
        self._terminal, self._timeline, self._columns = terminal, timeline, columns
        self._kind = "certificate" if "objective" in columns else "span"
        self._intervals, self._loss = GrowingIntervals(), LossReader(timeline)
        self._shown = -1.0  # passes at the last line

    def show(self, event: Event) -> None:
        self._timeline.hear(event)
        if isinstance(event.facts, Start):
            _begin(self._terminal, event.facts)
        elif self._wanted(event):
            self._line()
        _say_seldom(self._terminal, event)

    def _wanted(self, event: Event) -> bool:
        if event.kind == "finish":
            return self._shown not in (-1.0, self._timeline.passes)
        return event.kind == self._kind and self._intervals.due()

    def _line(self) -> None:
        if self._shown == -1.0:
            self._terminal.say(aligned(self._columns, self._columns))
        self._shown = self._timeline.passes
        texts = cells(self._columns, self._timeline, self._loss.read())
        self._terminal.say(aligned(self._columns, texts))


def certificate_line(timeline: Timeline) -> str:
    """Say how near the certificate is to the tolerance, and whether one is being computed."""
    parts = []
    if timeline.tol is not None:
        proven = NO_BOUND
        if timeline.proven and timeline.proven.relative_gap < USEFUL:
            proven = f"{timeline.proven.relative_gap:.1e}"
        parts.append(f"certified: {proven}, wanted: {timeline.tol:.1e}")
    if timeline.certifying:
        parts.append(f"certifying, {timeline.certifying:.0%} of the rows read")
    return "; ".join(parts)


class _StepLines:
    """A training that makes steps, each far less than a pass: a bar, or a line now and then."""

    def __init__(self, terminal: Terminal, plan: TrainingPlan, show_work: ShowWork) -> None:
        self._terminal, self._show_work = terminal, show_work
        self._solver = cast("Simba", plan.solver)  # no other makes steps
        self._intervals = GrowingIntervals()
        self._steps = 0  # to be made

    def show(self, event: Event) -> None:
        if isinstance(event.facts, Start):
            self._steps = self._solver.steps(event.facts.n_rows)
            _begin(self._terminal, event.facts)
        elif event.kind == "span":
            self._step(event.facts.metrics)
        _say_seldom(self._terminal, event)

    def _step(self, metrics: Mapping[str, Any]) -> None:
        said = f"{metrics['steps']:,} of {self._steps:,}, {metrics['accesses']:,} accesses"
        self._show_work(metrics["steps"] / self._steps, said)
        if not self._terminal.live and self._intervals.due():
            self._terminal.say(f"step {said}")


def _begin(terminal: Terminal, facts: Start) -> bool:
    """Say what a training runs on; return False where it is finished and nothing runs."""
    if not facts.finished:
        terminal.say(engine_line(facts))
    return not facts.finished


def aligned(columns: tuple[str, ...], texts: tuple[str, ...]) -> str:
    """Set the texts of some columns in a line; a number too long for its column has a gap, too."""
    widths = (WIDTHS.get(column, WIDTH) for column in columns)
    return "".join(f" {text:>{width - 1}}" for text, width in zip(texts, widths, strict=True))


def fitting(columns: tuple[str, ...], width: int) -> tuple[str, ...]:
    """Leave out the columns that can be spared, until a line fits into `width` letters."""
    fitting_now = list(columns)
    for spared in SPARED:
        if sum(WIDTHS.get(column, WIDTH) for column in fitting_now) <= width:
            break
        if spared in fitting_now:
            fitting_now.remove(spared)
    return tuple(fitting_now)


def cells(
    columns: tuple[str, ...], timeline: Timeline, since_last: float | None
) -> tuple[str, ...]:
    """Write the numbers of a line; a dash for an unknown one."""
    proven, lately, left = timeline.proven, timeline.lately, timeline.left_s
    written = {
        "rows": f"{timeline.rows_seen:,}",
        "passes": f"{timeline.passes:.2f}",
        "average": as_fixed(timeline.loss_since({}), 5),
        "since last": as_fixed(since_last, 5),
        "objective": as_fixed(proven.objective if proven else None, 8),
        "above optimum": or_dash(proven.gap if proven else None, ".2e"),
        "rows/s": f"{lately.per_second(lately.rows):,.0f}",
        "MB/s": f"{lately.per_second(lately.bytes_read) / 1e6:.1f}",
        "memory": format_bytes(memory_in_use()),
        "left": "-" if left is None else format_seconds(left),
        TO_TOL: or_dash(proven.left_passes if proven else None, ",.0f"),
    }
    return tuple(written[column] for column in columns)


def memory_in_use() -> int:
    """Return the bytes that this process and its children use."""
    process = psutil.Process()
    total: int = process.memory_info().rss
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += child.memory_info().rss
    return total


def _say_seldom(terminal: Terminal, event: Event) -> None:
    """Say what happens seldom."""
    for text, is_warning in seldom_sentences(event):
        terminal.say(text, style="yellow" if is_warning else None)
