"""`fewpass inspect` and `dashboard`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

from fewpass.flows.options import OUTPUT, Output, whole

MOST_INSPECTED = 1000  # columns that people are shown one by one


def inspect(
    path: str,
    /,
    *,
    rows: Annotated[int | None, whole(0)] = None,
    output: Output = OUTPUT,
) -> int:
    """Show what a data set, a run or a snapshot contains.

    Parameters
    ----------
    path
        Folder or address of the data set, the run, or a snapshot in it.
    rows
        Show this many first rows of a data set. They stand in stored order: random in a shuffled
        set. Kept columns are as they were written, others are the features that they became.
    """
    from fewpass.flows.commands import contents
    from fewpass.flows.display.console import Terminal, columns_table, facts_table

    terminal = Terminal(output)
    if rows is not None:
        from fewpass.flows.commands.dataset_head import show_first_rows

        show_first_rows(terminal, path, rows)
        return 0
    content = contents.look(path)
    title = f"{content.kind.capitalize()} {path}"
    facts = dict(content.facts)
    columns = facts.pop("columns", None) or {}
    terminal.result(
        {"kind": content.kind} | content.facts, facts_table(title, contents.flat_facts(facts))
    )
    if columns and not output.json:
        terminal.result({}, columns_table(columns, MOST_INSPECTED))
    return 0


def dashboard(
    runs: tuple[str, ...],
    /,
    *,
    port: Annotated[int, whole(0, 65535)] = 8788,
    output: Output = OUTPUT,
) -> int:
    """Serve a page on 127.0.0.1 that shows how runs are going.

    /fewpass is the page, /fewpass/metrics what Prometheus reads.

    Parameters
    ----------
    runs
        Folders or addresses of runs; of a refresh's store its generations as they come, of a
        schedule, an address with {date} in it, its runs.
    port
        Port of this machine to serve on; 0 takes a free one [default: 8788].
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.dashboard.routes import serve  # distributed takes half a second
    from fewpass.pipeline.models.refresh.store_state import store_at
    from fewpass.pipeline.runs.run_folder import RunFolder

    for run in runs:
        if "{date}" not in run and not store_at(run).generations:  # theirs come as they come
            RunFolder(run).record()  # refuses what is no run
    terminal = Terminal(output)
    serve(runs, port, lambda url: terminal.result({"page": url}, url))
    return 0
