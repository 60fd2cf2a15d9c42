"""What the page and the metrics show of a run: its record and its timeline."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from fewpass.pipeline.lease import holder_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import WorkDone

MOST_SHOWN = 16  # runs, the newest
RECENT_S = 30.0  # what the recent shares of time look back on


class ShownRun(NamedTuple):
    """A run, as it stands."""

    url: str
    record: RunRecord
    lam: float
    state: str  # running, stopped or finished
    timeline: Timeline

    @property
    def recent(self) -> WorkDone:
        """The amounts of the last seconds."""
        before = now = WorkDone()
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
    return ShownRun(run.url, record, record.problem().penalty.total, state, timeline)


def read_again(url: str) -> ShownRun:
    """Read a run, unless neither its log nor its lease has changed."""
    run = RunFolder(url)
    return _read(url, run.lines.version, _lease(run))


@lru_cache(maxsize=MOST_SHOWN)
def _read(url: str, _version: str, _holder: str) -> ShownRun:
    return shown_run(RunFolder(url))


def _lease(run: RunFolder) -> str:
    """Return what changes when a process adopts a run or leaves it."""
    try:
        return run.folder.read("lease.json").decode()
    except FileNotFoundError:
        return ""
