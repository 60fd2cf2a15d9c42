"""The state of a training: its cursor and clock, and the log of how it came there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.runs.events import ON_EVERY_LINE, Event, Facts
from fewpass.pipeline.runs.saved import Cursor


class Progress:
    """Parts of a training that change with every step, the states left out.

    Attributes
    ----------
    cursor : Cursor
        Where in the plan it is, and what it took so far.
    on_reduce : Callable
        Hears of the spans of reductions, which no iteration over a run yields.

    Parameters
    ----------
    log
        Appends an event to a run's log.
    """

    def __init__(self, log: Callable[..., None]) -> None:
        self.cursor = Cursor()
        self.on_reduce: Callable[[Event], None] = lambda _: None
        self._log = log
        self._began = time.perf_counter()
        self._seconds_before = 0.0
        self._peak_memory = 0
        self._swept = self._began

    def continue_at(self, cursor: Cursor) -> None:
        """Take over where another session stopped."""
        self.cursor, self._seconds_before = cursor, cursor.seconds

    def advance(self, **changes: Any) -> None:
        """Change fields of the cursor; its seconds follow the clock."""
        seconds = self._seconds_before + time.perf_counter() - self._began
        self.cursor = self.cursor._replace(**changes, seconds=seconds)

    def count(self, report: Any, **changes: Any) -> None:
        """Count what a span of any kind read and took in memory, and other changes with it."""
        self._peak_memory = max(self._peak_memory, report.peak_memory)
        self.advance(bytes_read=self.cursor.bytes_read + report.bytes_read, **changes)

    def since_sweep(self) -> float:
        """Return the seconds since the end of the sweep before, and begin to count anew."""
        before, self._swept = self._swept, time.perf_counter()
        return self._swept - before

    @property
    def peak_memory(self) -> int:
        """Bytes of the largest process that took part."""
        return max(self._peak_memory, peak_memory_bytes())

    def event(self, facts: Facts) -> Event:
        """Log an event with these facts, and return it."""
        where = {name: getattr(self.cursor, name) for name in ON_EVERY_LINE}
        self._log(facts.kind, **where, **vars(facts))
        return Event(facts, self.cursor)
