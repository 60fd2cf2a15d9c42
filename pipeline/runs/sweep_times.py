"""Where the time of every sweep went: parts that add up to the whole.

The driver logs at the end of a sweep the seconds since the one before, and how many of them it
asked for spans and waited for them; the spans say what they did.  Spans that ran side by side count
by share: their parts together are what the driver waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fewpass.pipeline.runs.events import Facts, SnapshotTaken, Start, SweepEnd, Work

PARTS = {
    "read": "reading bytes from the store",
    "decode": "checking and decompressing chunks, and the numbers kept per row",
    "permute": "drawing the order of the rows",
    "step": "the steps of the method",
    "wait": "waiting for the threads that read ahead",
    "span": "copying states, writing the numbers kept per row",
    "tasks": "handing out spans and collecting their results",
    "between": "combining streams and sums, certifying",
    "save": "writing snapshots",
    "other": "everything else, such as the log and displays",
}
IN_SPANS = ("read", "decode", "permute", "step", "wait", "span")
READING = ("read", "decode", "permute")  # what threads may do while the method steps


class SweepTime(NamedTuple):
    """One sweep, or several of a name; seconds."""

    name: str
    rows: int  # visited
    seconds: float  # since the end of the sweep before
    parts: Mapping[str, float]  # by the names of PARTS, `seconds` in all
    meanwhile: Mapping[str, float]  # of threads that read while the method stepped

    @property
    def title(self) -> str:
        """What it was for: the steps of a method, or what it adds up."""
        kind, _, name = self.name.partition("-")
        return name if kind in ("walk", "reduce") else self.name

    def plus(self, other: SweepTime) -> SweepTime:
        """Add another of the name."""
        return SweepTime(
            self.name,
            self.rows + other.rows,
            self.seconds + other.seconds,
            {part: self.parts[part] + other.parts[part] for part in PARTS},
            {part: self.meanwhile[part] + other.meanwhile[part] for part in READING},
        )


class SweepTimes:
    """The sweeps so far, from the facts of events."""

    def __init__(self) -> None:
        self.each: list[SweepTime] = []
        self._begin()

    def _begin(self) -> None:
        self._parts, self._meanwhile = Counter[str](), Counter[str]()
        self._rows, self._save = 0, 0.0

    def hear(self, facts: Facts) -> None:
        """Take an event's facts; a session that broke off leaves no sweep."""
        if isinstance(facts, Start):
            self._begin()
        elif isinstance(facts, Work):
            self._rows += facts.rows
            self._parts.update(parts_of(facts))
            if facts.ahead:
                self._meanwhile.update(reading_of(facts))
        elif isinstance(facts, SnapshotTaken):
            self._save += facts.seconds
        elif isinstance(facts, SweepEnd):
            self.each.append(self._ended(facts))
            self._begin()

    def _ended(self, facts: SweepEnd) -> SweepTime:
        busy = sum(self._parts.values())
        share = min(1.0, facts.spans_s / busy) if busy > 0.0 else 0.0
        parts = {name: share * self._parts[name] for name in IN_SPANS} | {
            "tasks": max(0.0, facts.spans_s - share * busy),
            "between": facts.between_s,
            "save": self._save,
        }
        parts["other"] = facts.seconds - sum(parts.values())
        meanwhile = {name: self._meanwhile[name] for name in READING}
        return SweepTime(facts.name, self._rows, facts.seconds, parts, meanwhile)


def totals(sweeps: Iterable[SweepTime]) -> list[SweepTime]:
    """Add up the sweeps of each name, in order of appearance."""
    by_name: dict[str, SweepTime] = {}
    for one in sweeps:
        by_name[one.name] = by_name[one.name].plus(one) if one.name in by_name else one
    return list(by_name.values())


def reading_of(work: Work) -> dict[str, float]:
    """Return the seconds that reading took in a span, by the names of READING."""
    read, permute = work.fetch_s, work.permute_s
    return {"read": read, "decode": work.read_s - read - permute, "permute": permute}


def parts_of(work: Work) -> dict[str, float]:
    """Return where a span's seconds went, by the names of IN_SPANS."""
    visible = dict.fromkeys(READING, 0.0) if work.ahead else reading_of(work)
    wait = work.wait_s if work.ahead else 0.0
    rest = work.seconds - wait - work.step_s - sum(visible.values())
    return visible | {"step": work.step_s, "wait": wait, "span": rest}
