"""How a training went: loss, certificate, held-out loss, times, forecast and found."""

from __future__ import annotations

from typing import Any

from fewpass.pipeline.reporting.history import History
from fewpass.pipeline.reporting.page.charts import Kind, Line, chart
from fewpass.pipeline.reporting.page.pieces import bars, card, section, table
from fewpass.pipeline.reporting.report import RunReport, Told
from fewpass.pipeline.reporting.time_table import PARTS, pass_of
from fewpass.pipeline.sizes import format_bytes

A_MOMENT_S = 0.05  # compiling that is worth a word
EARLY = 20.0  # a curve whose first part in so many has ...
MUCH = 0.25  # ... so much of its fall is worth a look from the start
WINDOW = 20  # points of a curve that are averaged


def learning(told: Told) -> str:
    """Draw the curves."""
    history, n_rows = told.history, told.model.record.n_rows
    return section(
        "How it learnt",
        _losses(history, n_rows),
        _certificates(history, told.report.tol),
        _held_out(told),
    )


def _losses(history: History, n_rows: int) -> str:
    known = [p for p in history.points if p.average is not None]
    if not known:
        return ""
    if len(known) == 1:
        (one,) = known
        said = f"<p>Loss {one.average:.6g} over {one.rows:,} rows.</p>"
        return card("Loss", said, "Of rows before they were learnt from: told once.")
    each = [(p.rows, p.since_last) for p in known if p.since_last is not None]
    recent = [
        (each[k][0], sum(loss for _, loss in each[k - WINDOW + 1 : k + 1]) / WINDOW)
        for k in range(WINDOW - 1, len(each))
    ]
    lines = [
        Line("each section of rows", [(x / n_rows, y) for x, y in each], 1, "faint"),
        Line(f"mean of {WINDOW} sections", [(x / n_rows, y) for x, y in recent], 1),
        Line("mean since the start", [(p.rows / n_rows, p.average or 0.0) for p in known], 2),
    ]
    across: Kind = "log" if _falls_early(each) else "linear"
    drawn = chart(lines, "passes over the data", "loss", x=across)
    note = f"Of rows before they were learnt from: {len(known)} points."
    return card("Loss", drawn, note)


def _falls_early(curve: list[tuple[int, float]]) -> bool:
    """Say whether much of what the loss of sections falls by is in the beginning."""
    first = [loss for rows, loss in curve if EARLY * rows <= curve[-1][0]]
    if len(first) < 2:
        return False
    end = sum(loss for _, loss in curve[-WINDOW:]) / len(curve[-WINDOW:])
    early = sum(first[len(first) // 2 :]) / len(first[len(first) // 2 :])
    return first[0] - early > MUCH * (first[0] - end) > 0.0


def _certificates(history: History, tol: float | None) -> str:
    found = history.certificates
    if not found:
        return ""
    if len(found) == 1:
        (one,) = found
        said = f"<p>Objective {one.objective:.6g}, at most {one.gap:.3g} above the optimum.</p>"
        return card("Certificate", said, "Computed once, at the end.")
    least = min(c.objective for c in found)
    lines = [
        Line("certified: at most", [(c.passes, c.gap) for c in found], 1),
        Line(
            "above the lowest objective found", [(c.passes, c.objective - least) for c in found], 2
        ),
    ]
    if tol is not None:
        goal = tol * max(1.0, abs(found[-1].objective))
        ends = (found[0].passes, found[-1].passes)
        lines.append(Line("tolerance", [(x, goal) for x in ends], 3, "dashed"))
    drawn = chart(lines, "passes over the data", "above the optimum", y="log")
    note = "The optimum itself is not known; the certificate proves how far away it is at most."
    return card("Certificate", drawn, note)


def _held_out(told: Told) -> str:
    if told.saved.validation is None:
        return ""
    curve, best = told.saved.validation.curve, told.saved.validation.best
    if len(curve) == 1:
        said = f"<p>Mean loss {best.loss:.6g} after {best.passes:.4g} passes.</p>"
        return card("Held-out loss while it learnt", said, "Looked at once.")
    lines = [
        Line("held-out rows", [(p.passes, p.loss) for p in curve], 1),
        Line("the model that is kept", [(best.passes, best.loss)], 2, "marks"),
    ]
    drawn = chart(lines, "passes over the data", "mean loss")
    return card("Held-out loss while it learnt", drawn)


def time(report: RunReport) -> str:
    """Tell where the seconds went, by kind of sweep, and what was foreseen."""
    cards = [_sweep(one) for one in report.sweeps]
    if report.compiling_s >= A_MOMENT_S:
        said = (
            f"<p>{report.compiling_s:.1f} s of these, once on a machine: later runs find them.</p>"
        )
        cards.append(card("Compiling kernels", said))
    return section("Where the time went", *cards)


def _sweep(one: dict[str, Any]) -> str:
    parts = [(name, one["parts"][name]) for name in PARTS]
    shown = [
        (name, max(0.0, seconds), f"{seconds:.2f} s")
        for name, seconds in sorted(parts, key=lambda part: -part[1])
        if seconds >= 0.002 * one["seconds"]
    ]
    told = "; ".join(f"{name}: {PARTS[name]}" for name, _, _ in shown)
    passes = f"{one['passes']:.4g} {'pass' if one['passes'] == 1 else 'passes'}"
    title = f"{pass_of(one['name'])}: {passes}, {one['seconds']:.2f} s"
    return card(title, bars(shown), f"{told}.")


def forecast(report: RunReport) -> str:
    """Set what was foreseen beside what came."""
    if report.forecast is None:
        return ""
    foreseen = report.forecast
    usual = "" if foreseen["usual_passes"] is None else "about "
    rows = [
        ("passes", f"{usual}{foreseen['passes']:.0f}", f"{report.passes:.4g}"),
        ("read", format_bytes(foreseen["bytes_read"]), format_bytes(report.bytes_read)),
    ]
    if foreseen["tol"] is not None and report.relative_gap is not None:
        rows.append(("relative gap", f"{foreseen['tol']:.2g}", f"{report.relative_gap:.2g}"))
    return card("Foreseen and found", table(("", "foreseen", "found"), rows))
