"""Where a run's time went, sweep by sweep, out of its log: parts that add up to the whole.

The driver logs at the end of a sweep the seconds since the one before, and how many of them it
asked for spans and waited for them; the spans say what they did.  Spans that ran side by side count
by share: their parts together are what the driver waited.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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
BESIDE = ("read", "decode", "permute")  # what a thread does beside the steps


class SweepTime(NamedTuple):
    """One sweep, or several of a name; seconds."""

    name: str
    rows: int  # visited
    seconds: float  # since the end of the sweep before
    parts: dict[str, float]  # by the names of PARTS, `seconds` in all
    beside: dict[str, float]  # what threads read meanwhile, in all


def time_table(events: Iterable[dict[str, Any]]) -> list[SweepTime]:
    """Return the sweeps that a log tells of; logs of older versions tell of none."""
    sweeps: list[SweepTime] = []
    spans: list[dict[str, Any]] = []
    save = 0.0
    for event in events:
        kind = event["event"]
        if kind in ("start", "resume"):
            spans, save = [], 0.0
        elif kind in ("span", "reduce"):
            spans.append(event)
        elif kind == "snapshot":
            save += event.get("seconds", 0.0)
        elif kind == "sweep":
            sweeps.append(_sweep_time(event, spans, save))
            spans, save = [], 0.0
    return sweeps


def totals(sweeps: Iterable[SweepTime]) -> list[SweepTime]:
    """Add up the sweeps of each name, in order of appearance."""
    found: dict[str, SweepTime] = {}
    for one in sweeps:
        before = found.get(one.name)
        found[one.name] = _added(before, one) if before else one
    return list(found.values())


def pass_of(sweep: str) -> str:
    """Say what a pass was for: the steps of a method, or what it adds up."""
    kind, _, name = sweep.partition("-")
    return name if kind in ("walk", "reduce") else sweep


def reading_of(span: dict[str, Any]) -> dict[str, float]:
    """Return the seconds that reading took in a span, by the names of BESIDE."""
    read, permute = span.get("fetch_s", 0.0), span.get("permute_s", 0.0)
    return {"read": read, "decode": span["read_s"] - read - permute, "permute": permute}


def parts_of(span: dict[str, Any]) -> dict[str, float]:
    """Return where a span's seconds went, by the names of IN_SPANS.

    In logs of older versions a thread always read ahead, and all but waiting counts as steps.
    """
    ahead = span.get("ahead", True)
    visible = dict.fromkeys(BESIDE, 0.0) if ahead else reading_of(span)
    wait = span["wait_s"] if ahead else 0.0
    step = span.get("step_s", span["seconds"] - wait)
    rest = span["seconds"] - wait - step - sum(visible.values())
    return visible | {"step": step, "wait": wait, "span": rest}


def _sweep_time(event: dict[str, Any], spans: list[dict[str, Any]], save: float) -> SweepTime:
    each = [parts_of(span) for span in spans]
    parts = {name: sum(one[name] for one in each) for name in IN_SPANS}
    busy = sum(parts.values())
    share = min(1.0, event["spans_s"] / busy) if busy > 0.0 else 0.0
    parts = {name: share * seconds for name, seconds in parts.items()}
    parts |= {
        "tasks": max(0.0, event["spans_s"] - share * busy),
        "between": event["between_s"],
        "save": save,
    }
    parts["other"] = event["seconds"] - sum(parts.values())
    read = [reading_of(span) for span in spans if span.get("ahead", True)]
    beside = {name: sum(one[name] for one in read) for name in BESIDE}
    rows = sum(span["rows"] for span in spans)
    return SweepTime(event["name"], rows, event["seconds"], parts, beside)


def _added(one: SweepTime, other: SweepTime) -> SweepTime:
    return SweepTime(
        name=one.name,
        rows=one.rows + other.rows,
        seconds=one.seconds + other.seconds,
        parts={name: one.parts[name] + other.parts[name] for name in PARTS},
        beside={name: one.beside[name] + other.beside[name] for name in BESIDE},
    )
