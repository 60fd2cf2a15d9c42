"""`fewpass compare`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fewpass.flows.display.printing import printable
from fewpass.flows.options import OUTPUT, READING, WHERE, Output, Reading, Where, given, named
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.sizes import counted, parse_bytes
from fewpass.storage.redaction import without_secrets

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.scoring.paired_figures import ModelComparison


def compare(
    *runs: Annotated[str, named("RUN...")],
    data: str,
    html: str | None = None,
    overwrite: bool = False,
    memory: str | None = None,
    reading: Reading = READING,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Compare the models of runs on the same rows: differences from the first, with intervals.

    Parameters
    ----------
    runs
        Folders or addresses of two runs or more.
    data
        File, glob or address that ingest could read, with labels, which every model reads by its
        own recipe; or a data set whose columns all models have.
    html
        File for a page with pictures.
    overwrite
        Replace that file if it exists already.
    memory
        Memory limit, in addition to what the libraries take [default: 1GiB for each model].
    """
    from rich.console import Group

    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.refresh.store_state import run_at
    from fewpass.pipeline.outputs import OutputFile
    from fewpass.pipeline.reporting.page.comparison_page import comparison_page
    from fewpass.pipeline.runs.model import load_model
    from fewpass.pipeline.scoring.paired_figures import contestants
    from fewpass.pipeline.tables.stream.sources import is_source

    terminal, words = Terminal(output), given(reading)
    models = [load_model(run_at(run)) for run in runs]
    contestants(models)  # refuses what cannot be compared before any row is read
    page = None if html is None else OutputFile(html, overwrite, (data,))
    if page is not None:
        page.require_free()
    options = checked(SourceOptions, words)
    if is_source(data):
        result = _on_files(terminal, models, data, options, memory)
    else:
        refuse_reading(words.keys() - Matching.model_fields.keys(), data)
        result = _on_data_set(models, data, options, checked(Execution, given(where)))
    tables: list[Any] = [comparison_table(result)]
    if page is not None:
        with page.written() as target:
            target.write(printable(comparison_page(result, without_secrets(data))).encode())
        tables.append(facts_table("Page", {"at": html}))
    terminal.result(comparison_facts(result) | {"page": html}, Group(*tables))
    return 0


def _on_files(
    terminal: Terminal, models: Any, data: str, options: SourceOptions, memory: str | None
) -> ModelComparison:
    from fewpass.flows.display.bars import work_display
    from fewpass.pipeline.scoring.comparing_files import compare_rows

    limit = parse_bytes(memory) if memory else None
    with work_display(terminal, "Comparing") as show:
        return compare_rows(
            models, [data], options, memory=limit,
            on_progress=lambda rows: show(0.0, counted(rows, "row")),
        )  # fmt: skip


def _on_data_set(models: Any, data: str, rules: Matching, place: Execution) -> ModelComparison:
    from fewpass.flows.cluster import engine_for_pass
    from fewpass.pipeline.scoring.comparing import compare as compared
    from fewpass.storage.dataset import Dataset

    dataset = Dataset.open(data)
    with engine_for_pass(place, dataset) as executor:
        return compared(models, dataset, executor, rules)


def comparison_facts(result: ModelComparison) -> dict[str, Any]:
    """Return what --json prints."""
    from fewpass.flows.outcomes import evaluation_facts

    models = [
        {"run": one.run}
        | evaluation_facts(one.evaluation)
        | {"differences": [each._asdict() for each in one.differences]}
        for one in result.models
    ]
    return {"rows": result.rows, "positive": result.positive, "models": models}


def comparison_table(result: ModelComparison) -> Table:
    """Lay out the figures of every model, and how far they are from the first one's."""
    from fewpass.flows.display.console import titled_table
    from fewpass.pipeline.reporting.page.comparison_page import names_of, verdict

    of = "" if result.positive is None else f"; positive: {printable(result.positive)}"
    table = titled_table(
        f"On {counted(result.rows, 'row')}, compared with the first, 95 % intervals{of}"
    )
    table.add_column("model", style="cyan", overflow="fold")
    for name in ("metric", "value", "difference", ""):
        table.add_column(name, justify="right" if name not in ("metric", "") else "left")
    for m, (name, model) in enumerate(zip(names_of(result), result.models, strict=True)):
        for k, one in enumerate(model.differences):
            far = f"{one.difference:+.4g} +- {one.within:.2g}" if m else ""
            said = verdict(one) if m else ""
            shown = printable(name) if k == 0 else ""
            table.add_row(shown, one.metric, f"{one.value:.6g}", far, said)
        if model.evaluation.auc is not None:
            table.add_row("", "auc", f"{model.evaluation.auc:.6g}", "", "")
    return table
