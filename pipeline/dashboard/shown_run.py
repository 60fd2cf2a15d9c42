"""A run as the page and the metrics show it: its record and its timeline."""

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


def shown_run(url: str) -> ShownRun:
    """Read a run, its record and log only where the log or who trains has changed.

    Whether who trains is alive is asked every time: a process that is killed changes nothing.
    Raises BadInput when there is no run.
    """
    run = RunFolder(url)
    holder = holder_of(run.folder)
    record, timeline = _read(url, run.lines.version, holder.token if holder else "")
    alive = holder is not None and not holder.is_dead()
    state = "finished" if timeline.finished else "running" if alive else "stopped"
    return ShownRun(run.url, record, record.problem().penalty.total, state, timeline)


@lru_cache(maxsize=MOST_SHOWN)
def _read(url: str, _version: str, _token: str) -> tuple[RunRecord, Timeline]:
    run = RunFolder(url)
    record = run.record()
    return record, Timeline.of(run, record.plan.passes)
