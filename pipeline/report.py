"""What a run did, from its log, and its loss curve as an image."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipeline.errors import BadInput
from pipeline.training.model import load_model
from pipeline.training.plan import loss_name, problem_of
from pipeline.training.run_folder import RunFolder, Saved

IMAGE = "report/loss.png"
MARKED = 60  # so many points of a curve can be told apart


class Point(NamedTuple):
    """Progressive loss at one moment: of rows before they were learnt from."""

    rows: int
    average: float | None  # since the first row
    since_last: float | None  # since the point before


class History(NamedTuple):
    """What the log tells, with the rows that a crash threw away left out."""

    points: tuple[Point, ...]
    certificates: tuple[tuple[int, float, float], ...]  # rows seen, objective, gap
    restarts: int
    resumed: int
    stepping_s: float
    waiting_s: float


class RunReport(NamedTuple):
    """The fields that `fewpass report --json` prints."""

    run: str
    dataset: str
    solver: str
    loss: str
    lam: float
    finished: bool
    passes: int
    rows_seen: int
    last_loss: float | None  # of rows before they were learnt from, at the end
    objective: float | None
    certificate: float | None
    restarts: int
    resumed: int
    seconds: float
    bytes_read: int
    waiting_share: float  # of the spans' time, spent waiting for the reader
    image: str


def draw_report(run: RunFolder) -> RunReport:
    """Write the loss curve into the run's folder and return what the run did.

    Raises
    ------
    BadInput
        When there is no run, or none of its snapshots is whole yet.
    """
    history = read_history(run.events())
    model = load_model(run)
    saved = Saved.of(run.snapshots.load(model.snapshot))
    record, cursor = model.record, saved.cursor
    if not history.points:
        raise BadInput(f"The log of {run.url} holds no step yet. Go on with fewpass resume.")
    problem = problem_of(record.plan, record)
    run.folder.write(IMAGE, loss_curve(history, run.folder.name, record.n_rows))
    return RunReport(
        run=run.url,
        dataset=record.plan.dataset,
        solver=record.plan.solver.kind,
        loss=loss_name(problem.loss),
        lam=problem.lam,
        finished=saved.finished,
        passes=cursor.passes,
        rows_seen=cursor.rows_seen,
        last_loss=history.points[-1].since_last,
        objective=saved.certified.objective if saved.certified else None,
        certificate=saved.certified.gap if saved.certified else None,
        restarts=history.restarts,
        resumed=history.resumed,
        seconds=cursor.seconds,
        bytes_read=cursor.bytes_read,
        waiting_share=history.waiting_s / history.stepping_s if history.stepping_s else 0.0,
        image=run.folder.address(IMAGE),
    )


def read_history(events: Iterable[dict[str, Any]]) -> History:
    """Put a run's log in order: what was done again after a crash counts once."""
    points: list[Point] = []
    certificates: list[tuple[int, float, float]] = []
    told: dict[int, tuple[float, float]] = {}  # stream -> loss_sum, rows heard
    counts = {"restart": 0, "resume": 0}
    stepping = waiting = 0.0
    for event in events:
        kind, rows = event["event"], event["rows_seen"]
        if kind in counts:
            counts[kind] += 1
        if kind in ("restart", "start"):
            points, told = [], {}
        if kind in ("resume", "start"):
            points = [p for p in points if p.rows <= rows]
        if kind == "certificate":
            certificates.append((rows, event["objective"], event["gap"]))
        if kind == "span":
            points.append(_point(rows, event["stream"], event["metrics"], told))
            stepping, waiting = stepping + event["seconds"], waiting + event["wait_s"]
    unique = tuple(dict.fromkeys(certificates))
    return History(tuple(points), unique, counts["restart"], counts["resume"], stepping, waiting)


def _point(
    rows: int, stream: int, metrics: dict[str, float], told: dict[int, tuple[float, float]]
) -> Point:
    if not metrics.get("heard"):
        return Point(rows, None, None)
    loss_before, heard_before = told.get(stream, (0.0, 0.0))
    loss, heard = metrics["loss_sum"] - loss_before, metrics["heard"] - heard_before
    told[stream] = metrics["loss_sum"], metrics["heard"]
    average = sum(s for s, _ in told.values()) / sum(n for _, n in told.values())
    return Point(rows, average, loss / heard if heard > 0 else None)


def loss_curve(history: History, name: str, n_rows: int) -> bytes:
    """Draw progressive loss and certified objectives against passes; a PNG."""
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    style = "o-" if len(history.points) < MARKED else "-"
    for field, label in (("since_last", "between two reports"), ("average", "since the start")):
        known = [(p.rows / n_rows, getattr(p, field)) for p in history.points]
        known = [(x, loss) for x, loss in known if loss is not None]
        if known:
            axes.plot(*zip(*known, strict=True), style, label=label)
    if history.certificates:
        rows, objectives, gaps = zip(*history.certificates, strict=True)
        at = [r / n_rows for r in rows]
        axes.errorbar(at, objectives, yerr=(gaps, [0.0] * len(gaps)), fmt="k.", capsize=3,
                      label="objective, and how far down the optimum can be")  # fmt: skip
    axes.set(
        xlabel="passes over the data",
        ylabel="loss",
        title=f"{name}: loss of rows before they were learnt from",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    image = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(image, format="png")
    return image.getvalue()
