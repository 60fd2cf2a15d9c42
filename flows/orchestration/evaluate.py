"""The flow `evaluate`: how good a run's model is on a data set."""

from __future__ import annotations

from typing import Any

from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_table, show_text, shown_progress
from fewpass.flows.orchestration.model_pages import look_closely, show_look
from fewpass.flows.orchestration.scheduled import durable_task, made_flow
from fewpass.flows.orchestration.scheduled_dates import dated
from fewpass.flows.outcomes import evaluation_facts
from fewpass.pipeline.api.using_models import evaluated
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.reporting.figure_rows import slice_rows
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.metric_registry import METRICS
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.stream.sources import is_source


@made_flow(requests.EvaluateParameters, "run")
def evaluate(
    run: str, dataset: str, matching: Matching, by: tuple[str, ...], threshold: float | None,
    lift_at: float | None, execution: Execution,
) -> Any:  # fmt: skip
    """Evaluate a model, show its card with the figures, and return these in the run's state."""
    run, dataset = dated(run, "run"), dated(dataset, "dataset")
    settings = matching.model_dump() | {"by": by, "threshold": threshold, "lift_at": lift_at}
    chosen, evaluation = evaluate_model.with_options(task_run_name=f"evaluate on {dataset}")(
        run, dataset, execution, settings
    )
    columns = None
    if not is_source(dataset):
        seen = look_closely((chosen.url,), dataset, execution, matching)
        show_look((run,), dataset, seen)
        columns = seen.columns[-1]
    each = [(column, slice_rows(of)) for column, of in evaluation.slices]
    rows = [{"column": c, "value": row.pop("slice")} | row for c, own in each for row in own]
    if rows:
        show_table(run, "slices", rows, f"{run} on slices of {dataset}, with 95 % intervals")
    card = model_card(chosen, {dataset: evaluation}, columns)
    show_text(run, "card", card, f"model of {run}")
    facts = evaluation_facts(evaluation)
    shown = (
        f"{name} {facts[name]:.6g}"
        for name, one in METRICS.items()
        if one.brief and facts.get(name) is not None
    )
    message = f"{', '.join(shown)} of {counted(evaluation.rows, 'row')}: {dataset}."
    return Completed(message=message, data=facts)


@durable_task("evaluate")
def evaluate_model(
    run: str, dataset: str, execution: Execution, settings: dict[str, Any]
) -> tuple[RunFolder, Evaluation]:
    """Evaluate a run's newest model on a data set, or on files.

    Returns the run, too: a store may publish another one any time.
    """
    chosen = run_at(run)
    with shown_progress(dataset, "evaluating on") as show:
        return chosen, evaluated(chosen.url, dataset, execution, settings, show)
