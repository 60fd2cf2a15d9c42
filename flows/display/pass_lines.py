"""A training as lines of a log: one per pass, and what happens seldom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fewpass.flows.display.console import Terminal
from fewpass.flows.display.log_lines import Every, Line
from fewpass.flows.display.seldom_sentences import engine_line, seldom_sentences
from fewpass.flows.display.training_display import (
    LossReader,
    Show,
    live_timeline,
    memory_in_use,
    training_display,
)
from fewpass.pipeline.runs.events import Event, Start
from fewpass.pipeline.runs.timeline_points import NO_BOUND, WorkDone
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import as_fixed, format_bytes, format_seconds

SHORTEST_S = 1.0  # from line to line: there are passes of milliseconds
SHOWN_BYTES_PER_S = 5e4  # less would read as 0.0


@contextmanager
def display(terminal: Terminal, plan: TrainingPlan) -> Iterator[Show]:
    """Show a training's events as the options ask for; yields what takes them."""
    if terminal.log_format == "text":
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
        self.timeline = live_timeline(passes, tol)
        self._loss, self._every = LossReader(self.timeline), Every(SHORTEST_S)
        self._logged = 0  # passes at the last line
        self._before = WorkDone()

    def take(self, event: Event) -> Iterator[tuple[str, Line]]:
        """Yield the lines that an event is worth, each with its level."""
        self.timeline.hear(event)
        if isinstance(event.facts, Start):
            if not event.facts.finished:
                yield "info", Line(engine_line(event.facts), {"event": event.kind})
            self._logged = int(event.cursor.passes)
        for text, is_warning in seldom_sentences(event):
            yield "warning" if is_warning else "info", Line(text, {"event": event.kind})
        made = int(event.cursor.passes)
        if made > self._logged and (event.kind == "finish" or self._every.due()):
            self._logged = made
            yield "info", self._line(made)

    def _line(self, made: int) -> Line:
        """Write the line of a pass."""
        timeline, proven = self.timeline, self.timeline.proven
        now = timeline.marks[-1] if timeline.marks else WorkDone()
        spent, self._before = now.since(self._before), now
        lately = timeline.lately
        waiting = spent.waiting / spent.working if spent.working else None
        fields = {
            "event": "pass",
            "passes": made,
            "of": timeline.most_passes,
            "loss": self._loss.read(),
            "objective": proven and proven.objective,
            "above_optimum": proven and proven.gap,
            "rows_per_s": round(lately.per_second(lately.rows)),
            "bytes_per_s": round(lately.per_second(lately.bytes_read)),
            "memory": memory_in_use(),
            "waiting": waiting,
            "left_s": timeline.left_s,
            "left_passes": proven and proven.left_passes,
        }
        is_proven = None if proven is None else proven.relative_gap < 1.0
        return Line(", ".join(_parts(fields, is_proven=is_proven)), fields)


def _parts(numbers: dict[str, Any], *, is_proven: bool | None) -> Iterator[str]:
    """Yield what a line says; `is_proven`: whether a certificate, if any, says something."""
    is_more = numbers["passes"] > numbers["of"]  # of a method that goes on until it certifies
    yield f"pass {numbers['passes']}" + ("" if is_more else f" of {numbers['of']:g}")
    if numbers["loss"] is not None:
        yield f"loss {as_fixed(numbers['loss'], 5)}"
    if is_proven is not None:
        gap = numbers["above_optimum"]
        yield f"at most {gap:.2e} above the optimum" if is_proven else NO_BOUND
    if numbers["left_passes"] is not None:
        yield f"about {numbers['left_passes']:,.0f} passes to the tolerance"
    yield f"{numbers['rows_per_s']:,} rows/s"
    if numbers["bytes_per_s"] >= SHOWN_BYTES_PER_S:  # rows in memory are read no more
        yield f"{numbers['bytes_per_s'] / 1e6:.1f} MB/s"
    yield format_bytes(numbers["memory"])
    if numbers["waiting"]:
        yield f"{numbers['waiting']:.0%} waiting for rows"
    if numbers["left_s"]:
        yield f"{format_seconds(numbers['left_s'])} left"
