"""A report on a run, as tables and as a page: `fewpass report`."""

from __future__ import annotations

import shlex
from typing import Any

from rich.table import Table

from fewpass.flows.cluster import engine_for_pass
from fewpass.flows.display.bars import rows_display
from fewpass.flows.display.console import Terminal, format_seconds, passes_and_rows
from fewpass.flows.display.printing import printable
from fewpass.flows.options import Where, given
from fewpass.flows.settings import as_toml, checked
from fewpass.pipeline.reporting.page import PAGE, Reproduction, page
from fewpass.pipeline.reporting.quality import quality
from fewpass.pipeline.reporting.report import RunReport, read_report
from fewpass.pipeline.runs.events import Learners
from fewpass.pipeline.runs.outcome import Convergence
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY


def write_page(terminal: Terminal, run: RunFolder, held_out: str | None, where: Where) -> str:
    """Write the page into the run's folder; return where it lies."""
    reported = read_report(run)
    plan = reported.model.record.plan
    data = held_out_rows(plan, held_out)
    figures = None
    if data is None:
        terminal.say("There are no held-out rows: --held-out DATASET names some.", style="yellow")
    else:
        with (
            engine_for_pass(checked(Execution, given(where)), data) as executor,
            rows_display(terminal, "Judging by held-out rows", data.n_rows) as count,
        ):
            figures = quality(reported.model, data, executor, count)
    commands = (
        f"$ fewpass train {shlex.quote(plan.dataset)} {shlex.quote(run.folder.name)}-again "
        "--config plan.toml"
    )
    again = f"$ fewpass report {shlex.quote(run.folder.name)} --html --held-out DATASET"
    text = page(reported, figures, Reproduction(as_toml(plan), commands, again))
    run.folder.write(PAGE, printable(text).encode())
    return run.folder.address(PAGE)


def held_out_rows(plan: TrainingPlan, named: str | None) -> Dataset | None:
    """Open the held-out rows: those named here or in the plan; None without any."""
    if named is not None or plan.held_out is not None:
        return Dataset.open(named or plan.held_out or "", like=plan.dataset)
    next_to_it = f"{plan.dataset.rstrip('/')}-test"  # as IngestPlan calls it
    return Dataset.open(next_to_it) if Folder(next_to_it).exists(KEY) else None


def comparison(report: RunReport) -> Table:
    """Lay out the forecast next to what happened."""
    title = "Predicted and actual"
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in ("", "predicted", "actual"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in report.compared():
        table.add_row(*row)
    return table


def _lam_of(report: RunReport) -> str | None:
    """Tell what a lam that nobody gave was chosen from, with the loss of each."""
    origin = report.lam_origin
    if origin is None:
        return None
    each = ", ".join(f"{one['lam']:.3g}: {one['loss']:.5g}" for one in origin["candidates"])
    return f"{origin['written']} by held-out rows ({each})"


def shown_report(report: RunReport) -> dict[str, Any]:
    """Lay a report out for people."""
    return {
        "at": report.run,
        "data set": report.dataset,
        "method": f"{report.solver}, loss {report.loss}, lam {report.lam:.6g}",
        "lam": _lam_of(report),
        "chosen": report.chosen,
        "best learner": Learners(report.learners).sentence() if report.learners else None,
        "state": "finished" if report.finished else "unfinished: fewpass resume continues it",
        "passes": passes_and_rows(report.passes, report.rows_seen),
        "progressive loss": report.last_loss,
        "objective": report.objective,
        "above the optimum": report.bound or "not computed",
        "tolerance": Convergence(report.tol, report.relative_gap, report.converged).sentence(
            report.passes
        ),
        "restarts": report.restarts,
        "resumed": report.resumed,
        "took": f"{format_seconds(report.seconds)}, {format_bytes(report.bytes_read)} read",
        "of which compiling": format_seconds(report.compiling_s) if report.compiling_s else None,
        "waited for reading": f"{report.waiting_share:.0%} of the stepping time",
    }
