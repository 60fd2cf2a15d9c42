"""A run in numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import Model, load_model
from fewpass.pipeline.runs.outcome import Convergence
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved, is_of_model
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import WorkDone
from fewpass.pipeline.sizes import format_bytes


class RunReport(NamedTuple):
    """The fields that `fewpass report --json` prints."""

    run: str
    snapshot: str
    dataset: str
    solver: str
    chosen: str | None  # why, where `auto` chose it
    learners: list[dict[str, Any]]  # of each model, where the method runs several learners:
    # the fields of fewpass.solvers.protocol.ChosenLearner
    loss: str
    lam: float
    lam_origin: dict[str, Any] | None  # of a lam that nobody gave: the fields of
    # fewpass.pipeline.runs.grid.LamOrigin
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
    n_weights: int
    weights_not_zero: int
    weights_sha256: str
    warnings: list[str]  # why it was not expected to come to its end
    forecast: dict[str, Any] | None  # the fields of fewpass.pipeline.planning.forecast

    def compared(self) -> list[tuple[str, str, str]]:
        """Return the forecast next to what happened: name, predicted, actual."""
        if (forecast := self.forecast) is None:
            return []
        usual = "" if forecast["usual_passes"] is None else "about "
        rows = [("passes", f"{usual}{forecast['passes']:.0f}", f"{self.passes:.4g}")]
        if forecast["theory_passes"] is not None:
            most = f"at most {forecast['theory_passes']:,.0f}"
            rows.append(("passes, by theory", most, f"{self.passes:.4g}"))
        rows.append(("read", format_bytes(forecast["bytes_read"]), format_bytes(self.bytes_read)))
        if forecast["tol"] is not None and self.relative_gap is not None:
            rows.append(("relative gap", f"{forecast['tol']:.2g}", f"{self.relative_gap:.2g}"))
        return rows


class ReportedRun(NamedTuple):
    """A run's report and its sources."""

    report: RunReport
    timeline: Timeline
    model: Model
    saved: Saved


def read_report(run: RunFolder) -> ReportedRun:
    """Return a run's report and its sources.

    Raises
    ------
    BadInput
        When there is no run, or none of its snapshots is whole yet.
    """
    timeline = Timeline.of(run)
    model = load_model(run)
    saved = Saved.of(run.snapshots.load(model.snapshot, is_of_model))
    record, cursor = model.record, saved.cursor
    if not (timeline.points or timeline.certificates):
        raise BadInput(f"The log of {run.url} holds no step yet. Go on with fewpass resume.")
    problem = record.problem(model.lam)
    losses, work = timeline.losses, timeline.marks[-1] if timeline.marks else WorkDone()
    report = RunReport(
        run=run.url,
        snapshot=saved.name,
        dataset=record.plan.dataset,
        solver=record.method(cursor.method),
        chosen=record.methods.reason if record.methods else None,
        learners=list(timeline.learners),
        loss=problem.loss.name,
        lam=problem.penalty.total,
        lam_origin=record.lam_origin.as_facts() if record.lam_origin else None,
        finished=saved.finished,
        passes=cursor.passes,
        rows_seen=cursor.rows_seen,
        last_loss=losses[-1].since_last if losses else None,
        objective=saved.certificate.objective if saved.certificate else None,
        certificate=saved.certificate.gap if saved.certificate else None,
        **Convergence.of(record.plan.tol, saved.certificate, finished=saved.finished)._asdict(),
        restarts=timeline.restarts,
        resumed=timeline.resumed,
        seconds=cursor.seconds,
        compiling_s=timeline.compiling_s,
        bytes_read=cursor.bytes_read,
        waiting_share=work.waiting / work.working if work.working else 0.0,
        n_weights=model.weights.coef.size,
        weights_not_zero=int(np.count_nonzero(model.weights.coef)),
        weights_sha256=saved.weights_sha256,
        warnings=list(record.warnings),
        forecast=record.forecast.model_dump() if record.forecast else None,
    )
    return ReportedRun(report, timeline, model, saved)
