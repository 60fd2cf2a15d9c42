"""`fewpass report`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from fewpass.flows.options import OUTPUT, WHERE, Output, Where
from fewpass.flows.refusals import UsageError


def report(
    run: str,
    /,
    *,
    html: bool = False,
    held_out: str | None = None,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Report on a run: as text, or as a page with its curves.

    Parameters
    ----------
    run
        Folder or address of the run.
    html
        Make one page of it to send to others, RUN/report/report.html: figures and curves of
        held-out rows, how it learnt, largest weights, data, times, and how to reproduce it.
    held_out
        Data set for that page to evaluate the model on [default: that of the training, or what
        ingest stored next to its data set with --test-fraction].
    """
    if held_out is not None and not html:
        raise UsageError("--held-out is for the page: add --html.")
    from rich.console import Group

    from fewpass.flows.commands import report_tables
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.reporting.report import read_report
    from fewpass.pipeline.reporting.run_facts import report_facts
    from fewpass.pipeline.runs.run_folder import RunFolder

    terminal = Terminal(output)
    summary = read_report(RunFolder(run)).report
    address = report_tables.write_page(terminal, RunFolder(run), held_out, where) if html else None
    tables = [facts_table("Run", report_facts(summary))]
    if summary.forecast is not None:
        tables.append(report_tables.comparison(summary))
    if address is not None:
        tables.append(facts_table("Page", {"at": address}))
    for sentence in summary.warnings:
        terminal.say(sentence, style="yellow")
    terminal.result(summary._asdict() | {"page": address}, Group(*tables))
    return 0
