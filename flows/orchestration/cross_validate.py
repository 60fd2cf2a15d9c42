"""The flow `cross-validate`: how good a training is on rows that models have not learnt from."""

from __future__ import annotations

from typing import Any

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_table, shown_progress
from fewpass.flows.orchestration.scheduled import durable_task, made_flow
from fewpass.flows.outcomes import cross_validation_facts
from fewpass.pipeline.planning.engines import engine_for_training
from fewpass.pipeline.reporting.figure_rows import fold_rows
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.sizes import counted, format_passes
from fewpass.pipeline.training.cross_validation import CrossValidated, cross_validated


@made_flow(requests.CrossValidateParameters, "plan.dataset")
def cross_validate(plan: CrossValidationPlan, execution: Execution) -> dict[str, Any]:
    """Train and evaluate the models of all folds, and show a table of them."""
    task_name = f"{plan.folds} folds of {plan.dataset}"
    results = evaluate_folds.with_options(task_run_name=task_name)(plan, execution)
    rows = [
        {"lam": f"{one.lam:.6g}"} | row
        for one in results
        for row in fold_rows(one.folds, one.means)
    ]
    show_table(plan.dataset, "folds", rows, f"cross-validation on {plan.dataset}")
    return {"dataset": plan.dataset, "results": [*map(cross_validation_facts, results)]}


@durable_task("cross-validate")
def evaluate_folds(plan: CrossValidationPlan, execution: Execution) -> list[CrossValidated]:
    """Cross-validate, and show how far it is."""
    with shown_progress(plan.dataset, "cross-validating on") as show:
        with engine_for_training(execution, plan.of_one_lam) as executor:
            results = cross_validated(
                plan, executor, lambda event: show(0.0, format_passes(event.cursor.passes, ".3g"))
            )
        show(1.0, counted(sum(len(one.folds) for one in results), "model"))
    return results
