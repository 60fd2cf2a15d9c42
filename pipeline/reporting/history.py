"""How the loss went, read back from a run's log."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import Any, NamedTuple

LossSums = dict[int, tuple[float, float]]  # stream -> sum of losses, rows whose loss was taken
REDUCTIONS = -1  # stands where a stream does: all reductions, whose weights rest during each


class Point(NamedTuple):
    """Progressive loss at one moment: of rows before they were learnt from."""

    rows: int  # read until then: a pass over n rows is n of them, by walks and by reductions
    average: float | None  # since the first row
    since_last: float | None  # since the point before


class Certified(NamedTuple):
    """What was proven at one moment."""

    passes: float
    rows: int  # visited by walks
    objective: float
    gap: float


class History(NamedTuple):
    """What the log tells, with the rows that a crash threw away left out."""

    points: tuple[Point, ...]
    certificates: tuple[Certified, ...]
    restarts: int
    resumed: int
    stepping_s: float
    waiting_s: float
    learners: tuple[dict[str, Any], ...] = ()  # whose weights were handed on, a model each


def read_history(events: Iterable[dict[str, Any]]) -> History:
    """Put a run's log in order: what was done again after a crash counts once."""
    reader = _LogReader()
    for event in events:
        reader.take(event)
    return reader.history()


class _LogReader:
    def __init__(self) -> None:
        self._points: list[Point] = []
        self._loss_sums: list[LossSums] = [{}]  # before the first point, and after each
        self._certificates: dict[Certified, None] = {}  # each once, in order
        self._n_rows = 0
        self._reduced = 0  # rows of the reduction under way
        self._counts = {"restart": 0, "resume": 0}
        self._stepping = self._waiting = 0.0
        self._learners: tuple[dict[str, Any], ...] = ()

    def take(self, event: dict[str, Any]) -> None:
        kind, rows = event["event"], event["rows_seen"]
        self._n_rows = event.get("n_rows", self._n_rows)
        if kind != "reduce":
            self._reduced = 0
        if kind in self._counts and not event.get("finished"):  # nothing is gone on with then
            self._counts[kind] += 1
        if kind in ("start", "restart"):
            self._cut(0)
        elif kind == "resume":
            read = max(rows, self._in_rows(event["passes"]))
            self._cut(sum(point.rows <= read for point in self._points))
        elif kind == "certificate":
            found = Certified(event["passes"], rows, event["objective"], event["gap"])
            self._certificates[found] = None
        elif kind == "learners":
            self._learners = tuple(event["models"])
        elif kind == "span":
            self._add_span(rows, event)
        elif kind == "reduce" and event.get("losses"):
            self._add_reduction(event)

    def history(self) -> History:
        return History(
            points=tuple(self._points),
            certificates=tuple(self._certificates),
            restarts=self._counts["restart"],
            resumed=self._counts["resume"],
            stepping_s=self._stepping,
            waiting_s=self._waiting,
            learners=self._learners,
        )

    def _cut(self, kept: int) -> None:
        self._points, self._loss_sums = self._points[:kept], self._loss_sums[: kept + 1]

    def _in_rows(self, passes: float) -> int:
        return round(passes * self._n_rows)

    def _add_span(self, rows: int, event: dict[str, Any]) -> None:
        self._stepping += event["seconds"]
        self._waiting += event["wait_s"]
        metrics, began = event["metrics"], rows - event["rows"]
        inside = [(began + some, loss, n) for some, n, loss in event.get("losses", ())]
        end = (rows, metrics.get("loss_sum", 0.0), metrics.get("n_monitored", 0))
        for at, loss, n in [*(one for one in inside if one[0] < rows), end]:
            self._add_point(at, event["stream"], loss, n)

    def _add_reduction(self, event: dict[str, Any]) -> None:
        """Add the losses of rows under the weights that a reduction was made for."""
        began = self._in_rows(event["passes"]) + self._reduced
        loss_before, n_before = self._loss_sums[-1].get(REDUCTIONS, (0.0, 0))
        for some, n, loss in event["losses"]:
            self._add_point(began + some, REDUCTIONS, loss_before + loss, n_before + n)
        self._reduced += event["rows"]

    def _add_point(self, at: int, stream: int, loss: float, n: float) -> None:
        before = self._loss_sums[-1]
        after = before | {stream: (loss, n)}
        self._loss_sums.append(after)
        self._points.append(Point(at, mean_loss({}, after), mean_loss(before, after)))


def mean_loss(before: LossSums, after: LossSums) -> float | None:
    """Mean over the rows monitored between two moments, all streams together."""
    loss = fsum(loss - before.get(stream, (0.0, 0))[0] for stream, (loss, _) in after.items())
    rows = sum(rows - before.get(stream, (0.0, 0))[1] for stream, (_, rows) in after.items())
    return loss / rows if rows > 0 else None
