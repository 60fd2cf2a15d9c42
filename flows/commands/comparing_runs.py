"""`fewpass evaluate` of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Group
from rich.table import Table

from fewpass.flows.display.bars import work_display
from fewpass.flows.display.console import Terminal, facts_table, titled_table
from fewpass.flows.display.printing import printable
from fewpass.flows.outcomes import evaluation_facts
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.outputs import OutputFile
from fewpass.pipeline.passes.executor import open_cluster
from fewpass.pipeline.planning.engines import engine_for_pass
from fewpass.pipeline.reporting.comparison_page import comparison_page, names_of, verdict
from fewpass.pipeline.runs.model import load_model, within
from fewpass.pipeline.scoring.comparing_files import compare_rows
from fewpass.pipeline.scoring.paired_figures import ModelComparison, contestants
from fewpass.pipeline.scoring.paired_figures import compare as compared
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.stream.sources import is_source
from fewpass.storage.dataset import Dataset
from fewpass.storage.redaction import without_secrets


def compare_shown(
    terminal: Terminal,
    runs: Sequence[str],
    data: str,
    plan: EvaluationPlan,
    place: Execution,
    page: OutputFile | None,
) -> None:
    """Compare the models of runs on the same rows: differences from the first, with intervals.

    Parameters
    ----------
    data
        Files that every model reads by its own recipe, or a data set whose columns all models have.
    page
        Where to write a page with pictures.
    """
    models = [load_model(run_at(run)) for run in runs]
    contestants(models)  # refuses what cannot be compared before any row is read
    if page is not None:
        page.require_free()
    if is_source(data):
        result = _on_files(terminal, models, data, plan, place)
    else:
        result = _on_data_set([within(m, plan.memory) for m in models], data, plan.options, place)
    tables: list[Any] = [comparison_table(result)]
    if page is not None:
        with page.written() as target:
            target.write(printable(comparison_page(result, without_secrets(data))).encode())
        tables.append(facts_table("Page", {"at": page.url}))
    at = None if page is None else page.url
    terminal.result(comparison_facts(result) | {"page": at}, Group(*tables))


def _on_files(
    terminal: Terminal, models: Any, data: str, plan: EvaluationPlan, place: Execution
) -> ModelComparison:
    with work_display(terminal, "Comparing") as show:
        return compare_rows(
            models, [data], plan, threads=place.threads, cluster=partial(open_cluster, place),
            on_progress=lambda rows: show(None, counted(rows, "row")),
        )  # fmt: skip


def _on_data_set(models: Any, data: str, rules: Matching, place: Execution) -> ModelComparison:
    dataset = Dataset.open(data)
    with engine_for_pass(place, dataset) as executor:
        return compared(models, dataset, executor, rules)


def comparison_facts(result: ModelComparison) -> dict[str, Any]:
    """Return what --json prints."""
    models = [
        {"run": one.run}
        | evaluation_facts(one.evaluation)
        | {"differences": [each._asdict() for each in one.differences]}
        for one in result.models
    ]
    return {"rows": result.rows, "positive": result.positive, "models": models}


def comparison_table(result: ModelComparison) -> Table:
    """Lay out the figures of every model, and how far they are from the first one's."""
    of = "" if result.positive is None else f"; positive: {result.positive}"
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
