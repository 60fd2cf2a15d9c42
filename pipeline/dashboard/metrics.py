"""The page's numbers as Prometheus reads them, in its text format (version 0.0.4)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fewpass.pipeline.models.refresh.publications import published
from fewpass.pipeline.reporting.safe_text import without_control

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("running", "stopped", "finished")

#: Name, kind and meaning of every metric, in the order that they are told in.
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
    """Write samples down, those of a metric together; one that is told twice counts once."""
    known: dict[str, dict[str, str]] = {}
    for sample in samples:
        labels = ",".join(f'{k}="{_escaped(v)}"' for k, v in sample.labels.items())
        known.setdefault(sample.name, {})[f"{sample.name}{{{labels}}}"] = f"{sample.value:.17g}"
    lines: list[str] = []
    for name, (kind, about) in METRICS.items():
        if name in known:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            lines += [f"{series} {value}" for series, value in known[name].items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    text = without_control(text)
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def samples_of(told: Mapping[str, Any], now: float | None = None) -> Iterator[Sample]:
    """Yield what is known of a run, from what the page shows of it."""
    labels = {"run": told["run"]}
    yield Sample("fewpass_read_errors", float("error" in told), labels)
    yield from _generation(told["run"])
    if "error" in told:
        return
    for state in STATES:
        yield Sample("fewpass_state", float(told["state"] == state), labels | {"state": state})
    for name, value in _numbers(told, time.time() if now is None else now).items():
        if value is not None:
            yield Sample(f"fewpass_{name}", float(value), labels)
    for name, worker in told["workers"].items():
        yield Sample("fewpass_memory_bytes", worker["memory"], labels | {"worker": name})


def _numbers(told: Mapping[str, Any], now: float) -> dict[str, float | None]:
    running = told["state"] == "running"
    speed = told["speeds"][-1] if told["speeds"] and running else {"rows": 0.0, "bytes": 0.0}
    point = told["points"][-1] if told["points"] else {"loss": None, "recent": None}
    proven = told["certificates"][-1] if told["certificates"] else {"objective": None, "gap": None}
    return {
        "rows_per_second": speed["rows"],
        "bytes_per_second": speed["bytes"],
        "rows_total": told["rows_worked"],
        "bytes_read_total": told["bytes_read"],
        "passes": told["done"],
        "passes_planned": told["passes"],
        "loss": point["loss"],
        "loss_recent": point["recent"],
        "objective": proven["objective"],
        "certificate": proven["gap"],
        "waiting_ratio": told["shares"]["recent"]["wait"],
        "memory_budget_bytes": told["budget"],
        "silence_seconds": max(0.0, now - told["last"]) if running else 0.0,
    }


def _generation(run: str) -> Iterator[Sample]:
    """Yield which generation a run is, and which one its store has published."""
    found = re.fullmatch(r"(.*)/generations/(\d{6})/run", run)
    if found is None:
        return
    store, number = found[1], int(found[2])
    yield Sample("fewpass_generation", number, {"run": run})
    try:
        current = published(store)
    except (OSError, ValueError):
        yield Sample("fewpass_read_errors", 1.0, {"run": store})
        return
    generation = current.generation if current else 0
    yield Sample("fewpass_published_generation", generation, {"store": store})
