"""Snapshots of a training: when one is due, and that only who holds the run's lease writes one."""

from __future__ import annotations

import time
from typing import Protocol

from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.lease import Lease
from fewpass.pipeline.runs.progress import Progress
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_snapshots import save
from fewpass.pipeline.runs.saved import Content, Saved
from fewpass.pipeline.training.spans.span import Stopwatch
from fewpass.solvers.protocol import Certificate
from fewpass.storage.dataset import Dataset

MOST_VERSIONS = 16  # of numbers kept per row between two snapshots, which let the old ones go


class Keeper(Protocol):
    """Who has the states that a snapshot keeps."""

    @property
    def keeps_on_disk(self) -> bool:
        """Whether every sweep may leave numbers per row on disk, which a snapshot clears away."""

    @property
    def least_wait(self) -> float:
        """Seconds between two snapshots at least, as each costs so much."""

    def content(self, certified: Certificate | None, *, finished: bool) -> Content:
        """Return the newest states, with what else a snapshot of them holds."""

    def go_on_from(self, saved: Saved) -> None:
        """Take the states that a snapshot holds, read from storage."""


class Checkpoints:
    """Takes a run's snapshots, and has training go on from what storage holds.

    Attributes
    ----------
    newest : Saved or None
        The newest whole snapshot, if there is one.
    lease : Lease or None
        Held while the run is under way; without it nothing may be saved.
    """

    def __init__(self, run: RunFolder, dataset: Dataset, progress: Progress, every: float) -> None:
        self.newest: Saved | None = None
        self.lease: Lease | None = None
        self._run, self._dataset, self._progress, self._every = run, dataset, progress, every
        self._last = (time.perf_counter(), 0)  # when, and how many sweeps had been done

    @property
    def finished(self) -> bool:
        """Whether the newest snapshot is the last one."""
        return self.newest is not None and self.newest.finished

    @property
    def is_current(self) -> bool:
        """Whether the newest snapshot is of where the training stands."""
        return self.newest is not None and self.newest.cursor == self._progress.cursor

    def is_due(self, keeper: Keeper) -> bool:
        """Whether it is time for a snapshot."""
        when, done = self._last
        versions = self._progress.cursor.sweeps - done if keeper.keeps_on_disk else 0
        late = time.perf_counter() - when >= max(self._every, keeper.least_wait)
        return late or versions >= MOST_VERSIONS

    def save(
        self, keeper: Keeper, certified: Certificate | None = None, *, finished: bool = False
    ) -> Event:
        """Take a snapshot, and go on from it unless it is the last one."""
        assert self.lease is not None, "the run is under way"
        self.lease.check()
        with (watch := Stopwatch()):
            content, cursor = keeper.content(certified, finished=finished), self._progress.cursor
            self.newest = save(self._run, self._dataset, cursor, content, finished=finished)
            self._last = (time.perf_counter(), cursor.sweeps)
            del content  # nothing holds on to states that are read again
            if not finished:
                self.newest = self.newest.without_weights()  # the state has them
                keeper.go_on_from(self.newest)
        return self._progress.event("snapshot", name=self.newest.name, seconds=watch.seconds)
