"""What the page and the metrics show of a run: its record and its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from fewpass.pipeline.runs.lease import holder_of
from fewpass.pipeline.runs.run_folder import LOG, RunFolder, RunRecord
from fewpass.pipeline.runs.timeline import Mark, Timeline
from fewpass.pipeline.training.planning.problem import problem_of

MOST_SHOWN = 16  # runs, the newest
SHORTEST_S = 0.5  # that a speed is the mean of
RECENT_S = 30.0  # what the recent shares of time look back on


class ShownRun(NamedTuple):
    """A run, as it stands."""

    url: str
    record: RunRecord
    lam: float
    state: str  # running, stopped or finished
    timeline: Timeline

    @property
    def recent(self) -> Mark:
        """The amounts of the last seconds."""
        before = now = Mark()
        for now in self.timeline.marks:
            if now.seconds <= self.timeline.seconds - RECENT_S:
                before = now
        return now.since(before)


def shown_run(run: RunFolder) -> ShownRun:
    """Read a run's record, lease and log.

    Raises BadInput when there is no run.
    """
    record, timeline, holder = run.record(), Timeline.of(run), holder_of(run.folder)
    alive = holder is not None and not holder.is_dead()
    state = "finished" if timeline.finished else "running" if alive else "stopped"
    return ShownRun(run.url, record, problem_of(record.plan, record).lam, state, timeline)


def read_again(url: str) -> ShownRun:
    """Read a run, unless neither its log nor its lease has changed."""
    run = RunFolder(url)
    return _read(url, run.folder.size(LOG), _lease(run))


@lru_cache(maxsize=MOST_SHOWN)
def _read(url: str, _size: int, _holder: str) -> ShownRun:
    return shown_run(RunFolder(url))


def _lease(run: RunFolder) -> str:
    """Return what changes when a process adopts a run or leaves it."""
    try:
        return run.folder.read("lease.json").decode()
    except FileNotFoundError:
        return ""


def speeds(marks: Sequence[Mark]) -> list[Mark]:
    """Return amounts over intervals of a hundredth of the time, of half a second at least.

    `seconds` of each is its end, the other fields are per second.  A run that is shorter is one
    interval.
    """
    if not marks:
        return []
    whole = marks[-1].seconds
    interval, before, found = min(max(SHORTEST_S, whole / 100), whole), Mark(), list[Mark]()
    for mark in marks:
        took = mark.since(before)
        if took.seconds >= interval > 0.0:
            each = (amount / took.seconds for amount in took[1:])
            found.append(Mark(mark.seconds, *each))
            before = mark
    return found
