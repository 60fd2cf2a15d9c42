"""Displays of an ingest under way: redrawn on a terminal, lines at growing intervals elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live

from fewpass.flows.display.bars import Countdown, bar, line
from fewpass.flows.display.console import Terminal
from fewpass.flows.display.log_lines import INGEST_EVERY_S, Every, GrowingIntervals, Line
from fewpass.pipeline.sizes import counted, format_bytes
from fewpass.pipeline.tables.ingest.progress import IngestProgress

PHASES = {"partition": "reading rows", "write": "writing chunks", "done": "done"}
STEPS = {"partition": "1 of 2, ", "write": "2 of 2, "}

ShowIngest = Callable[[IngestProgress], None]


@contextmanager
def ingest_display(terminal: Terminal) -> Iterator[ShowIngest]:
    """Show how far an ingest is; yields what takes the reports."""
    if terminal.log_format == "json":
        lines = IngestLines()

        def log(progress: IngestProgress) -> None:
            for line in lines.take(progress):
                terminal.log("info", line)

        yield log
    elif terminal.live:
        with Live(console=terminal.err, refresh_per_second=4, transient=True) as live:
            yield _IngestPanel(live).show
    else:
        intervals = GrowingIntervals()

        def say(progress: IngestProgress) -> None:
            if progress.phase == "done" or intervals.due():
                terminal.say(ingest_line(progress))

        yield say


class _IngestPanel:
    """Panel of an ingest and its progress; every phase has a bar of its own."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._phase, self._countdown = "", Countdown()

    def show(self, progress: IngestProgress) -> None:
        if progress.phase != self._phase:
            self._phase, self._countdown = progress.phase, Countdown()
        drawn = bar(progress.fraction, self._countdown.left(progress.fraction))
        self._live.update(Group(line(ingest_step(progress)), drawn))


class IngestLines:
    """An ingest as lines of a log: one per half a minute, and one at its end."""

    def __init__(self, every_s: float = INGEST_EVERY_S) -> None:
        self._every = Every(every_s)

    def take(self, progress: IngestProgress) -> Iterator[Line]:
        """Yield the line that a report is worth, if it is due."""
        if progress.phase == "done" or self._every.due():
            yield Line(ingest_line(progress).strip(), {"event": "ingest"} | progress._asdict())


def ingest_line(progress: IngestProgress) -> str:
    """Write how far an ingest is."""
    return f"{progress.fraction:4.0%} {ingest_amount(progress)}, {progress.seconds:.1f} s"


def ingest_step(progress: IngestProgress) -> str:
    """Write what an ingest is doing next to a bar, which says how far it is."""
    return f"{STEPS.get(progress.phase, '')}{ingest_amount(progress)}"


def ingest_amount(progress: IngestProgress) -> str:
    """Write what an ingest is doing, and how much of it is done."""
    rows = counted(progress.rows, "row")
    if progress.phase == "partition":
        rate = progress.megabytes_per_second
        speed = f"{rate:.{int(rate < 10)}f} MB/s"
        amount = f"{format_bytes(progress.bytes_read)} read, {speed}"
    else:
        amount = f"{format_bytes(progress.bytes_written)} written"
    return f"{PHASES[progress.phase]}: {rows}, {amount}"
