"""The page's numbers as Prometheus reads them, in its text format (version 0.0.4)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fewpass.pipeline.dashboard.shown_run import ShownRun
from fewpass.pipeline.drawing.safe_text import without_control
from fewpass.pipeline.models.refresh.store_state import published
from fewpass.pipeline.runs.timeline_points import WorkDone, speeds

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("running", "stopped", "finished")

#: Name, kind and meaning of every metric, in the order of the answer.
METRICS = {
    "fewpass_state": ("gauge", "1 for the state that a run is in, else 0"),
    "fewpass_rows_per_second": ("gauge", "rows stepped or added up a second, lately; 0 at rest"),
    "fewpass_bytes_per_second": ("gauge", "bytes read a second, lately, as stored; 0 at rest"),
    "fewpass_rows_total": ("counter", "rows stepped or added up since the run began"),
    "fewpass_bytes_read_total": ("counter", "bytes read since the run began, as stored"),
    "fewpass_passes": ("gauge", "passes over the data so far"),
    "fewpass_passes_planned": ("gauge", "passes that the plan allows"),
    "fewpass_loss": ("gauge", "mean loss of rows before they were learnt from, since the start"),
    "fewpass_loss_recent": ("gauge", "the same of the newest rows"),
    "fewpass_objective": ("gauge", "objective of the newest certified weights"),
    "fewpass_certificate": ("gauge", "how far the objective is above the optimum at most"),
    "fewpass_waiting_ratio": ("gauge", "share of the stepping time that waits for rows, lately"),
    "fewpass_memory_bytes": ("gauge", "most memory that a process of the run ever took"),
    "fewpass_memory_budget_bytes": ("gauge", "memory that data and model may take"),
    "fewpass_silence_seconds": ("gauge", "seconds since the last sign of progress; 0 at rest"),
    "fewpass_generation": ("gauge", "which generation of its store a run is"),
    "fewpass_published_generation": ("gauge", "generation that a store has published, 0: none"),
    "fewpass_read_errors": ("gauge", "1 where a run or a store cannot be read, else 0"),
}  # fmt: skip


class Sample(NamedTuple):
    """One number."""

    name: str
    value: float
    labels: dict[str, str]


def exposition(samples: Iterable[Sample]) -> str:
    """Write samples down, those of a metric together; one that comes twice counts once."""
    series_of: dict[str, dict[str, str]] = {}
    for sample in samples:
        labels = ",".join(f'{k}="{_escaped(v)}"' for k, v in sample.labels.items())
        series_of.setdefault(sample.name, {})[f"{sample.name}{{{labels}}}"] = f"{sample.value:.17g}"
    lines: list[str] = []
    for name, (kind, about) in METRICS.items():
        if name in series_of:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            lines += [f"{series} {value}" for series, value in series_of[name].items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    text = without_control(text)
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def samples_of(shown: ShownRun, now: float | None = None) -> Iterator[Sample]:
    """Yield the numbers of a run."""
    labels = {"run": shown.url}
    yield Sample("fewpass_read_errors", 0.0, labels)
    yield from _generation(shown.url)
    for state in STATES:
        yield Sample("fewpass_state", float(shown.state == state), labels | {"state": state})
    for name, value in _numbers(shown, time.time() if now is None else now).items():
        if value is not None:
            yield Sample(f"fewpass_{name}", float(value), labels)
    for name, worker in shown.timeline.workers.items():
        yield Sample("fewpass_memory_bytes", worker.memory, labels | {"worker": name})


def samples_of_unread(url: str) -> Iterator[Sample]:
    """Yield the numbers of a run that cannot be read."""
    yield Sample("fewpass_read_errors", 1.0, {"run": url})
    yield from _generation(url)


def _numbers(shown: ShownRun, now: float) -> dict[str, float | None]:
    timeline, plan = shown.timeline, shown.record.plan
    running, losses, recent = shown.state == "running", timeline.losses, shown.recent
    proven = timeline.certificates[-1] if timeline.certificates else None
    work = timeline.marks[-1] if timeline.marks else WorkDone()
    speed = (speeds(timeline.marks)[-1:] or [WorkDone()])[0] if running else WorkDone()
    return {
        "rows_per_second": speed.rows,
        "bytes_per_second": speed.bytes_read,
        "rows_total": work.rows,
        "bytes_read_total": work.bytes_read,
        "passes": timeline.passes,
        "passes_planned": plan.passes,
        "loss": losses[-1].average if losses else None,
        "loss_recent": losses[-1].since_last if losses else None,
        "objective": proven and proven.objective,
        "certificate": proven and proven.gap,
        "waiting_ratio": recent.waiting / recent.working if recent.working else 0.0,
        "memory_budget_bytes": plan.memory,
        "silence_seconds": max(0.0, now - timeline.last) if running else 0.0,
    }


def _generation(run: str) -> Iterator[Sample]:
    """Yield which generation a run is, and which one its store has published."""
    place = re.fullmatch(r"(.*)/generations/(\d{6})/run-\w+", run)
    if place is None:
        return
    store, number = place[1], int(place[2])
    yield Sample("fewpass_generation", number, {"run": run, "store": store})
    try:
        current = published(store)
    except (OSError, ValueError):
        yield Sample("fewpass_read_errors", 1.0, {"run": store})
        return
    generation = current.generation if current else 0
    yield Sample("fewpass_published_generation", generation, {"store": store})
