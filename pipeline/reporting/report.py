"""What a run did, in numbers and pictures."""

from __future__ import annotations

from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.reporting.drawing import can_draw
from fewpass.pipeline.reporting.history import History, read_history
from fewpass.pipeline.reporting.time_table import SweepTime, time_table, totals
from fewpass.pipeline.runs.model import Model, load_model
from fewpass.pipeline.runs.outcome import Convergence
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.training.planning.problem import problem_of

TIME = "report/time.png"
IMAGE = "report/loss.png"
CONVERGENCE = "report/convergence.png"
VALIDATION = "report/validation.png"


class RunReport(NamedTuple):
    """The fields that `fewpass report --json` prints."""

    run: str
    dataset: str
    solver: str
    chosen: str | None  # why, where `auto` chose it
    learners: list[dict[str, Any]]  # whose weights were handed on, where the method runs several
    # learners: a model each, the fields of fewpass.solvers.protocol.ChosenLearner
    loss: str
    lam: float
    finished: bool
    passes: float
    rows_seen: int
    last_loss: float | None  # of rows before they were learnt from, at the end
    objective: float | None
    certificate: float | None
    tol: float | None  # these three as in fewpass.pipeline.runs.outcome.Convergence
    relative_gap: float | None
    converged: bool | None
    restarts: int
    resumed: int
    seconds: float
    compiling_s: float  # of these, on kernels that the machine did not have yet
    bytes_read: int
    waiting_share: float  # of the spans' time, spent waiting for the reader
    image: str | None  # the loss curve; None without two points, as where passes are reductions
    convergence: str | None  # the picture of objective and certificate, where there are several
    validation: str | None  # the picture of the held-out loss; None without two points
    sweeps: list[
        dict[str, Any]
    ]  # where the time went, by kind of sweep: fewpass.pipeline.reporting.time_table
    time: str | None  # the picture of it, sweep by sweep; None where the log does not tell
    warnings: list[str]  # why it was not expected to come to its end
    forecast: (
        dict[str, Any] | None
    )  # what was foreseen; the fields of fewpass.pipeline.training.planning.forecast


class Told(NamedTuple):
    """A run's report, and what it was made of."""

    report: RunReport
    history: History
    sweeps: list[SweepTime]
    model: Model
    saved: Saved


def read_report(run: RunFolder) -> Told:
    """Return what the run did, without pictures.

    Raises
    ------
    BadInput
        When there is no run, or none of its snapshots is whole yet.
    """
    events = list(run.events())
    history, sweeps = read_history(events), time_table(events)
    model = load_model(run)
    saved = Saved.of(run.snapshots.load(model.snapshot))
    record, cursor = model.record, saved.cursor
    if not (history.points or history.certificates):
        raise BadInput(f"The log of {run.url} holds no step yet. Go on with fewpass resume.")
    problem = problem_of(record.plan, record, model.lam)
    report = RunReport(
        run=run.url,
        dataset=record.plan.dataset,
        solver=record.method(cursor.method),
        chosen=record.methods.reason if record.methods else None,
        learners=list(history.learners),
        loss=problem.loss.name,
        lam=problem.lam,
        finished=saved.finished,
        passes=cursor.passes,
        rows_seen=cursor.rows_seen,
        last_loss=history.points[-1].since_last if history.points else None,
        objective=saved.certificate.objective if saved.certificate else None,
        certificate=saved.certificate.gap if saved.certificate else None,
        **Convergence.of(record.plan.tol, saved.certificate, finished=saved.finished)._asdict(),
        restarts=history.restarts,
        resumed=history.resumed,
        seconds=cursor.seconds,
        compiling_s=sum(event["seconds"] for event in events if event["event"] == "compile"),
        bytes_read=cursor.bytes_read,
        waiting_share=history.waiting_s / history.stepping_s if history.stepping_s else 0.0,
        image=None,
        convergence=None,
        validation=None,
        sweeps=[one._asdict() | {"passes": one.rows / record.n_rows} for one in totals(sweeps)],
        time=None,
        warnings=list(record.warnings),
        forecast=record.forecast.model_dump() if record.forecast else None,
    )
    return Told(report, history, sweeps, model, saved)


def draw_report(run: RunFolder) -> RunReport:
    """Write the pictures into the run's folder and return what the run did.

    Without matplotlib (`fewpass[plots]`) no picture is drawn, and none is told of.

    Raises
    ------
    BadInput
        When there is no run, or none of its snapshots is whole yet.
    """
    report, history, sweeps, model, saved = read_report(run)
    if not can_draw():
        return report
    return report._replace(
        image=_draw_losses(run, history, model.record.n_rows),
        convergence=_draw_convergence(run, history),
        validation=_draw_validation(run, saved),
        time=_draw_time(run, sweeps),
    )


def _draw_losses(run: RunFolder, history: History, n_rows: int) -> str | None:
    losses = [point for point in history.points if point.average is not None]
    if max(len(losses), len(history.certificates)) < 2 or not losses:  # a dot is no curve
        return None
    from fewpass.pipeline.reporting.pictures import loss_curve  # noqa: PLC0415 - matplotlib

    run.folder.write(IMAGE, loss_curve(history, run.folder.name, n_rows))
    return run.folder.address(IMAGE)


def _draw_convergence(run: RunFolder, history: History) -> str | None:
    if len(history.certificates) < 2:
        return None
    from fewpass.pipeline.reporting.pictures import convergence  # noqa: PLC0415

    run.folder.write(CONVERGENCE, convergence(history, run.folder.name))
    return run.folder.address(CONVERGENCE)


def _draw_validation(run: RunFolder, saved: Saved) -> str | None:
    if saved.validation is None or len(saved.validation.curve) < 2:
        return None
    from fewpass.pipeline.reporting.pictures import validation_curve  # noqa: PLC0415

    run.folder.write(VALIDATION, validation_curve(saved.validation.curve, run.folder.name))
    return run.folder.address(VALIDATION)


def _draw_time(run: RunFolder, sweeps: list[SweepTime]) -> str | None:
    if not sweeps:
        return None
    from fewpass.pipeline.reporting.pictures import time_bars  # noqa: PLC0415

    run.folder.write(TIME, time_bars(sweeps, run.folder.name))
    return run.folder.address(TIME)
