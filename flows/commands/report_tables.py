"""A report on a run, as tables and as a page: `fewpass report`."""

from __future__ import annotations

import shlex

from rich.table import Table

from fewpass.flows.display.bars import rows_display
from fewpass.flows.display.console import Terminal
from fewpass.flows.display.printing import printable
from fewpass.flows.options import Where, given
from fewpass.flows.settings import as_toml, checked
from fewpass.pipeline.planning.engines import engine_for_pass
from fewpass.pipeline.reporting.page import PAGE, Reproduction, page
from fewpass.pipeline.reporting.quality import quality
from fewpass.pipeline.reporting.report import RunReport, read_report
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.settings.execution import Execution
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY
from fewpass.storage.set_generations import what_became


def write_page(terminal: Terminal, run: RunFolder, held_out: str | None, where: Where) -> str:
    """Write the page into the run's folder; return where it lies."""
    reported = read_report(run)
    plan = reported.model.record.plan
    data = held_out_rows(reported.model.record, held_out)
    figures = None
    if data is None:
        terminal.say("There are no held-out rows: --held-out DATASET names some.", style="yellow")
    else:
        with (
            engine_for_pass(checked(Execution, given(where)), data) as executor,
            rows_display(terminal, "Evaluating on held-out rows", data.n_rows) as count,
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


def held_out_rows(record: RunRecord, named: str | None) -> Dataset | None:
    """Open the held-out rows: those named here or in the plan, else the test rows; None without."""
    plan = record.plan
    if named is not None or plan.held_out is not None:
        return Dataset.open(named or plan.held_out or "", like=plan.dataset)
    next_to_it = f"{plan.dataset.rstrip('/')}-test"  # as IngestPlan calls it
    if not Folder(next_to_it).exists(KEY) or _was_made_anew(record):
        return None
    return Dataset.open(next_to_it)


def _was_made_anew(record: RunRecord) -> bool:
    """Return whether another data set replaced a run's: its test rows may have been learnt."""
    try:
        now = Dataset.open(record.plan.dataset).manifest
    except (OSError, ValueError):  # it is gone
        return False
    own = record.dataset_fingerprint
    return now.fingerprint != own and what_became(now, own) is None


def comparison(report: RunReport) -> Table:
    """Lay out the forecast next to what happened."""
    title = "Predicted and actual"
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in ("", "predicted", "actual"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in report.compared():
        table.add_row(*row)
    return table
