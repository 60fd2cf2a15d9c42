"""`fewpass report`."""

from __future__ import annotations

from typing import Any

from flows.console import Terminal, facts_table, format_seconds
from flows.options import Output
from pipeline.report import RunReport, draw_report
from pipeline.sizes import format_bytes
from pipeline.training.run_folder import RunFolder


def run_report(run: str, output: Output) -> int:
    """Draw a run's loss curve, and tell what the run did."""
    terminal = Terminal(output)
    report = draw_report(RunFolder(run))
    terminal.result(report._asdict(), facts_table("Run", shown_report(report)))
    return 0


def shown_report(report: RunReport) -> dict[str, Any]:
    """Lay a report out for people."""
    certified = report.certificate is not None
    return {
        "at": report.run,
        "data set": report.dataset,
        "method": f"{report.solver}, loss {report.loss}, lam {report.lam:.6g}",
        "state": "finished" if report.finished else "unfinished: fewpass resume continues it",
        "passes": f"{report.passes:.4g}, {report.rows_seen:,} rows",
        "loss, last rows": report.last_loss,
        "objective": report.objective,
        "above the optimum": f"at most {report.certificate:.3g}" if certified else "not asked for",
        "restarts": report.restarts,
        "resumed": report.resumed,
        "took": f"{format_seconds(report.seconds)}, {format_bytes(report.bytes_read)} read",
        "waited for reading": f"{report.waiting_share:.0%} of the stepping time",
        "loss curve": report.image,
        "convergence": report.convergence,
    }
