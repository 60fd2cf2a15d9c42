"""Tasks that take far longer than the others: they are started once more, elsewhere."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Collection

SLOW = 4.0  # times the median of those that are done
LEAST_SECONDS = 1.0  # a task that is started again costs the cluster something, too
LEAST_DONE = 4  # tasks that the median is of
MOST_DONE = 256  # spans that the median is of


class Stragglers:
    """Watches the tasks of a graph.

    Parameters
    ----------
    tasks
        Their number; they have the numbers 0, 1, ...
    threads
        How many of them run at a time.
    """

    def __init__(self, tasks: int, threads: int) -> None:
        self._threads = threads
        self._left = set(range(tasks))  # that have not begun
        self._running: dict[int, tuple[float, str]] = {}
        self._seconds: list[float] = []
        self._again: set[int] = set()

    def note(self, task: int, worker: str, now: float, *, is_done: bool) -> None:
        """Note that a task runs, or that it is done."""
        self._left.discard(task)
        if is_done and task in self._running:
            self._seconds.append(now - self._running.pop(task)[0])
        elif not is_done and (task not in self._running or self._running[task][1] != worker):
            self._running[task] = now, worker

    def slow(self, now: float) -> set[int]:
        """Return the tasks to be started again, each once, where a worker is idle.

        With them those that have not begun then: each waits behind a slow one.
        """
        if len(self._running) >= self._threads or len(self._seconds) < LEAST_DONE:
            return set()
        most = max(SLOW * statistics.median(self._seconds), LEAST_SECONDS)
        slow = {task for task, (began, _) in self._running.items() if now - began > most}
        return (slow | self._left) - self._again if slow else set()

    def start_again(self, tasks: Collection[int]) -> set[str]:
        """Note that tasks are started again; return the workers that they are slow on."""
        self._again |= set(tasks)
        return {self._running[task][1] for task in self._again if task in self._running}


class SpanTimes:
    """How long the spans of a walk take, from the end of the one before on their stream."""

    def __init__(self) -> None:
        self._paces: deque[float] = deque(maxlen=MOST_DONE)  # seconds a window

    def note(self, windows: int, seconds: float) -> None:
        """Note that a span is done."""
        self._paces.append(seconds / max(1, windows))

    def is_late(self, windows: int, seconds: float) -> bool:
        """Whether a span that is not done after some seconds is slow."""
        if len(self._paces) < LEAST_DONE or seconds <= LEAST_SECONDS:
            return False
        return seconds > SLOW * windows * statistics.median(self._paces)
