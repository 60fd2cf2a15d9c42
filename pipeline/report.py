"""What a run did, and its loss curve as an image."""

from __future__ import annotations

import io
from typing import NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipeline.errors import BadInput
from pipeline.history import History, read_history
from pipeline.training.model import load_model
from pipeline.training.plan import loss_name, problem_of
from pipeline.training.run_folder import RunFolder, Saved

IMAGE = "report/loss.png"
MARKED = 60  # so many points of a curve can be told apart


class RunReport(NamedTuple):
    """The fields that `fewpass report --json` prints."""

    run: str
    dataset: str
    solver: str
    loss: str
    lam: float
    finished: bool
    passes: float
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
        down = [min(f, gap) for f, gap in zip(objectives, gaps, strict=True)]  # no loss is below 0
        axes.errorbar(at, objectives, yerr=(down, [0.0] * len(down)), fmt="k.", capsize=3,
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
