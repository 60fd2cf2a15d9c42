"""The flow `cross-validate`: how good a training is on rows that models have not learnt from."""

from __future__ import annotations

from typing import Any

from fewpass.flows.cluster import engine_for_training
from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import ABOVE, ProgressArtifact, show_table
from fewpass.flows.orchestration.scheduled import durable_task, made_flow
from fewpass.flows.outcomes import cross_validation_facts
from fewpass.pipeline.runs.timeline_points import written_gap
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.sizes import counted, format_passes
from fewpass.pipeline.training.cross_validation import CrossValidated, Fold, cross_validated


@made_flow(requests.CrossValidateParameters, "plan.dataset")
def cross_validate(plan: CrossValidationPlan, where: Execution) -> dict[str, Any]:
    """Train and judge the models of all folds, and show a table of them."""
    task_name = f"{plan.folds} folds of {plan.dataset}"
    results = judge_folds.with_options(task_run_name=task_name)(plan, where)
    rows = [row_of(one, fold) for one in results for fold in one.folds]
    rows += [mean_of(one) for one in results]
    show_table(plan.dataset, "folds", rows, f"cross-validation on {plan.dataset}")
    return {"dataset": plan.dataset, "results": [*map(cross_validation_facts, results)]}


@durable_task("cross-validate")
def judge_folds(plan: CrossValidationPlan, where: Execution) -> list[CrossValidated]:
    """Cross-validate, and show how far it is."""
    bar = ProgressArtifact(plan.dataset, "cross-validating on")
    with engine_for_training(where, plan.of_one_lam) as executor:
        results = cross_validated(
            plan, executor, lambda event: bar.show(0.0, format_passes(event.cursor.passes, ".3g"))
        )
    bar.show(1.0, counted(sum(len(one.folds) for one in results), "model"))
    return results


def row_of(result: CrossValidated, fold: Fold) -> dict[str, Any]:
    """Lay out a fold."""
    return {
        "lam": f"{result.lam:.6g}", "fold": str(fold.fold), "rows": fold.rows,
        "objective": f"{fold.objective:.6g}",
        ABOVE: written_gap(fold.gap, fold.relative_gap, ".2g") or "-",
        "loss": f"{fold.evaluation.loss:.6g}",
    }  # fmt: skip


def mean_of(result: CrossValidated) -> dict[str, Any]:
    """Lay out the mean loss of a lam and its standard error."""
    loss = next(one for one in result.means if one.metric == "loss")
    return {
        "lam": f"{result.lam:.6g}", "fold": "mean", "rows": sum(f.rows for f in result.folds),
        "objective": "", ABOVE: "",
        "loss": f"{loss.mean:.6g} +- {loss.standard_error:.2g}",
    }  # fmt: skip
