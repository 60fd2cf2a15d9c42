"""Course of a training: loss, certificate, held-out loss, times, and the forecast of it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from fewpass.pipeline.drawing.charts import WINDOW, Curve, Kind, chart, smoothed
from fewpass.pipeline.drawing.pieces import card, paragraph, rows_of, section, table
from fewpass.pipeline.reporting.figure_rows import lam_rows
from fewpass.pipeline.reporting.report import ReportedRun, RunReport
from fewpass.pipeline.runs.grid import LamOrigin
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import Certified, Point
from fewpass.pipeline.sizes import counted, format_passes

A_MOMENT_S = 0.05  # compiling that is worth a word
EARLY = 20.0  # a curve whose first part in so many has ...
MUCH = 0.25  # ... so much of its fall is worth a look from the start


def learning(run: ReportedRun) -> Markup:
    """Draw the curves."""
    return section(
        "How it learnt",
        losses(run.timeline.losses, run.timeline.n_rows),
        _certificates(run.timeline, run.report.tol),
        _held_out(run),
    )


def losses(points: list[Point], n_rows: int) -> Markup:
    """Draw the progressive loss; of a single point write it."""
    if not points:
        return Markup()
    if len(points) == 1:
        (one,) = points
        said = f"Loss {one.average:.6g} over {counted(round(one.passes * n_rows), 'row')}."
        note = "Of rows before they were learnt from: logged once."
        return card("Progressive loss", paragraph(said), note)
    note = f"Of rows before they were learnt from: {counted(len(points), 'point')}."
    return card("Progressive loss", loss_chart(points), note)


def loss_chart(points: list[Point]) -> Markup:
    """Draw the progressive loss against passes."""
    each = [(p.passes, p.since_last) for p in points if p.since_last is not None]
    lines = [
        Curve("each section of rows", each, 1, "faint"),
        Curve(f"mean of {WINDOW} sections", smoothed(each), 1),
        Curve("mean since the start", [(p.passes, p.average or 0.0) for p in points], 2),
    ]
    across: Kind = "log" if _falls_early(each) else "linear"
    return chart(lines, "passes over the data", "loss", x=across)


def _falls_early(curve: list[tuple[float, float]]) -> bool:
    """Say whether much of what the loss of sections falls by is in the beginning."""
    first = [loss for passes, loss in curve if EARLY * passes <= curve[-1][0]]
    if len(first) < 2:
        return False
    end = sum(loss for _, loss in curve[-WINDOW:]) / len(curve[-WINDOW:])
    early = sum(first[len(first) // 2 :]) / len(first[len(first) // 2 :])
    return first[0] - early > MUCH * (first[0] - end) > 0.0


def _certificates(timeline: Timeline, tol: float | None) -> Markup:
    proven = timeline.certificates
    if not proven:
        return Markup()
    if len(proven) == 1:
        (one,) = proven
        said = f"Objective {one.objective:.6g}, at most {one.gap:.3g} above the optimum."
        return card("Certificate", paragraph(said), "Computed once, at the end.")
    note = "The optimum itself is not known; the certificate proves how far away it is at most."
    return card("Certificate", certificate_chart(proven, tol), note)


def certificate_chart(proven: Sequence[Certified], tol: float | None) -> Markup:
    """Draw against passes how far above the optimum a run was at most, and the tolerance."""
    least = min(c.objective for c in proven)
    lines = [
        Curve("certified: at most", [(c.passes, c.gap) for c in proven], 1),
        Curve("above the lowest objective", [(c.passes, c.objective - least) for c in proven], 2),
    ]
    goal = None if tol is None else proven[-1].gap_at(tol)
    if goal is not None:
        ends = (proven[0].passes, proven[-1].passes)
        lines.append(Curve("tolerance", [(x, goal) for x in ends], 3, "dashed"))
    return chart(lines, "passes over the data", "above the optimum", y="log")


def _held_out(run: ReportedRun) -> Markup:
    if run.saved.validation is None:
        return Markup()
    curve, best = run.saved.validation.curve, run.saved.validation.best
    if len(curve) == 1:
        said = f"Mean loss {best.loss:.6g} after {format_passes(best.passes, '.4g')}."
        return card("Held-out loss while it learnt", paragraph(said), "Read once.")
    lines = [
        Curve("held-out rows", [(p.passes, p.loss) for p in curve], 1),
        Curve("the model that is used", [(best.passes, best.loss)], 2, "marks"),
    ]
    drawn = chart(lines, "passes over the data", "mean loss")
    return card("Held-out loss while it learnt", drawn)


def lam_chosen(origin: LamOrigin | None, lam: float) -> Markup:
    """Lay out what a lam that nobody gave was chosen from."""
    if origin is None:
        return Markup()
    rows = lam_rows(origin.as_facts()["candidates"], "loss", lam)
    return card("lam", rows_of(rows), f"{origin.sentence().replace('`', '')}.")


def time(report: RunReport) -> Markup:
    """Tell what compiling took, and how long the steps waited for rows; folded away."""
    waited = f"Steps waited for rows {report.waiting_share:.0%} of their own time."
    took = f"{report.seconds:.2f} s. {waited}"
    cards = [card("Reading and stepping", paragraph(took))]
    if report.compiling_s >= A_MOMENT_S:
        said = f"{report.compiling_s:.1f} s of these, once per machine."
        cards.append(card("Compiling kernels", paragraph(said)))
    return section("Where the time went", *cards, folded=True)


def forecast(report: RunReport) -> Markup:
    """Set the forecast next to what happened."""
    rows = report.compared()
    if not rows:
        return Markup()
    return card("Predicted and actual", table(("", "predicted", "actual"), rows))
