"""A training as lines of a log: one per pass, and what happens seldom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fewpass.flows.display.console import Terminal, as_fixed, format_seconds
from fewpass.flows.display.log_lines import Every, Line, joined
from fewpass.flows.display.meter import Meter, Numbers
from fewpass.flows.display.progress import Show, engine_line, told_seldom, training_display
from fewpass.pipeline.reporting.time_table import BESIDE, reading_of
from fewpass.pipeline.runs.outcome import Event
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes

SHORTEST_S = 1.0  # from line to line: there are passes of milliseconds
NEVER = -1.0
SHOWN_BYTES_PER_S = 5e4  # less would read as 0.0
WAITS = {"read": "reading", "decode": "decoding", "permute": "drawing the order"}


@contextmanager
def display(terminal: Terminal, plan: TrainingPlan) -> Iterator[Show]:
    """Show a training's events as the options ask for; yields what takes them."""
    if terminal.output.log_format == "text":
        with training_display(terminal, plan) as show:
            yield show
        return
    lines = PassLines(plan.passes, plan.tol)

    def log(event: Event) -> None:
        for level, line in lines.take(event):
            terminal.log(level, line)

    yield log


class PassLines:
    """Takes events, and yields the lines that are due."""

    def __init__(self, passes: int, tol: float | None = None) -> None:
        self._meter = Meter(passes, tol)
        self._told, self._every = NEVER, Every(SHORTEST_S)
        self._spent: Counter[str] = Counter()  # seconds since the last line

    def take(self, event: Event) -> Iterator[tuple[str, Line]]:
        """Yield the lines that an event is worth, each with its level."""
        self._meter.take(event)
        if event.kind in ("start", "resume"):
            if not event.facts.get("finished"):
                yield "info", Line(engine_line(event), {"event": event.kind})
            self._told = float(int(event.cursor.passes))
        for text, is_warning in told_seldom(event):
            yield "warning" if is_warning else "info", Line(text, {"event": event.kind})
        if event.kind == "span":
            self._count(event)
        if self._is_due(event):
            self._told = event.cursor.passes
            yield "info", self._line(self._meter.read())

    def _is_due(self, event: Event) -> bool:
        if event.kind == "finish":
            return event.cursor.passes > self._told
        return event.cursor.passes >= int(self._told) + 1 and self._every.due()

    def _count(self, event: Event) -> None:
        told = event.facts
        self._spent["all"] += told["seconds"]
        self._spent["wait"] += told["wait_s"]
        self._spent.update(reading_of(told))

    def _line(self, numbers: Numbers) -> Line:
        spent, self._spent = self._spent, Counter()
        waiting = spent["wait"] / spent["all"] if spent["all"] else None
        longest = max(BESIDE, key=lambda part: spent[part])
        fields = {
            "event": "pass",
            "passes": round(self._told, 3),
            "of": self._meter.most,
            "loss": numbers.since_last,
            "objective": numbers.objective,
            "above_optimum": numbers.gap,
            "rows_per_s": round(numbers.rows_per_s),
            "bytes_per_s": round(numbers.bytes_per_s),
            "memory": numbers.memory,
            "waiting": waiting,
            "waits_for": longest if waiting else None,
            "left_s": numbers.left_s,
            "left_passes": numbers.left_passes,
        }
        return Line(joined(_parts(numbers, self._told, self._meter.most, waiting, longest)), fields)


def _parts(
    numbers: Numbers, passes: float, of: float, waiting: float | None, longest: str
) -> Iterator[str]:
    yield f"pass {passes:g} of {of:g}"
    if numbers.since_last is not None:
        yield f"loss {as_fixed(numbers.since_last, 5)}"
    if numbers.gap is not None:
        yield f"at most {numbers.gap:.2e} above the optimum"
    if numbers.left_passes is not None:
        yield f"about {numbers.left_passes:,.0f} passes to the tolerance"
    yield f"{numbers.rows_per_s:,.0f} rows/s"
    if numbers.bytes_per_s >= SHOWN_BYTES_PER_S:  # rows in memory are read no more
        yield f"{numbers.bytes_per_s / 1e6:.1f} MB/s"
    yield format_bytes(numbers.memory)
    if waiting:
        yield f"{waiting:.0%} waiting for rows ({WAITS[longest]})"
    if numbers.left_s:
        yield f"{format_seconds(numbers.left_s)} left"
