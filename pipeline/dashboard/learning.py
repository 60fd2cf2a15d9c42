"""What the page shows of a run: its log, as series and sums."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fewpass.pipeline.reporting.history import LossSums, mean_loss
from fewpass.pipeline.reporting.time_table import BESIDE, reading_of
from fewpass.pipeline.runs.lease import holder_of
from fewpass.pipeline.runs.pace import NEWEST, silence
from fewpass.pipeline.runs.run_folder import RunFolder, RunRecord
from fewpass.pipeline.training.planning.problem import problem_of

MOST_POINTS = 400  # of a curve: more than that cannot be told apart
SHORTEST_S = 0.5  # of which a speed is told
RECENT_S = 30.0  # what the shares of time look back on
STEPS = ("step", "gamma", "h", "gamma0")  # what methods call the step in their metrics


def learning(run: RunFolder) -> dict[str, Any]:
    """Return everything that the page shows, JSON values.

    Raises BadInput when there is no run.
    """
    record = run.record()
    reader = _Reader(record.n_rows)
    for event in run.events():
        reader.take(event)
    holder = holder_of(run.folder)
    alive = holder is not None and not holder.is_dead()
    state = "finished" if reader.finished else "running" if alive else "stopped"
    return {
        "run": run.url,
        "state": state,
        "method": record.method(),
        "lam": problem_of(record.plan, record).lam,
        "dataset": record.plan.dataset,
        "rows": record.n_rows,
        "passes": record.plan.passes,
        "budget": record.plan.memory,
        "tol": record.plan.tol,
        "foreseen": _foreseen(record),
        "longest_silence": reader.longest_silence(),
    } | reader.told()


def _foreseen(record: RunRecord) -> dict[str, Any] | None:
    """Return what was foreseen of what the page shows; None where nothing was."""
    found = record.forecast
    if found is None:
        return None
    return {"passes": found.passes, "bytes_read": found.bytes_read}


class _Reader:
    """Takes a log in, event by event; what was done again after a crash counts once."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self.finished = False
        self._seconds, self._last = 0.0, 0.0
        self._rows, self._bytes = 0, 0
        self._silences: list[float] = []  # seconds from event to event, of this session
        self._points: list[dict[str, Any]] = []
        self._loss_sums: LossSums = {}
        self._certificates: list[dict[str, float]] = []
        self._spans: list[dict[str, Any]] = []
        self._workers: dict[str, dict[str, float]] = {}
        self._pass = -1
        self._rows_at: dict[float, int] = {}  # passes made -> rows visited when they were
        self._done = 0.0

    def take(self, event: dict[str, Any]) -> None:
        """Count an event."""
        kind, now = event["event"], datetime.fromisoformat(event["time"]).timestamp()
        if kind not in ("start", "resume"):  # time between two sessions is nobody's
            self._seconds += max(0.0, now - self._last)
            self._silences = [*self._silences[1 - NEWEST :], now - self._last]
        else:
            self._silences = []
        self._last = now
        self.finished = kind == "finish"
        self._count_passes(event)
        if kind in ("start", "restart"):
            self._points, self._loss_sums = [], {}
        elif kind == "resume":
            self._points = [p for p in self._points if p["rows"] <= event["rows_seen"]]
        elif kind == "certificate":
            self._certify(event)
        elif kind in ("span", "reduce"):
            self._work(event)
            if kind == "span":
                self._point(event)

    def _count_passes(self, event: dict[str, Any]) -> None:
        """Passes, reductions too, are told when they are whole; rows visited fill them up."""
        if event["event"] in ("start", "restart"):
            self._rows_at = {}
        visited = event["rows"] if event["event"] == "span" else 0
        before = self._rows_at.setdefault(event["passes"], event["rows_seen"] - visited)
        self._done = event["passes"] + (event["rows_seen"] - before) / self._n_rows

    def _certify(self, event: dict[str, Any]) -> None:
        self._certificates.append({
            "passes": event["passes"], "seconds": self._seconds,
            "objective": event["objective"], "gap": event["gap"],
        })  # fmt: skip

    def _work(self, event: dict[str, Any]) -> None:
        """Count what a span of any kind cost, and who did it."""
        self._rows, self._bytes = self._rows + event["rows"], self._bytes + event["bytes_read"]
        self._spans.append({
            "seconds": self._seconds, "rows": event["rows"], "bytes": event["bytes_read"],
            "took": event["seconds"], "wait": event["wait_s"], **reading_of(event),
        })  # fmt: skip
        if int(event["passes"]) != self._pass:
            self._pass = int(event["passes"])
            for worker in self._workers.values():
                worker["rows"] = 0
        name = event.get("worker") or "one process"
        worker = self._workers.setdefault(name, {"rows": 0, "memory": 0, "seconds": 0.0})
        worker["rows"] += event["rows"]
        worker["memory"] = max(worker["memory"], event["peak_memory"])
        worker["seconds"] = self._seconds

    def _point(self, event: dict[str, Any]) -> None:
        metrics, before = event["metrics"], dict(self._loss_sums)
        if "loss_sum" in metrics:
            self._loss_sums[event["stream"]] = (metrics["loss_sum"], metrics["n_monitored"])
        step = next((metrics[name] for name in STEPS if name in metrics), None)
        self._points.append({
            "rows": event["rows_seen"], "passes": self._done,
            "seconds": self._seconds, "loss": mean_loss({}, self._loss_sums),
            "recent": mean_loss(before, self._loss_sums), "step": step,
        })  # fmt: skip

    def longest_silence(self) -> float | None:
        """Return the seconds without progress from which on the run counts as stalled."""
        found = silence(self._silences, 0.0)
        return found.most if found else None

    def told(self) -> dict[str, Any]:
        """Return the series, thinned out, and the sums."""
        return {
            "seconds": self._seconds,
            "last": self._last,
            "done": self._done,
            "rows_worked": self._rows,
            "bytes_read": self._bytes,
            "points": _thinned(self._points),
            "certificates": _thinned(self._certificates),
            "speeds": _thinned(_speeds(self._spans)),
            "shares": {"recent": _shares(self._recent()), "all": _shares(self._spans)},
            "workers": self._workers,
        }

    def _recent(self) -> list[dict[str, Any]]:
        return [s for s in self._spans if s["seconds"] > self._seconds - RECENT_S]


def _speeds(spans: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Rows and bytes a second, over intervals of a hundredth of the time, of half a second.

    A run that is shorter than that is one interval.
    """
    if not spans:
        return []
    whole = spans[-1]["seconds"]
    interval = min(max(SHORTEST_S, whole / 100), whole)
    found, began, rows, read = [], 0.0, 0, 0
    for span in spans:
        rows, read = rows + span["rows"], read + span["bytes"]
        seconds = span["seconds"] - began
        if seconds >= interval > 0.0:
            found.append(
                {"seconds": span["seconds"], "rows": rows / seconds, "bytes": read / seconds}
            )
            began, rows, read = span["seconds"], 0, 0
    return found


def _shares(spans: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Parts of the spans' time; reading goes on beside stepping, so they may add up to more."""
    spans = list(spans)
    whole = sum(s["took"] for s in spans) or 1.0
    parts = {name: sum(s[name] for s in spans) / whole for name in (*BESIDE, "wait")}
    return parts | {"step": max(0.0, 1.0 - parts["wait"])}


def _thinned(series: list[Any]) -> list[Any]:
    """Keep every k-th, and the last one."""
    keep = -(-len(series) // MOST_POINTS) or 1
    return [x for k, x in enumerate(series) if k % keep == 0 or k == len(series) - 1]
