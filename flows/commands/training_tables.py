"""The result of a training, as tables."""

from __future__ import annotations

from rich.console import Group, RenderableType

from fewpass.flows.display.console import columns_table, facts_table, rows_table
from fewpass.pipeline.reporting.figure_rows import lam_rows
from fewpass.pipeline.reporting.run_facts import training_facts
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.settings.training_plan import TrainingPlan


def result_tables(result: TrainingResult, plan: TrainingPlan) -> Group:
    """Return the run, its columns where they were encoded, and the lam that were compared."""
    shown: list[RenderableType] = [columns_table(result.encoded)] if result.encoded else []
    shown.append(facts_table("Run", training_facts(result)))
    origin = result.lam_origin
    if origin:
        rows = lam_rows(origin["candidates"], plan.metric, result.lam)
        title = f"lam by held-out rows: {origin['written']}"
        shown.append(rows_table(title, rows, of_numbers=True))
    if result.candidates:
        rows = lam_rows(result.candidates, plan.metric, result.lam)
        shown.append(rows_table(_title(result, plan), rows, of_numbers=True))
    return Group(*shown)


def _title(result: TrainingResult, plan: TrainingPlan) -> str:
    """Say on which rows lam were compared."""
    of_source = plan.source is not None and plan.source.test_fraction > 0.0
    held_out = plan.held_out is not None or of_source
    title = "On held-out rows" if held_out else "On rows before they were learnt from"
    left = result.lam_tried - len(result.candidates)
    return f"{title} ({left} more lam left after a tenth)" if left else title
