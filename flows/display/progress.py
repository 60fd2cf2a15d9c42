"""Displays of work under way: redrawn on a terminal, lines at growing intervals elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from rich.console import Group
from rich.live import Live
from rich.table import Table

from fewpass.flows.display.bars import ShowWork, bar, line, work_display
from fewpass.flows.display.console import Terminal, as_fixed, format_seconds, or_dash
from fewpass.flows.display.log_lines import Every, GrowingIntervals
from fewpass.flows.display.meter import Meter, Numbers
from fewpass.flows.flags import to_reproduce
from fewpass.pipeline.reporting.learners import learners_sentence
from fewpass.pipeline.runs.outcome import Event
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes

if TYPE_CHECKING:
    from fewpass.solvers.simba.simba import Simba

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
ENGINES = {"threads": "threads of this process", "dask": "Dask"}
REDRAWN, OFTEN = ("start", "resume", "certificate", "finish"), ("span", "reduce")  # events
REDRAW_S = 0.1  # there are thousands of spans a second in small trainings

Show = Callable[[Event], None]


@contextmanager
def training_display(terminal: Terminal, plan: TrainingPlan) -> Iterator[Show]:
    """Show a training's events; yields what takes them."""
    if plan.solver.goal == "steps":
        with work_display(terminal, f"Steps of {plan.solver.kind}") as tell:
            yield _StepLines(terminal, plan, tell).show
        return
    meter = Meter(plan.passes, plan.tol)
    proves = plan.tol is not None or plan.solver.goal == "tolerance"
    columns = fitting(PROVING if proves else LEARNING, terminal.err.width)
    if terminal.live:
        columns = tuple(column for column in columns if column != "left")  # beside the bar
        live = Live(console=terminal.err, refresh_per_second=4, transient=False)
        try:
            yield _Panel(terminal, meter, columns, live, plan.tol).show
        finally:
            live.stop()
    else:
        yield _Lines(terminal, meter, columns).show


class _Panel:
    """A small table and a bar, redrawn."""

    def __init__(
        self,
        terminal: Terminal,
        meter: Meter,
        columns: tuple[str, ...],
        live: Live,
        tol: float | None,
    ) -> None:
        self._terminal, self._meter, self._columns, self._live = terminal, meter, columns, live
        self._tol, self._often = tol, Every(REDRAW_S)

    def show(self, event: Event) -> None:
        self._meter.take(event)
        if event.kind in ("start", "resume") and _begin(self._terminal, event):
            self._live.start()
        redrawn = event.kind in REDRAWN or (event.kind in OFTEN and self._often.due())
        if self._live.is_started and redrawn:
            self._live.update(self._draw(self._meter.read(), ended=event.kind == "finish"))
        _tell(self._terminal, event)

    def _draw(self, numbers: Numbers, *, ended: bool) -> Group:
        table = Table(box=None, padding=(0, 1, 0, 0))
        for name in self._columns:
            table.add_column(name, justify="right", header_style="dim", no_wrap=True)
        table.add_row(*cells(self._columns, numbers))
        drawn = bar(1.0) if ended else bar(numbers.fraction, numbers.left_s)
        certified = certificate_line(numbers, self._tol)
        return Group(table, drawn, *([line(certified, "dim")] if certified else []))


class _Lines:
    """A growing table of plain text, as Vowpal Wabbit prints it."""

    def __init__(self, terminal: Terminal, meter: Meter, columns: tuple[str, ...]) -> None:
        self._terminal, self._meter, self._columns = terminal, meter, columns
        self._told_by = "certificate" if "objective" in columns else "span"
        self._intervals = GrowingIntervals()
        self._shown = -1.0  # passes at the last line

    def show(self, event: Event) -> None:
        self._meter.take(event)
        if event.kind in ("start", "resume"):
            _begin(self._terminal, event)
        elif self._wanted(event):
            self._line()
        _tell(self._terminal, event)

    def _wanted(self, event: Event) -> bool:
        if event.kind == "finish":
            return self._shown not in (-1.0, self._meter.read().passes)
        return event.kind == self._told_by and self._intervals.due()

    def _line(self) -> None:
        if self._shown == -1.0:
            self._terminal.say(aligned(self._columns, self._columns))
        numbers = self._meter.read()
        self._shown = numbers.passes
        self._terminal.say(aligned(self._columns, cells(self._columns, numbers)))


def certificate_line(numbers: Numbers, tol: float | None) -> str:
    """Say how near the certificate is to what was asked for, and whether one is being made."""
    said = []
    if tol is not None:
        proven = "nothing" if numbers.relative is None else f"{numbers.relative:.1e}"
        said.append(f"certified: {proven}, wanted: {tol:.1e}")
    if numbers.certifying is not None:
        said.append(f"certifying, {numbers.certifying:.0%} of the rows read")
    return "; ".join(said)


class _StepLines:
    """A training that makes steps, each far less than a pass: a bar, or a line now and then."""

    def __init__(self, terminal: Terminal, plan: TrainingPlan, tell: ShowWork) -> None:
        self._terminal, self._tell = terminal, tell
        self._solver = cast("Simba", plan.solver)  # no other makes steps
        self._intervals = GrowingIntervals()
        self._steps = 0  # to be made

    def show(self, event: Event) -> None:
        if event.kind in ("start", "resume"):
            self._steps = self._solver.steps(event.facts["n_rows"])
            _begin(self._terminal, event)
        elif event.kind == "span":
            self._step(event.facts["metrics"])
        _tell(self._terminal, event)

    def _step(self, told: dict[str, Any]) -> None:
        said = f"{told['steps']:,} of {self._steps:,}, {told['accesses']:,} accesses"
        self._tell(told["steps"] / self._steps, said)
        if not self._terminal.live and self._intervals.due():
            self._terminal.say(f"step {said}")


def _begin(terminal: Terminal, event: Event) -> bool:
    """Say what a training runs on; return False where it is finished and nothing runs."""
    if event.facts.get("finished"):
        return False
    terminal.say(engine_line(event))
    return True


def engine_line(event: Event) -> str:
    """Say what a training runs on, why, and where that can be watched."""
    told = event.facts
    why = f" ({told['why']})" if told["why"] else ""
    where = f", dashboard {told['dashboard']}" if told["dashboard"] else ""
    return f"Running on {ENGINES[told['engine']]}{why}{where}"


def aligned(columns: tuple[str, ...], texts: tuple[str, ...]) -> str:
    """Set the texts of some columns in a line; a number too long for its column has a gap, too."""
    widths = (WIDTHS.get(column, WIDTH) for column in columns)
    return "".join(f" {text:>{width - 1}}" for text, width in zip(texts, widths, strict=True))


def fitting(columns: tuple[str, ...], width: int) -> tuple[str, ...]:
    """Leave out the columns that can be spared, until a line fits into so many letters."""
    kept = list(columns)
    for spared in SPARED:
        if sum(WIDTHS.get(column, WIDTH) for column in kept) <= width:
            break
        if spared in kept:
            kept.remove(spared)
    return tuple(kept)


def cells(columns: tuple[str, ...], numbers: Numbers) -> tuple[str, ...]:
    """Write the numbers of a line; a dash where nothing is known."""
    known = {
        "rows": f"{numbers.rows:,}",
        "passes": f"{numbers.passes:.2f}",
        "average": as_fixed(numbers.average, 5),
        "since last": as_fixed(numbers.since_last, 5),
        "objective": as_fixed(numbers.objective, 8),
        "above optimum": or_dash(numbers.gap, ".2e"),
        "rows/s": f"{numbers.rows_per_s:,.0f}",
        "MB/s": f"{numbers.bytes_per_s / 1e6:.1f}",
        "memory": format_bytes(numbers.memory),
        "left": "-" if numbers.left_s is None else format_seconds(numbers.left_s),
        TO_TOL: or_dash(numbers.left_passes, ",.0f"),
    }
    return tuple(known[column] for column in columns)


def _tell(terminal: Terminal, event: Event) -> None:
    """Say what happens seldom."""
    for text, is_warning in told_seldom(event):
        terminal.say(text, style="yellow" if is_warning else None)


def _begun(event: Event) -> Iterator[str]:
    """Yield what was decided before a training began."""
    facts = event.facts
    if facts["memory"] > TrainingPlan.model_fields["memory"].default:
        yield (
            f"May use up to {format_bytes(facts['memory'])} of memory. "
            f"{to_reproduce(facts['memory'])}"
        )
    if groups := facts.get("groups"):
        yield (
            f"{facts['models']} classes in {groups} groups, one after the other: together they do "
            "not fit into the memory (--memory)."
        )
    if facts["chosen"]:
        yield f"Chosen: {facts['chosen']}."


def told_seldom(event: Event) -> Iterator[tuple[str, bool]]:
    """Yield what an event that happens seldom is told as, and whether that is a warning."""
    facts = event.facts
    if event.kind == "resume":
        for problem in facts["damaged"]:
            yield f"Passed over a damaged snapshot. {problem}", True
        rows = f", {event.cursor.rows_seen:,} rows seen" if event.cursor.rows_seen else ""
        where = f"snapshot {facts['snapshot']}{rows}"
        if facts["finished"]:
            yield f"The training is finished ({where}): nothing is left to do.", False
        else:
            yield f"Continuing from {where}.", False
    elif event.kind == "start":
        yield from ((sentence, False) for sentence in _begun(event))
    elif event.kind in SENTENCES:
        sentence, is_warning = SENTENCES[event.kind]
        yield sentence(facts), is_warning


def group_line(facts: dict[str, Any]) -> str:
    """Say which classes a training has done with."""
    first, gap = facts["first"], facts["gap"]
    proven = "" if gap is None else f", at most {gap:.2g} above the optimum"
    last = first + facts["classes"]
    return f"Classes {first + 1} to {last} of {facts['of']} are trained{proven}."


#: What seldom events are told as, and whether that is a warning.
SENTENCES: dict[str, tuple[Callable[[dict[str, Any]], str], bool]] = {
    "group": (group_line, False),
    "switch": (lambda facts: f"Falling back: {facts['why']}", True),
    "learners": (lambda facts: f"Best learner: {learners_sentence(facts['models'])}.", False),
    "warning": (lambda facts: str(facts["sentence"]), True),
    "skipped": (
        lambda facts: f"{facts['rows']:,} bad rows were left out. First: {facts['reasons'][0]}.",
        False,
    ),
    "restart": (
        lambda facts: (
            f"The loss exploded; starting again with the step {facts.get('gamma0', 0.0):g}."
        ),
        True,
    ),
}
