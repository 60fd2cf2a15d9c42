"""The log of a run: lines in a file, or on a store in segments, which cannot be appended to.

A segment is an object below `log/`, written once and named by the numbers of the writes that it
has: `log/00000003-00000003.jsonl`.  At a snapshot those since the one before become one, and now
and then the oldest of these do; a longer one that a shorter one is part of counts.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

from fewpass.storage.folder import Folder

LOG, SEGMENTS = "log.jsonl", "log"
WRITE_SECONDS = 1.0  # between two writes of lines that may wait
MOST_SEGMENTS = 32  # that were not made one; and that snapshots leave, half of which become one


class Segment(NamedTuple):
    """Some consecutive writes."""

    first: int
    last: int

    @property
    def key(self) -> str:
        """The object's name."""
        return f"{SEGMENTS}/{self.first:08d}-{self.last:08d}.jsonl"

    @classmethod
    def of(cls, key: str) -> Segment | None:
        """Return the segment of an object; None for other objects."""
        with contextlib.suppress(ValueError):
            first, last = key.removeprefix(f"{SEGMENTS}/").removesuffix(".jsonl").split("-")
            segment = cls(int(first), int(last))
            return segment if segment.key == key else None
        return None


class RunLog:
    """Appends lines to the log of a run, and reads them back.

    Parameters
    ----------
    folder
        Of the run.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._waiting: list[str] = []
        self._written = float("-inf")
        self._own: list[tuple[Segment, bytes]] = []  # since the last compaction
        self._next: int | None = None  # number of the next write; None: not looked up

    def __reduce__(self) -> tuple[Any, ...]:
        return RunLog, (self._folder,)  # tasks read a run's snapshots, and write no line

    def append(self, line: str, *, may_wait: bool = False) -> None:
        """Append a line; one that may wait is written a second later, or with the next."""
        if self._folder.is_local:
            self._folder.append_line(LOG, line)
            return
        self._waiting.append(line)
        if not may_wait or time.monotonic() - self._written >= WRITE_SECONDS:
            self._write()

    def _write(self) -> None:
        if not self._waiting:
            return
        if self._next is None:
            self._next = max((segment.last + 1 for segment in self._segments()), default=1)
        segment = Segment(self._next, self._next)
        data = "".join(f"{line}\n" for line in self._waiting).encode()
        self._folder.write(segment.key, data)
        self._own.append((segment, data))
        self._next, self._written, self._waiting = self._next + 1, time.monotonic(), []
        if len(self._own) >= MOST_SEGMENTS:
            self.compact()

    def compact(self) -> None:
        """Make one segment of those since the last time, and one of many old ones."""
        self._write()
        if len(self._own) > 1:
            self._merge([segment for segment, _ in self._own], b"".join(d for _, d in self._own))
        if self._own:
            self._own = []
            segments = self._segments()
            if len(segments) > MOST_SEGMENTS:
                old = segments[: MOST_SEGMENTS // 2]
                self._merge(old, b"".join(self._folder.read(segment.key) for segment in old))

    def _merge(self, segments: list[Segment], data: bytes) -> None:
        self._folder.write(Segment(segments[0].first, segments[-1].last).key, data)
        for segment in segments:
            self._folder.delete(segment.key)

    def _segments(self) -> list[Segment]:
        """Return the segments in order, each line in one of them."""
        every = filter(None, map(Segment.of, self._folder.list(SEGMENTS)))
        segments: list[Segment] = []
        for segment in sorted(every, key=lambda one: (one.first, -one.last)):
            if not segments or segment.first > segments[-1].last:
                segments.append(segment)
        return segments

    @property
    def version(self) -> str:
        """Return a mark that changes with every write."""
        if self._folder.is_local:
            return str(self._folder.size(LOG))
        return str(self._segments()[-1:])

    def read(self) -> list[tuple[str, int, bytes]]:
        """Return all lines, each with the object that it is in, and its number there."""
        keys = [segment.key for segment in self._segments()]
        if self._folder.is_local:
            keys = [LOG] if self._folder.exists(LOG) else []
        return [
            (key, number, line)
            for key in keys
            for number, line in enumerate(self._folder.read(key).splitlines(), 1)
        ]
