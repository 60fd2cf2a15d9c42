"""`fewpass explain`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fewpass.flows.display.printing import printable
from fewpass.flows.options import OUTPUT, READING, Output, Reading, given, named, whole
from fewpass.pipeline.settings.model_config import MOST_WORKERS
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted, parse_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.pipeline.explaining.explain import ExplainedRow

SHOWN = 40  # characters of a value


def explain(
    run: str,
    input_: Annotated[str, named("INPUT")],
    out: str | None = None,
    /,
    *,
    rows: Annotated[int, whole(1)] = 5,
    top: Annotated[int, whole(1)] = 8,
    label: Annotated[str | None, named("--class")] = None,
    keep: tuple[str, ...] = (),
    overwrite: bool = False,
    memory: str | None = None,
    threads: Annotated[int | None, whole(1, MOST_WORKERS)] = None,
    reading: Reading = READING,
    output: Output = OUTPUT,
) -> int:
    """Tell what every column contributes to the scores of rows: base + contributions = score.

    Parameters
    ----------
    run
        Folder or address of the run.
    input_
        File, glob or address that ingest could read, labels optional.
    out
        .parquet or .csv file for the contributions to all rows; without, the first rows are shown.
    rows
        How many are shown [default: 5].
    top
        How many contributions of each [default: 8].
    label
        Explain the scores of one class of several [default: those of the label predicted].
    keep
        Columns of INPUT that OUT has, too, such as ids; may be repeated.
    overwrite
        Replace OUT if it exists already.
    memory
        Memory limit, in addition to what the libraries take [default: 1GiB, and what the weights
        take].
    threads
        Threads that read and score [default: one per core].
    """
    from rich.console import Group

    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import checked
    from fewpass.pipeline.explaining import explain as explaining
    from fewpass.pipeline.models.refresh.store_state import run_at
    from fewpass.pipeline.runs.model import load_model

    terminal, model = Terminal(output), load_model(run_at(run))
    options, limit = checked(SourceOptions, given(reading)), parse_bytes(memory) if memory else None
    if out is None:
        shown = explaining.explain_rows(
            model, [input_], options, rows=rows, label=label, memory=limit
        )
        facts = {"run": model.run.url, "rows": [_facts(one) for one in shown]}
        terminal.result(facts, Group(*(row_table(one, top) for one in shown)))
        return 0
    with work_display(terminal, "Explaining") as show:
        result = explaining.explain(
            model, [input_], out, options, label=label, keep=keep, overwrite=overwrite,
            memory=limit, threads=threads,
            on_progress=lambda now: show(now.fraction, counted(now.rows, "row")),
        )  # fmt: skip
    written = {"at": result.output, "rows": result.rows, "columns": len(result.columns)}
    terminal.result(result._asdict(), facts_table("Contributions", written))
    return 0


def _facts(row: ExplainedRow) -> dict[str, Any]:
    return row._asdict() | {"terms": [_plain(one._asdict()) for one in row.terms]}


def _plain(term: dict[str, Any]) -> dict[str, Any]:
    """Write values that JSON has no word for, such as dates, as text."""
    value = term["value"]
    usual = value is None or isinstance(value, bool | int | float | str)
    return term | {"value": value if usual else str(value)}


def row_table(row: ExplainedRow, top: int) -> Table:
    """Lay out what columns contribute to a row's score."""
    from fewpass.flows.display.console import titled_table

    of = "" if row.label is None else f" of {row.label}"
    title = f"Row {row.row}: predicted {row.predicted}, score{of} {row.score:.6g}"
    table = titled_table(printable(title))
    table.add_column("column", style="cyan", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("contributes", justify="right")
    table.add_row("(base: the mean score)", "", f"{row.base:+.6g}")
    if row.offset:
        table.add_row("(offset)", "", f"{row.offset:+.6g}")
    for one in row.terms[:top]:
        value = "missing" if one.value is None else f"{one.value!s:.{SHOWN}}"
        table.add_row(printable(one.name), printable(value), f"{one.contribution:+.6g}")
    if rest := row.terms[top:]:
        more = sum(one.contribution for one in rest)
        table.add_row(f"({len(rest):,} others)", "", f"{more:+.6g}")
    return table
